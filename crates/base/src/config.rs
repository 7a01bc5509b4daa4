//! The one table of every setting. Names are environment variables; the same strings stand in
//! logs, statistics and documentation.

mod choices;
mod communicator;
mod multicast;
mod parse;
mod windows;

pub use choices::{
    AccumulateChoice, AtomicsChoice, ChecksumChoice, DomainChoice, FabricChoice, LockRequest, Pscw,
    RailChoice, Registration, Scattered, ServiceThreads, ShmKind, StatsSink, StripeChoice,
    WriteOrder,
};
pub use communicator::{PER_COMMUNICATOR, per_communicator};
pub use multicast::{CERTAIN, MulticastFaults};
pub use parse::{Problem, parse};
pub use windows::{LockBackoff, WindowKeys, WindowSettings};

use Kind::{Bytes, Number, Switch, Text, Word};
use choices::Words;
use std::collections::BTreeMap;
use std::path::PathBuf;

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

/// Whose a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The process's.
    Process,
    /// Shared by the ranks of a communicator, so that each communicator may have its own.
    Communicator,
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
    /// Whose it is.
    pub scope: Scope,
    /// One line for `ferrorail info`.
    pub help: &'static str,
}

/// A row is: the variable, kind, default and scope; the field of [`Settings`], its type, and which function of
/// `parse::Value` reads it; help. Settings that programs of ours read themselves, or that are a part of another
/// one's field, have none.
macro_rules! table {
    ($(
        $name:literal, $kind:expr, $default:literal, $scope:ident
            $(=> $field:ident: $type:ty, $read:ident $(($argument:literal))?)?,
        $help:literal;
    )*) => {
        /// Every setting, in the order `ferrorail info` prints them.
        pub const TABLE: &[Setting] = &[$(Setting {
            name: $name,
            kind: $kind,
            default: $default,
            scope: Scope::$scope,
            help: $help,
        }),*];

        /// Every setting the libraries read, validated.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(
                #[doc = concat!("`", $name, "`\n```text\n", $help, "\n```")]
                pub $field: $type,
            )?)*
        }

        impl Settings {
            fn read(reader: &mut parse::Reader) -> Self {
                Self {
                    $($($field: reader.value($name).$read($($argument)?),)?)*
                }
            }
        }
    };
}

table! {
    "FERRORAIL_ENABLE", Switch, "1", Communicator => enable: bool, is("1"),
        "0 forwards every call to the host MPI";
    "FERRORAIL_PRESENCE", Word(&["auto", "assume"]), "auto", Process => presence_assumed: bool, is("assume"),
        "which ranks of a world run ferrorail: as the launcher's key-value service says; assume: all of them, for launchers without one";
    "FERRORAIL_DEVICE_MEMORY", Word(&["auto", "none"]), "auto", Process => device_memory: bool, is_not("none"),
        "auto leaves communicators to the host MPI if a rank has a GPU driver loaded when they are first used; none: MPI gets no buffers in device memory";
    "FERRORAIL_FABRIC", Word(FabricChoice::WORDS), "auto", Process => fabric: FabricChoice, word,
        "what carries bytes between nodes";
    "FERRORAIL_RAILS", Text, "auto", Process => rails: RailChoice, rails,
        "rails to use: a count, or names such as rxe0,mlx5_1:2";
    "FERRORAIL_GID_INDEX", Text, "auto", Process => gid_index: Option<u32>, number_or_auto,
        "GID index on RoCE ports; auto takes RoCE v2 with an IPv4-mapped address";
    "FERRORAIL_WRITE_ORDER", Word(WriteOrder::WORDS), "device", Process => write_order: WriteOrder, word,
        "what keeps a flag behind its data on a verbs rail: the device, as InfiniBand demands; read: a read before each flag, for fabrics that place data out of order";
    "FERRORAIL_PORTS", Number(0, 8), "0", Communicator => ports: Option<u8>, nonzero,
        "k of the multi-port algorithms; 0 means the number of rails";
    "FERRORAIL_LEADERS", Number(0, 8), "0", Communicator => leaders: Option<u8>, nonzero,
        "most leaders per node, each with its own rails; 0 means one for each of the k ports";
    "FERRORAIL_QUEUE_PAIRS", Number(0, 1 << 32), "16384", Communicator => queue_pairs_max: Option<u64>, nonzero,
        "most queue pairs of a communicator on a node: where every rank with every other would need more, collectives that do so take another algorithm or are left to the host MPI; 0 means no limit";
    "FERRORAIL_STRIPE_THRESHOLD", Bytes, "8K", Communicator => stripe_threshold: u64, bytes,
        "messages of at least this size are striped over all rails";
    "FERRORAIL_STRIPE_POLICY", Word(StripeChoice::WORDS), "auto", Communicator => stripe_policy: StripeChoice, word,
        "shares of the rails: by nominal bandwidth, equal, by speeds measured at the start, or following completions; or whole messages in turn";
    "FERRORAIL_STRIPE_MIN", Bytes, "512", Communicator => stripe_bytes_min: u64, bytes,
        "least stripe; a rail whose share would be smaller is left out";
    "FERRORAIL_NODE_SIZE", Number(0, u32::MAX as u64), "0", Communicator => node_size: Option<u32>, nonzero,
        "ranks per virtual node; 0 takes nodes as they are";
    "FERRORAIL_DOMAINS", Text, "auto", Communicator => domains: DomainChoice, domains,
        "parts of a node that collectives of many ranks combine first: auto, cache: ranks that share a last-level cache, numa: those of a NUMA node, off, or so many consecutive ranks each; auto takes caches or NUMA nodes, whichever is shared by 4 ranks or more, from 16 ranks on";
    "FERRORAIL_ALGORITHM", Text, "", Communicator => algorithm: BTreeMap<String, String>, pairs,
        "forced algorithms, e.g. allgather=smp_bruck, with ports of their own: allgather=bruck:ports=1, or over domains: bcast=smp_knomial:domains";
    "FERRORAIL_TUNING", Text, "", Communicator => tuning: Option<PathBuf>, path,
        "selection table (JSON) to use instead of the built-in one";
    "FERRORAIL_SCRATCH", Text, "auto", Communicator => scratch_bytes: Option<u64>, scratch,
        "scratch bytes per rank and channel of a communicator, 4K to 1024G, e.g. 64K; auto is 128K for up to 4 ranks on one node, else 64K";
    "FERRORAIL_ZERO_COPY", Word(&["auto", "on", "off"]), "auto", Communicator => zero_copy: Option<bool>, switch_or_auto,
        "large messages straight into the receive buffer";
    "FERRORAIL_SHM", Word(ShmKind::WORDS), "auto", Communicator => shm: ShmKind, word,
        "backing of node segments; auto prefers memfd, which needs no /dev/shm";
    "FERRORAIL_CMA", Word(&["auto", "off"]), "auto", Communicator => cma: bool, is_not("off"),
        "cross-memory attach between ranks of one host";
    "FERRORAIL_ATTACH_PERCENT", Text, "auto", Communicator => attach_percent: Option<u32>, number_or_auto,
        "time that long messages of a node's ranks take by cross-memory attach, in percent of what they take through the node's segment; auto measures both";
    "FERRORAIL_SPIN", Text, "auto", Process => spin: Option<u32>, number_or_auto,
        "polls before a waiting rank yields its core; auto is 0 where ranks outnumber cores";
    "FERRORAIL_PEER_TIMEOUT", Number(0, 86_400), "0", Process => peer_timeout_s: Option<u64>, nonzero,
        "seconds a rank may wait for its peers before the call fails; 0 waits on as long as they live";
    "FERRORAIL_WAIT_SIGNAL", Number(0, 64), "0", Process => wait_signal: Option<i32>, nonzero,
        "signal upon which a rank says on standard error what it waits for, such as 23 (SIGURG); 0: none";
    "FERRORAIL_LOOPBACK_LATENCY", Number(0, 1_000_000_000), "0", Process => loopback_latency_ns: u64, number,
        "modelled latency of a loopback rail in ns";
    // The last one counts for all rails that follow.
    "FERRORAIL_LOOPBACK_BANDWIDTH", Text, "0", Process => loopback_bandwidths_mb_s: Vec<u64>, numbers,
        "modelled bandwidth of loopback rails in MB/s, one for all or one each: 1000,250; 0 is unlimited";
    "FERRORAIL_LOOPBACK_NUMA", Text, "", Process => loopback_numa: Vec<u64>, numbers,
        "NUMA nodes that loopback rails pretend to be on, for tests: 0,1; none by default";
    "FERRORAIL_LOOPBACK_FAULTS", Text, "", Process => loopback_faults: String, text,
        "faults of loopback rails, for tests: rail:kind[:after=OPS][:for=MS][:every=OPS], kind down, stuck, unplugged, mute, late, delay, corrupt, refuse, gone or apart; or rail:limit:bytes=BYTES";
    "FERRORAIL_MULTICAST_FAULTS", Text, "", Process => multicast_faults: MulticastFaults, multicast_faults,
        "faults of multicast datagrams, for tests: drop, corrupt, duplicate, reorder as probabilities, down by numbers of multicasts sent: drop=0.01,reorder=0.01,down=1000..2000,seed=7";
    "FERRORAIL_RAIL_TIMEOUT", Number(10, 600_000), "4000", Process => rail_timeout_ms: u64, number,
        "milliseconds that a rail to a peer may not answer before other rails take over";
    "FERRORAIL_RAIL_SUSPECT", Number(0, 600_000), "120", Process => rail_suspect_ms: Option<u64>, nonzero,
        "milliseconds in which a rail to a peer delivers nothing, while another does, before it is left; 0 waits for FERRORAIL_RAIL_TIMEOUT";
    "FERRORAIL_RAIL_RETRIES", Number(1, 7), "6", Process => rail_retries: u8, number,
        "times a verbs rail sends a packet again within that time; some devices take 7 for ever";
    "FERRORAIL_RAIL_PROBE", Number(0, 3_600_000), "1000", Process => rail_probe_ms: Option<u64>, nonzero,
        "milliseconds between trials of a rail that failed; 0 never uses it again";
    "FERRORAIL_RELIABLE", Switch, "0", Communicator => reliable: bool, is("1"),
        "1 checks messages of collectives over rails by CRC32C before they are used; what is damaged is sent again";
    "FERRORAIL_MULTICAST", Switch, "1", Communicator => multicast: bool, is("1"),
        "0 never sends multicasts between nodes: algorithms whose names contain multicast are left out";
    "FERRORAIL_BCAST_CHANNELS", Number(2, 64), "16", Communicator => bcast_channels: u32, number,
        "multicast messages of a communicator between two synchronisations of its nodes";
    "FERRORAIL_BCAST_EAGER", Bytes, "16K", Communicator => bcast_eager_bytes: u64, bytes,
        "longest multicast message that leaves before its receivers are ready for it";
    "FERRORAIL_BCAST_RELIABLE", Switch, "1", Communicator => bcast_reliable: bool, is("1"),
        "0 neither checks nor repeats multicast messages: for networks that lose and damage nothing";
    "FERRORAIL_BCAST_CHECKSUM", Word(ChecksumChoice::WORDS), "crc32c", Communicator => bcast_checksum: ChecksumChoice, word,
        "checksum over header and data of each multicast datagram";
    "FERRORAIL_LOCK", Word(&["auto", "test_and_set", "mcs", "queue", "thread", "event"]), "auto", Communicator => lock: Option<String>, name_or_auto,
        "lock algorithm of windows, unless their info key ferrorail_lock says; auto is queue up to 24 ranks, then test_and_set";
    "FERRORAIL_ACCUMULATE", Word(AccumulateChoice::WORDS), "origin", Communicator => accumulate: AccumulateChoice, word,
        "who accumulates in memory of another node: the origin under a lock, a thread of the target, or over verbs that from 2 KB on; nic: atomics of the rails for each element of 8 bytes";
    "FERRORAIL_ATOMICS", Word(AtomicsChoice::WORDS), "auto", Communicator => atomics: AtomicsChoice, word,
        "atomics on the locks of windows that span nodes; nic: rails inside nodes too; cpu: no window where that would be needed";
    "FERRORAIL_PSCW", Word(Pscw::WORDS), "counters", Communicator => windows: WindowSettings, windows,
        "how ranks of a window tell each other of posts and completions, unless its info key ferrorail_pscw says: a count for each pair, or a bit that changes with each epoch";
    "FERRORAIL_SCATTERED", Word(Scattered::WORDS), "auto", Communicator,
        "who moves elements with gaps to and from memory of the node that a program brought to a window, unless its info key ferrorail_scattered says: the origin at once, or the target at the end of the epoch";
    "FERRORAIL_LOCK_BACKOFF", Switch, "1", Communicator,
        "0: contenders of a lock of test_and_set try again at once";
    "FERRORAIL_LOCK_BACKOFF_FIRST", Number(1, 1_000_000), "2", Communicator,
        "microseconds for which a contender of test_and_set leaves the target alone after its first attempt; twice as many after each further one";
    "FERRORAIL_LOCK_BACKOFF_MAX", Number(1, 1_000_000), "64", Communicator,
        "most microseconds for which it does";
    "FERRORAIL_LOCK_REQUEST", Word(LockRequest::WORDS), "early", Communicator,
        "when MPI_Win_lock asks a target whose memory is not mapped, unless the info key ferrorail_lock_request of the window says: at once, without waiting for the answer, or at the first operation";
    "FERRORAIL_SERVICE_THREADS", Word(ServiceThreads::WORDS), "process", Communicator,
        "threads that keep locks of the algorithm thread, unless the info key ferrorail_service_threads of a window says: one for all windows of a process, or one for each window";
    "FERRORAIL_REGISTRATION", Word(Registration::WORDS), "operation", Communicator,
        "how long buffers of a program's puts and gets stay registered, unless the info key ferrorail_registration of the window says; keep: as long as the window, and the program promises to leave their memory mapped";
    "FERRORAIL_REGISTRATION_COUNT", Number(0, 1_000_000), "64", Communicator,
        "most registrations that a window keeps; the least recently used goes first";
    "FERRORAIL_REGISTRATION_BYTES", Bytes, "256M", Communicator,
        "most bytes in those";
    "FERRORAIL_STATS", Text, "0", Process => stats: StatsSink, stats,
        "1 prints statistics at finalize, a path writes them there as JSON";
    "FERRORAIL_LOG", Text, "warn", Process => log: String, log_filter,
        "log filter: off, error, warn, info, debug, trace, or a tracing directive";
    "FERRORAIL_LIBRARY", Text, "", Process,
        "path of libferrorail.so for `ferrorail exec` and `ferrorail bench`";
    "FERRORAIL_MPI_LIBRARY", Text, "", Process,
        "MPI library that `ferrorail bench` and `ferrorail info` open";
    "FERRORAIL_RUN_RANK", Text, "", Process,
        "set by `ferrorail run` for the processes it starts";
    "FERRORAIL_RUN_SIZE", Text, "", Process,
        "set by `ferrorail run` for the processes it starts";
    "FERRORAIL_RUN_SOCKET", Text, "", Process,
        "set by `ferrorail run` for the processes it starts";
}

impl Default for Settings {
    fn default() -> Self {
        parse(std::iter::empty::<(String, String)>()).0
    }
}
