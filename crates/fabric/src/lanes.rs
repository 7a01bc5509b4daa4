//! Lanes: what is known of one, and how it ends and begins anew.

use crate::FabricError;
use ferrorail_base::{PeerId, RailId};

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
    /// The peer, as far as known.
    pub peer: String,
}

impl Breakage {
    /// The error of what was asked of `lane`, on the rail of that name.
    #[cold]
    #[must_use]
    pub fn error(self, lane: LaneId, rail: &str) -> FabricError {
        let Self {
            status,
            refused,
            peer,
        } = self;
        let rail = rail.to_owned();
        match refused {
            Some(_) => FabricError::Completion { rail, peer, status },
            None => FabricError::LaneDown {
                lane,
                rail,
                peer,
                status,
            },
        }
    }
}

/// A lane as it is at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// Number of the last operation known to be complete, as all before it are.
    pub completed: u64,
    /// What broke it in its present generation, or that it was ended; `None` while it is whole.
    pub breakage: Option<Breakage>,
}

impl LaneState {
    /// Whether operation `sequence` is complete.
    ///
    /// # Errors
    /// What broke the lane before that.
    #[inline]
    pub fn outcome(self, sequence: u64) -> Result<bool, Breakage> {
        match self.breakage {
            _ if sequence <= self.completed => Ok(true),
            // All before what was refused took effect.
            Some(broken) if broken.refused.is_some_and(|refused| sequence < refused) => Ok(true),
            Some(broken) => Err(broken),
            None => Ok(false),
        }
    }
}

/// What is to become of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It ends. After that nothing posted on it reads local memory or leaves this process any more, and
    /// nothing that the peer posted on its side of it lands here. Posts to it fail with
    /// [`FabricError::LaneDown`]. Idempotent; cannot fail.
    End,
    /// An ended lane is made anew, not yet connected; nothing sent in its earlier generation can reach the
    /// new one. What had no completion counts as complete.
    Reset,
    /// A reset lane is connected to the one that the peer reset, given the 48 bits which that returned.
    /// The side that does so first may be written to from then on.
    Connect(u64),
}
