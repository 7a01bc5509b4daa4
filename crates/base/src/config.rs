//! The one table of every setting. Names are environment variables; the same strings stand in
//! logs, statistics and documentation.

mod communicator;
mod multicast;
mod parse;
mod settings;
mod windows;

pub use communicator::{PER_COMMUNICATOR, per_communicator};
pub use multicast::{CERTAIN, MulticastFaults};
pub use parse::{Problem, parse};
pub use settings::{
    AccumulateChoice, AtomicsChoice, ChecksumChoice, FabricChoice, RailChoice, Settings, ShmKind,
    StatsSink, StripeChoice,
};
pub use windows::{
    LockBackoff, LockRequest, PER_WINDOW, Pscw, Registration, ServiceThreads, WindowKeys,
    WindowSettings,
};

/// Prefix of every environment variable that belongs to the project.
pub const PREFIX: &str = "FERRORAIL_";

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of the listed words.
    Word(&'static [&'static str]),
    /// `0` or `1`.
    Switch,
    /// A whole number in the given closed range.
    Number(u64, u64),
    /// A byte count such as `64K`.
    Bytes,
    /// Free text, checked where it is used.
    Text,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Environment variable.
    pub name: &'static str,
    /// Form of the value.
    pub kind: Kind,
    /// Value in force when unset, as text.
    pub default: &'static str,
    /// One line for `ferrorail info`.
    pub help: &'static str,
}

macro_rules! table {
    ($($name:literal, $kind:expr, $default:literal, $help:literal;)*) => {
        /// Every setting, in the order `ferrorail info` prints them.
        pub const TABLE: &[Setting] =
            &[$(Setting { name: $name, kind: $kind, default: $default, help: $help }),*];
    };
}

table! {
    "FERRORAIL_ENABLE", Kind::Switch, "1",
        "0 forwards every call to the host MPI";
    "FERRORAIL_PRESENCE", Kind::Word(&["auto", "assume"]), "auto",
        "which ranks of a world run ferrorail: as the launcher's key-value service says; assume: all of them, for launchers without one";
    "FERRORAIL_DEVICE_MEMORY", Kind::Word(&["auto", "none"]), "auto",
        "auto leaves communicators to the host MPI if a rank has a GPU driver loaded when they are first used; none: MPI gets no buffers in device memory";
    "FERRORAIL_FABRIC", Kind::Word(&["auto", "loopback", "verbs"]), "auto",
        "what carries bytes between nodes";
    "FERRORAIL_RAILS", Kind::Text, "auto",
        "rails to use: a count, or names such as rxe0,mlx5_1:2";
    "FERRORAIL_GID_INDEX", Kind::Text, "auto",
        "GID index on RoCE ports; auto takes RoCE v2 with an IPv4-mapped address";
    "FERRORAIL_PORTS", Kind::Number(0, 8), "0",
        "k of the multi-port algorithms; 0 means the number of rails";
    "FERRORAIL_LEADERS", Kind::Number(0, 8), "0",
        "most leaders per node, each with its own rails; 0 means one for each of the k ports";
    "FERRORAIL_QUEUE_PAIRS", Kind::Number(0, 1 << 32), "16384",
        "most queue pairs of a communicator on a node: where every rank with every other would need more, collectives that do so take another algorithm or are left to the host MPI; 0 means no limit";
    "FERRORAIL_STRIPE_THRESHOLD", Kind::Bytes, "8K",
        "messages of at least this size are striped over all rails";
    "FERRORAIL_STRIPE_POLICY", Kind::Word(&["auto", "even", "weighted", "adaptive", "round_robin"]), "auto",
        "shares of the rails: by nominal bandwidth, equal, by speeds measured at the start, or following completions; or whole messages in turn";
    "FERRORAIL_STRIPE_MIN", Kind::Bytes, "512",
        "least stripe; a rail whose share would be smaller is left out";
    "FERRORAIL_NODE_SIZE", Kind::Number(0, u32::MAX as u64), "0",
        "ranks per virtual node; 0 takes nodes as they are";
    "FERRORAIL_ALGORITHM", Kind::Text, "",
        "forced algorithms, e.g. allgather=smp_bruck, or with ports of their own: allgather=bruck:ports=1";
    "FERRORAIL_TUNING", Kind::Text, "",
        "selection table (JSON) to use instead of the built-in one";
    "FERRORAIL_SCRATCH", Kind::Bytes, "64K",
        "scratch bytes per rank and channel of a communicator";
    "FERRORAIL_ZERO_COPY", Kind::Word(&["auto", "on", "off"]), "auto",
        "large messages straight into the receive buffer";
    "FERRORAIL_SHM", Kind::Word(&["auto", "memfd", "posix"]), "auto",
        "backing of node segments; auto prefers memfd, which needs no /dev/shm";
    "FERRORAIL_CMA", Kind::Word(&["auto", "off"]), "auto",
        "cross-memory attach between ranks of one host";
    "FERRORAIL_SPIN", Kind::Text, "auto",
        "polls before a waiting rank yields its core; auto is 0 where ranks outnumber cores";
    "FERRORAIL_PEER_TIMEOUT", Kind::Number(0, 86_400), "0",
        "seconds a rank may wait for its peers before the call fails; 0 waits on as long as they live";
    "FERRORAIL_WAIT_SIGNAL", Kind::Number(0, 64), "0",
        "signal upon which a rank says on standard error what it waits for, such as 23 (SIGURG); 0: none";
    "FERRORAIL_LOOPBACK_LATENCY", Kind::Number(0, 1_000_000_000), "0",
        "modelled latency of a loopback rail in ns";
    "FERRORAIL_LOOPBACK_BANDWIDTH", Kind::Text, "0",
        "modelled bandwidth of loopback rails in MB/s, one for all or one each: 1000,250; 0 is unlimited";
    "FERRORAIL_LOOPBACK_NUMA", Kind::Text, "",
        "NUMA nodes that loopback rails pretend to be on, for tests: 0,1; none by default";
    "FERRORAIL_LOOPBACK_FAULTS", Kind::Text, "",
        "faults of loopback rails, for tests: rail:kind[:after=OPS][:for=MS][:every=OPS], kind down, stuck, unplugged, mute, late, delay, corrupt, refuse, gone or apart; or rail:limit:bytes=BYTES";
    "FERRORAIL_MULTICAST_FAULTS", Kind::Text, "",
        "faults of multicast datagrams, for tests: drop, corrupt, duplicate, reorder as probabilities, down by numbers of multicasts sent: drop=0.01,reorder=0.01,down=1000..2000,seed=7";
    "FERRORAIL_RAIL_TIMEOUT", Kind::Number(10, 600_000), "4000",
        "milliseconds that a rail to a peer may not answer before other rails take over";
    "FERRORAIL_RAIL_SUSPECT", Kind::Number(0, 600_000), "120",
        "milliseconds in which a rail to a peer delivers nothing, while another does, before it is left; 0 waits for FERRORAIL_RAIL_TIMEOUT";
    "FERRORAIL_RAIL_RETRIES", Kind::Number(1, 7), "6",
        "times a verbs rail sends a packet again within that time; some devices take 7 for ever";
    "FERRORAIL_RAIL_PROBE", Kind::Number(0, 3_600_000), "1000",
        "milliseconds between trials of a rail that failed; 0 never uses it again";
    "FERRORAIL_RELIABLE", Kind::Switch, "0",
        "1 checks messages of collectives over rails by CRC32C before they are used; what is damaged is sent again";
    "FERRORAIL_MULTICAST", Kind::Switch, "1",
        "0 never sends multicasts between nodes: algorithms whose names contain multicast are left out";
    "FERRORAIL_BCAST_CHANNELS", Kind::Number(2, 64), "16",
        "multicast messages of a communicator between two synchronisations of its nodes";
    "FERRORAIL_BCAST_EAGER", Kind::Bytes, "16K",
        "longest multicast message that leaves before its receivers are ready for it";
    "FERRORAIL_BCAST_RELIABLE", Kind::Switch, "1",
        "0 neither checks nor repeats multicast messages: for networks that lose and damage nothing";
    "FERRORAIL_BCAST_CHECKSUM", Kind::Word(&["crc32c", "additive", "none"]), "crc32c",
        "checksum over header and data of each multicast datagram";
    "FERRORAIL_LOCK", Kind::Word(&["auto", "test_and_set", "mcs", "queue", "thread", "event"]), "auto",
        "lock algorithm of windows, unless their info key ferrorail_lock says; auto is queue up to 24 ranks, then test_and_set";
    "FERRORAIL_ACCUMULATE", Kind::Word(&["origin", "event", "auto", "nic"]), "origin",
        "who accumulates in memory of another node: the origin under a lock, a thread of the target, or over verbs that from 2 KB on; nic: atomics of the rails for each element of 8 bytes";
    "FERRORAIL_ATOMICS", Kind::Word(&["auto", "cpu", "nic"]), "auto",
        "atomics on the locks of windows that span nodes; nic: rails inside nodes too; cpu: no window where that would be needed";
    "FERRORAIL_PSCW", Kind::Word(&["counters", "bit_vectors"]), "counters",
        "how ranks of a window tell each other of posts and completions, unless its info key ferrorail_pscw says: a count for each pair, or a bit that changes with each epoch";
    "FERRORAIL_LOCK_BACKOFF", Kind::Switch, "1",
        "0: contenders of a lock of test_and_set try again at once";
    "FERRORAIL_LOCK_BACKOFF_FIRST", Kind::Number(1, 1_000_000), "2",
        "microseconds for which a contender of test_and_set leaves the target alone after its first attempt; twice as many after each further one";
    "FERRORAIL_LOCK_BACKOFF_MAX", Kind::Number(1, 1_000_000), "64",
        "most microseconds for which it does";
    "FERRORAIL_LOCK_REQUEST", Kind::Word(&["early", "deferred"]), "early",
        "when MPI_Win_lock asks a target whose memory is not mapped, unless the info key ferrorail_lock_request of the window says: at once, without waiting for the answer, or at the first operation";
    "FERRORAIL_SERVICE_THREADS", Kind::Word(&["process", "window"]), "process",
        "threads that keep locks of the algorithm thread, unless the info key ferrorail_service_threads of a window says: one for all windows of a process, or one for each window";
    "FERRORAIL_REGISTRATION", Kind::Word(&["operation", "keep"]), "operation",
        "how long buffers of a program's puts and gets stay registered, unless the info key ferrorail_registration of the window says; keep: as long as the window, and the program promises to leave their memory mapped";
    "FERRORAIL_REGISTRATION_COUNT", Kind::Number(0, 1_000_000), "64",
        "most registrations that a window keeps; the least recently used goes first";
    "FERRORAIL_REGISTRATION_BYTES", Kind::Bytes, "256M",
        "most bytes in those";
    "FERRORAIL_STATS", Kind::Text, "0",
        "1 prints statistics at finalize, a path writes them there as JSON";
    "FERRORAIL_LOG", Kind::Text, "warn",
        "log filter: error, warn, info, debug, trace, or a tracing directive";
    "FERRORAIL_LIBRARY", Kind::Text, "",
        "path of libferrorail.so for `ferrorail exec` and `ferrorail bench`";
    "FERRORAIL_MPI_LIBRARY", Kind::Text, "",
        "MPI library that `ferrorail bench` and `ferrorail info` open";
    "FERRORAIL_RUN_RANK", Kind::Text, "",
        "set by `ferrorail run` for the processes it starts";
    "FERRORAIL_RUN_SIZE", Kind::Text, "",
        "set by `ferrorail run` for the processes it starts";
    "FERRORAIL_RUN_SOCKET", Kind::Text, "",
        "set by `ferrorail run` for the processes it starts";
}
