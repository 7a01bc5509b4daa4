//! Calls that go through the segment and by cross-memory attach by turns.

use std::time::Duration;

/// Most rounds in which both ways are timed.
const ROUNDS: usize = 4;

/// Calls in a row that go one way. When a rank goes on after one depends on who else had its core.
const CALLS: usize = 4;

/// The same where a rank passes on [`LONG_BYTES`] or more in each, which take long.
const LONG_CALLS: usize = 2;

const LONG_BYTES: usize = 4 << 20;

/// As many of them are not timed: what the other way left in caches is gone then.
const UNTIMED: usize = 1;

/// If one way takes as much of the other's time, in percent, in the first two rounds, these are enough.
const CLEAR_PERCENT: u64 = 150;

/// The calls of one trial.
#[derive(Debug)]
pub(crate) struct Trial {
    /// In a row that go one way.
    in_a_row: usize,
    /// In this round.
    calls: usize,
    /// Bytes of a block of the last one.
    bytes: usize,
    /// What this rank took in this round, through the segment and by attach, ps per byte of a block.
    times: [u32; 2],
    /// What all ranks took in those before.
    rounds: Vec<[u64; 2]>,
}

impl Trial {
    /// Of calls in which a rank passes on `passed` bytes.
    pub fn new(passed: usize) -> Self {
        Self {
            in_a_row: match passed < LONG_BYTES {
                true => CALLS,
                false => LONG_CALLS,
            },
            calls: 0,
            bytes: 0,
            times: [0; 2],
            rounds: Vec::new(),
        }
    }

    /// Whether the next call, with blocks of `bytes` bytes, goes by attach; none if the round is over.
    pub fn next(&mut self, bytes: usize) -> Option<bool> {
        let way = self.calls / self.in_a_row;
        if way == 2 {
            return None;
        }
        self.calls += 1;
        self.bytes = bytes;
        Some(way == 1)
    }

    /// The last call took this.
    pub fn took(&mut self, time: Duration) {
        let Some(call) = self.calls.checked_sub(1) else {
            return;
        };
        if call % self.in_a_row >= UNTIMED {
            let ps = time.as_nanos() * 1000 / self.bytes.max(1) as u128;
            let sum = &mut self.times[call / self.in_a_row];
            *sum = sum.saturating_add(u32::try_from(ps).unwrap_or(u32::MAX));
        }
    }

    /// What this rank took in the round.
    pub fn times(&self) -> [u32; 2] {
        self.times
    }

    /// All ranks took `times` in the round: the time by attach in percent of the time through the segment, or none if
    /// another round is wanted. Of each way the shortest counts, as a program's ranks may come late.
    pub fn compared(&mut self, times: [u64; 2]) -> Option<u64> {
        (self.calls, self.times) = (0, [0; 2]);
        self.rounds.push(times.map(|time| time.max(1)));
        let is_clear = |[one, other]: [u64; 2]| 100 * one > CLEAR_PERCENT * other;
        let clear = self.rounds.len() == 2
            && (self.rounds.iter().all(|&round| is_clear(round))
                || (self.rounds.iter()).all(|&[segment, attach]| is_clear([attach, segment])));
        (clear || self.rounds.len() == ROUNDS).then(|| {
            let shortest = |way: usize| self.rounds.iter().map(|round| round[way]).min();
            let [segment, attach] = [0, 1].map(|way| shortest(way).unwrap_or(1));
            100 * attach / segment
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways of a round's calls, of which the first of each way takes much longer.
    fn round(trial: &mut Trial, [segment, attach]: [u64; 2]) -> Vec<bool> {
        let mut ways = Vec::new();
        while let Some(way) = trial.next(1000) {
            let ns = match (ways.last() != Some(&way), way) {
                (true, _) => 1_000_000,
                (false, true) => attach,
                (false, false) => segment,
            };
            trial.took(Duration::from_nanos(ns));
            ways.push(way);
        }
        ways
    }

    #[test]
    fn the_ways_take_turns_and_the_first_of_a_turn_is_not_timed() {
        for (passed, in_a_row) in [(1000, CALLS), (LONG_BYTES, LONG_CALLS)] {
            let mut trial = Trial::new(passed);
            let ways = round(&mut trial, [200, 300]);
            assert_eq!(ways.len(), 2 * in_a_row);
            assert_eq!(ways.iter().filter(|&&attach| attach).count(), in_a_row);
            let timed = (in_a_row - UNTIMED) as u32;
            assert_eq!(trial.times(), [200 * timed, 300 * timed]);
        }
    }

    #[test]
    fn two_clear_rounds_are_enough_and_a_late_rank_does_not_count() {
        let result = |rounds: &[[u64; 2]]| {
            let mut trial = Trial::new(0);
            let mut results = rounds.iter().map(|&times| trial.compared(times));
            let percent = results.find_map(|result| result);
            (percent, results.count())
        };
        assert_eq!(result(&[[100, 151], [100, 400], [1, 1]]), (Some(151), 1));
        assert_eq!(result(&[[160, 100], [400, 200], [1, 1]]), (Some(62), 1));
        let mixed = [[100, 400], [400, 100], [100, 120], [100, 4000]];
        assert_eq!(result(&mixed), (Some(100), 0));
        assert_eq!(result(&mixed[..3]), (None, 0));
        assert_eq!(result(&[[0, 0]; 4]), (Some(100), 0));
    }
}
