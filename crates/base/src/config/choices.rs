//! The values of settings that are a choice.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A choice of which each value has a word.
pub(super) trait Words: Copy + Default + 'static {
    /// What stands in the environment, by value.
    const WORDS: &'static [&'static str];
    /// All values.
    const VALUES: &'static [Self];

    /// The value of `word`, which was checked; the default of any other.
    fn of(word: &str) -> Self {
        let found = Self::WORDS.iter().position(|known| *known == word);
        found.map_or_else(Self::default, |index| Self::VALUES[index])
    }
}

macro_rules! words {
    ($(
        $(#[$meta:meta])*
        $name:ident { $($(#[$about:meta])* $value:ident = $word:literal,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$about])* $value,)*
        }

        impl Words for $name {
            const WORDS: &'static [&'static str] = &[$($word),*];
            const VALUES: &'static [Self] = &[$(Self::$value),*];
        }
    )*};
}

words! {
    /// `FERRORAIL_FABRIC`.
    FabricChoice {
        /// Verbs where a usable device exists, else loopback.
        #[default]
        Auto = "auto",
        /// Emulated rails; all ranks on one host.
        Loopback = "loopback",
        /// RDMA devices only.
        Verbs = "verbs",
    }

    /// `FERRORAIL_SHM`.
    ShmKind {
        /// memfd, or POSIX shared memory where peers cannot open it.
        #[default]
        Auto = "auto",
        /// memfd only.
        Memfd = "memfd",
        /// POSIX shared memory only.
        Posix = "posix",
    }

    /// `FERRORAIL_WRITE_ORDER`: what keeps the flag of a verbs rail behind the data before it.
    WriteOrder {
        /// Adapter and fabric: writes of a queue pair are seen in their order.
        #[default]
        Device = "device",
        /// A read before each flag, which waits until that has come back.
        Read = "read",
    }

    /// `FERRORAIL_STRIPE_POLICY`.
    StripeChoice {
        /// By the bandwidths that the rails' descriptions state.
        #[default]
        Auto = "auto",
        /// Equal shares.
        Even = "even",
        /// By speeds measured when peers connect.
        Weighted = "weighted",
        /// By speeds that follow completions.
        Adaptive = "adaptive",
        /// No division: messages take the rails in turn.
        RoundRobin = "round_robin",
    }

    /// `FERRORAIL_ACCUMULATE`.
    AccumulateChoice {
        /// Origins, under the target's accumulate lock.
        #[default]
        Origin = "origin",
        /// A thread of the target.
        Event = "event",
        /// Whichever is faster for the length.
        Auto = "auto",
        /// The rails' atomics, for each element of eight bytes; origins under a lock for others.
        Nic = "nic",
    }

    /// `FERRORAIL_ATOMICS`.
    AtomicsChoice {
        /// As the rails promise.
        #[default]
        Auto = "auto",
        /// The CPU's inside nodes.
        Cpu = "cpu",
        /// The rails' everywhere.
        Nic = "nic",
    }

    /// `FERRORAIL_BCAST_CHECKSUM`.
    ChecksumChoice {
        /// CRC32C.
        #[default]
        Crc32c = "crc32c",
        /// The sum of all 32-bit words.
        Additive = "additive",
        /// None.
        None = "none",
    }

    /// `FERRORAIL_PSCW`: how ranks tell each other of posts and completions.
    Pscw {
        /// A 64-bit count for each pair of ranks.
        #[default]
        Counters = "counters",
        /// A status for each pair of ranks, which changes with each epoch.
        BitVectors = "bit_vectors",
    }

    /// `FERRORAIL_SCATTERED`: who moves elements with gaps to and from memory of the node that a program brought to a window.
    Scattered {
        /// The target, at the end of the epoch or while it waits in a call, where that is faster.
        #[default]
        Auto = "auto",
        /// The origin, at once.
        Origin = "origin",
        /// The target wherever it can.
        Target = "target",
    }

    /// `FERRORAIL_LOCK_REQUEST`: when a lock of a target that is not mapped is asked for.
    LockRequest {
        /// In `MPI_Win_lock`, which does not wait for the answer.
        #[default]
        Early = "early",
        /// At the first operation, flush or unlock.
        Deferred = "deferred",
    }

    /// `FERRORAIL_SERVICE_THREADS`: which windows a polling thread serves (lock `thread`).
    ServiceThreads {
        /// All of the process.
        #[default]
        Process = "process",
        /// One; each has its own.
        Window = "window",
    }

    /// `FERRORAIL_REGISTRATION`: how long the buffers from which a program puts, and into which it gets, stay
    /// registered.
    Registration {
        /// For one operation.
        #[default]
        Operation = "operation",
        /// As long as the window, within bounds: the program promises to leave the memory where it is.
        Keep = "keep",
    }
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

/// `FERRORAIL_DOMAINS`: which ranks of a node make up a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DomainChoice {
    /// Those that share a cache or NUMA node, in teams of many ranks.
    #[default]
    Auto,
    /// There are none.
    Off,
    /// Those that share a last-level cache.
    Cache,
    /// Those of a NUMA node.
    Numa,
    /// So many consecutive ones, from 1.
    Ranks(u32),
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
