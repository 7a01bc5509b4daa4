//! Vector forms of which no rank knows all lengths. What all ranks know is how many calls they have made: now and then they
//! tell each other in one of them what they have passed on, and while calls are timed, all take part in each.

use super::{AGAIN, FIRST, Trial, Turn};
use ferrorail_coll::Collective;
use ferrorail_coll::select::{ATTACH_SLOWEST, NOT_MEASURED};

/// The forms.
pub(super) const VECTORS: [Collective; 3] = [
    Collective::Gatherv,
    Collective::Scatterv,
    Collective::Alltoallv,
];

/// Calls from one look to the next, until something was measured.
const LOOK: u64 = 256;

/// So many rounds in which nothing that counts went one of the ways end a trial.
const EMPTY_ROUNDS: u32 = 4;

/// What one form goes by.
pub(crate) struct Vector {
    /// In how many calls all ranks look.
    until_look: u64,
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
    /// Of a team that `measures`, or goes by what others have.
    pub fn new(measures: bool) -> Self {
        Self {
            until_look: if measures { LOOK } else { u64::MAX },
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
                self.percent = if attach { 0 } else { ATTACH_SLOWEST };
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
        let (until, calls) = match self.is_own {
            true => (AGAIN, u64::from(AGAIN.calls)),
            false => (FIRST, LOOK),
        };
        self.until_look = calls;
        bytes >= until.bytes as u64
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
        (self.passed, self.empty_rounds) = Default::default();
        self.measures(0);
        (before != self.settled && before != NOT_MEASURED).then_some(before)
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
        (before != percent && before != NOT_MEASURED).then_some(before)
    }
}
