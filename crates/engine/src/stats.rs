//! Counters: what ran, on which algorithm, and what was left to the host MPI and why.

use crate::multicast::MulticastRow;
use crate::rows::{Row, add_fields, merge};
use crate::window::statistics::WindowRow;
use ferrorail_base::sync::{AtomicU64, Mutex, Ordering};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A count that rises.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Counts so many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one process. Teams add to them when they are freed.
#[derive(Debug, Default)]
pub struct Stats {
    /// What was done on windows that are freed.
    pub(crate) windows: Mutex<Vec<WindowRow>>,
    calls: Mutex<Vec<CallRow>>,
    forwarded: Mutex<Vec<ForwardRow>>,
    /// What the host MPI packed or unpacked.
    pub(crate) host_packing: Mutex<HostPackingRow>,
    /// Messages that are checked end to end.
    pub(crate) checked: Counter,
    /// Registrations of user memory.
    pub(crate) registered: Counter,
    /// Registrations of user memory that were refused.
    pub(crate) refused: Counter,
    staged: Counter,
    staged_bytes: Counter,
    /// Node segments that this process made for teams.
    pub(crate) segments: Counter,
    /// Their bytes.
    pub(crate) segment_bytes: Counter,
    /// Of those, bytes that were registered.
    pub(crate) segment_bytes_registered: Counter,
    /// What multicasts have come to.
    pub(crate) multicast: Mutex<MulticastRow>,
    /// Damaged chunks by fabric and rail.
    damaged: Mutex<BTreeMap<(&'static str, String), u64>>,
}

/// Connections to ranks of other nodes, and the memory of teams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRow {
    /// Peers connected to; both ends of a connection count it.
    pub peers: u64,
    /// The most that one rank has.
    pub peers_max: u64,
    /// Queue pairs made; loopback rails have none.
    pub queue_pairs: u64,
    /// Memory of connections in bytes: queues, registered words, journals, control words.
    pub bytes: u64,
    /// Node segments made, one for each node and communicator in use.
    pub segments: u64,
    /// Their bytes: flags, RTRs and scratch of all ranks.
    pub segment_bytes: u64,
    /// Of those, bytes that were registered with rails, and so pinned.
    #[serde(default)]
    pub segment_bytes_registered: u64,
}

impl ConnectionRow {
    /// Adds those of other ranks.
    pub(crate) fn add(&mut self, other: &Self) {
        add_fields!(self, other, peers queue_pairs bytes);
        add_fields!(self, other, segments segment_bytes segment_bytes_registered);
        self.peers_max = self.peers_max.max(other.peers_max);
    }
}

/// Calls that ferrorail ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRow {
    /// `allgather`, …
    pub collective: String,
    /// The algorithm, as settings spell it.
    pub algorithm: String,
    /// `eager` or `rendezvous`.
    pub protocol: String,
    /// Upper end of the size class: the class holds block sizes above half of it.
    pub size_class_bytes: u64,
    /// Ranks of the communicator.
    #[serde(default)]
    pub ranks: u32,
    /// Its nodes, virtual ones included.
    #[serde(default)]
    pub nodes: u32,
    /// Number of calls.
    pub calls: u64,
    /// Bytes contributed.
    pub bytes: u64,
    /// What chose the algorithm: `forced`, or `rule` and its index in the table in force.
    pub chosen_by: String,
    /// Rounds of all calls, as [`ferrorail_coll::cost`] counts them; none where the payload rode in
    /// flags.
    pub rounds: u64,
    /// Puts of all calls, those within a node too.
    pub messages: u64,
    /// Time that Hockney's model predicts for all calls together, in microseconds.
    pub predicted_total_us: f64,
}

/// Data of types that are too irregular to be packed or unpacked other than by the host MPI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPackingRow {
    /// Buffers packed or unpacked.
    pub buffers: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What became of user buffers that large messages go straight into, or come from, over rails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZeroCopyRow {
    /// Registrations, of a buffer or of a block of one; each for one operation, with every rail.
    pub registered: u64,
    /// Registrations that were refused, e.g. by the limit of locked memory.
    pub refused: u64,
    /// Messages that therefore went through scratch in pieces.
    pub staged_messages: u64,
    /// Their bytes.
    pub staged_bytes: u64,
}

/// Calls left to the host MPI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardRow {
    /// `allgather`, …
    pub collective: String,
    /// Why.
    pub reason: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes contributed, as far as known.
    pub bytes: u64,
}

impl ZeroCopyRow {
    /// Adds the counts of another rank.
    pub(crate) fn add(&mut self, other: &Self) {
        add_fields!(self, other, registered refused staged_messages staged_bytes);
    }
}

impl CallRow {
    /// What calls are counted, and listed, by.
    fn key(&self) -> impl Ord + '_ {
        (
            (&self.collective, &self.algorithm, &self.protocol),
            (self.size_class_bytes, &self.chosen_by),
            (self.ranks, self.nodes),
        )
    }
}

impl Row for CallRow {
    fn is_like(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn add(&mut self, other: &Self) {
        add_fields!(self, other, calls bytes rounds messages predicted_total_us);
    }
}

impl Row for ForwardRow {
    fn is_like(&self, other: &Self) -> bool {
        (&self.collective, &self.reason) == (&other.collective, &other.reason)
    }

    fn add(&mut self, other: &Self) {
        add_fields!(self, other, calls bytes);
    }
}

impl ForwardRow {
    /// Whether the call was one on a window, or made one.
    pub(crate) fn is_of_a_window(&self) -> bool {
        let is_operation = matches!(
            &*self.collective,
            "put" | "get" | "accumulate" | "get_accumulate" | "fetch_and_op" | "compare_and_swap"
        );
        is_operation || self.collective.starts_with("win_")
    }
}

impl Stats {
    /// Counts calls that ran here.
    pub(crate) fn called(&self, row: CallRow) {
        merge(&mut self.calls.lock(), row);
    }

    /// Counts a call that was left to the host MPI.
    pub fn forwarded(&self, collective: &'static str, reason: &'static str, bytes: u64) {
        let mut forwarded = self.forwarded.lock();
        let known = forwarded
            .iter_mut()
            .find(|row| row.collective == collective && row.reason == reason);
        match known {
            Some(row) => {
                row.calls += 1;
                row.bytes += bytes;
            }
            None => forwarded.push(ForwardRow {
                collective: collective.into(),
                reason: reason.into(),
                calls: 1,
                bytes,
            }),
        }
    }

    /// Calls of `collective`, or of all, that were left to the host MPI so far.
    pub fn forwarded_calls(&self, collective: Option<&str>) -> u64 {
        let forwarded = self.forwarded.lock();
        forwarded
            .iter()
            .filter(|row| collective.is_none_or(|wanted| wanted == row.collective))
            .map(|row| row.calls)
            .sum()
    }

    /// Messages that were checked end to end so far.
    pub fn checked_messages(&self) -> u64 {
        self.checked.get()
    }

    /// Counts a message of `bytes` bytes that this process sent in pieces.
    pub(crate) fn staged(&self, bytes: u64) {
        self.staged.add(1);
        self.staged_bytes.add(bytes);
    }

    /// What became of user buffers so far.
    pub fn zero_copy(&self) -> ZeroCopyRow {
        ZeroCopyRow {
            registered: self.registered.get(),
            refused: self.refused.get(),
            staged_messages: self.staged.get(),
            staged_bytes: self.staged_bytes.get(),
        }
    }

    /// Counts a chunk that `rail` damaged.
    pub(crate) fn damaged(&self, fabric: &'static str, rail: &str) {
        let mut damaged = self.damaged.lock();
        *damaged.entry((fabric, rail.to_owned())).or_default() += 1;
    }

    /// Chunks that `rail` damaged so far.
    pub fn damaged_chunks(&self, fabric: &'static str, rail: &str) -> u64 {
        let damaged = self.damaged.lock();
        let count = damaged.get(&(fabric, rail.to_owned()));
        count.copied().unwrap_or(0)
    }

    /// Counts a buffer that the host MPI packed or unpacked.
    pub fn packed_by_host(&self, bytes: u64) {
        let mut count = self.host_packing.lock();
        count.buffers += 1;
        count.bytes += bytes;
    }

    /// All calls counted so far.
    pub fn rows(&self) -> (Vec<CallRow>, Vec<ForwardRow>) {
        let (mut calls, mut forwarded) = (self.calls.lock().clone(), self.forwarded.lock().clone());
        calls.sort_by(|a, b| a.key().cmp(&b.key()));
        forwarded.sort_by(|a, b| (&a.collective, &a.reason).cmp(&(&b.collective, &b.reason)));
        (calls, forwarded)
    }
}
