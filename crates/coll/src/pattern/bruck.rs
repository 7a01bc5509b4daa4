//! Bruck's distances for k ports (Bruck et al., IEEE TPDS 8(11), 1997).
//!
//! A member keeps blocks in relative order: place j holds the block of `member + j`. Having the
//! first s places, it fetches further ones from members further on, which hold them at their
//! beginning. The last round divides what is missing evenly among the ports, so that for any size
//! no port carries more than `ceil((size - 1) / k)` blocks in all.

use super::{Message, shares};

/// The messages of each round: a member sends its first `blocks` places to `member - distance`, and stores what comes
/// from `member + distance` from place `distance`; `ceil(log_{k+1} size)` rounds, none of them empty.
pub fn rounds(size: u32, ports: u8) -> Vec<Vec<Message>> {
    let mut rounds = Vec::new();
    let mut held = 1;
    while held < size {
        let missing = size - held;
        let wanted = u64::from(missing).min(u64::from(held) * u64::from(ports)) as u32;
        rounds.push(
            shares(wanted, ports)
                .map(|(port, first, blocks)| Message {
                    port,
                    distance: held + first,
                    blocks,
                })
                .collect(),
        );
        held += wanted;
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::ceil_log;

    #[test]
    fn rounds_fill_every_place_once_from_what_is_held() {
        for size in 1..=300u32 {
            for ports in 1..=8u8 {
                let rounds = rounds(size, ports);
                assert_eq!(rounds.len() as u32, ceil_log(size, u32::from(ports) + 1));
                let mut held = 1;
                let mut volume = 0;
                for round in &rounds {
                    let before = held;
                    assert!(round.len() <= usize::from(ports) && !round.is_empty());
                    for (port, message) in round.iter().enumerate() {
                        assert_eq!((message.port as usize, message.distance), (port, held));
                        assert!(message.blocks >= 1 && message.blocks <= before);
                        held += message.blocks;
                    }
                    volume += round.iter().map(|m| m.blocks).max().unwrap_or(0);
                }
                assert_eq!(held, size);
                assert_eq!(
                    volume,
                    (size - 1).div_ceil(u32::from(ports)),
                    "equation (1)"
                );
            }
        }
    }

    #[test]
    fn nine_members_two_ports_are_the_figure_of_the_paper() {
        let message = |port, distance, blocks| Message {
            port,
            distance,
            blocks,
        };
        assert_eq!(
            rounds(9, 2),
            [
                vec![message(0, 1, 1), message(1, 2, 1)],
                vec![message(0, 3, 3), message(1, 6, 3)],
            ]
        );
    }
}
