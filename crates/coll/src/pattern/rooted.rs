//! Tree of radix k + 1 with any root, whose subtrees are runs of consecutive members.
//!
//! At level l the members form groups of `(k+1)^l` consecutive ones. Each group has a holder: the
//! root where it belongs to the group, else the group's first member. Going up a level, the holder
//! of k + 1 sibling groups' union collects from the holders of the other k. So no rotation is
//! needed, messages never wrap around, and combining in group order is combining in member order.
//! With root 0 this is the spanning binomial tree extended to k ports.

use super::levels;

/// A tree. See the module documentation.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    root: u32,
    size: u32,
    /// k.
    pub ports: u8,
}

/// One edge of the tree, seen from either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The other end.
    pub member: u32,
    /// Port that both ends give this edge.
    pub port: u8,
    /// First member of the child's subtree.
    pub first: u32,
    /// Members in it.
    pub count: u32,
    /// Whether the subtree lies before all that the parent holds of this level's members itself.
    pub before: bool,
}

impl Tree {
    /// The tree of `size` members over k ports.
    pub fn new(root: u32, size: u32, ports: u8) -> Self {
        Self { root, size, ports }
    }

    /// Number of levels: `ceil(log_{k+1} size)`.
    pub fn levels(&self) -> u32 {
        levels(self.size, self.ports)
    }

    fn stride(&self, level: u32) -> u64 {
        (u64::from(self.ports) + 1).pow(level)
    }

    fn holder(&self, level: u32, group: u64) -> u32 {
        let stride = self.stride(level);
        if u64::from(self.root) / stride == group {
            self.root
        } else {
            (group * stride) as u32
        }
    }

    fn edge(&self, level: u32, member: u32, child: u64, own: u64) -> Edge {
        let (radix, stride) = (u64::from(self.ports) + 1, self.stride(level));
        let (digit, parent) = (child % radix, own % radix);
        Edge {
            member,
            port: (digit - u64::from(digit > parent)) as u8,
            first: (child * stride) as u32,
            count: stride.min(u64::from(self.size) - child * stride) as u32,
            before: digit < parent,
        }
    }

    /// The edge from `member` up to its parent, if it hangs there at `level`.
    pub fn parent(&self, member: u32, level: u32) -> Option<Edge> {
        let (radix, stride) = (u64::from(self.ports) + 1, self.stride(level));
        let group = u64::from(member) / stride;
        let parent = self.holder(level + 1, group / radix);
        let alive = self.holder(level, group) == member;
        (alive && parent != member)
            .then(|| self.edge(level, parent, group, u64::from(parent) / stride))
    }

    /// The edges from `member` down to its children at `level`, in member order.
    pub fn children(&self, member: u32, level: u32) -> impl DoubleEndedIterator<Item = Edge> {
        let tree = *self;
        let (radix, stride) = (u64::from(self.ports) + 1, self.stride(level));
        let own = u64::from(member) / stride;
        let above = own / radix;
        let holds = self.holder(level + 1, above) == member;
        (above * radix..(above + 1) * radix)
            .filter(move |&group| holds && group != own && group * stride < u64::from(tree.size))
            .map(move |group| tree.edge(level, tree.holder(level, group), group, own))
    }

    /// The level at which `member` hangs below its parent; of the root, the number of levels.
    pub fn height(&self, member: u32) -> u32 {
        let hangs = |&level: &u32| self.parent(member, level).is_some();
        (0..self.levels()).find(hangs).unwrap_or(self.levels())
    }
}

/// Members in the longest message of each level with root 0, summed: equation (1).
pub fn volume(size: u32, ports: u8) -> u64 {
    (0..levels(size, ports))
        .map(|level| {
            let stride = (u64::from(ports) + 1).pow(level);
            stride.min(u64::from(size) - stride)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tree_for_every_root_seen_alike_from_both_ends() {
        for size in 1..=40u32 {
            for (ports, root) in (1..=5).flat_map(|ports| (0..size).map(move |r| (ports, r))) {
                let tree = Tree::new(root, size, ports);
                let mut held: Vec<_> = (0..size).map(|member| (member, 1)).collect();
                let mut parents = vec![0; size as usize];
                for level in 0..tree.levels() {
                    for member in 0..size {
                        if let Some(up) = tree.parent(member, level) {
                            parents[member as usize] += 1;
                            assert_eq!(held[member as usize], (up.first, up.count));
                            let twin = tree
                                .children(up.member, level)
                                .find(|down| down.member == member)
                                .expect("the parent knows its child");
                            let member = up.member;
                            assert_eq!(Edge { member, ..twin }, up);
                        }
                        let (mut first, mut count) = held[member as usize];
                        for (index, down) in tree.children(member, level).enumerate() {
                            assert_eq!(usize::from(down.port), index);
                            assert!(down.port < ports);
                            assert_eq!(down.before, down.first < member);
                            first = first.min(down.first);
                            count += down.count;
                        }
                        held[member as usize] = (first, count);
                    }
                }
                assert_eq!(held[root as usize], (0, size));
                parents[root as usize] += 1;
                assert!(parents.iter().all(|&count| count == 1));
            }
        }
    }
}
