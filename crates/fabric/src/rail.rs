//! What there is to know of a rail.

/// One rail as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailInfo {
    /// Stable name: `rxe0:1` (device:port), `loop0`.
    pub name: String,
    /// Device, e.g. `mlx5_0`.
    pub device: String,
    /// Physical port, 1-based; 0 for loopback.
    pub port: u8,
    /// Position in the list of requested rails, counting those that could not be opened. Peers
    /// connect plane to plane, so a rail missing on one rank does not shift the others.
    pub plane: u8,
    /// Source address, e.g. the GID; empty for loopback.
    pub address: String,
    /// Nominal bandwidth in MB/s, 0 if unknown.
    pub bandwidth_mb_s: u64,
    /// Largest packet in bytes (RDMA MTU), 0 if unlimited.
    pub mtu_bytes: u32,
    /// NUMA node of the device, if known.
    pub numa_node: Option<u32>,
}

/// Traffic of one rail since the fabric was opened, and counts of its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RailCounters {
    /// Times that a lane of the rail failed.
    pub failures: u64,
    /// Times that a lane which had failed was taken into use again.
    pub readmissions: u64,
    /// Operations of failed lanes that other rails repeated.
    pub resent: u64,
    /// Operations posted (a put with its notification counts once).
    pub messages: u64,
    /// Payload bytes posted.
    pub bytes: u64,
}
