//! Operations that are left to their target, which carries them out at the end of the epoch.
//!
//! Memory of the node that a program brought to a window is reached by cross-memory attach, where the kernel pins a
//! page for each piece of a layout with gaps. The target only copies. In active epochs it takes part anyway: nothing
//! has to be complete before the call that ends the epoch (MPI 4.1, section 12.5). So an origin lists such operations,
//! with operands packed, and hands the list over when it fences or completes; the target reads list and operands by
//! a few large copies.
//!
//! * *Fences*: ranks tell each other, in the words by which they meet, whether anybody handed over a list. If so targets
//!   carry out theirs and all meet again; results have been written to the origin's memory then.
//! * *Post, start, complete, wait*: the target looks when it waits, and nobody waits for the target. So only operations
//!   that return nothing are left to it there, and operands are the list's own until the target says it is done.
//!
//! * *Passive epochs*, and what returns something between start and complete: a target that waits in a call carries it out at
//!   once ([`offer`]).
//!
//! The standard orders accumulating operations of one origin on one element. So those that follow one that was left are left as
//! well; before one that cannot be, the origin carries out its list itself.

mod list;
mod offer;
mod order;
mod serve;

use super::accumulate::Job;
use super::active::mode;
use super::attach::CLOSE;
use super::held::Held;
use super::layout;
use super::shape::{Shape, Side};
use super::target::Memory;
use super::update::Update;
use super::{Window, WindowError, count};
use ferrorail_base::Rank;
use ferrorail_base::config::Scattered;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicBool, AtomicU64, Claim, Ordering};
use ferrorail_fabric::Endpoint;
use list::{List, State};
use serve::Served;

/// Bytes that cross-memory attach would copy in the time that it takes for an operation, from which on `FERRORAIL_SCATTERED=auto`
/// leaves the operation to the target.
const WORTH_BYTES: usize = 8 << 10;

/// What of a window's operations targets carry out.
pub(super) struct ByTarget {
    /// By target: what is left to it.
    lists: Vec<Claim<List>>,
    /// Whether there may be something that is not handed over.
    pending: AtomicBool,
    served: Claim<Served>,
    /// How many operations had been offered to this rank when it looked last.
    offers_seen: AtomicU64,
}

impl ByTarget {
    pub fn new(ranks: usize) -> Self {
        Self {
            lists: (0..ranks).map(|_| Claim::default()).collect(),
            pending: AtomicBool::new(false),
            served: Claim::new(Served::new(ranks)),
            offers_seen: AtomicU64::new(0),
        }
    }
}

impl<F: Endpoint> Window<F> {
    /// Leaves a put or a get to `target`, from byte `base` of its memory on, if that is possible and faster. Whether it did.
    ///
    /// # Safety
    /// As [`Window::put`] or [`Window::get`], until the end of the epoch.
    pub(super) unsafe fn leave_transfer(
        &self,
        (target, held): (Rank, Held),
        (origin, result): (Option<Side<'_>>, Option<Side<'_>>),
        base: isize,
        there: &Shape<'_>,
    ) -> Result<bool, WindowError> {
        let update = match origin {
            Some(_) => Update::Replace,
            None => Update::Keep,
        };
        let job = Job {
            target,
            base,
            there,
            origin,
            result,
            element_bytes: 1,
            update,
        };
        let is_offered = self.is_for_target(&job, held);
        let leaves = is_offered || self.may_leave(&job, held) && self.is_slow(&job);
        if !leaves || self.attached_range(target, base, there).is_some() {
            return Ok(false);
        }
        if is_offered {
            // SAFETY: the caller's contract; the standard orders no puts and gets.
            return unsafe { self.offer(&job) };
        }
        let mut list = self.claim(&self.by_target.lists[target.index()], target)?;
        // SAFETY: the caller's contract.
        Ok(unsafe { self.append(&mut list, &job) })
    }

    /// Leaves an accumulating operation to its target, if that is possible, and either faster or needed for the order. If not, those
    /// that were left before are over when it returns. Whether it left the operation.
    ///
    /// # Safety
    /// As [`Window::accumulate`], until the end of the epoch.
    pub(super) unsafe fn leave_job(&self, job: &Job<'_>, held: Held) -> Result<bool, WindowError> {
        let may_leave = self.may_leave(job, held);
        let is_faster = may_leave && self.is_slow(job);
        if !is_faster && !self.leaves_something() {
            return Ok(false);
        }
        let mut list = self.claim(&self.by_target.lists[job.target.index()], job.target)?;
        let follows = list.keeps_order();
        // SAFETY: the caller's contract.
        if may_leave && (is_faster || follows) && unsafe { self.append(&mut list, job) } {
            list.accumulates = true;
            return Ok(true);
        }
        if follows {
            self.carry_out(job.target, &mut list)?;
        }
        Ok(false)
    }

    /// Before an accumulating operation on `target` that no target carries out: those that were left to it are over on return.
    pub(super) fn keep_order(&self, target: Rank) -> Result<(), WindowError> {
        if !self.leaves_something() {
            return Ok(());
        }
        let mut list = self.claim(&self.by_target.lists[target.index()], target)?;
        match list.keeps_order() {
            true => self.carry_out(target, &mut list),
            false => Ok(()),
        }
    }

    /// Whether `target` is of this node, and its memory reached by cross-memory attach.
    fn is_by_copies(&self, target: Rank) -> bool {
        let of = &self.targets[target.index()];
        matches!(of.memory, Memory::Attach { .. }) && of.control.is_some()
    }

    /// Whether the epoch is one in which `job` can be left to its target, if it returns something as well.
    fn may_leave(&self, job: &Job<'_>, held: Held) -> bool {
        self.is_by_copies(job.target)
            && held == Held::NOTHING
            && self.settings.scattered != Scattered::Origin
            && (job.result.is_none() || self.mode.load(Ordering::Relaxed) == mode::FENCE_USED)
    }

    /// Whether cross-memory attach takes longer for the elements of `job` than to leave them to the target.
    fn is_slow(&self, job: &Job<'_>) -> bool {
        let there = job.there;
        let Shape::Runs { runs, .. } = there else {
            return false;
        };
        let (reads, writes) = (job.needs_elements(), job.origin.is_some());
        let pieces = there.piece_count();
        let apart = pieces.saturating_mul(CLOSE as usize);
        let span = there.bounds().map_or(0, |(first, end)| end - first);
        let together = apart.min(usize::try_from(span).unwrap_or(usize::MAX));
        let bytes = [(reads, together), (writes, apart)].map(|(moves, bytes)| match moves {
            true => bytes,
            false => 0,
        });
        // The description is written out, read and taken apart.
        let told = 4 * size_of::<u64>() * runs.word_count();
        self.settings.scattered == Scattered::Target && pieces > 0
            || bytes[0].saturating_add(bytes[1]) >= WORTH_BYTES.saturating_add(told)
    }

    /// Whether `list` took the operation.
    ///
    /// # Safety
    /// As [`Window::leave_job`].
    unsafe fn append(&self, list: &mut List, job: &Job<'_>) -> bool {
        if !self.is_open(list, job.target) {
            return false;
        }
        // Between fences operands stay as they are until targets have read them.
        let lends = self.mode.load(Ordering::Relaxed) == mode::FENCE_USED;
        // SAFETY: the caller's contract.
        let appended = unsafe { list.append(job, lends) };
        if appended {
            self.by_target.pending.store(true, Ordering::Relaxed);
            count(&self.counters.by_target);
        }
        appended
    }

    /// Whether `list` is this rank's to append to: what was handed over to `target` before is carried out.
    fn is_open(&self, list: &mut List, target: Rank) -> bool {
        if list.state == State::HandedOver {
            let line = layout::left(self.size(), target.0);
            let word = self.own_word(line + layout::LEFT_SERVED);
            if word.load(Ordering::Acquire) >> 1 != list.number {
                return false;
            }
            list.reset();
        }
        true
    }

    /// Does what was left to `target` from here.
    fn carry_out(&self, target: Rank, list: &mut List) -> Result<(), WindowError> {
        let outcome = list.each_job(target, |job| {
            // SAFETY: whoever left the operation keeps its buffers as they are until the end of the epoch.
            self.exclusively(target, Held::NOTHING, || unsafe { self.run(job) })
        });
        list.reset();
        outcome
    }

    /// Hands over what was left to each rank. Whether there was anything.
    pub(super) fn hand_over_all(&self) -> Result<bool, WindowError> {
        if !self.by_target.pending.swap(false, Ordering::Relaxed) {
            return Ok(false);
        }
        let mut any = false;
        for target in self.ranks() {
            any |= self.hand_over(target)?;
        }
        Ok(any)
    }

    /// Hands over what was left to `target`. Whether there was anything.
    pub(super) fn hand_over(&self, target: Rank) -> Result<bool, WindowError> {
        let mut list = self.claim(&self.by_target.lists[target.index()], target)?;
        let Some(control) = self.targets[target.index()].control else {
            return Ok(false);
        };
        if list.state == State::HandedOver || list.is_empty() {
            return Ok(false);
        }
        let Ok(words) = list.words() else {
            self.carry_out(target, &mut list)?;
            return Ok(false);
        };
        list.number += 1;
        list.state = State::HandedOver;
        let handed_over = self.point_at(words, control, 0);
        handed_over.store(list.number, Ordering::Release);
        Ok(true)
    }

    /// Says in the target's `control` block where the `words` of a list are; that of this rank's words there, `at` which
    /// it tells the target to look.
    fn point_at(&self, words: MemoryRange, control: usize, at: usize) -> &AtomicU64 {
        let line = control + layout::left(self.size(), self.rank.0);
        let word = |offset| self.segment.word(line + offset);
        word(layout::LEFT_ADDRESS).store(words.address as u64, Ordering::Relaxed);
        word(layout::LEFT_BYTES).store(words.bytes as u64, Ordering::Relaxed);
        word(at)
    }

    /// Whether there may be something that is not handed over.
    pub(super) fn leaves_something(&self) -> bool {
        self.by_target.pending.load(Ordering::Relaxed)
    }

    /// All that was left is handed over, to all ranks of the access epoch.
    pub(super) fn left_nothing(&self) {
        self.by_target.pending.store(false, Ordering::Relaxed);
    }

    /// Once targets have carried out the lists that this rank handed over in a fence: results go where they belong.
    pub(super) fn land_all(&self) -> Result<(), WindowError> {
        let mut outcome = Ok(());
        for target in self.ranks() {
            let mut list = self.claim(&self.by_target.lists[target.index()], target)?;
            if list.state != State::HandedOver {
                continue;
            }
            let line = layout::left(self.size(), target.0);
            let served = self.own_word(line + layout::LEFT_SERVED);
            match served.load(Ordering::Acquire) == list.number << 1 {
                // SAFETY: the target has written the results; the program waits for them.
                true => unsafe { list.land() },
                false => outcome = Err(WindowError::ByTarget { rank: target.0 }),
            }
            list.reset();
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
