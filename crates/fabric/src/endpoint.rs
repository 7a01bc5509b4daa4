//! [`Endpoint`]: rails that take over from each other, as windows see them.

use crate::{FabricError, LocalRegion, Op, RemoteRegion, SharedBacking, Ticket, Tracking};
use ferrorail_base::{PeerId, RailId};
use std::os::fd::BorrowedFd;

/// All lanes of a process, of which a caller names one and gets another where that has failed.
///
/// All methods may be called from several threads at once.
pub trait Endpoint: Send + Sync + 'static {
    /// As [`crate::Transport::register`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// The memory stays mapped and readable/writable until [`Endpoint::deregister`].
    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError>;

    /// Undoes [`Endpoint::register`]. Peers must not use the region any more.
    fn deregister(&self, region: LocalRegion);

    /// [`Endpoint::deregister`] of memory that operations may still use, as whoever posted them has given up: none of
    /// them is done again.
    fn abandon(&self, region: LocalRegion);

    /// Gives a region back that was imported from `peer`.
    fn release(&self, peer: PeerId, region: RemoteRegion);

    /// Posts `op` to `peer`, on `rail` if its lane is in use.
    ///
    /// # Errors
    /// As [`crate::Transport::post`]; [`FabricError::Unreachable`] if no lane is left. After
    /// [`FabricError::WouldBlock`] with `behind`, look whether that operation is complete: if so post without
    /// it, as nothing is left to follow.
    ///
    /// # Safety
    /// As [`crate::Transport::post`].
    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError>;

    /// Whether a tracked operation is complete. Does not itself make progress.
    ///
    /// # Errors
    /// [`FabricError::Completion`] if it failed, [`FabricError::Unreachable`].
    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError>;

    /// Rails of this process whose lane to `peer` is out of use at present, as bits; none before it is
    /// connected.
    fn out_of_use(&self, peer: PeerId) -> u8;

    /// Finds out, without waiting, whether `peer` still answers on every rail that is quiet: for
    /// whoever has waited long for something from it. What is found shows in later calls.
    ///
    /// # Errors
    /// [`FabricError::Unreachable`] if it is known to be, and as [`Endpoint::untracked`].
    fn check(&self, peer: PeerId) -> Result<(), FabricError>;

    /// Whether operations to `peer` that a failed lane took may still be done again, however complete later ones are.
    fn owes(&self, peer: PeerId) -> bool;

    /// Whether operations to `peer` arrive, of which nobody may have the ticket. For whoever shares a communicator
    /// with `peer`: nobody else is concerned.
    ///
    /// # Errors
    /// What became of one that does not, once: [`FabricError::Completion`] if it was refused,
    /// [`FabricError::Unreachable`].
    fn untracked(&self, peer: PeerId) -> Result<(), FabricError>;

    /// One bounded pass over the completion queues; the number of completions seen.
    ///
    /// # Errors
    /// The device's. What becomes of operations [`Endpoint::is_complete`] and [`Endpoint::untracked`] tell.
    fn progress(&self) -> Result<usize, FabricError>;

    /// Readies the wake-up events, see [`crate::Transport::events`]. Descriptors that become readable when
    /// [`crate::Kind::Wake`] of a peer has arrived; none if nothing wakes.
    ///
    /// # Errors
    /// As there.
    fn wake_events(&self) -> Result<Vec<BorrowedFd<'_>>, FabricError>;
}
