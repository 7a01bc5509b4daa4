//! What a window shall be.

use ferrorail_base::config::WindowKeys;
use ferrorail_onesided::lock::LockAlgorithm;
use ferrorail_onesided::window::Threads;
use serde::{Deserialize, Serialize};

/// What memory a window has (MPI 4.1, section 12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// The program's own, from this address on (`MPI_Win_create`).
    Create {
        /// First byte.
        address: usize,
    },
    /// Of the window (`MPI_Win_allocate`).
    Allocate,
    /// Of the window, which all ranks load and store directly (`MPI_Win_allocate_shared`).
    Shared {
        /// Ranks' parts need not follow one another (`alloc_shared_noncontig`).
        apart: bool,
    },
    /// Attached later (`MPI_Win_create_dynamic`).
    Dynamic,
}

impl Memory {
    /// Stable name in statistics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Allocate => "allocate",
            Self::Shared { .. } => "shared",
            Self::Dynamic => "dynamic",
        }
    }

    /// First byte of what the program brings, else 0.
    pub(super) fn address(self) -> usize {
        match self {
            Self::Create { address } => address,
            _ => 0,
        }
    }

    /// Whether the window brings the memory.
    pub(super) fn is_allocated(self) -> bool {
        matches!(self, Self::Allocate | Self::Shared { .. })
    }
}

/// What a program asks for. Ranks may differ in all but the kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSpec {
    /// The memory.
    pub memory: Memory,
    /// Its length here, in bytes.
    pub bytes: u64,
    /// Bytes by which displacements count here.
    pub unit: u64,
    /// The lock algorithm, instead of that of `FERRORAIL_LOCK`; rank 0's counts.
    pub lock: Option<LockAlgorithm>,
    /// Whether the program wants elements of up to eight bytes accumulated one at a time
    /// (`mpi_accumulate_granularity`); done if all ranks do.
    pub elements: bool,
    /// Which threads may operate on it here.
    pub threads: Threads,
    /// Settings of this window alone; rank 0's count.
    pub keys: WindowKeys,
}

impl WindowSpec {
    /// A window of `bytes` bytes here, by the settings of its communicator.
    pub fn new(memory: Memory, bytes: u64, unit: u64) -> Self {
        Self {
            memory,
            bytes,
            unit,
            lock: None,
            elements: false,
            threads: Threads::One,
            keys: WindowKeys::default(),
        }
    }
}
