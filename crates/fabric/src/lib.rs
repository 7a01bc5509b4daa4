//! The seam between algorithms and networks: what the engine may ask of a fabric.
//!
//! A [`Fabric`] is one process's attachment to one or several rails. Everything above it is written
//! against this trait and runs unchanged on verbs, on loopback rails and in a simulator.
//!
//! # Order and visibility
//!
//! * Operations posted to one (peer, rail) take effect at the target in the order posted; nothing
//!   is ordered between rails or between peers. A notification therefore follows its data on the
//!   same rail ([`Fabric::put_notify`]).
//! * A notification is a 64-bit store to an 8-byte-aligned word; a target that reads it with acquire
//!   ordering sees the data put before it on that rail.
//! * Under [`AtomicScope::Rail`], CPU atomics and the fabric's atomics on one word do not exclude
//!   each other.
//!
//! # Local completion
//!
//! A posted operation reads its source until its [`Ticket`] is complete; `fetch_add`,
//! `compare_swap` and `get` have their result in `into` only then. Operations posted with
//! [`Tracking::Silent`] complete when a later tracked one on the same (peer, rail) does.

mod capabilities;
mod connections;
mod error;
mod lanes;
pub mod multicast;
mod rail;
mod region;
pub mod stripe;

pub use capabilities::{AtomicScope, Capabilities};
pub use connections::{Connections, Reach};
pub use error::FabricError;
pub use lanes::{Breakage, LaneId, Lanes};
pub use multicast::{Group, GroupId, Multicast, MulticastError};
pub use rail::{RailCounters, RailInfo};
pub use region::{LocalRegion, RAILS_MAX, RemoteRegion, SharedBacking};

use ferrorail_base::{PeerId, ProcessId, RailId};
use std::os::fd::BorrowedFd;

/// A part of a [`LocalRegion`].
#[derive(Clone, Copy, Debug)]
pub struct LocalSlice<'a> {
    /// The registered memory.
    pub region: &'a LocalRegion,
    /// First byte, relative to the region.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// A part of a [`RemoteRegion`].
#[derive(Clone, Copy, Debug)]
pub struct RemoteSlice<'a> {
    /// The peer's memory.
    pub region: &'a RemoteRegion,
    /// First byte, relative to the region.
    pub offset: usize,
}

/// The word that tells the target a put has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Notification<'a> {
    /// Eight-byte-aligned word in the target's memory.
    pub word: RemoteSlice<'a>,
    /// Value to store there.
    pub value: u64,
}

/// Whether the caller will ask for the completion of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// Nobody will; the fabric may save the completion.
    Silent,
    /// [`Fabric::is_complete`] will be called with the ticket.
    Tracked,
}

/// Names a posted operation: the `sequence`-th on its (peer, rail), from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The target.
    pub peer: PeerId,
    /// The rail it was posted on.
    pub rail: RailId,
    /// Position in the order of posting.
    pub sequence: u64,
}

impl Ticket {
    /// What it was posted on.
    pub fn lane(&self) -> LaneId {
        LaneId {
            peer: self.peer,
            rail: self.rail,
        }
    }
}

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

    /// Writes `from` to `to`.
    ///
    /// # Errors
    /// [`FabricError::WouldBlock`] if the rail's queue is full: call [`Fabric::progress`], try again.
    ///
    /// # Safety
    /// `from` stays valid and unwritten until the ticket completes; `to` is inside memory the peer
    /// registered and still holds.
    unsafe fn put(
        &self,
        peer: PeerId,
        rail: RailId,
        from: LocalSlice<'_>,
        to: RemoteSlice<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError>;

    /// [`Fabric::put`], then the notification, in that order at the target. `from` may be empty.
    ///
    /// # Errors
    /// As [`Fabric::put`]; nothing was posted if it fails.
    ///
    /// # Safety
    /// As [`Fabric::put`], for the word as well.
    unsafe fn put_notify(
        &self,
        peer: PeerId,
        rail: RailId,
        from: LocalSlice<'_>,
        to: RemoteSlice<'_>,
        notification: Notification<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError>;

    /// [`Fabric::put`] of what ends with its own notification: a word of `from`, which holds `trailing_flag`
    /// and only ever rises at the target, tells whether it has arrived. Nothing is promised about
    /// the order in which its bytes do.
    ///
    /// # Errors
    /// As [`Fabric::put`].
    ///
    /// # Safety
    /// As [`Fabric::put`]; `to` ends at a multiple of eight bytes.
    unsafe fn put_eager(
        &self,
        peer: PeerId,
        rail: RailId,
        from: LocalSlice<'_>,
        to: RemoteSlice<'_>,
        trailing_flag: u64,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        let _ = trailing_flag;
        // SAFETY: the caller's contract.
        unsafe { self.put(peer, rail, from, to, tracking) }
    }

    /// [`Fabric::put_notify`] that wakes a thread of the peer which sleeps on its
    /// [`Fabric::wake_descriptors`], which it must have and have [armed](Fabric::arm). Always tracked. The
    /// wake-up is a hint, which may be lost.
    ///
    /// # Errors
    /// As [`Fabric::put`]; nothing was posted if it fails.
    ///
    /// # Safety
    /// As [`Fabric::put_notify`].
    unsafe fn put_wake(
        &self,
        peer: PeerId,
        rail: RailId,
        from: LocalSlice<'_>,
        to: RemoteSlice<'_>,
        notification: Notification<'_>,
    ) -> Result<Ticket, FabricError> {
        let tracking = Tracking::Tracked;
        // SAFETY: the caller's contract.
        unsafe { self.put_notify(peer, rail, from, to, notification, tracking) }
    }

    /// Descriptors that become readable when [`Fabric::put_wake`] of a peer has arrived since
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

    /// Reads `from` at the peer into `into`. Always tracked.
    ///
    /// # Safety
    /// `into` stays valid and untouched until the ticket completes; `from` as in [`Fabric::put`].
    unsafe fn get(
        &self,
        peer: PeerId,
        rail: RailId,
        from: RemoteSlice<'_>,
        into: LocalSlice<'_>,
    ) -> Result<Ticket, FabricError>;

    /// Adds `add` to the 64-bit word `at`; its old value lands in the 8 bytes of `into`.
    /// Always tracked.
    ///
    /// # Safety
    /// As [`Fabric::get`]; `at` and `into` are 8-byte aligned.
    unsafe fn fetch_add(
        &self,
        peer: PeerId,
        rail: RailId,
        at: RemoteSlice<'_>,
        add: u64,
        into: LocalSlice<'_>,
    ) -> Result<Ticket, FabricError>;

    /// [`Fabric::fetch_add`] on the peer and rail of `before`, taking effect behind that operation, which
    /// need not be complete. Rails that take over from each other keep no order between them: `None`,
    /// and nothing is posted, if that cannot be promised. Wait for `before` then.
    ///
    /// # Safety
    /// As [`Fabric::fetch_add`].
    unsafe fn fetch_add_behind(
        &self,
        before: Ticket,
        at: RemoteSlice<'_>,
        add: u64,
        into: LocalSlice<'_>,
    ) -> Result<Option<Ticket>, FabricError>;

    /// Stores `swap` in the 64-bit word `at` if it holds `compare`; its old value lands in `into`.
    /// Always tracked.
    ///
    /// # Safety
    /// As [`Fabric::fetch_add`].
    unsafe fn compare_swap(
        &self,
        peer: PeerId,
        rail: RailId,
        at: RemoteSlice<'_>,
        compare: u64,
        swap: u64,
        into: LocalSlice<'_>,
    ) -> Result<Ticket, FabricError>;

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
