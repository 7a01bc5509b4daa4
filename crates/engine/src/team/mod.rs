//! A team: the ranks of one communicator, with the memory and rails they share.
//!
//! [`map::Map`] is what never changes after creation; [`state::State`] is what operations change, one
//! operation at a time.

mod after_error;
pub(crate) mod connect;
pub(crate) mod connected;
pub(crate) mod create;
pub(crate) mod facts;
mod fibers;
mod flush;
mod free;
pub(crate) mod geometry;
mod layouts;
pub(crate) mod link;
pub(crate) mod map;
mod measure;
pub(crate) mod memory;
mod park;
mod rails;
pub(crate) mod resume;
pub(crate) mod state;

use crate::agree::gather;
use crate::{Context, EngineError};
use ferrorail_base::fiber;
use ferrorail_base::sync::{AtomicU64, Claim, Claimed, Ordering, yield_now};
use ferrorail_base::{Rank, Topology};
use fibers::Turns;
pub use fibers::{DriverWait, Turn};
use map::Map;
pub use park::IDENTITY_BITS;
use state::{Failed, Life, State};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::thread;

/// The ranks of one communicator. Created, used and freed collectively.
pub struct Team {
    pub(crate) map: Map,
    /// Operations have it over their waits.
    state: Claim<State>,
    /// Calls of collectives on the communicator.
    calls: AtomicU64,
    /// Whose turn it is among calls in fibers.
    turns: Turns,
}

/// Exclusive use of a team's state. A panic meanwhile leaves the team broken.
pub(crate) struct InUse<'a>(Claimed<'a, State>);

impl Drop for InUse<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if thread::panicking()
            && let Life::InUse = self.0.life
        {
            self.0.life = Life::Failed(Failed {
                reason: "an internal error was caught before".into(),
                after_error: None,
            });
        }
    }
}

impl Deref for InUse<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for InUse<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Team {
    /// This process's rank in the team.
    pub fn rank(&self) -> Rank {
        self.map.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.map.topology.size()
    }

    /// Which rank is on which (virtual) node.
    pub fn topology(&self) -> &Topology {
        &self.map.topology
    }

    /// Whether all ranks are on one host, whatever nodes they are grouped into.
    pub fn is_on_one_host(&self) -> bool {
        self.map.is_on_one_host()
    }

    /// The process the team belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.map.context
    }

    /// Counts a call of a collective, before anything else is done for it: also one that fails, or moves
    /// nothing. Ranks that disagree on one go on at the same number.
    #[inline]
    pub fn begin_call(&self) {
        // No two threads call collectives on one communicator at once.
        self.calls.store(self.call_number() + 1, Ordering::Relaxed);
    }

    /// The number of the last operation, which a call may not have reached; `None` while another thread is in one. In a
    /// fiber, what changes when its call comes to its operation.
    pub fn operation(&self) -> Option<u64> {
        if self.turns.are_taken {
            return Some(self.turns.has_entered().into());
        }
        Some(self.state.take()?.sequence.op())
    }

    /// This rank has failed in a call without an operation. Others may be in that, and would take its next one for the
    /// same: from where all find each other on the host goes on.
    #[cold]
    pub fn miss_operation(&self) {
        if self.turns.are_taken {
            self.turns.wait();
        }
        if let Some(mut state) = self.state.take().map(InUse)
            && matches!(state.life, Life::InUse)
            && self.size() > 1
        {
            self.break_off(&mut state, &EngineError::Mismatch { rank: None });
        }
    }

    /// The number of the last call.
    #[inline]
    fn call_number(&self) -> u64 {
        if self.turns.are_taken {
            // Later ones may have been made.
            return fiber::number().map_or(0, |number| number + 1);
        }
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether any rank says so. Collective, and usable while the team is broken: the exchange is the
    /// host's.
    ///
    /// # Errors
    /// If the exchange fails.
    pub fn any(&self, mine: bool) -> Result<bool, EngineError> {
        Ok(gather(self.state().oob(), "agreement", &mine)?.contains(&true))
    }

    /// Takes part in nothing more, as this rank could not begin what the others are doing for `reason`: they get
    /// an error too, and nobody waits for ever.
    ///
    /// # Errors
    /// If this was not done, as all ranks find an error there: [`EngineError::Unconnected`] and what broke
    /// the team before.
    pub fn leave(&self, reason: &str) -> Result<(), EngineError> {
        let mut state = self.enter()?;
        self.stop(&mut state, reason.to_owned(), false);
        Ok(())
    }

    /// The state, whatever has happened to the team. A call on the same communicator in another thread may
    /// delay this.
    pub(crate) fn state(&self) -> InUse<'_> {
        loop {
            match self.state.take() {
                Some(state) => return InUse(state),
                None => yield_now(),
            }
        }
    }

    /// Exclusive use for one operation.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<InUse<'_>, EngineError> {
        if self.turns.are_taken {
            self.turns.enter();
        }
        match self.state.take() {
            Some(state) if matches!(state.life, Life::InUse) => Ok(InUse(state)),
            outcome => Err(self.unusable(outcome)),
        }
    }

    /// Why it cannot be used, as the attempt had this `outcome`.
    #[cold]
    fn unusable(&self, outcome: Option<Claimed<'_, State>>) -> EngineError {
        match outcome {
            None => EngineError::Concurrent,
            Some(mut state) => match &state.life {
                Life::Unconnected => EngineError::Unconnected,
                life if life.is_over() => EngineError::Unusable("it was freed".into()),
                _ => self.after_error(&mut state),
            },
        }
    }
}
