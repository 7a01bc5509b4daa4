//! A team: the ranks of one communicator, with the memory and rails they share.
//!
//! [`map::Map`] is what never changes after creation; [`State`] is what operations change, one
//! operation at a time.

mod after_error;
pub(crate) mod connect;
pub(crate) mod create;
mod free;
pub(crate) mod map;
mod measure;
pub(crate) mod memory;
mod park;
mod rails;
pub(crate) mod resume;

use crate::agree::gather;
use crate::plan::Plans;
use crate::quiescence::Quiescence;
use crate::run::checked::UnacknowledgedList;
use crate::run::{PeerProbe, StagedTransfers};
use crate::sequence::Sequence;
use crate::{Context, EngineError};
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_base::{PeerId, Rank, Topology};
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::stripe::{RailTurn, RailWeights, RateSampler};
use ferrorail_fabric::{RemoteRegion, Ticket};
use map::Map;
pub use park::IDENTITY_BITS;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError, TryLockResult};

/// The ranks of one communicator. Created, used and freed collectively.
pub struct Team {
    pub(crate) map: Map,
    /// Operations hold it over their waits, but nobody waits for it: see [`Team::enter`].
    state: StateLock,
    /// Calls of collectives on the communicator.
    calls: AtomicU64,
}

/// Not counted as a lock: see [`Team::enter`].
#[allow(clippy::disallowed_types)]
pub(crate) type StateLock = std::sync::Mutex<State>;

/// What operations change.
pub(crate) struct State {
    /// Out-of-band exchange, for connecting and leaving; `None` while the team is parked.
    oob: Option<Box<dyn Oob>>,
    /// Numbers the operations; the same on all ranks.
    pub sequence: Sequence,
    /// What is being found finished everywhere.
    pub quiescence: Quiescence,
    /// Chosen algorithms with their schedules.
    pub plans: Plans,
    /// Connections, by rank; `None` for ranks of this node and not yet connected ones.
    pub links: Vec<Option<Link>>,
    /// Whose turn it is among the rails, for short messages to whomever.
    pub rail_turn: RailTurn,
    /// Receive buffers announced in the running operation, by rank.
    pub rtr: Vec<Option<RemoteRegion>>,
    /// Tracked puts of the running operation.
    pub tickets: Vec<Ticket>,
    /// Checked messages without an acknowledgement.
    pub unacknowledged: UnacknowledgedList,
    /// Messages that go in pieces, as user memory could not be registered.
    pub staged: StagedTransfers,
    /// Times the chunks of divided messages, where shares follow completions.
    pub sampler: RateSampler,
    /// The status cell of a rank of another node that is being read.
    pub probe: Option<PeerProbe>,
    /// Set by the first error; every later call repeats it, unless the host runs it.
    pub broken: Option<String>,
    /// What becomes of later calls.
    after_error: Option<after_error::AfterError>,
    /// Connections that all ranks know of.
    pub connected: connect::Connected,
    /// Set when some rank could not, as all know.
    pub unconnected: bool,
    /// Set by [`Team::free`] and [`Team::retire`].
    pub freed: bool,
    /// What follows.
    leaving: free::Leaving,
}

/// A connected peer on another node.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    /// The fabric's name for its process.
    pub peer: PeerId,
    /// Its node's segment, as registered by it.
    pub segment: RemoteRegion,
    /// What it had registered of that when the two connected, if that was less.
    pub front: Option<RemoteRegion>,
    /// Planes that lead to it, as bits.
    pub planes: u8,
    /// What is known of the rails to it.
    pub rail_weights: RailWeights,
}

impl State {
    /// Out-of-band exchange.
    pub fn oob(&mut self) -> &mut dyn Oob {
        &mut **self.oob.as_mut().expect("the team is in use")
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
        let processes = &self.map.processes;
        processes
            .windows(2)
            .all(|pair| pair[0].host == pair[1].host)
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

    /// The number of the last call.
    #[inline]
    fn call_number(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether any rank says so. Collective, and usable while the team is broken: the exchange is the
    /// host's.
    ///
    /// # Errors
    /// If the exchange fails.
    pub fn any(&self, mine: bool) -> Result<bool, EngineError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(gather(state.oob(), "agreement", &mine)?.contains(&true))
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

    pub(crate) fn state(&self) -> &StateLock {
        &self.state
    }

    /// Exclusive use for one operation.
    #[inline]
    pub(crate) fn enter(&self) -> Result<MutexGuard<'_, State>, EngineError> {
        match self.state.try_lock() {
            Ok(state) if !state.unconnected && state.broken.is_none() => Ok(state),
            outcome => Err(self.unusable(outcome)),
        }
    }

    /// Why it cannot be used, as its lock was tried with this `outcome`.
    #[cold]
    fn unusable(&self, outcome: TryLockResult<MutexGuard<'_, State>>) -> EngineError {
        match outcome {
            Ok(state) if state.unconnected => EngineError::Unconnected,
            Ok(mut state) => self.after_error(&mut state),
            Err(TryLockError::WouldBlock) => EngineError::Concurrent,
            Err(TryLockError::Poisoned(_)) => {
                EngineError::Unusable("an internal error was caught before".into())
            }
        }
    }
}
