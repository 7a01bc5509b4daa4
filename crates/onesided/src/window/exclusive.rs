//! The accumulate lock of a target. In a window on one node that is a word for one holder, since no
//! network card looks at it; else the lock of an algorithm.

use super::held::Held;
use super::word::Which;
use super::{Threads, Waiting, Window, WindowError, layout};
use crate::lock::{Entrance, Mode};
use ferrorail_base::Rank;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_fabric::Endpoint;

/// The accumulate lock of a rank of this node, unless it was not needed.
#[must_use]
pub(super) struct Exclusive<'w>(Option<&'w AtomicU64>);

impl<F: Endpoint> Window<F> {
    /// Whether nobody else can operate on the memory of a target whose lock is `held` so: no other process, and no other
    /// thread of this one, whose lock it is as well.
    #[inline]
    pub(super) fn is_alone(&self, held: Held) -> bool {
        held.is_exclusive() && self.threads != Threads::AtOnce
    }

    /// Runs `act` while no other accumulating operation touches `target`'s memory. Complete on return, also
    /// the puts that `act` leaves under way.
    pub(super) fn exclusively<R>(
        &self,
        target: Rank,
        held: Held,
        act: impl FnOnce() -> Result<R, WindowError>,
    ) -> Result<R, WindowError> {
        if self.is_alone(held) {
            let outcome = act()?;
            self.settled(target)?;
            return Ok(outcome);
        }
        if self.rails.is_none() {
            let exclusive = self.take(target, held)?;
            let outcome = act();
            self.give_back(exclusive);
            return outcome;
        }
        let doing = "waiting to accumulate";
        let mode = Mode::Exclusive;
        let mut passive = self.claim(&self.passive[target.index()], target)?;
        let site = self.site(target, Which::Accumulate);
        let algorithm = passive.accumulate.algorithm();
        let mapped = self.mapped_word(target, layout::ACCUMULATE);
        let is_lost = passive.accumulate.is_lost();
        if !is_lost && mapped.is_some_and(|word| algorithm.try_enter(word, self.rank.0, mode)) {
            passive.accumulate.adopt(mode);
        } else {
            let acquired = passive.accumulate.acquire(&site, Entrance::Fair(mode));
            self.drive(target, doing, acquired)
                .inspect_err(|_| passive.accumulate.lose())?;
        }
        let outcome = act();
        site.follow(self.to_follow(target, &passive.accumulate)?);
        self.drive(target, doing, passive.accumulate.release(&site))
            .inspect_err(|_| passive.accumulate.lose())?;
        self.settled(target)?;
        outcome
    }

    /// Takes the accumulate lock of a rank of this node, in a window that has no others, unless `held`
    /// makes that needless. What it returns is given back.
    #[inline]
    pub(super) fn take(&self, target: Rank, held: Held) -> Result<Exclusive<'_>, WindowError> {
        if self.is_alone(held) {
            return Ok(Exclusive(None));
        }
        let control = self.targets[target.index()].control;
        let control = control.expect("without rails all ranks are of this node");
        let word = self.segment.word(control + layout::ACCUMULATE);
        if !self.try_take(word) {
            self.take_patiently(target, word)?;
        }
        Ok(Exclusive(Some(word)))
    }

    #[inline]
    fn try_take(&self, word: &AtomicU64) -> bool {
        let mine = u64::from(self.rank.0) + 1;
        let taken = word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    #[cold]
    fn take_patiently(&self, target: Rank, word: &AtomicU64) -> Result<(), WindowError> {
        self.wait_until("waiting to accumulate", Waiting::Word(target), || {
            Ok(word.load(Ordering::Relaxed) == 0 && self.try_take(word))
        })
    }

    /// Lets others accumulate.
    #[inline]
    pub(super) fn give_back(&self, exclusive: Exclusive<'_>) {
        if let Exclusive(Some(word)) = exclusive {
            word.store(0, Ordering::Release);
            self.doorbell().ring();
        }
    }
}
