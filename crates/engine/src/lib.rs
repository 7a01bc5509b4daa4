//! The engine: the composition root that turns algorithms, memory and rails into collectives.
//!
//! * [`Context`]: one per process; settings, the host's progress, rails, statistics;
//! * [`Team`]: one per communicator; made, used and freed collectively;
//! * [`choice`]: which algorithm runs for a size, chosen from what every rank knows, and why;
//! * `selection`: the choice with its schedule, of a team made or imagined;
//! * `domains`: ranks of a node that share a cache or NUMA node;
//! * [`scratch`]: how much of it operations take, and so how much of each block they move at a time;
//! * `plan`: both, kept for the next call;
//! * `run`: the state machine that executes a schedule step by step and never blocks;
//! * `blocking_wait`: how a blocking call waits, and finds out that a peer will not come;
//! * `multicast`: reliable multicasts between the leaders of a team's nodes;
//! * `window`: one per MPI window; made from a team, then on its own ([`Window`]);
//! * `agree`: how a set-up step counts only if every rank managed it;
//! * [`estimate`]: what connections and memory a team of some shape would take;
//! * `report`: what `FERRORAIL_STATS` shows.
//!
//! This is the only crate that knows which [`ferrorail_fabric::Endpoint`] is real. It imports neither
//! the preload library nor the command line tool, and knows nothing of MPI's handles.
//!
//! ```no_run
//! use ferrorail_engine::{Context, NoHost, Team};
//! let context = Context::new(Default::default(), Box::new(NoHost));
//! let team = Team::create(&context, context.settings(), ferrorail_bootstrap::from_env()?)?;
//! let mine = [team.rank().0 as u8; 8];
//! let mut all = vec![0u8; 8 * team.size() as usize];
//! // SAFETY: `mine` holds 8 bytes, `all` 8 per rank, and nobody else uses them.
//! unsafe { team.allgather(Some(mine.as_ptr()), all.as_mut_ptr(), 8)? };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agree;
mod barrier_order;
mod blocking_wait;
pub mod choice;
mod collective;
mod context;
mod domains;
mod error;
pub mod estimate;
mod multicast;
mod numa_local;
#[cfg(test)]
mod on_threads;
mod plan;
mod quiescence;
mod rails;
mod reducer;
mod report;
mod rows;
mod run;
pub mod scratch;
mod segment;
pub mod selection;
mod sequence;
mod share;
mod shared_settings;
mod stats;
mod tag;
mod team;
mod window;

/// What measurements work with that need no team: rails, and memory shared inside a node.
pub mod raw {
    pub use ferrorail_fabric::{
        LocalRegion, LocalSlice, Notification, Op, RemoteRegion, RemoteSlice, SharedBacking,
        Ticket, Tracking,
    };
    pub use ferrorail_shm::{Cma, Segment, SegmentHandle, cma_allow, cores_of, process_id};
}

pub mod waiting;
mod ways;

pub use collective::OFFERED;
pub use context::{Context, Host, NoHost};
pub use error::{EngineError, ErrorClass};
pub use ferrorail_coll::Collective;
pub use ferrorail_fabric::multicast::{Group, GroupId, MulticastError, Payload, To};
pub use ferrorail_fabric::{
    AtomicScope, Attributes, Endpoint, FabricError, Multicast, RailCounters, RailInfo,
};
pub use ferrorail_rdma_transport::verbs::{
    Choice as PortChoice, Port, State as PortState, ports as survey_ports,
};
pub use ferrorail_shm::spawn_quietly;
pub use multicast::MulticastRow;
pub use rails::{Rails, open_rails};
pub use reducer::{Combine, LocalReduction, Order, Reducer};
pub use report::{RailRow, Report};
pub use run::Block;
pub use share::ShareRow;
pub use shared_settings::{algorithm_problems, tuning_problem};
pub use stats::{CallRow, ConnectionRow, ForwardRow, HostPackingRow, Stats, ZeroCopyRow};
pub use team::create::{PREPARING, SIZE_MAX};
pub use team::facts::Facts;
pub use team::{DriverWait, IDENTITY_BITS, Team, Turn};
pub use window::explain as window_explanation;
pub use window::statistics::WindowRow;
pub use window::{
    HostUpdate, LockAlgorithm, LockMode, Memory, OneSided, Shape, Threads, Update, Window,
    WindowError, WindowSpec,
};
