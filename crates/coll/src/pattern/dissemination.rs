//! Dissemination with k ports: in round r members talk over the distances `d (k+1)^r`, d in 1..=k.
//!
//! After a round a member knows of k + 1 times as many predecessors as before.

pub use super::levels as rounds;

/// `(k+1)^round`: members known to one before `round`.
pub fn stride(ports: u8, round: u32) -> u32 {
    (u32::from(ports) + 1).pow(round)
}

/// The (port, distance) pairs of `round`; distances are below `size`.
pub fn peers(size: u32, ports: u8, round: u32) -> impl DoubleEndedIterator<Item = (u8, u32)> {
    let stride = stride(ports, round);
    let most = ((size - 1) / stride).min(u32::from(ports));
    (1..=most).map(move |digit| ((digit - 1) as u8, digit * stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_hears_of_everyone() {
        for size in 1..=130u32 {
            for ports in 1..=8 {
                let mut known = vec![false; size as usize];
                known[0] = true;
                for round in 0..rounds(size, ports) {
                    let before = known.clone();
                    assert!(peers(size, ports, round).count() > 0);
                    for (_, distance) in peers(size, ports, round) {
                        for (member, _) in before.iter().enumerate().filter(|(_, k)| **k) {
                            known[(member + distance as usize) % size as usize] = true;
                        }
                    }
                }
                assert!(known.iter().all(|&k| k));
            }
        }
    }
}
