//! The seam between algorithms and networks: what the engine may ask of a fabric.
//!
//! A [`Fabric`] is one process's attachment to one or several rails. Everything above it is written
//! against this trait and runs unchanged on verbs, on loopback rails and in a simulator.
//!
//! # Order and visibility
//!
//! * Operations posted to one (peer, rail) take effect at the target in the order posted; nothing
//!   is ordered between rails or between peers. A notification therefore follows its data on the
//!   same rail ([`Kind::Notify`]).
//! * A notification is a 64-bit store to an 8-byte-aligned word; a target that reads it with acquire
//!   ordering sees the data put before it on that rail.
//! * Under [`AtomicScope::Rail`], CPU atomics and the fabric's atomics on one word do not exclude
//!   each other.
//!
//! # Local completion
//!
//! A posted operation reads its source until its [`Ticket`] is complete; what brings something back
//! has its result in place only then. Operations posted with
//! [`Tracking::Silent`] complete when a later tracked one on the same (peer, rail) does.

mod capabilities;
mod connections;
mod error;
mod lanes;
pub mod multicast;
mod op;
mod rail;
mod region;
pub mod stripe;

pub use capabilities::{AtomicScope, Capabilities};
pub use connections::{Connections, Reach};
pub use error::FabricError;
pub use lanes::{Breakage, LaneId, Lanes};
pub use multicast::{Group, GroupId, Multicast, MulticastError};
pub use op::{Kind, LocalSlice, Notification, Op, Operation, RemoteSlice, Ticket, Tracking};
pub use rail::{RailCounters, RailInfo};
pub use region::{LocalRegion, RAILS_MAX, RemoteRegion, SharedBacking};

use ferrorail_base::{PeerId, ProcessId, RailId};
use std::os::fd::BorrowedFd;

/// One process's attachment to its rails. See the module documentation for ordering.
///
/// All methods may be called from several threads at once.
pub trait Fabric: Send + Sync + 'static {
    /// `loopback` or `verbs`: the same word as in `FERRORAIL_FABRIC`.
    fn name(&self) -> &'static str;

    /// The opened rails; `RailId(i)` is entry `i`.
    fn rails(&self) -> &[RailInfo];

    /// Rails that were asked for and are not among [`Fabric::rails`], one line each with the reason.
    fn refused(&self) -> &[String];

    /// Limits and abilities.
    fn capabilities(&self) -> Capabilities;

    /// Traffic of `rail` so far.
    fn counters(&self, rail: RailId) -> RailCounters;

    /// Makes `bytes` bytes at `address` reachable by peers on every rail that works. `backing` says
    /// which shared object the memory maps, if any, so that ranks of one host can map it too. A rail
    /// whose device is gone has no key to it; what is posted there fails with
    /// [`FabricError::LaneDown`].
    ///
    /// # Errors
    /// [`FabricError::RegisterMemory`], e.g. beyond the memlock limit.
    ///
    /// # Safety
    /// The memory stays mapped and readable/writable until [`Fabric::deregister`].
    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError>;

    /// Undoes [`Fabric::register`]. Peers must not use the region any more.
    fn deregister(&self, region: LocalRegion);

    /// What peers need to import `region`, for the set-up exchange (variable length).
    fn describe(&self, region: &LocalRegion) -> Vec<u8>;

    /// Inverse of [`Fabric::describe`] at the peer. May map the shared backing; undone by
    /// [`Fabric::release`].
    fn import(&self, peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError>;

    /// Undoes [`Fabric::import`].
    fn release(&self, peer: PeerId, region: RemoteRegion);

    /// The entry of `process` in the peer table, made if need be. Idempotent.
    fn open_peer(&self, process: ProcessId) -> Result<PeerId, FabricError>;

    /// What `peer` needs to connect to this process, for each plane; the same bytes at each call.
    fn address_for(&self, peer: PeerId) -> Result<Vec<u8>, FabricError>;

    /// Connects to `peer` with what its `address_for` returned, on every plane that both sides
    /// have. Idempotent. After the peer has done
    /// the same, operations to it may be posted.
    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<(), FabricError>;

    /// What other processes need for [`Fabric::could_reach`]: this process's end of each rail.
    fn local_address(&self) -> Vec<u8> {
        Vec::new()
    }

    /// What connecting to a process with these [`Fabric::local_address`] would come to, as far as this side
    /// can tell.
    ///
    /// # Errors
    /// [`FabricError::BadPeerData`] if it is no address of such a fabric.
    fn could_reach(&self, address: &[u8]) -> Result<Reach, FabricError> {
        let _ = address;
        Ok(Reach {
            planes: self.planes(),
            refused: Vec::new(),
        })
    }

    /// What connecting to `peer` came to.
    ///
    /// # Errors
    /// [`FabricError::BadPeerData`] if there is no such peer.
    fn reach(&self, peer: PeerId) -> Result<Reach, FabricError> {
        let _ = peer;
        self.could_reach(&[])
    }

    /// Uses no other planes than `planes` to `peer`, because the peer reaches this process over
    /// those. Before the first operation to it.
    ///
    /// # Errors
    /// [`FabricError::BadPeerData`] if there is no such peer.
    fn keep_planes(&self, peer: PeerId, planes: u8) -> Result<(), FabricError> {
        let _ = (peer, planes);
        Ok(())
    }

    /// Planes of all opened rails, as bits.
    fn planes(&self) -> u8 {
        let bits = self.rails().iter().map(|rail| 1 << rail.plane);
        bits.fold(0, |all, plane: u8| all | plane)
    }

    /// Connections so far.
    fn connections(&self) -> Connections {
        Connections::default()
    }

    /// Posts `op` to `peer` on `rail`.
    ///
    /// # Errors
    /// [`FabricError::WouldBlock`] if the rail's queue is full: call [`Fabric::progress`], try again. Nothing
    /// was posted if it fails.
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

    /// Descriptors that become readable when [`Kind::Wake`] of a peer has arrived since
    /// [`Fabric::arm`] was last called; none if nothing wakes.
    fn wake_descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Readies the wake-up events. To be called before peers are told that they may wake, and each time
    /// before looking at what they may have stored, when what follows is a sleep.
    ///
    /// # Errors
    /// [`FabricError::SetUp`] if the device refuses.
    fn arm(&self) -> Result<(), FabricError> {
        Ok(())
    }

    /// Whether a tracked operation is complete. Does not itself make progress.
    ///
    /// # Errors
    /// [`FabricError::Completion`] if it, or one before it on that rail, failed.
    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError>;

    /// Rails of this process whose lane to `peer` is out of use at present, as bits; none before it is
    /// connected.
    #[inline]
    fn out_of_use(&self, peer: PeerId) -> u8 {
        let _ = peer;
        0
    }

    /// Finds out, without waiting, whether `peer` still answers on every rail that is quiet: for
    /// whoever has waited long for something from it. What is found shows in later calls.
    ///
    /// # Errors
    /// [`FabricError::Unreachable`] if it is known to be.
    fn check(&self, peer: PeerId) -> Result<(), FabricError> {
        let _ = peer;
        Ok(())
    }

    /// One bounded pass over the completion queues; the number of completions seen.
    ///
    /// # Errors
    /// [`FabricError::Completion`] if an operation failed since the last call.
    fn progress(&self) -> Result<usize, FabricError>;
}
