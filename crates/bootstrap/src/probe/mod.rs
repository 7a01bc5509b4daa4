//! What this process can know about its host: identity, cores, NUMA nodes.

mod hardware;
mod identity;
mod sysfs;

pub use hardware::{HostInfo, Source, bound_to};
pub use identity::{host_id, host_key};
