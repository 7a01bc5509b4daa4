//! Operations that a target which waits in some call carries out at once: those of passive epochs, and such as return something
//! between a start and its completion.
//!
//! Nothing says that the target makes any call meanwhile. So an origin offers the operation, waits a little for the
//! target to claim it, and takes it back otherwise, to do it itself. Once it is claimed the target is at work on it.
//! Who waits looks for offers whenever it drives the host's progress.

use super::super::accumulate::Job;
use super::super::active::mode;
use super::super::held::Held;
use super::super::target::Memory;
use super::super::{Waiting, Window, WindowError, count, layout};
use super::list::State;
use ferrorail_base::Rank;
use ferrorail_base::config::Scattered;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_fabric::Endpoint;
use std::time::{Duration, Instant};

/// Pieces from which on `FERRORAIL_SCATTERED=auto` offers an operation: to move so many takes 40 to 170 us.
const PIECES_MIN: usize = 256;

/// How long a target has to claim what is offered where `FERRORAIL_SCATTERED=target`: longer than it sleeps at a time.
const CLAIM_TIMEOUT_MAX: Duration = Duration::from_millis(20);

/// What the word of an offer holds.
mod state {
    /// There is none, or it was taken back.
    pub const NONE: u64 = 0;
    pub const OFFERED: u64 = 1;
    /// The target is at work on it.
    pub const CLAIMED: u64 = 2;
    pub const DONE: u64 = 3;
    pub const FAILED: u64 = 4;
}

impl<F: Endpoint> Window<F> {
    /// Whether `job`, which cannot be left to the end of an epoch, is better done by its target, if that claims it.
    pub(in crate::window) fn is_for_target(&self, job: &Job<'_>, held: Held) -> bool {
        let is_worth = || match self.settings.scattered {
            Scattered::Origin => false,
            Scattered::Target => true,
            Scattered::Auto => job.there.piece_count() >= PIECES_MIN,
        };
        let is_started = || self.mode.load(Ordering::Relaxed) != mode::FENCE_USED;
        let is_due = held != Held::NOTHING || job.result.is_some() && is_started();
        self.is_by_copies(job.target) && is_due && is_worth() && self.is_slow(job)
    }

    /// Has the target carry out `job`, if it claims that. Whether it did: the operation is complete then.
    ///
    /// # Safety
    /// As [`Window::accumulate`], for as long as this takes; no other accumulating operation touches the elements meanwhile.
    pub(in crate::window) unsafe fn offer(&self, job: &Job<'_>) -> Result<bool, WindowError> {
        let target = job.target;
        let Some(control) = self.targets[target.index()].control else {
            return Ok(false);
        };
        // The target may wait for the same of this rank.
        if self.is_offered() {
            self.serve_offers();
        }
        let mut list = self.claim(&self.by_target.lists[target.index()], target)?;
        // One that is left from an active epoch is still to be read.
        if !self.is_open(&mut list, target) || !list.is_empty() || !list.record.is_due() {
            return Ok(false);
        }
        // SAFETY: the caller's contract; the target reads lent operands while this call waits for it.
        if !unsafe { list.append(job, true) } {
            return Ok(false);
        }
        let Ok(words) = list.words() else {
            list.reset();
            return Ok(false);
        };
        // Should the wait fail, the target may read it for as long as this process lives.
        list.state = State::HandedOver;
        let offered = self.point_at(words, control, layout::LEFT_OFFER);
        offered.store(state::OFFERED, Ordering::Release);
        let offers = self.segment.word(control + layout::offers(self.size()));
        offers.fetch_add(1, Ordering::Release);
        let timeout = match self.settings.scattered {
            Scattered::Target => CLAIM_TIMEOUT_MAX,
            _ => list.record.claim_timeout(),
        };
        let answer = self
            .await_claim(target, offered, timeout)
            .inspect_err(|_| {
                // No list of this number will ever have been carried out: this one stays as it is.
                list.number += 1;
            })?;
        list.record.note(answer != state::NONE);
        if answer == state::DONE {
            count(&self.counters.by_target);
            // SAFETY: the target has written the results; the program waits for them.
            unsafe { list.land() };
        }
        list.reset();
        match answer {
            state::FAILED => Err(WindowError::ByTarget { rank: target.0 }),
            _ => Ok(answer == state::DONE),
        }
    }

    /// Waits until the target has carried out what is `offered`, or takes it back: what the word holds then.
    fn await_claim(
        &self,
        target: Rank,
        offered: &AtomicU64,
        timeout: Duration,
    ) -> Result<u64, WindowError> {
        let until = Instant::now() + timeout;
        let take_back = || {
            let (order, failure) = (Ordering::Acquire, Ordering::Relaxed);
            let taken = offered.compare_exchange(state::OFFERED, state::NONE, order, failure);
            taken.is_ok()
        };
        let doing = "waiting for a target to carry out an operation";
        let answer = self.wait_for(doing, Waiting::Rail(target), || {
            Ok(match offered.load(Ordering::Acquire) {
                state::OFFERED if Instant::now() >= until && take_back() => Some(state::NONE),
                state::OFFERED | state::CLAIMED => None,
                answer => Some(answer),
            })
        });
        answer.inspect_err(|_| {
            take_back();
        })
    }

    /// Whether others may offer operations to this rank.
    #[must_use]
    pub fn may_be_offered(&self) -> bool {
        let by_copies = |memory: &Memory| matches!(memory, Memory::Attach { .. });
        self.targets.iter().any(|target| by_copies(&target.memory))
    }

    /// Whether anybody has offered something since [`Window::serve_offers`] looked last.
    #[inline]
    #[must_use]
    pub fn is_offered(&self) -> bool {
        let offers = self.own_word(layout::offers(self.size()));
        offers.load(Ordering::Relaxed) != self.by_target.offers_seen.load(Ordering::Relaxed)
    }

    /// Carries out what others offer to this rank. Waits for nobody. Whether it could look.
    pub fn serve_offers(&self) -> bool {
        // Another thread may be at it.
        let Some(mut served) = self.by_target.served.take() else {
            return false;
        };
        if !self.knows_own() {
            return false;
        }
        let offers = self.own_word(layout::offers(self.size()));
        let seen = offers.load(Ordering::Acquire);
        self.by_target.offers_seen.store(seen, Ordering::Relaxed);
        for origin in self.ranks() {
            let offered = self.own_word(layout::left(self.size(), origin.0) + layout::LEFT_OFFER);
            let (order, failure) = (Ordering::Acquire, Ordering::Relaxed);
            let claimed = offered.compare_exchange(state::OFFERED, state::CLAIMED, order, failure);
            if claimed.is_err() {
                continue;
            }
            let answer = match self.serve_orders(&mut served, origin) {
                Ok(()) => state::DONE,
                Err(error) => {
                    tracing::debug!("what rank {origin} offered failed: {error}");
                    state::FAILED
                }
            };
            offered.store(answer, Ordering::Release);
        }
        true
    }
}
