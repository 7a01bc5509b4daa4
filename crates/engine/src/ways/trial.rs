//! Calls that go through the segment and by cross-memory attach by turns.

use ferrorail_coll::select::ATTACH_SLOWEST;

/// Most rounds in which both ways are timed.
const ROUNDS: usize = 4;

/// Calls in a row that go one way. When a rank goes on after one depends on who else had its core.
const CALLS: usize = 4;

/// The same where a rank passes on [`LONG_BYTES`] or more in each, which take long.
const LONG_CALLS: usize = 2;

const LONG_BYTES: usize = 4 << 20;

/// As many of them are not timed: what the other way left in caches is gone then.
const UNTIMED: usize = 1;

/// Calls through the segment before the first round, at most.
const FIRST_CALLS: usize = 64;

/// If one way takes as much of the other's time, in percent, in the first two rounds, these are enough.
const CLEAR_PERCENT: u64 = 150;

/// The calls of one trial.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Calls through the segment that are left before the first round: those that use all scratch once, whose pages may
    /// not be there.
    before: usize,
    /// In a row that go one way.
    in_a_row: usize,
    /// In this round.
    calls: usize,
    /// Bytes of a block of each timed one, those through the segment first.
    bytes: [usize; TIMED_CALLS],
    /// When this rank began and ended them.
    times: Times,
    /// What calls took in the rounds before, through the segment and by attach.
    rounds: Vec<[u64; 2]>,
}

/// Calls that are timed, of those in a row.
const TIMED: usize = CALLS - UNTIMED;

/// The same of both ways.
pub(crate) const TIMED_CALLS: usize = 2 * TIMED;

/// When the timed calls of a round began and ended, in ns of the time that all ranks of a host share, those through the segment first; 0 for those that
/// there are not.
pub(crate) type Times = [u64; 2 * TIMED_CALLS];

impl Trial {
    /// Of calls in which a rank passes on `passed` bytes, through `scratch` bytes that take turns.
    pub fn new(passed: usize, scratch: usize) -> Self {
        Self {
            before: scratch.div_ceil(passed.max(1)).min(FIRST_CALLS),
            in_a_row: match passed < LONG_BYTES {
                true => CALLS,
                false => LONG_CALLS,
            },
            calls: 0,
            bytes: [0; TIMED_CALLS],
            times: Times::default(),
            rounds: Vec::new(),
        }
    }

    /// What calls are chosen by that go by attach, if so, or through the segment: the least and the most that attach may take,
    /// as rules may send by attach what was not measured.
    pub fn percent(attach: bool) -> u32 {
        if attach { 0 } else { ATTACH_SLOWEST }
    }

    /// Whether the next call, with blocks of `bytes` bytes, goes by attach; none if the round is over.
    pub fn next(&mut self, bytes: usize) -> Option<bool> {
        if self.before > 0 {
            self.before -= 1;
            return Some(false);
        }
        let way = self.calls / self.in_a_row;
        if way == 2 {
            return None;
        }
        self.calls += 1;
        if let Some(timed) = self.timed() {
            self.bytes[timed] = bytes;
        }
        Some(way == 1)
    }

    /// The last call lasted from `start` to `end`.
    pub fn took(&mut self, start: u64, end: u64) {
        if let Some(timed) = self.timed() {
            self.times[2 * timed..][..2].copy_from_slice(&[start, end]);
        }
    }

    /// Which of the timed calls the last one is.
    fn timed(&self) -> Option<usize> {
        let call = self.calls.checked_sub(1)?;
        let (way, place) = (call / self.in_a_row, call % self.in_a_row);
        Some(way * TIMED + place.checked_sub(UNTIMED)?)
    }

    /// When this rank began and ended the calls of the round.
    pub fn times(&self) -> Times {
        self.times
    }

    /// Bytes of a block of each timed call of the round, 0 for those that there are not.
    pub fn bytes(&self) -> [usize; TIMED_CALLS] {
        self.bytes
    }

    /// What is to count instead, of all ranks. Whether that is something of each way.
    pub fn count(&mut self, bytes: [usize; TIMED_CALLS]) -> bool {
        self.bytes = bytes;
        bytes
            .chunks(TIMED)
            .all(|way| way.iter().any(|&bytes| bytes > 0))
    }

    /// The round is made once more.
    pub fn again(&mut self) {
        (self.calls, self.times) = (0, Times::default());
        self.bytes = [0; TIMED_CALLS];
    }

    /// All ranks took these times in the round: the time by attach in percent of the time through the segment, or none if
    /// another round is wanted. The fastest round of each way counts.
    pub fn compared(&mut self, all: &[Times], have_cores: bool) -> Option<u64> {
        let took =
            |timed: usize| time(timed, all, have_cores) * 1000 / self.bytes[timed].max(1) as u64;
        let round = [0, 1].map(|way| {
            let calls = way * TIMED..(way + 1) * TIMED;
            calls.map(took).sum::<u64>().max(1)
        });
        self.rounds.push(round);
        self.again();
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

/// What a timed call took. Of ranks that have a core each, from when the last of them came until all were through, so that it
/// makes no difference how late that was. Where they share cores, those that came first have used the time: there it is
/// what all took together.
fn time(timed: usize, all: &[Times], have_cores: bool) -> u64 {
    let starts = all.iter().map(|times| times[2 * timed]);
    let ends = all.iter().map(|times| times[2 * timed + 1]);
    match have_cores {
        true => (ends.max().unwrap_or(0)).saturating_sub(starts.max().unwrap_or(0)),
        false => ends
            .zip(starts)
            .map(|(end, start)| end.saturating_sub(start))
            .sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways of a round's calls, of which the first of each way takes much longer.
    fn round(trial: &mut Trial, [segment, attach]: [u64; 2]) -> Vec<bool> {
        let mut ways = Vec::new();
        let mut now = 1;
        while let Some(way) = trial.next(1000) {
            let ns = match (ways.last() != Some(&way), way) {
                (true, _) => 1_000_000,
                (false, true) => attach,
                (false, false) => segment,
            };
            trial.took(now, now + ns);
            now += 2 * ns;
            ways.push(way);
        }
        ways
    }

    #[test]
    fn the_ways_take_turns_and_the_first_of_a_turn_is_not_timed() {
        for (passed, in_a_row) in [(1000, CALLS), (LONG_BYTES, LONG_CALLS)] {
            let mut trial = Trial::new(passed, 0);
            let ways = round(&mut trial, [200, 300]);
            assert_eq!(ways.len(), 2 * in_a_row);
            assert_eq!(ways.iter().filter(|&&attach| attach).count(), in_a_row);
            let timed = in_a_row - UNTIMED;
            for (way, ns) in trial.times().chunks(2 * TIMED).zip([200, 300]) {
                let took = |call: &[u64]| call[1] - call[0];
                assert!(way.chunks(2).take(timed).all(|call| took(call) == ns));
                assert!(way.chunks(2).skip(timed).all(|call| took(call) == 0));
            }
        }
    }

    #[test]
    fn all_scratch_is_used_once_before_the_first_round() {
        for (passed, scratch, calls) in [(100, 250, 3), (1, 1 << 20, FIRST_CALLS), (0, 0, 0)] {
            let mut trial = Trial::new(passed, scratch);
            let ways = round(&mut trial, [200, 300]);
            assert_eq!(ways.len(), calls + 2 * CALLS);
            assert!(ways[..calls + CALLS].iter().all(|&attach| !attach));
            assert_eq!(trial.times()[1] - trial.times()[0], 200);
            trial.compared(&[trial.times()], true);
            assert_eq!(round(&mut trial, [200, 300]).len(), 2 * CALLS);
        }
    }

    #[test]
    fn how_late_a_rank_was_does_not_count_where_each_has_a_core() {
        let mut times = [Times::default(); 2];
        times[0][..2].copy_from_slice(&[100, 900]);
        times[1][..2].copy_from_slice(&[850, 890]);
        assert_eq!(time(0, &times, true), 50);
        assert_eq!(time(0, &times, false), 800 + 40);
        assert_eq!(time(1, &times, true), 0);
    }

    #[test]
    fn two_clear_rounds_are_enough_and_the_fastest_of_each_way_counts() {
        let result = |rounds: &[[u64; 2]]| {
            let mut trial = Trial::new(0, 0);
            let mut results = rounds.iter().map(|&times| {
                round(&mut trial, times);
                trial.compared(&[trial.times()], true)
            });
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
