//! Direct: every member sends to every other, k of them in each round, in wrap-around order.

use super::{after, before};

/// One message of a member's round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Port at both origins.
    pub port: u8,
    /// How far the peers are: 1 ..= size - 1, each once over all rounds.
    pub distance: u32,
    /// Member to send to: `member + distance`.
    pub to: u32,
    /// Member to receive from, which uses the same port: `member - distance`.
    pub from: u32,
}

/// `ceil((size - 1) / k)`.
pub fn rounds(size: u32, ports: u8) -> u32 {
    (size - 1).div_ceil(u32::from(ports))
}

/// The messages of all rounds of `member`.
pub fn all(member: u32, size: u32, ports: u8) -> impl Iterator<Item = Exchange> {
    (0..rounds(size, ports)).flat_map(move |r| round(member, size, ports, r))
}

/// Where what `from` sends lies among what `member` receives, a block of each other: 0 ..= size - 2. Of two members
/// it is 0 for both.
pub const fn place(from: u32, member: u32) -> u32 {
    if from < member { from } else { from - 1 }
}

/// The messages of `member` in `round` (from 0).
pub fn round(
    member: u32,
    size: u32,
    ports: u8,
    round: u32,
) -> impl DoubleEndedIterator<Item = Exchange> {
    let first = round * u32::from(ports) + 1;
    (0..ports)
        .map(move |port| (port, first + u32::from(port)))
        .filter(move |&(_, distance)| distance < size)
        .map(move |(port, distance)| Exchange {
            port,
            distance,
            to: after(member, distance, size),
            from: before(member, distance, size),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_met_once_and_both_sides_agree() {
        for size in 1..=40 {
            for ports in 1..=8 {
                for member in 0..size {
                    let mut met = vec![false; size as usize];
                    for r in 0..rounds(size, ports) {
                        let messages: Vec<_> = round(member, size, ports, r).collect();
                        assert!(!messages.is_empty(), "no round is idle");
                        for message in messages {
                            assert!(!std::mem::replace(&mut met[message.to as usize], true));
                            let back = round(message.to, size, ports, r)
                                .find(|theirs| theirs.port == message.port)
                                .expect("the peer has this port in this round");
                            assert_eq!(back.from, member);
                        }
                    }
                    let others = met.iter().filter(|&&m| m).count() as u32;
                    assert!(others == size - 1 && !met[member as usize]);
                }
            }
        }
    }
}
