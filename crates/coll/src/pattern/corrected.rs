//! Standard Exchange with correction steps, for sizes that are no power of k+1.
//!
//! Let P = (k+1)^m be the largest power below the size N. In step i of 1..=m member p sends all that
//! it has to `(p + j (k+1)^(i-1)) mod N`, j in 1..=k; after the last it holds the blocks of its P-1
//! predecessors and its own. Each step is followed by k corrections, which bring the other N-P
//! blocks, divided evenly among the ports. A correction that no block is left for is left out.

use super::{Message, floor_log, shares};

/// The messages of each round of an all-gather of more than k members, none of them empty: a member sends its own block
/// and those of its next predecessors, `blocks` in all, to `member + distance`.
pub fn rounds(size: u32, ports: u8) -> Vec<Vec<Message>> {
    let k = u32::from(ports);
    let (steps, power) = floor_log(size, k + 1);
    let mut corrections_left = k * steps;
    let mut corrected = power;
    let mut rounds = Vec::new();
    for step in 1..=steps {
        let held = (k + 1).pow(step - 1);
        let message = |port| Message {
            port,
            distance: (u32::from(port) + 1) * held,
            blocks: held,
        };
        rounds.push((0..ports).map(message).collect());
        for _correction in 1..=k {
            let missing = size - corrected;
            if missing > 0 {
                // Ports carry as much in all corrections, as far as members hold that yet.
                let share = missing.div_ceil(k).div_ceil(corrections_left);
                let share = share.min((k + 1).pow(step));
                let wanted = missing.min(share * k);
                let message = |(port, first, blocks)| Message {
                    port,
                    distance: corrected + first,
                    blocks,
                };
                rounds.push(shares(wanted, ports).map(message).collect());
                corrected += wanted;
            }
            corrections_left -= 1;
        }
    }
    rounds
}

/// Number of [`rounds`]: equation (4) of Qian and Afsahi, (k+1) ⌊log_{k+1} N⌋, less the corrections
/// that no block is left for.
pub fn round_count(size: u32, ports: u8) -> u32 {
    let k = u32::from(ports);
    let (steps, power) = floor_log(size, k + 1);
    steps + (k * steps).min((size - power).div_ceil(k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_bring_every_block_once_from_who_holds_it() {
        for ports in 1..=8u8 {
            for size in u32::from(ports) + 1..=300 {
                let rounds = rounds(size, ports);
                assert_eq!(rounds.len() as u32, round_count(size, ports));
                // Distances backwards at which a member holds blocks.
                let mut holds = vec![false; size as usize];
                holds[0] = true;
                let mut volume = 0;
                for round in &rounds {
                    let before = holds.clone();
                    assert!(!round.is_empty());
                    for (port, message) in round.iter().enumerate() {
                        assert_eq!(usize::from(message.port), port);
                        assert!(message.blocks >= 1);
                        for block in 0..message.blocks as usize {
                            assert!(before[block], "{size} {ports} {round:?}");
                            let brought = &mut holds[message.distance as usize + block];
                            assert!(!std::mem::replace(brought, true), "{size} {ports}");
                        }
                    }
                    volume += round.iter().map(|m| m.blocks).max().unwrap();
                }
                assert!(holds.iter().all(|&held| held), "{size} {ports}");
                assert_eq!(volume, (size - 1).div_ceil(ports.into()), "equation (4)");
            }
        }
    }

    #[test]
    fn sixteen_members_two_ports() {
        let message = |port, distance, blocks| Message {
            port,
            distance,
            blocks,
        };
        assert_eq!(
            rounds(16, 2),
            [
                // Step 1 and its corrections.
                vec![message(0, 1, 1), message(1, 2, 1)],
                vec![message(0, 9, 1), message(1, 10, 1)],
                vec![message(0, 11, 1), message(1, 12, 1)],
                // Step 2 and its corrections.
                vec![message(0, 3, 3), message(1, 6, 3)],
                vec![message(0, 13, 1), message(1, 14, 1)],
                vec![message(0, 15, 1)],
            ]
        );
    }
}
