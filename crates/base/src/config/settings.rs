//! Typed values of the settings that the libraries read.

use super::{MulticastFaults, WindowSettings};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `FERRORAIL_FABRIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricChoice {
    /// Verbs where a usable device exists, else loopback.
    Auto,
    /// Emulated rails; all ranks on one host.
    Loopback,
    /// RDMA devices only.
    Verbs,
}

/// `FERRORAIL_RAILS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RailChoice {
    /// All usable rails (two for loopback).
    Auto,
    /// The first so many.
    Count(u8),
    /// These, in this order: `device` or `device:port`.
    Names(Vec<String>),
}

/// `FERRORAIL_SHM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShmKind {
    /// memfd, or POSIX shared memory where peers cannot open it.
    Auto,
    /// memfd only.
    Memfd,
    /// POSIX shared memory only.
    Posix,
}

/// `FERRORAIL_STRIPE_POLICY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeChoice {
    /// By the bandwidths that the rails' descriptions state.
    Auto,
    /// Equal shares.
    Even,
    /// By speeds measured when peers connect.
    Weighted,
    /// By speeds that follow completions.
    Adaptive,
    /// No division: messages take the rails in turn.
    RoundRobin,
}

/// `FERRORAIL_ACCUMULATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccumulateChoice {
    /// Origins, under the target's accumulate lock.
    Origin,
    /// A thread of the target.
    Event,
    /// Whichever is faster for the length.
    Auto,
    /// The rails' atomics, for each element of eight bytes; origins under a lock for others.
    Nic,
}

/// `FERRORAIL_ATOMICS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicsChoice {
    /// As the rails promise.
    Auto,
    /// The CPU's inside nodes.
    Cpu,
    /// The rails' everywhere.
    Nic,
}

/// `FERRORAIL_BCAST_CHECKSUM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumChoice {
    /// CRC32C.
    Crc32c,
    /// The sum of all 32-bit words.
    Additive,
    /// None.
    None,
}

/// `FERRORAIL_STATS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsSink {
    /// No output.
    Off,
    /// A table on standard error at finalize.
    Print,
    /// JSON in this file at finalize.
    File(PathBuf),
}

/// Every setting the libraries read, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `FERRORAIL_ENABLE`.
    pub enable: bool,
    /// `FERRORAIL_PRESENCE`: whether all ranks of a world are taken to run ferrorail.
    pub presence_assumed: bool,
    /// `FERRORAIL_DEVICE_MEMORY`: whether buffers may be in device memory where there is a driver.
    pub device_memory: bool,
    /// `FERRORAIL_FABRIC`.
    pub fabric: FabricChoice,
    /// `FERRORAIL_RAILS`.
    pub rails: RailChoice,
    /// `FERRORAIL_GID_INDEX`; `None` is automatic.
    pub gid_index: Option<u32>,
    /// `FERRORAIL_PORTS`; `None` is the number of rails.
    pub ports: Option<u8>,
    /// `FERRORAIL_LEADERS`; `None` is the number of ports.
    pub leaders: Option<u8>,
    /// `FERRORAIL_QUEUE_PAIRS`; `None` is no limit.
    pub queue_pairs_max: Option<u64>,
    /// `FERRORAIL_STRIPE_THRESHOLD` in bytes.
    pub stripe_threshold: u64,
    /// `FERRORAIL_STRIPE_POLICY`.
    pub stripe_policy: StripeChoice,
    /// `FERRORAIL_STRIPE_MIN` in bytes.
    pub stripe_bytes_min: u64,
    /// `FERRORAIL_NODE_SIZE`; `None` takes nodes as they are.
    pub node_size: Option<u32>,
    /// `FERRORAIL_ALGORITHM`: collective to algorithm.
    pub algorithm: BTreeMap<String, String>,
    /// `FERRORAIL_TUNING`.
    pub tuning: Option<PathBuf>,
    /// `FERRORAIL_SCRATCH` in bytes.
    pub scratch_bytes: u64,
    /// `FERRORAIL_ZERO_COPY`; `None` is automatic.
    pub zero_copy: Option<bool>,
    /// `FERRORAIL_SHM`.
    pub shm: ShmKind,
    /// `FERRORAIL_CMA`: whether cross-memory attach may be used.
    pub cma: bool,
    /// `FERRORAIL_SPIN`; `None` is automatic.
    pub spin: Option<u32>,
    /// `FERRORAIL_PEER_TIMEOUT` in seconds; `None` waits as long as peers live.
    pub peer_timeout_s: Option<u64>,
    /// `FERRORAIL_WAIT_SIGNAL`, if there is one.
    pub wait_signal: Option<i32>,
    /// `FERRORAIL_LOOPBACK_LATENCY` in ns.
    pub loopback_latency_ns: u64,
    /// `FERRORAIL_LOOPBACK_BANDWIDTH` in MB/s by rail, 0 is unlimited; the last counts for all that
    /// follow.
    pub loopback_bandwidths_mb_s: Vec<u64>,
    /// `FERRORAIL_LOOPBACK_NUMA`: NUMA nodes by rail.
    pub loopback_numa: Vec<u64>,
    /// `FERRORAIL_LOOPBACK_FAULTS`.
    pub loopback_faults: String,
    /// `FERRORAIL_MULTICAST_FAULTS`.
    pub multicast_faults: MulticastFaults,
    /// `FERRORAIL_RAIL_TIMEOUT` in ms.
    pub rail_timeout_ms: u64,
    /// `FERRORAIL_RAIL_SUSPECT` in ms; `None` leaves it to devices.
    pub rail_suspect_ms: Option<u64>,
    /// `FERRORAIL_RAIL_RETRIES`.
    pub rail_retries: u8,
    /// `FERRORAIL_RAIL_PROBE` in ms; `None` is never.
    pub rail_probe_ms: Option<u64>,
    /// `FERRORAIL_RELIABLE`.
    pub reliable: bool,
    /// `FERRORAIL_MULTICAST`.
    pub multicast: bool,
    /// `FERRORAIL_BCAST_CHANNELS`.
    pub bcast_channels: u32,
    /// `FERRORAIL_BCAST_EAGER` in bytes.
    pub bcast_eager_bytes: u64,
    /// `FERRORAIL_BCAST_RELIABLE`.
    pub bcast_reliable: bool,
    /// `FERRORAIL_BCAST_CHECKSUM`.
    pub bcast_checksum: ChecksumChoice,
    /// `FERRORAIL_LOCK`; `None` is automatic.
    pub lock: Option<String>,
    /// `FERRORAIL_ACCUMULATE`.
    pub accumulate: AccumulateChoice,
    /// `FERRORAIL_ATOMICS`.
    pub atomics: AtomicsChoice,
    /// Those of windows.
    pub windows: WindowSettings,
    /// `FERRORAIL_STATS`.
    pub stats: StatsSink,
    /// `FERRORAIL_LOG`.
    pub log: String,
}

impl Default for Settings {
    fn default() -> Self {
        let (settings, problems) = super::parse(std::iter::empty::<(String, String)>());
        debug_assert!(
            problems.is_empty(),
            "the table's defaults are valid: {problems:?}"
        );
        settings
    }
}
