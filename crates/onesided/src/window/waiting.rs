//! How a rank waits inside a window.

use super::rails::WindowRails;
use super::{Window, WindowError};
use ferrorail_base::Rank;
use ferrorail_base::sync::{Claim, Claimed};
use ferrorail_fabric::{Endpoint, FabricError};
use ferrorail_shm::{WaitPolicy, Waiter};
use std::time::Duration;

/// What a waiting window needs of the process it is in.
pub trait ProcessContext: Send + Sync {
    /// How patient each step of waiting is.
    fn wait_policy(&self) -> &WaitPolicy;

    /// Drives the host MPI's progress a little, and does what other processes ask of this one. Whether any asked.
    fn poke(&self) -> bool;

    /// Told of each buffer of the caller's that was registered for an operation.
    fn registered(&self);

    /// Told of each that the rails refused, and that its bytes go in pieces therefore.
    fn refused(&self, error: &FabricError, bytes: u64);

    /// Asked now and then during a long wait.
    ///
    /// # Errors
    /// If there is no hope: a peer is gone, or its time is up.
    fn check(
        &self,
        doing: &'static str,
        waited: Duration,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

impl<F: Endpoint> Window<F> {
    /// Runs `post` until the rail takes it.
    pub(super) fn on_rails<R>(
        &self,
        to: Rank,
        mut post: impl FnMut(&WindowRails<F>) -> Result<Option<R>, WindowError>,
    ) -> Result<R, WindowError> {
        let rails = self.rails();
        let doing = "waiting for room on a rail";
        self.wait_for(doing, Waiting::Rail(to), || post(rails))
    }

    /// Waits until `done` says so.
    pub(super) fn wait_until(
        &self,
        doing: &'static str,
        waiting: Waiting,
        mut done: impl FnMut() -> Result<bool, WindowError>,
    ) -> Result<(), WindowError> {
        self.wait_for(doing, waiting, || Ok(done()?.then_some(())))
    }

    /// The claim, once no other thread of this process has it.
    #[inline]
    pub(super) fn claim<'a, T>(
        &self,
        claim: &'a Claim<T>,
        target: Rank,
    ) -> Result<Claimed<'a, T>, WindowError> {
        // Giving up a claim rings for nobody.
        let waiting = Waiting::Rail(target);
        self.wait_for("waiting for another thread", waiting, || Ok(claim.take()))
    }

    /// Polls until there is something. The blocking wait is set up only once that takes time.
    #[inline]
    pub(super) fn wait_for<R>(
        &self,
        doing: &'static str,
        waiting: Waiting,
        mut poll: impl FnMut() -> Result<Option<R>, WindowError>,
    ) -> Result<R, WindowError> {
        if let Some(found) = poll()? {
            return Ok(found);
        }
        let mut blocking_wait = BlockingWait {
            window: self,
            doing,
            waiter: Waiter::new(self.process_context.wait_policy()),
        };
        loop {
            let outcome = blocking_wait.idle(waiting);
            // Before an error: a rank may have done its part, and died since.
            if let Some(found) = poll()? {
                return Ok(found);
            }
            outcome?;
        }
    }
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A word that this rank writes, which rings the doorbell if it is on this node.
    Word(Rank),
    /// Completion of operations on that rank.
    Rail(Rank),
}

/// One blocking wait.
struct BlockingWait<'a, F: Endpoint> {
    window: &'a Window<F>,
    doing: &'static str,
    waiter: Waiter,
}

impl<F: Endpoint> BlockingWait<'_, F> {
    /// One idle step after a poll that failed.
    fn idle(&mut self, waiting: Waiting) -> Result<(), WindowError> {
        let window = self.window;
        let (Waiting::Word(rank) | Waiting::Rail(rank)) = waiting;
        let target = &window.targets[rank.index()];
        if let Some(rails) = &window.rails {
            rails.progress()?;
        }
        let rings = matches!(waiting, Waiting::Word(_)) && target.control.is_some();
        let doorbell = rings.then(|| window.doorbell());
        let mut asked = false;
        let poke = &mut || asked |= window.process_context.poke();
        self.waiter.idle(doorbell.as_ref(), poke);
        if asked {
            self.waiter.stay_awake();
        }
        if !self.waiter.is_check_due() {
            return Ok(());
        }
        if let Some(rails) = &window.rails {
            rails.check(rank)?;
        }
        window
            .process_context
            .check(self.doing, self.waiter.waited())
            .map_err(WindowError::Peer)
    }
}
