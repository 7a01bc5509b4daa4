//! Ring: in round r a member passes on to its right neighbour what it received in round r - 1.

use super::{after, before};

/// Receives from `member`.
pub fn right(member: u32, size: u32) -> u32 {
    after(member, 1, size)
}

/// Sends to `member`.
pub fn left(member: u32, size: u32) -> u32 {
    before(member, 1, size)
}

/// Whose block `member` sends in `round` (from 0, below `size - 1`).
pub fn outgoing(member: u32, size: u32, round: u32) -> u32 {
    before(member, round, size)
}

/// Whose block `member` receives in `round`.
pub fn incoming(member: u32, size: u32, round: u32) -> u32 {
    before(member, round + 1, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_travel_all_the_way_round() {
        for size in 2..=40 {
            for member in 0..size {
                assert_eq!(left(right(member, size), size), member);
                assert_eq!(outgoing(member, size, 0), member);
                let mut seen = vec![member];
                for round in 0..size - 1 {
                    let block = incoming(member, size, round);
                    assert_eq!(block, outgoing(left(member, size), size, round));
                    if round + 1 < size - 1 {
                        assert_eq!(block, outgoing(member, size, round + 1));
                    }
                    seen.push(block);
                }
                seen.sort_unstable();
                assert_eq!(seen, (0..size).collect::<Vec<_>>());
            }
        }
    }
}
