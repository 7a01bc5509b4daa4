//! Tree of radix k + 1 rooted at member 0: the spanning binomial tree extended to k ports.
//!
//! At level l (stride `(k+1)^l`) the members that are multiples of the stride are alive; those
//! whose digit at that place is not 0 hang below the member with digit 0. A gather climbs levels
//! upwards, a broadcast downwards. The subtree of a member at its level is the contiguous run
//! `member .. member + stride`, cut at `size`.

use super::ceil_log;

/// One edge of the tree, seen from either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The other end.
    pub member: u32,
    /// Port that both ends give this edge: the digit of the child less 1.
    pub port: u8,
    /// Members in the subtree of the child, itself included.
    pub subtree: u32,
}

/// Levels of the tree: `ceil(log_{k+1} size)`.
pub fn levels(size: u32, ports: u8) -> u32 {
    ceil_log(size, u32::from(ports) + 1)
}

fn stride(ports: u8, level: u32) -> u64 {
    (u64::from(ports) + 1).pow(level)
}

/// The edge from `member` up to its parent, if it hangs there at `level`.
pub fn parent(member: u32, size: u32, ports: u8, level: u32) -> Option<Edge> {
    let (radix, stride) = (u64::from(ports) + 1, stride(ports, level));
    let place = u64::from(member);
    let digit = place / stride % radix;
    (place.is_multiple_of(stride) && digit != 0).then(|| Edge {
        member: (place - digit * stride) as u32,
        port: (digit - 1) as u8,
        subtree: stride.min(u64::from(size - member)) as u32,
    })
}

/// The edges from `member` down to its children at `level`.
pub fn children(member: u32, size: u32, ports: u8, level: u32) -> impl Iterator<Item = Edge> {
    let (radix, stride) = (u64::from(ports) + 1, stride(ports, level));
    let place = u64::from(member);
    let parent_here = place.is_multiple_of(stride * radix);
    (1..radix)
        .take_while(move |digit| parent_here && place + digit * stride < u64::from(size))
        .map(move |digit| {
            let child = place + digit * stride;
            Edge {
                member: child as u32,
                port: (digit - 1) as u8,
                subtree: stride.min(u64::from(size) - child) as u32,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tree_seen_alike_from_both_ends() {
        for size in 1..=70u32 {
            for ports in 1..=8 {
                let mut parents = vec![0; size as usize];
                let mut held: Vec<u32> = vec![1; size as usize];
                for level in 0..levels(size, ports) {
                    for member in 0..size {
                        if let Some(up) = parent(member, size, ports, level) {
                            parents[member as usize] += 1;
                            let down = children(up.member, size, ports, level)
                                .find(|edge| edge.member == member)
                                .expect("the parent knows its child");
                            assert_eq!((down.port, down.subtree), (up.port, up.subtree));
                            assert_eq!(held[member as usize], up.subtree);
                            assert!(up.port < ports);
                        }
                        for down in children(member, size, ports, level) {
                            let up = parent(down.member, size, ports, level).expect("child");
                            assert_eq!(up.member, member);
                            assert_eq!(down.member, member + held[member as usize]);
                            held[member as usize] += down.subtree;
                        }
                    }
                }
                assert_eq!(held[0], size, "the root gathers all");
                assert!(parents[0] == 0 && parents[1..].iter().all(|&count| count == 1));
            }
        }
    }
}
