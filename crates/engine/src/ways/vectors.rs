//! Vector forms of which no rank knows all lengths. What all ranks know is how many calls they have made: now and then they
//! tell each other in one of them what they have passed on, and while calls are timed, all take part in each.

use super::{AGAIN, FIRST, Trial, Turn, outdated};
use ferrorail_coll::Collective;
use ferrorail_coll::select::NOT_MEASURED;

/// The forms.
pub(super) const VECTORS: [Collective; 3] = [
    Collective::Gatherv,
    Collective::Scatterv,
    Collective::Alltoallv,
];

/// Calls up to the first look, and from one to the next at least.
const LOOK_MIN: u64 = 32;

/// Calls from one look to the next at most, where there are no blocks that count: a look takes about as long as a short
/// exchange, and as fifty short calls with a root, which do not wait for each other.
const LOOK_MAX: u64 = 128;
const LOOK_MAX_ROOTED: u64 = 4096;

/// So many rounds in which nothing that counts went one of the ways end a trial.
const EMPTY_ROUNDS: u32 = 4;

/// What one form goes by.
pub(crate) struct Vector {
    /// Calls from one look to the next at most.
    look_max: u64,
    /// In how many calls all ranks look.
    until_look: u64,
    /// The same when they had looked last.
    interval: u64,
    /// What a rank had passed on then, one with the others.
    seen: u64,
    /// Time by cross-memory attach in percent of the time through the segment, by which the running call goes.
    percent: u32,
    /// The same of calls that are not timed.
    settled: u32,
    /// Whether `settled` was measured for this form itself.
    is_own: bool,
    trial: Option<Trial>,
    empty_rounds: u32,
    /// What this rank has done since the last trial.
    passed: Passed,
    /// Shorter blocks than this go the same way whatever was measured; none until a rank has asked.
    least: Option<usize>,
}

/// Calls with blocks that count, and what a rank sent in them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Passed {
    pub calls: u64,
    pub bytes: u64,
}

impl Vector {
    /// `collective`, of a team that `measures`, or goes by what others have.
    pub fn new(collective: Collective, measures: bool) -> Self {
        Self {
            look_max: match collective.is_rooted() {
                true => LOOK_MAX_ROOTED,
                false => LOOK_MAX,
            },
            until_look: if measures { LOOK_MIN } else { u64::MAX },
            interval: LOOK_MIN,
            seen: 0,
            percent: NOT_MEASURED,
            settled: NOT_MEASURED,
            is_own: false,
            trial: None,
            empty_rounds: 0,
            passed: Passed::default(),
            least: None,
        }
    }

    /// What the running call goes by.
    #[inline(always)]
    pub fn percent(&self) -> u32 {
        self.percent
    }

    /// Counts a call. Whether all ranks look in it.
    #[inline(always)]
    pub fn looks(&mut self) -> bool {
        self.until_look -= 1;
        self.until_look == 0
    }

    /// What a call has to do in which ranks look, if so, or that has long blocks here; those that count are `bytes` bytes to
    /// send.
    pub fn next(&mut self, looks: bool, bytes: usize) -> Turn {
        let Some(mut trial) = self.trial.take() else {
            self.passed.calls += u64::from(bytes > 0);
            self.passed.bytes += bytes as u64;
            return match looks {
                true => Turn::Start,
                false => Turn::By(self.percent),
            };
        };
        match trial.next(bytes) {
            None => Turn::Compare(trial),
            Some(attach) => {
                self.go_on(trial);
                self.percent = Trial::percent(attach);
                Turn::By(self.percent)
            }
        }
    }

    /// The trial goes on in the next call.
    pub fn go_on(&mut self, trial: Trial) {
        self.trial = Some(trial);
        self.until_look = 1;
    }

    /// The trial under way.
    pub fn trial(&mut self) -> Option<&mut Trial> {
        self.trial.as_mut()
    }

    /// Length of the shortest blocks that count, which is asked `of` once.
    pub fn least(&mut self, of: impl FnOnce() -> usize) -> usize {
        *self.least.get_or_insert_with(of)
    }

    /// What this rank has passed on.
    pub fn passed(&self) -> Passed {
        self.passed
    }

    /// Whether ranks that have passed on so many bytes, one with the others, measure now. Else they look again later.
    pub fn measures(&mut self, bytes: u64) -> bool {
        let until = if self.is_own { AGAIN } else { FIRST };
        let missing = (until.bytes as u64).saturating_sub(bytes);
        let calls = match bytes - self.seen {
            0 => 2 * self.interval,
            more => missing.div_ceil(more).saturating_mul(self.interval),
        };
        self.look_after(calls.clamp(LOOK_MIN, self.look_max));
        self.seen = bytes;
        missing == 0
    }

    fn look_after(&mut self, calls: u64) {
        (self.until_look, self.interval) = (calls, calls);
    }

    /// A round in which no block that counts went one of the ways. Whether the trial ends by that, without a result.
    pub fn is_vain(&mut self) -> bool {
        self.empty_rounds += 1;
        self.empty_rounds == EMPTY_ROUNDS
    }

    /// The trial is over: calls go by what was `found`, if something was. What they went by before, if it was another.
    pub fn decide(&mut self, found: Option<u32>) -> Option<u32> {
        let before = self.settled;
        self.is_own |= found.is_some();
        self.settled = found.unwrap_or(before);
        self.percent = self.settled;
        (self.passed, self.seen, self.empty_rounds) = Default::default();
        self.look_after(match self.is_own {
            true => AGAIN.calls.into(),
            false => LOOK_MIN,
        });
        outdated(before, self.settled)
    }

    /// The form with blocks of one length goes by `percent` now. What this one went by, if it was another.
    pub fn follow(&mut self, percent: u32) -> Option<u32> {
        if self.is_own {
            return None;
        }
        let before = std::mem::replace(&mut self.settled, percent);
        if self.trial.is_none() {
            self.percent = percent;
        }
        outdated(before, percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_coll::select::ATTACH_SLOWEST;

    const MEGABYTE: u64 = 1 << 20;

    /// The first calls in which ranks look that send `bytes` bytes in each; the last one is that in which they measure.
    fn looks(vector: &mut Vector, bytes: u64, calls: u64) -> Vec<u64> {
        let mut looks = Vec::new();
        for call in 1..=calls {
            let all_look = vector.looks();
            if matches!(vector.next(all_look, bytes as usize), Turn::Start) {
                looks.push(call);
                if vector.measures(vector.passed().bytes) {
                    break;
                }
            }
        }
        looks
    }

    #[test]
    fn who_sends_no_long_blocks_looks_ever_more_rarely() {
        let found = looks(&mut Vector::new(Collective::Gatherv, true), 0, 20_000);
        assert_eq!(found[..4], [32, 96, 224, 480]);
        let last = found.last_chunk::<2>().expect("many");
        assert_eq!(last[1] - last[0], LOOK_MAX_ROOTED);
        let mut exchange = Vector::new(Collective::Alltoallv, true);
        assert_eq!(looks(&mut exchange, 0, 400), [32, 96, 224, 352]);
        let mut never = Vector::new(Collective::Gatherv, false);
        assert!(looks(&mut never, MEGABYTE, 20_000).is_empty());
    }

    #[test]
    fn who_sends_long_ones_measures_when_enough_was_passed_on() {
        let calls = |bytes| looks(&mut Vector::new(Collective::Gatherv, true), bytes, 20_000);
        assert_eq!(calls(MEGABYTE), [32]);
        assert_eq!(calls(MEGABYTE / 4), [32, 64]);
        assert_eq!(calls(MEGABYTE / 64), [32, 1024]);
    }

    #[test]
    fn it_is_measured_again_much_later() {
        let mut vector = Vector::new(Collective::Gatherv, true);
        looks(&mut vector, MEGABYTE, 100);
        assert_eq!(vector.decide(Some(150)), None);
        assert_eq!(vector.percent(), 150);
        assert_eq!(vector.follow(60), None);
        assert_eq!(looks(&mut vector, 2 * MEGABYTE, 20_000), [4096]);
        assert_eq!(vector.decide(Some(70)), Some(150));
        assert_eq!(vector.percent(), 70);
    }

    #[test]
    fn until_it_is_measured_it_follows_the_form_with_blocks_of_one_length() {
        let mut vector = Vector::new(Collective::Gatherv, true);
        assert_eq!(vector.follow(60), None);
        assert_eq!(vector.percent(), 60);
        vector.go_on(Trial::new(1, 0));
        assert!(matches!(vector.next(true, 1), Turn::By(ATTACH_SLOWEST)));
        assert_eq!(vector.follow(70), Some(60));
        assert_eq!(vector.percent(), ATTACH_SLOWEST);
        assert_eq!(vector.decide(None), None);
        assert_eq!(vector.percent(), 70);
    }
}
