//! What failover needs of a fabric besides its operations: lanes that end and begin anew.

use crate::{Fabric, FabricError};
use ferrorail_base::{PeerId, RailId};
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// The connection to one peer on one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneId {
    /// The peer.
    pub peer: PeerId,
    /// The rail.
    pub rail: RailId,
}

/// What broke a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakage {
    /// In words.
    pub status: String,
    /// The operation that was refused, if one was: the way to the peer is not at fault. All before
    /// it took effect, and nothing behind it does.
    pub refused: Option<u64>,
}

/// A fabric whose lanes fail one by one ([`FabricError::LaneDown`]) and can be made anew.
///
/// Numbers of operations ([`crate::Ticket::sequence`]) go on through all generations of a lane; those of
/// an earlier generation that had no completion count as complete once the lane was reset.
///
/// A lane that one side could not make or connect, though both have its plane, is on that side as one
/// that has ended.
pub trait Lanes: Fabric {
    /// Whether an operation is complete when its post returns, so that none is ever in flight.
    fn is_immediate(&self) -> bool;

    /// Number of the last operation of `lane` known to be complete, as all before it are.
    fn completed(&self, lane: LaneId) -> u64;

    /// What broke `lane` in its present generation, or that it was ended; `None` while it is whole.
    fn breakage(&self, lane: LaneId) -> Option<Breakage>;

    /// Ends `lane`. When this returns nothing posted on it reads local memory or leaves this process
    /// any more, and nothing that the peer posted on its side of it lands here. Posts to it fail with
    /// [`FabricError::LaneDown`]. Idempotent.
    fn end_lane(&self, lane: LaneId);

    /// Makes an ended lane anew, not yet connected; nothing sent in its earlier generation can reach the
    /// new one. Returns 48 bits that the peer passes to [`Lanes::reconnect_lane`].
    ///
    /// # Errors
    /// [`FabricError::SetUp`] if the device refuses.
    fn reset_lane(&self, lane: LaneId) -> Result<u64, FabricError>;

    /// Connects a reset lane to the one that the peer reset. The side that does so first may be
    /// written to as soon as this returns.
    ///
    /// # Errors
    /// [`FabricError::SetUp`] if the device refuses.
    fn reconnect_lane(&self, lane: LaneId, token: u64) -> Result<(), FabricError>;

    /// What the times of failures are measured by.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Descriptors that become readable when a device has something to say of its ports by itself, which
    /// [`Lanes::ports_down`] reads.
    fn event_descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Rails, as bits, whose devices have said last that their port is down, that its address has changed,
    /// or that they are broken. Nothing gets through on these before they say something else.
    fn ports_down(&self) -> u8 {
        0
    }
}
