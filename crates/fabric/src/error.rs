//! Errors of a fabric. Each names the act that failed.

use std::io;

/// What went wrong, in words a user can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The rail's queue is full; make progress and try again. Never reaches users.
    #[error("the rail's queue is full")]
    WouldBlock,
    /// No rail could be opened.
    #[error("no usable rail: {reason}")]
    NoRails {
        /// Why, and what to set.
        reason: String,
    },
    /// A verb or system call failed during set-up.
    #[error("{verb} failed on {object}: {source}")]
    SetUp {
        /// The failed verb or system call, e.g. `ibv_create_qp`.
        verb: &'static str,
        /// Device, rail or peer concerned.
        object: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Memory could not be registered.
    #[error("{verb} failed for {bytes} bytes: {source}")]
    RegisterMemory {
        /// The failed verb.
        verb: &'static str,
        /// Length asked for.
        bytes: usize,
        /// The system's reason.
        source: io::Error,
    },
    /// A posted operation failed.
    #[error("rail {rail} to {peer}: {status}")]
    Completion {
        /// Name of the rail.
        rail: String,
        /// The peer, as far as known.
        peer: String,
        /// The completion status in words, e.g. `transport retry counter exceeded`.
        status: String,
    },
    /// A lane, the connection to one peer on one rail, does not get through any more; other rails
    /// may. Reaches users only from a fabric without failover.
    #[error("rail {rail} to {peer}: {status}")]
    LaneDown {
        /// The lane.
        lane: crate::LaneId,
        /// Name of the rail.
        rail: String,
        /// The peer, as far as known.
        peer: String,
        /// What happened, e.g. `transport retry counter exceeded`.
        status: String,
    },
    /// No rail gets through to a peer any more.
    #[error("no rail reaches {peer} any more; the last one failed: {status}")]
    Unreachable {
        /// The peer.
        peer: String,
        /// Why the last rail failed.
        status: String,
    },
    /// The peer sent something that is no address or region of this fabric.
    #[error("a peer sent an unusable {what}")]
    BadPeerData {
        /// What was expected.
        what: &'static str,
    },
}
