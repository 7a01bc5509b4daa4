//! Errors of the engine, each with the MPI error class it maps to.

use ferrorail_base::Rank;
use ferrorail_bootstrap::OobError;
use ferrorail_fabric::FabricError;
use ferrorail_onesided::window::WindowError;
use ferrorail_shm::ShmError;

/// What a caller branches on; the preload library translates it to the host's MPI error class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// `MPI_ERR_NO_MEM`.
    NoMemory,
    /// `MPI_ERR_PROC_FAILED` where the host has it, else `MPI_ERR_OTHER`.
    ProcessFailed,
    /// `MPI_ERR_TRUNCATE`.
    Truncate,
    /// `MPI_ERR_RMA_SYNC`.
    Synchronisation,
    /// `MPI_ERR_RANK`.
    Rank,
    /// `MPI_ERR_DISP`.
    Displacement,
    /// `MPI_ERR_RMA_RANGE`.
    Range,
    /// `MPI_ERR_RMA_ATTACH`.
    Attachment,
    /// `MPI_ERR_ARG`.
    Argument,
    /// `MPI_ERR_OTHER`.
    Other,
    /// `MPI_ERR_INTERN`: a defect of ferrorail.
    Internal,
}

/// Why a collective or a team creation failed, in words a user can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The ranks could not talk out of band.
    #[error(transparent)]
    Oob(#[from] OobError),
    /// A rail failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Shared memory failed.
    #[error(transparent)]
    Shm(#[from] ShmError),
    /// A step of team creation failed on some rank, so all ranks gave it up.
    #[error("{act} failed on rank {rank}: {reason}")]
    Refused {
        /// The step.
        act: &'static str,
        /// Lowest rank where it failed.
        rank: Rank,
        /// Its reason.
        reason: String,
    },
    /// Acceleration is switched off by a setting.
    #[error("switched off by {setting}")]
    SwitchedOff {
        /// The setting.
        setting: &'static str,
    },
    /// Some rank could not connect to a peer, which all ranks know. Nothing was done, and the team is of
    /// no use any more.
    #[error("not all ranks could connect to their peers")]
    Unconnected,
    /// The collective would have every rank connect to every other, which takes more queue pairs than
    /// `FERRORAIL_QUEUE_PAIRS` allows. Nothing was done.
    #[error("more queue pairs than FERRORAIL_QUEUE_PAIRS allows")]
    TooManyConnections,
    /// `FERRORAIL_ALGORITHM` or a rule of `FERRORAIL_TUNING` leaves the collective to the host MPI. Nothing was done.
    #[error("FERRORAIL_ALGORITHM or FERRORAIL_TUNING names the host")]
    LeftByChoice,
    /// A process of this team on this host is gone.
    #[error("rank {rank} (pid {pid}) died during {collective}")]
    PeerDied {
        /// The dead rank.
        rank: Rank,
        /// Its process.
        pid: u32,
        /// The operation this rank was in.
        collective: &'static str,
    },
    /// Peers did not arrive within `FERRORAIL_PEER_TIMEOUT`.
    #[error(
        "no arrival from {waiting_for} within {seconds} s in {collective} (FERRORAIL_PEER_TIMEOUT)"
    )]
    PeerTimeout {
        /// What was awaited.
        waiting_for: String,
        /// The set limit.
        seconds: u64,
        /// The operation this rank was in.
        collective: &'static str,
    },
    /// A peer passed other arguments to the same collective: another amount of data, another root,
    /// or it called another collective.
    #[error("{} does not describe the same collective, root and amount of data as this rank",
        .rank.map_or("some rank".into(), |rank| format!("rank {rank}")))]
    Mismatch {
        /// The peer, where it is known.
        rank: Option<Rank>,
    },
    /// A peer passed another root or amount of data, or called another collective, and is as far as this rank for
    /// all that: the communicator goes on.
    #[error(
        "rank {rank} does not describe the same collective, root and amount of data as this rank; the communicator goes on"
    )]
    Truncated {
        /// The peer.
        rank: Rank,
    },
    /// A peer had an error during an operation, and takes part in nothing more.
    #[error("rank {rank} left the communicator after an error")]
    PeerGaveUp {
        /// The peer.
        rank: Rank,
    },
    /// A peer's program freed the communicator, or called `MPI_Finalize`, without this call.
    #[error(
        "rank {rank} has called MPI_Finalize or freed the communicator, and never makes this call"
    )]
    PeerLeft {
        /// The peer.
        rank: Rank,
    },
    /// Ranks were out of step after an earlier error; others have done this call, or let it fail as well.
    #[error("this call was lost by an earlier error on the communicator, which goes on later: {0}")]
    Lost(String),
    /// After an earlier error the host MPI runs the call on all ranks. Nothing was done.
    #[error("the host MPI runs the communicator's collectives after an error")]
    AfterError,
    /// An earlier error left the team's memory undefined.
    #[error("the communicator is unusable after an earlier error: {0}")]
    Unusable(String),
    /// Two threads called a collective on one communicator at once.
    #[error("two threads are in a collective on one communicator")]
    Concurrent,
    /// What one rank sent another was damaged on its way each time (`FERRORAIL_RELIABLE`).
    #[error("data from rank {from} to rank {to} was damaged on its way {attempts} times")]
    Damaged {
        /// Who sent it.
        from: Rank,
        /// Where it arrived.
        to: Rank,
        /// Times that it was sent.
        attempts: u8,
    },
    /// Multicast failed, and the messages that were under way with it.
    #[error("multicast: {reason}")]
    Multicast {
        /// Who did not answer, or what the device said.
        reason: String,
    },
    /// A cross-memory copy failed.
    #[error("cross-memory copy to rank {rank} failed: {source}; FERRORAIL_CMA=off avoids it")]
    CrossMemory {
        /// The peer.
        rank: Rank,
        /// The system's reason.
        source: std::io::Error,
    },
    /// One element of a reduction is larger than what scratch has room for. Nothing was done.
    #[error("an element of {bytes} bytes has no room in scratch (FERRORAIL_SCRATCH)")]
    ElementTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// An operation of the program, or of the host MPI, failed.
    #[error("the reduction operation failed: {reason}")]
    Operation {
        /// What its owner says.
        reason: String,
        /// The host MPI's error class.
        mpi_class: i32,
    },
    /// A call on a window failed.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// The selection table of a team cannot be used. Nothing was done.
    #[error("{0}")]
    Tuning(String),
    /// More ranks than a team may have. Nothing was done.
    #[error("{ranks} ranks exceed the {most} that a team may have")]
    TooManyRanks {
        /// Ranks of the communicator.
        ranks: u32,
        /// As many as can be.
        most: u32,
    },
    /// The system refused a thread. Nothing was done.
    #[error("no thread that {purpose}: {source}")]
    Thread {
        /// What for.
        purpose: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// What was asked to be estimated cannot be.
    #[error("{0}")]
    Estimate(String),
    /// A defect of ferrorail.
    #[error("internal error: {0}")]
    Internal(String),
}

impl EngineError {
    /// The class to report.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Fabric(FabricError::RegisterMemory { .. })
            | Self::ElementTooLarge { .. }
            | Self::Shm(_) => ErrorClass::NoMemory,
            Self::Mismatch { .. } | Self::Truncated { .. } => ErrorClass::Truncate,
            Self::PeerDied { .. } => ErrorClass::ProcessFailed,
            Self::Internal(_) => ErrorClass::Internal,
            Self::Window(error) => class_of(error),
            _ => ErrorClass::Other,
        }
    }

    /// The class the host MPI itself gave, if the error came from there.
    pub fn mpi_class(&self) -> Option<i32> {
        match self {
            Self::Oob(error) => error.mpi_class,
            Self::Operation { mpi_class, .. } => Some(*mpi_class),
            Self::Window(WindowError::Operation(error) | WindowError::Peer(error)) => {
                error.downcast_ref::<Self>()?.mpi_class()
            }
            _ => None,
        }
    }
}

/// The class of what a window says.
fn class_of(error: &WindowError) -> ErrorClass {
    match error {
        WindowError::Synchronisation(_) => ErrorClass::Synchronisation,
        WindowError::Rank { .. } => ErrorClass::Rank,
        WindowError::Displacement(_) => ErrorClass::Displacement,
        WindowError::Range { .. } | WindowError::NotAttached { .. } => ErrorClass::Range,
        WindowError::Attachment(_) | WindowError::Unattachable(_) => ErrorClass::Attachment,
        WindowError::Lengths { .. } => ErrorClass::Argument,
        WindowError::NoMemory(_) | WindowError::Fabric(FabricError::RegisterMemory { .. }) => {
            ErrorClass::NoMemory
        }
        WindowError::Internal(_) => ErrorClass::Internal,
        WindowError::Operation(error) | WindowError::Peer(error) => error
            .downcast_ref::<EngineError>()
            .map_or(ErrorClass::Other, EngineError::class),
        _ => ErrorClass::Other,
    }
}
