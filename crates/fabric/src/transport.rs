//! [`Transport`]: what moves bytes on one lane and says what has completed.

use crate::{
    Attributes, EventSource, Events, FabricError, LaneId, LaneState, LocalRegion, Multicast, Op,
    Reach, RemoteRegion, SharedBacking, Statistics, Ticket, Tracking, Transition,
};
use ferrorail_base::{PeerId, ProcessId, RailId};
use std::fmt::Debug;

/// One process's attachment to its rails. See the [module documentation](crate) for ordering.
///
/// Lanes fail one by one ([`FabricError::LaneDown`]) and can be made anew. Numbers of operations
/// ([`Ticket::sequence`]) go on through all generations of a lane. A lane that one side could not make or
/// connect, though both have its plane, is on that side as one that has ended.
///
/// Groups lie beside lanes on the same rails ([`Multicast`]); where there are none, each rail says so.
///
/// All methods may be called from several threads at once. There are twelve at most, which `xtask tidy`
/// checks: what can be done once for all transports belongs above.
pub trait Transport: Multicast + Debug {
    /// What does not change while it is open.
    fn attributes(&self) -> &Attributes;

    /// Traffic and connections so far.
    fn statistics(&self) -> Statistics;

    /// Makes `bytes` bytes at `address` reachable by peers on every rail that works. `backing` says
    /// which shared object the memory maps, if any, so that ranks of one host can map it too. A rail
    /// whose device is gone has no key to it; what is posted there fails with
    /// [`FabricError::LaneDown`].
    ///
    /// # Errors
    /// [`FabricError::RegisterMemory`], e.g. beyond the memlock limit.
    ///
    /// # Safety
    /// The memory stays mapped and readable/writable until [`Transport::release`].
    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError>;

    /// The region of `peer` with that [`LocalRegion::description`]. May map the shared backing.
    ///
    /// # Errors
    /// [`FabricError::BadPeerData`] if it is no description of such a region.
    fn import(&self, peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError>;

    /// Gives memory back.
    fn release(&self, memory: Memory);

    /// The entry of `process` in the peer table, made if need be, and what it needs to connect to this
    /// process, for each plane. Idempotent.
    ///
    /// # Errors
    /// [`FabricError::SetUp`] if no lane can be made.
    fn open_peer(&self, process: ProcessId) -> Result<(PeerId, Vec<u8>), FabricError>;

    /// Connects to `peer` with the address that it made for this process, on every plane that both sides
    /// have and that leads from one to the other; what that came to. Idempotent. After the peer has done
    /// the same, operations to it may be posted. Without a peer nothing is connected: what connecting to
    /// the process with these [`Attributes::address`] would come to, as far as this side can tell.
    ///
    /// # Errors
    /// [`FabricError::BadPeerData`] if it is no address of such a transport.
    fn connect(&self, peer: Option<PeerId>, address: &[u8]) -> Result<Reach, FabricError>;

    /// Posts `op` to `peer` on `rail`. `behind` of an addition is ignored: a lane keeps that order by itself.
    ///
    /// # Errors
    /// [`FabricError::WouldBlock`] if the rail's queue is full: call [`Transport::progress`], try again.
    /// Nothing was posted if it fails.
    ///
    /// # Safety
    /// Remote memory of `op` is inside what the peer registered and still holds. Local memory stays valid
    /// until the ticket completes: unwritten if it is the source of a put, untouched otherwise. Words of
    /// atomics and of notifications are 8-byte aligned.
    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError>;

    /// The state of `lane`. Does not itself make progress.
    fn lane(&self, lane: LaneId) -> LaneState;

    /// Changes the state of `lane`. After [`Transition::Reset`], 48 bits that the peer passes to
    /// [`Transition::Connect`]; else 0.
    ///
    /// # Errors
    /// [`FabricError::SetUp`] if the device refuses.
    fn change_lane(&self, lane: LaneId, to: Transition) -> Result<u64, FabricError>;

    /// One bounded pass over the completion queues; the number of completions seen.
    ///
    /// # Errors
    /// [`FabricError::LaneDown`] or [`FabricError::Completion`] if a lane broke since the last call.
    fn progress(&self) -> Result<usize, FabricError>;

    /// Takes note of the events of `source` so far, and readies the next. Those of [`EventSource::Wake`]
    /// are to be readied before peers are told that they may wake, and each time before looking at what
    /// they may have stored, when what follows is a sleep.
    ///
    /// # Errors
    /// [`FabricError::SetUp`] if the device refuses.
    fn events(&self, source: EventSource) -> Result<Events<'_>, FabricError>;
}

/// Memory that is not used any more.
#[derive(Debug)]
pub enum Memory {
    /// What was [registered](Transport::register). Peers must not use it any more.
    Local(LocalRegion),
    /// What was [imported](Transport::import) from that peer.
    Remote(PeerId, RemoteRegion),
}
