//! What this process can know about its host: identity, cores, NUMA nodes, where a device sits.

mod hardware;
mod identity;
mod sysfs;

pub use hardware::{HostInfo, Source};
pub use identity::{host_id, host_key};
pub use sysfs::device_numa_node;
