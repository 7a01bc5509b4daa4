//! Active-target synchronisation: fence, and post/start/complete/wait (MPI 4.1, sections 12.5.1
//! and 12.5.2; thesis, chapter 3).
//!
//! Every word has one writer, and nothing is ever reset. A fence is a dissemination
//! barrier over words of control blocks. Posting tells each origin, completing each target (`pscw`). An
//! access epoch waits for a target's post at the first operation on it, or at its end.
//!
//! One thread may be in an access epoch while another is in an exposure epoch, and each may wait for
//! what the other one's peer does. Their counts are locked for a moment only, and never over a wait.

use super::layout::{self, Status};
use super::{Waiting, Window, WindowError, count};
use ferrorail_base::Rank;
use ferrorail_base::sync::{Ordering, fence};
use ferrorail_fabric::Endpoint;

/// What an operation finds of the epochs that are not locks of single targets.
pub(super) mod mode {
    /// None.
    pub const NONE: u8 = 0;
    /// Between fences, without an operation yet.
    pub const FENCE: u8 = 1;
    /// Between fences.
    pub const FENCE_USED: u8 = 2;
    /// Between start and complete.
    pub const STARTED: u8 = 3;
    /// Between `lock_all` and `unlock_all`.
    pub const LOCKED_ALL: u8 = 4;
}

/// Epochs and their counts.
pub(super) struct Active {
    fences: u64,
    /// The group of the access epoch.
    started: Vec<Rank>,
    posted: Option<Vec<Rank>>,
    /// By rank: how often this rank posted to it, and expected a post of it.
    posts: Vec<(u64, u64)>,
    /// By rank: how often this rank completed to it, and expected a completion of it.
    completions: Vec<(u64, u64)>,
}

impl Active {
    pub fn new(ranks: usize) -> Self {
        Self {
            fences: 0,
            started: Vec::new(),
            posted: None,
            posts: vec![(0, 0); ranks],
            completions: vec![(0, 0); ranks],
        }
    }
}

const OUTSIDE: WindowError = WindowError::Synchronisation("no epoch is open for the target");

impl<F: Endpoint> Window<F> {
    /// All ranks.
    pub(super) fn ranks(&self) -> impl Iterator<Item = Rank> + use<F> {
        (0..self.size()).map(Rank)
    }

    /// Ends an epoch between fences in which nothing happened; refuses all others.
    pub(super) fn leave_unused_fence(&self, what: &'static str) -> Result<(), WindowError> {
        let unused = self.mode.compare_exchange(
            mode::FENCE,
            mode::NONE,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        match unused {
            Ok(_) | Err(mode::NONE) => Ok(()),
            Err(_) => Err(WindowError::Synchronisation(what)),
        }
    }

    /// Whether an operation on a target that is not locked is in order; waits for its post.
    #[inline]
    pub(super) fn enter_active(&self, target: Rank) -> Result<(), WindowError> {
        match self.mode.load(Ordering::Relaxed) {
            mode::FENCE_USED => Ok(()),
            mode::FENCE => {
                self.mode.store(mode::FENCE_USED, Ordering::Relaxed);
                Ok(())
            }
            mode::STARTED => self.await_post(target),
            _ => Err(OUTSIDE),
        }
    }

    fn await_post(&self, target: Rank) -> Result<(), WindowError> {
        let expected = {
            let active = self.active();
            if !active.started.contains(&target) {
                return Err(OUTSIDE);
            }
            active.posts[target.index()].1
        };
        self.wait_until("waiting for a post", Waiting::Word(target), || {
            Ok(self.has_signalled(target, Status::Posted, expected))
        })
    }

    /// `MPI_Win_fence`. The epoch it opens is one for accesses unless `last` (`MPI_MODE_NOSUCCEED`).
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] in an epoch of another kind.
    pub fn fence(&self, last: bool) -> Result<(), WindowError> {
        let mode = self.mode.load(Ordering::Relaxed);
        let other = mode == mode::STARTED || mode == mode::LOCKED_ALL || self.has_posted();
        if other || self.any_locked() {
            return Err(WindowError::Synchronisation(
                "a fence in an epoch of another kind",
            ));
        }
        self.settle_all()?;
        let leaves = self.hand_over_all()?;
        if self.meet(leaves)? {
            self.finish_lists(leaves)?;
        }
        let next = if last { mode::NONE } else { mode::FENCE };
        self.mode.store(next, Ordering::Relaxed);
        count(&self.counters.epochs);
        Ok(())
    }

    fn has_posted(&self) -> bool {
        self.active().posted.is_some()
    }

    /// Once all have handed over what they leave to targets: it is carried out when this returns, at all ranks.
    fn finish_lists(&self, leaves: bool) -> Result<(), WindowError> {
        let served = self.serve_lists();
        self.meet(false)?;
        match leaves {
            true => served.and(self.land_all()),
            false => served,
        }
    }

    /// Waits until all ranks are here. What each stored and put before, all see after. Whether any of them says `any`.
    fn meet(&self, mut any: bool) -> Result<bool, WindowError> {
        fence(Ordering::SeqCst);
        let size = self.size();
        let number = {
            let mut active = self.active();
            active.fences += 1;
            active.fences
        };
        let (mut distance, mut round) = (1, 0);
        while distance < size {
            let to = Rank((self.rank.0 + distance) % size);
            let from = Rank((self.rank.0 + size - distance) % size);
            let offset = layout::fence(round, number);
            self.tell(to, offset, number << 1 | u64::from(any))?;
            let word = self.own_word(offset);
            let mut found = 0;
            self.wait_until("in a fence", Waiting::Word(from), || {
                found = word.load(Ordering::Acquire);
                Ok(found >> 1 >= number)
            })?;
            any |= found & 1 != 0;
            distance *= 2;
            round += 1;
        }
        Ok(any)
    }

    /// `MPI_Win_post`: the origins may access this rank's memory.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if an exposure epoch is open.
    pub fn post(&self, origins: &[Rank]) -> Result<(), WindowError> {
        // The fence's epoch is one of exposure as well.
        if self.mode.load(Ordering::Relaxed) == mode::FENCE_USED {
            return Err(WindowError::Synchronisation("posted between fences"));
        }
        {
            let mut active = self.active();
            if active.posted.is_some() {
                return Err(WindowError::Synchronisation("posted twice"));
            }
            active.posted = Some(origins.to_vec());
            for &origin in origins {
                active.completions[origin.index()].1 += 1;
                active.posts[origin.index()].0 += 1;
            }
        }
        fence(Ordering::SeqCst);
        for &origin in origins {
            let posts = self.active().posts[origin.index()].0;
            self.signal(origin, Status::Posted, posts)?;
        }
        count(&self.counters.epochs);
        Ok(())
    }

    /// `MPI_Win_start`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] if an access epoch is open.
    pub fn start(&self, targets: &[Rank]) -> Result<(), WindowError> {
        let mut active = self.active();
        if self.any_locked() {
            return Err(WindowError::Synchronisation(
                "started while a target is locked",
            ));
        }
        self.leave_unused_fence("started in an access epoch")?;
        for &target in targets {
            active.posts[target.index()].1 += 1;
        }
        active.started.clear();
        active.started.extend_from_slice(targets);
        self.mode.store(mode::STARTED, Ordering::Relaxed);
        count(&self.counters.epochs);
        Ok(())
    }

    /// `MPI_Win_complete`: all operations of the access epoch are complete at their targets.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without [`Window::start`].
    pub fn complete(&self) -> Result<(), WindowError> {
        if self.mode.load(Ordering::Relaxed) != mode::STARTED {
            return Err(WindowError::Synchronisation("completed without a start"));
        }
        for target in (0..).map_while(|index| self.started(index)) {
            self.await_post(target)?;
            self.settled(target)?;
            if self.leaves_something() {
                self.hand_over(target)?;
            }
            let completions = {
                let count = &mut self.active().completions[target.index()].0;
                *count += 1;
                *count
            };
            self.signal(target, Status::Completed, completions)?;
        }
        self.left_nothing();
        self.mode.store(mode::NONE, Ordering::Relaxed);
        Ok(())
    }

    /// The `index`-th target of the access epoch.
    fn started(&self, index: usize) -> Option<Rank> {
        self.active().started.get(index).copied()
    }

    /// `MPI_Win_wait`.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without [`Window::post`].
    pub fn wait(&self) -> Result<(), WindowError> {
        if !self.has_posted() {
            return Err(NOT_POSTED);
        }
        for (origin, expected) in (0..).map_while(|index| self.exposed(index)) {
            self.wait_until("waiting for completion", Waiting::Word(origin), || {
                Ok(self.has_signalled(origin, Status::Completed, expected))
            })?;
        }
        self.end_exposure()
    }

    /// Ends an exposure epoch in which all origins have completed.
    fn end_exposure(&self) -> Result<(), WindowError> {
        let origins = self.active().posted.take().unwrap_or_default();
        let outcomes = origins.into_iter().map(|origin| self.serve_list(origin));
        outcomes.fold(Ok(()), Result::and)
    }

    /// The `index`-th origin of the exposure epoch, and its completion that ends that.
    fn exposed(&self, index: usize) -> Option<(Rank, u64)> {
        let active = self.active();
        let origin = *active.posted.as_ref()?.get(index)?;
        Some((origin, active.completions[origin.index()].1))
    }

    /// `MPI_Win_test`: whether the exposure epoch is over, which ends it.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] without [`Window::post`].
    pub fn test(&self) -> Result<bool, WindowError> {
        let over = {
            let active = self.active();
            let posted = active.posted.as_ref().ok_or(NOT_POSTED)?;
            posted.iter().all(|&origin| {
                let expected = active.completions[origin.index()].1;
                self.has_signalled(origin, Status::Completed, expected)
            })
        };
        if over {
            self.end_exposure()?;
        } else {
            self.process_context.poke();
            if let Some(rails) = &self.rails {
                rails.progress()?;
            }
        }
        Ok(over)
    }

    /// Leaves the window: when it returns nobody operates on this rank's memory any more, and
    /// nothing of this rank's is under way. Collective.
    ///
    /// # Errors
    /// [`WindowError::Synchronisation`] in an epoch, before anybody is waited for.
    pub fn close(&self) -> Result<(), WindowError> {
        let mode = self.mode.load(Ordering::Relaxed);
        let idle = matches!(mode, mode::NONE | mode::FENCE) && !self.has_posted();
        if !idle || self.any_locked() {
            return Err(WindowError::Synchronisation(
                "the window is freed in an epoch",
            ));
        }
        self.settle_all()?;
        self.meet(false)?;
        self.settle_all()
    }
}

const NOT_POSTED: WindowError = WindowError::Synchronisation("waited without a post");
