//! Calls that go through the segment and by cross-memory attach by turns.

use std::time::Duration;

/// How often each way is timed.
const ROUNDS: usize = 4;

/// Calls in a row that go one way. When a rank goes on after one depends on who else had its core.
const CALLS: usize = 4;

/// As many of them are not timed: what the other way left in caches is gone then.
const UNTIMED: usize = 1;

/// What the calls of one trial took.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    calls: usize,
    /// Bytes of a block of the last one.
    bytes: usize,
    /// Through the segment and by attach, ps per byte of a block, in each round.
    times: [[u32; 2]; ROUNDS],
}

impl Trial {
    /// Whether the next call, with blocks of `bytes` bytes, goes by attach; none if all have been made.
    pub fn next(&mut self, bytes: usize) -> Option<bool> {
        if self.calls == ROUNDS * 2 * CALLS {
            return None;
        }
        let (_, attach) = place(self.calls);
        self.calls += 1;
        self.bytes = bytes;
        Some(attach == 1)
    }

    /// The last call took this.
    pub fn took(&mut self, time: Duration) {
        let Some(call) = self.calls.checked_sub(1) else {
            return;
        };
        if call % CALLS >= UNTIMED {
            let (round, way) = place(call);
            let ps = time.as_nanos() * 1000 / self.bytes.max(1) as u128;
            let sum = &mut self.times[round][way];
            *sum = sum.saturating_add(u32::try_from(ps).unwrap_or(u32::MAX));
        }
    }

    /// Of each round, through the segment and by attach.
    pub fn times(&self) -> [[u32; 2]; ROUNDS] {
        self.times
    }
}

/// Round and way of a call.
fn place(call: usize) -> (usize, usize) {
    let turn = call / CALLS;
    (turn / 2, turn % 2)
}

/// The time by attach in percent of the time through the segment, of `rounds` with both: of each the shortest, as a program's
/// ranks may come late.
pub(crate) fn percent(rounds: &[[u64; 2]]) -> u32 {
    let [segment, attach] = [0, 1].map(|way| {
        let times = rounds.iter().map(|times| times[way]);
        times.min().unwrap_or(1).max(1)
    });
    u32::try_from(100 * attach / segment).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_take_turns_and_the_first_of_a_turn_is_not_timed() {
        let mut trial = Trial::default();
        let mut ways = Vec::new();
        while let Some(attach) = trial.next(1000) {
            let is_first = ways.last() != Some(&attach);
            let ns = match (is_first, attach) {
                (true, _) => 1_000_000,
                (false, true) => 300,
                (false, false) => 200,
            };
            trial.took(Duration::from_nanos(ns));
            ways.push(attach);
        }
        assert_eq!(ways.len(), 2 * ROUNDS * CALLS);
        let attached = ways.iter().filter(|&&attach| attach).count();
        assert_eq!(attached, ROUNDS * CALLS);
        let timed = (CALLS - UNTIMED) as u32;
        assert_eq!(trial.times(), [[200 * timed, 300 * timed]; ROUNDS]);
    }

    #[test]
    fn a_round_in_which_a_rank_was_late_does_not_count() {
        assert_eq!(percent(&[[100, 150], [900, 130], [110, 4000]]), 130);
        assert_eq!(percent(&[[0, 0]]), 100);
        assert_eq!(percent(&[[1, u64::from(u32::MAX)]]), u32::MAX);
    }
}
