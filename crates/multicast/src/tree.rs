//! Balanced trees over the members, rooted at any of them.

/// A tree with `arity` children per member, filled level by level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    pub members: u32,
    pub arity: u32,
}

impl Tree {
    /// The parent of `member` in the tree rooted at `root`; none of the root itself.
    pub fn parent(self, root: u32, member: u32) -> Option<u32> {
        let place = (member + self.members - root) % self.members;
        (place > 0).then(|| ((place - 1) / self.arity + root) % self.members)
    }

    /// Levels of the tree, that of the root included.
    pub fn levels(self) -> u32 {
        let (mut levels, mut width, mut members) = (1, 1u64, 1);
        while members < u64::from(self.members) {
            width *= u64::from(self.arity);
            members += width;
            levels += 1;
        }
        levels
    }

    /// The children of `member` in the tree rooted at `root`.
    pub fn children(self, root: u32, member: u32) -> impl Iterator<Item = u32> + Clone {
        let place = u64::from((member + self.members - root) % self.members);
        let first = place * u64::from(self.arity) + 1;
        let end = (first + u64::from(self.arity)).min(self.members.into());
        (first..end).map(move |child| ((child + u64::from(root)) % u64::from(self.members)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn levels_fill_one_after_the_other() {
        let levels = |members| Tree { members, arity: 4 }.levels();
        let expected = [
            (1, 1),
            (2, 2),
            (5, 2),
            (6, 3),
            (21, 3),
            (22, 4),
            (85, 4),
            (86, 5),
        ];
        assert!(
            expected
                .iter()
                .all(|&(members, count)| levels(members) == count)
        );
    }

    #[test]
    fn each_member_is_the_child_of_its_parent_only() {
        for members in 1..40 {
            for arity in 2..6 {
                let tree = Tree { members, arity };
                for root in 0..members {
                    let mut seen = vec![0; members as usize];
                    for member in 0..members {
                        for child in tree.children(root, member) {
                            assert_eq!(tree.parent(root, child), Some(member));
                            seen[child as usize] += 1;
                        }
                    }
                    seen[root as usize] += 1;
                    assert_eq!(tree.parent(root, root), None);
                    assert!(seen.iter().all(|&times| times == 1));
                }
            }
        }
    }
}
