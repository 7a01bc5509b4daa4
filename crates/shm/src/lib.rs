//! Shared memory inside a node.
//!
//! * [`segment`]: one mapping shared by processes of a host, over a memfd or POSIX shared memory,
//!   gone after a crash;
//! * [`layout`]: where each cell of a node segment lies, as pure arithmetic;
//! * [`node`]: a segment with its layout: typed access to every cell;
//! * [`flags`], [`slot`]: the lock-free primitives that ranks of a node meet in;
//! * [`ring`]: datagrams from one writer to any number of readers;
//! * [`wait`]: how a rank waits: spin, poke the host MPI's progress, yield, sleep;
//! * [`wake_pipe`]: waking a thread that sleeps for several reasons at once;
//! * [`copy`]: copying between processes through a segment or by cross-memory attach;
//! * [`process`]: who I am, whether a peer still lives, how many cores the ranks share.
//!
//! Rules that hold throughout:
//!
//! * Memory that a peer may write never becomes `&[u8]` or `&mut [u8]`. What is handed out is
//!   references to atomic cells ([`segment::AtomicCell`]) and raw address ranges.
//! * The primitives own no memory: they are views of atomic cells, so the text that runs over a
//!   segment is the text that loom checks (`RUSTFLAGS="--cfg loom" cargo test -p ferrorail-shm
//!   --release --lib loom`). Under `--cfg loom` everything that touches the system is left out.
//! * Nothing here allocates or makes a system call once a segment is mapped, except sleeping, waking
//!   a sleeper, and cross-memory attach.
//!
//! This crate imports only the project's vocabulary; it knows neither fabrics nor schedules.

pub mod flags;
pub mod layout;
mod prefetch;
pub mod ring;
pub mod slot;
pub mod wait;

#[cfg(not(loom))]
pub mod copy;
#[cfg(not(loom))]
mod host_time;
#[cfg(not(loom))]
pub mod node;
#[cfg(not(loom))]
pub mod process;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
pub mod wake_pipe;

pub use flags::{Arrival, Flag, NodeFlags, Status};
pub use layout::{
    EAGER_MESSAGE, EAGER_MESSAGES, EAGER_SLOTS, EXCHANGE_SLOTS, NodeGeometry, NodeLayout,
    SMALL_SCRATCH,
};
pub use ring::{Found, Ring, RingShape, Tag};
pub use slot::{EagerGroup, EagerSlot, GroupValues};
pub use wait::Doorbell;

#[cfg(not(loom))]
pub use copy::{Cma, ScratchKind, cma_allow, copy_out_of_shared, copy_past_caches, exceeds_caches};
#[cfg(not(loom))]
pub use host_time::host_time_ns;
#[cfg(not(loom))]
pub use node::NodeSegment;
#[cfg(not(loom))]
pub use process::{cores_of, host_name, is_alive, process_id};
#[cfg(not(loom))]
pub use segment::address_space::is_limited as is_address_space_limited;
#[cfg(not(loom))]
pub use segment::{AtomicCell, Segment, SegmentHandle, ShmError, largest as largest_segment};
#[cfg(not(loom))]
pub use thread::spawn_quietly;
#[cfg(not(loom))]
pub use wait::{Cores, WaitPolicy, Waiter, sleep_on, spread_ranks};
#[cfg(not(loom))]
pub use wake_pipe::{WakePipe, WakePipeHandle, WakePipeWriter};
