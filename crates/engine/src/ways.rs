//! What a team knows of the ways of its long messages on one node: through the segment, or by cross-memory attach.
//!
//! All ranks know the same, but for times: which call goes which way follows from the calls that they have made.

pub(crate) use trial::{TIMED_CALLS, Times, Trial};
pub(crate) use vectors::Vector;

use crate::choice::regular;
use ferrorail_coll::Collective;
use ferrorail_coll::select::NOT_MEASURED;
use ferrorail_shm::host_time_ns;
use std::collections::BTreeMap;
use vectors::VECTORS;

mod trial;
mod vectors;

/// What a class has to have done before it is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Until {
    calls: u32,
    /// What a rank has passed on in them.
    bytes: usize,
}

/// The program has made about as many calls then as go the slower way in a trial.
const FIRST: Until = Until {
    calls: 8,
    bytes: 16 << 20,
};

/// Virtual processors move.
const AGAIN: Until = Until {
    calls: 4096,
    bytes: 4 << 30,
};

impl Until {
    /// Whether that is now, with one more call in which a rank passes on `bytes` bytes.
    fn is_over(&mut self, bytes: usize) -> bool {
        self.calls = self.calls.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        (self.calls, self.bytes) == (0, 0)
    }
}

/// The class of vector forms of which no rank knows all lengths: they go by what was measured for blocks of this length, or
/// longer ones, else for shorter ones.
pub(crate) const OF_VECTORS: u32 = 17;

/// Calls of one collective with blocks of one size class.
pub(crate) type Class = (Collective, u32);

/// See the module documentation.
pub(crate) struct Ways {
    classes: BTreeMap<Class, Calls>,
    /// What each of [`VECTORS`] goes by. Boxed: with that in it, a team's state is so long that gathers of 64 bytes take 1.4 times
    /// as long.
    vectors: Box<[Vector; VECTORS.len()]>,
    /// The call under way, if it is timed, and when it began.
    timed: Option<(Timed, u64)>,
}

/// Of what the call under way is.
enum Timed {
    Class(Class),
    Vector(Collective),
}

/// The calls of a class.
struct Calls {
    /// Whether their choice depends on times.
    depends: bool,
    until_trial: Until,
    trial: Option<Trial>,
    /// Time by cross-memory attach in percent of the time through the segment.
    percent: u32,
}

/// What a call has to do.
#[derive(Debug)]
pub(crate) enum Turn {
    /// To go by this percentage.
    By(u32),
    /// To have its class timed from the next call on.
    Start,
    /// To compare times first: a round of this trial is over.
    Compare(Trial),
}

impl Default for Ways {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Ways {
    /// Of a team that measures vector forms of which no rank knows all lengths, if it `measures_vectors`.
    pub fn new(measures_vectors: bool) -> Self {
        Self {
            classes: BTreeMap::new(),
            vectors: Box::new(VECTORS.map(|collective| Vector::new(collective, measures_vectors))),
            timed: None,
        }
    }

    /// The next call of `class`, with blocks of `block` bytes, in which a rank passes on `passed` bytes. If it is timed, its time
    /// is taken from here to [`Ways::ended`]. Whether the choice for the class `depends` on times is asked once.
    pub fn next(
        &mut self,
        class: Class,
        (block, passed): (usize, usize),
        depends: impl FnOnce() -> bool,
    ) -> Turn {
        let calls = self.classes.entry(class).or_insert_with(|| Calls {
            depends: depends(),
            until_trial: FIRST,
            trial: None,
            percent: NOT_MEASURED,
        });
        if !calls.depends {
            return Turn::By(NOT_MEASURED);
        }
        let Some(mut trial) = calls.trial.take() else {
            return match (calls.until_trial.is_over(passed), calls.percent) {
                (true, _) => Turn::Start,
                (false, NOT_MEASURED) => Turn::By(self.of_shorter(class)),
                (false, percent) => Turn::By(percent),
            };
        };
        match trial.next(block.max(1)) {
            None => Turn::Compare(trial),
            Some(attach) => {
                calls.trial = Some(trial);
                self.timed = Some((Timed::Class(class), host_time_ns()));
                Turn::By(Trial::percent(attach))
            }
        }
    }

    /// A call has ended.
    #[inline]
    pub fn ended(&mut self) {
        if let Some((timed, start)) = self.timed.take() {
            let trial = match timed {
                Timed::Class(class) => {
                    let calls = self.classes.get_mut(&class);
                    calls.and_then(|calls| calls.trial.as_mut())
                }
                Timed::Vector(collective) => self.vector(collective).trial(),
            };
            if let Some(trial) = trial {
                trial.took(start, host_time_ns());
            }
        }
    }

    /// Has calls of `class` timed from the next one on; what they go by until then.
    pub fn start(&mut self, class: Class, trial: Trial) -> u32 {
        self.classes.get_mut(&class).map_or(NOT_MEASURED, |calls| {
            calls.trial = Some(trial);
            calls.percent
        })
    }

    /// Has calls of `class` go by `percent`, until it is time to measure again, and the vector forms that go by it. Which
    /// collectives went by another percentage before.
    pub fn decide(&mut self, class: Class, percent: u32) -> Vec<(Collective, u32)> {
        let Some(calls) = self.classes.get_mut(&class) else {
            return Vec::new();
        };
        calls.until_trial = AGAIN;
        let before = std::mem::replace(&mut calls.percent, percent);
        let other = outdated(before, percent);
        let mut others: Vec<_> = other.map(|before| (class.0, before)).into_iter().collect();
        for vector in VECTORS {
            let now = self.measured_for(regular(vector));
            let before = self.vector(vector).follow(now);
            others.extend(before.map(|before| (vector, before)));
        }
        others
    }

    /// What a class goes by that was not measured: as the next shorter one that was.
    fn of_shorter(&self, (collective, class): Class) -> u32 {
        let shorter = self.classes.range((collective, 0)..(collective, class));
        first_measured(shorter.rev().map(|(_, calls)| calls.percent))
    }

    /// What calls of a vector form go by of which no rank knows all lengths: all ranks', also those that have no long blocks,
    /// as what a call takes of scratch depends on it.
    #[inline(always)]
    pub fn of_vectors(&self, collective: Collective) -> u32 {
        self.vectors[place(collective)].percent()
    }

    /// One more call of a vector form. Whether all ranks look in it at what they have passed on, or take part in a trial.
    #[inline(always)]
    pub fn looks(&mut self, collective: Collective) -> bool {
        self.vector(collective).looks()
    }

    /// A vector form.
    #[inline(always)]
    pub fn vector(&mut self, collective: Collective) -> &mut Vector {
        &mut self.vectors[place(collective)]
    }

    /// As [`Ways::next`], of a vector form with long blocks here, or in which all ranks look, if so; of those that count this rank
    /// sends and receives so many bytes.
    pub fn next_vector(
        &mut self,
        collective: Collective,
        looks: bool,
        [sent, received]: [usize; 2],
    ) -> Turn {
        let turn = self.vector(collective).next(looks, sent);
        if sent + received > 0 && self.vector(collective).trial().is_some() {
            self.timed = Some((Timed::Vector(collective), host_time_ns()));
        }
        turn
    }

    /// What was measured for long blocks of `regular`.
    fn measured_for(&self, regular: Collective) -> u32 {
        let long = (self.classes).range((regular, OF_VECTORS)..=(regular, u32::MAX));
        match first_measured(long.map(|(_, calls)| calls.percent)) {
            NOT_MEASURED => self.of_shorter((regular, OF_VECTORS)),
            percent => percent,
        }
    }
}

/// What calls went by `before`, if they go by another percentage `now`: what was made for it is of no more use.
fn outdated(before: u32, now: u32) -> Option<u32> {
    (before != now && before != NOT_MEASURED).then_some(before)
}

/// Where a vector form is among [`VECTORS`].
#[inline(always)]
fn place(collective: Collective) -> usize {
    let place = VECTORS.iter().position(|&vector| vector == collective);
    place.expect("a vector form of which no rank knows all lengths")
}

fn first_measured(mut percents: impl Iterator<Item = u32>) -> u32 {
    let measured = percents.find(|&percent| percent != NOT_MEASURED);
    measured.unwrap_or(NOT_MEASURED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_coll::select::ATTACH_SLOWEST;

    const CLASS: Class = (Collective::Alltoall, OF_VECTORS);
    const BLOCK: usize = 1 << OF_VECTORS;

    fn next(ways: &mut Ways, class: Class, passed: usize) -> Turn {
        ways.next(class, (BLOCK, passed), || true)
    }

    #[test]
    fn what_does_not_depend_on_times_is_not_timed() {
        let mut ways = Ways::default();
        for call in 0..1000 {
            let turn = ways.next(CLASS, (BLOCK, AGAIN.bytes), || call > 0);
            assert!(matches!(turn, Turn::By(NOT_MEASURED)));
        }
    }

    #[test]
    fn calls_are_timed_when_much_was_passed_on_and_again_much_later() {
        let mut ways = Ways::default();
        let mut passed = BLOCK;
        while let Turn::By(percent) = next(&mut ways, CLASS, BLOCK) {
            assert_eq!(percent, NOT_MEASURED);
            passed += BLOCK;
        }
        assert_eq!(passed, FIRST.bytes);
        assert_eq!(ways.start(CLASS, Trial::new(BLOCK, 0)), NOT_MEASURED);
        let mut turns = Vec::new();
        let trial = loop {
            match next(&mut ways, CLASS, BLOCK) {
                Turn::By(percent) => turns.push(percent),
                Turn::Compare(trial) => break trial,
                Turn::Start => panic!("it has started"),
            }
            ways.ended();
        };
        assert!(turns.contains(&0) && turns.contains(&ATTACH_SLOWEST));
        assert!(trial.times().iter().any(|&time| time > 0));
        assert_eq!(ways.decide(CLASS, 80), []);
        for _ in 1..AGAIN.calls {
            assert!(matches!(next(&mut ways, CLASS, AGAIN.bytes), Turn::By(80)));
        }
        assert!(matches!(next(&mut ways, CLASS, 1), Turn::Start));
        let vectors = (Collective::Alltoallv, 80);
        assert_eq!(ways.decide(CLASS, 120), [(CLASS.0, 80), vectors]);
    }

    #[test]
    fn vector_forms_go_by_long_blocks_of_their_regular_form() {
        let mut ways = Ways::default();
        assert_eq!(ways.of_vectors(Collective::Alltoallv), NOT_MEASURED);
        next(&mut ways, (Collective::Alltoall, OF_VECTORS - 1), BLOCK);
        ways.decide((Collective::Alltoall, OF_VECTORS - 1), 40);
        assert_eq!(ways.of_vectors(Collective::Alltoallv), 40);
        for (collective, class, percent) in [
            (Collective::Alltoall, OF_VECTORS - 1, 50),
            (Collective::Alltoall, OF_VECTORS + 2, 60),
            (Collective::Alltoall, OF_VECTORS + 3, 70),
            (Collective::Bcast, OF_VECTORS, 80),
        ] {
            next(&mut ways, (collective, class), BLOCK);
            ways.decide((collective, class), percent);
        }
        assert_eq!(ways.of_vectors(Collective::Alltoallv), 60);
        let unmeasured = (Collective::Alltoall, OF_VECTORS + 1);
        assert!(matches!(next(&mut ways, unmeasured, BLOCK), Turn::By(50)));
        let unmeasured = (Collective::Alltoall, OF_VECTORS - 2);
        assert!(matches!(
            next(&mut ways, unmeasured, BLOCK),
            Turn::By(NOT_MEASURED)
        ));
        assert_eq!(ways.of_vectors(Collective::Gatherv), NOT_MEASURED);
    }
}
