//! What can be wrong with a call, and what can go wrong in one.

use crate::lock::LockError;
use ferrorail_base::memory::NoMemory;
use ferrorail_fabric::FabricError;

/// Why a call on a window failed. Unless it says otherwise, no memory was touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// The call has no place in the present epoch (`MPI_ERR_RMA_SYNC`).
    #[error("wrong synchronisation: {0}")]
    Synchronisation(&'static str),
    /// No such rank (`MPI_ERR_RANK`).
    #[error("rank {rank} is not one of the {size} of the window")]
    Rank {
        /// The rank asked for.
        rank: i64,
        /// Number of ranks.
        size: u32,
    },
    /// Negative displacement (`MPI_ERR_DISP`).
    #[error("displacement {0} is negative")]
    Displacement(i64),
    /// The memory is not part of the target's window (`MPI_ERR_RMA_RANGE`).
    #[error("bytes {low} to {high} leave the window of rank {rank}, which has {bytes} bytes")]
    Range {
        /// The target.
        rank: u32,
        /// First byte from the window's base.
        low: i128,
        /// End of the last byte.
        high: i128,
        /// Length of the target's memory.
        bytes: u64,
    },
    /// Some of the memory is not attached (`MPI_ERR_RMA_RANGE`).
    #[error(
        "not all of the {bytes} bytes at {address:#x} of rank {rank} are attached to the window"
    )]
    NotAttached {
        /// The target.
        rank: u32,
        /// First byte.
        address: u64,
        /// Length in bytes.
        bytes: usize,
    },
    /// Memory cannot be attached or detached (`MPI_ERR_RMA_ATTACH`).
    #[error("attaching: {0}")]
    Attachment(&'static str),
    /// The system refuses what attaching memory takes (`MPI_ERR_RMA_ATTACH`).
    #[error("attaching: {0}")]
    Unattachable(Box<Self>),
    /// The two sides describe different amounts of data (`MPI_ERR_ARG`).
    #[error("{origin} bytes at the origin, {target} at the target")]
    Lengths {
        /// Bytes that the origin's arguments describe.
        origin: usize,
        /// Bytes that the target's describe.
        target: usize,
    },
    /// Memory of a rank of this host could not be reached; some may have been written.
    #[error("cross-memory copy with rank {rank} failed: {source}")]
    CrossMemory {
        /// The target.
        rank: u32,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A target failed at operations that were left to it; some memory may have been written.
    #[error("rank {rank} failed at operations that were left to it")]
    ByTarget {
        /// The target.
        rank: u32,
    },
    /// The system refused memory for a copy of the program's data (`MPI_ERR_NO_MEM`).
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// A rail failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The lock refused.
    #[error("{0}")]
    Lock(String),
    /// A defect of ferrorail.
    #[error("internal error: {0}")]
    Internal(String),
    /// An operation that is not computed here failed.
    #[error("the reduction operation failed: {0}")]
    Operation(Box<dyn std::error::Error + Send + Sync>),
    /// Whoever is being waited for cannot answer any more.
    #[error(transparent)]
    Peer(Box<dyn std::error::Error + Send + Sync>),
}

impl From<LockError<Self>> for WindowError {
    fn from(error: LockError<Self>) -> Self {
        match error {
            LockError::Access(error) => error,
            other => Self::Lock(other.to_string()),
        }
    }
}
