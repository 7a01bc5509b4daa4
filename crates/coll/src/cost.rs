//! What a collective costs: counted in schedules, and in closed form for any size.
//!
//! Hockney's model: a message of m bytes takes `alpha + m beta`; a rank sends and receives k
//! messages at a time (section 3.2 of the paper). [`Counter`] reads [`Counts`] off the schedules of
//! a whole team; each algorithm's `work` states the same in closed form ([`Work`]), which tests
//! compare for every size; [`predict_in_pieces`] turns that into time, for a million ranks as for two.
//!
//! Beyond the paper, which leaves them out: shared-memory copies and waits, ports that share
//! rails, ranks that share their node's rails, and the RTR of user memory. [`Bounds`] is
//! what no algorithm can go below.

use crate::algorithm::Algorithm;
use crate::schedule::{Protocol, Schedule, Step};
use serde::{Deserialize, Serialize};
use std::fmt;

mod bounds;
#[cfg(test)]
mod tests;

pub use crate::work::{Shape, Work};
pub use bounds::Bounds;

/// What the schedules of a team amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rounds in which any rank puts.
    pub rounds: u64,
    /// For each round, the most blocks that a rank puts through one port, or receives by multicast; summed.
    pub port_blocks: u64,
    /// Puts of the rank that posts most.
    pub messages_per_rank: u64,
    /// Puts of all ranks.
    pub messages: u64,
    /// Blocks put by the rank that puts most.
    pub blocks_per_rank: u64,
    /// Blocks put by all ranks.
    pub blocks: u64,
    /// Waits for local ranks, of the rank that has most.
    pub node_syncs: u64,
    /// Blocks copied or reduced by the rank that copies most.
    pub copy_blocks: u64,
}

/// Counts the schedules of all ranks of a team.
#[cfg(test)]
pub(crate) fn count(schedules: &[Schedule]) -> Counts {
    let mut counter = Counter::default();
    for schedule in schedules {
        counter.add(schedule);
    }
    counter.finish()
}

/// Counts schedules one after another, so that a large team's need not exist at once.
#[derive(Debug, Default)]
pub struct Counter {
    counts: Counts,
    /// For each round, the most blocks through one port; `None` while nobody puts.
    round_port_blocks: Vec<Option<u64>>,
    per_port: Vec<u64>,
}

impl Counter {
    /// Counts the schedule of one more rank.
    pub fn add(&mut self, schedule: &Schedule) {
        let (mut messages, mut blocks, mut syncs, mut copied) = (0, 0, 0, 0);
        let rounds = schedule.round_ends.len().max(self.round_port_blocks.len());
        self.round_port_blocks.resize(rounds, None);
        for (round, steps) in schedule.rounds().enumerate() {
            self.per_port.clear();
            let mut received = 0;
            for step in steps {
                match *step {
                    Step::Put { port, from, .. } => {
                        messages += 1;
                        blocks += u64::from(from.count);
                        self.add_to_port(port, from.count);
                    }
                    Step::PutReduced { port, into, .. } => {
                        messages += 1;
                        blocks += u64::from(into.count);
                        copied += u64::from(into.count);
                        self.add_to_port(port, into.count);
                    }
                    // One message crosses this rank's link, however many receive it.
                    Step::Multicast { from } => {
                        messages += 1;
                        blocks += u64::from(from.count);
                        self.add_to_port(0, from.count);
                    }
                    // Each of several multicasts crosses every link; puts are received as they are sent.
                    Step::AwaitMulticast { into, .. } => received += u64::from(into.count),
                    Step::Copy { into, .. } | Step::Reduce { into, .. } => {
                        copied += u64::from(into.count)
                    }
                    Step::NodeAwait { .. } | Step::NodeAwaitAll { .. } => syncs += 1,
                    _ => {}
                }
            }
            let received = (received > 0).then_some(received);
            let busiest = self.per_port.iter().copied().max().max(received);
            self.round_port_blocks[round] = busiest.max(self.round_port_blocks[round]);
        }
        let counts = &mut self.counts;
        counts.messages += messages;
        counts.blocks += blocks;
        counts.messages_per_rank = counts.messages_per_rank.max(messages);
        counts.blocks_per_rank = counts.blocks_per_rank.max(blocks);
        counts.node_syncs = counts.node_syncs.max(syncs);
        counts.copy_blocks = counts.copy_blocks.max(copied);
    }

    fn add_to_port(&mut self, port: u8, blocks: u32) {
        let port = usize::from(port);
        let ports = self.per_port.len().max(port + 1);
        self.per_port.resize(ports, 0);
        self.per_port[port] += u64::from(blocks);
    }

    /// What all of them amount to.
    pub fn finish(mut self) -> Counts {
        self.counts.rounds = self.round_port_blocks.iter().flatten().count() as u64;
        self.counts.port_blocks = self.round_port_blocks.iter().flatten().sum();
        self.counts
    }
}

/// Parameters of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Startup of a message between nodes (t_s).
    pub alpha_ns: f64,
    /// Time per byte on one rail (τ).
    pub beta_ns_per_byte: f64,
    /// Messages of this length or more are striped over all rails.
    pub stripe_bytes: u64,
    /// A copy's startup.
    pub copy_alpha_ns: f64,
    /// Time per byte of a copy in memory.
    pub copy_beta_ns_per_byte: f64,
    /// From a flag's being raised to its being seen, within a node.
    pub sync_ns: f64,
    /// Making a user's buffer known to rails; its RTR is a message on top.
    pub register_ns: f64,
}

impl Default for Model {
    /// A 100 Gbit/s rail and a server of the 2020s.
    fn default() -> Self {
        Self {
            alpha_ns: 1500.0,
            beta_ns_per_byte: 0.08,
            stripe_bytes: 1024,
            copy_alpha_ns: 20.0,
            copy_beta_ns_per_byte: 0.1,
            sync_ns: 150.0,
            register_ns: 2000.0,
        }
    }
}

impl Model {
    /// The same where messages are copies.
    pub(crate) fn within_node(self) -> Self {
        Self {
            alpha_ns: self.sync_ns,
            beta_ns_per_byte: self.copy_beta_ns_per_byte,
            register_ns: 0.0,
            ..self
        }
    }
}

/// A predicted time.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub f64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} us", self.0 / 1000.0)
    }
}

/// As [`predict_in_pieces`], where all goes at once.
fn predict(
    algorithm: &Algorithm,
    protocol: Protocol,
    shape: &Shape,
    bytes: u64,
    model: &Model,
) -> Nanos {
    let work = (algorithm.work)(shape, protocol);
    let bytes = bytes.div_ceil(u64::from(algorithm.cut.parts(shape.ranks))) as f64;
    let copies = 2.0 * model.copy_alpha_ns
        + work.copy_blocks as f64 * bytes * model.copy_beta_ns_per_byte
        + work.node_syncs as f64 * model.sync_ns;
    let (alpha, beta, registration) = if shape.nodes == 1 {
        (model.sync_ns, model.copy_beta_ns_per_byte, 0.0)
    } else {
        let members = if algorithm.smp_aware {
            shape.nodes
        } else {
            shape.ranks
        };
        let beta = effective_beta(&work, shape, members - 1, bytes, model);
        (model.alpha_ns, beta, model.register_ns)
    };
    let rtr = match protocol {
        Protocol::Rendezvous if work.rounds > 0 => alpha + registration,
        _ => 0.0,
    };
    let network = work.rounds as f64 * alpha + work.port_blocks as f64 * bytes * beta;
    Nanos(rtr + network + copies)
}

/// Predicted time of one operation with blocks of `bytes`, or with a vector of `bytes` that the
/// algorithm cuts, without building a schedule. It is moved in pieces of `piece` bytes of each block, one
/// after the other, where more does not fit into scratch.
///
/// Copies and network add up here; overlap makes the real figure less. On one node the messages
/// of flat algorithms cost a wait and a copy each. Under [`Protocol::Rendezvous`] the RTRs come
/// first, all at once.
pub fn predict_in_pieces(
    algorithm: &Algorithm,
    protocol: Protocol,
    shape: &Shape,
    bytes: u64,
    piece: u64,
    model: &Model,
) -> Nanos {
    if piece >= bytes {
        return predict(algorithm, protocol, shape, bytes, model);
    }
    let of = |bytes| predict(algorithm, protocol, shape, bytes, model).0;
    let rest = bytes % piece;
    let last = if rest > 0 { of(rest) } else { 0.0 };
    Nanos((bytes / piece) as f64 * of(piece) + last)
}

/// Largest piece of a block of `bytes` (of a whole vector, where the algorithm cuts that) with
/// which a schedule of `scratch_blocks` fits into `scratch_bytes`: all of it, or a multiple of a
/// cache line per part where that has room.
pub fn piece_bytes(
    algorithm: &Algorithm,
    ranks: u32,
    bytes: u64,
    scratch_blocks: u32,
    scratch_bytes: u64,
) -> u64 {
    let piece = element_piece_bytes(algorithm, ranks, bytes, scratch_blocks, scratch_bytes, 1);
    piece.max(bytes.min(1))
}

/// As [`piece_bytes`], in whole elements of `element_bytes` per part. 0 if not one has room.
pub fn element_piece_bytes(
    algorithm: &Algorithm,
    ranks: u32,
    bytes: u64,
    scratch_blocks: u32,
    scratch_bytes: u64,
    element_bytes: u64,
) -> u64 {
    let most = scratch_bytes / u64::from(scratch_blocks.max(1));
    let parts = u64::from(algorithm.cut.parts(ranks));
    if bytes.div_ceil(parts).next_multiple_of(element_bytes) <= most {
        return bytes;
    }
    let lines = match 64 % element_bytes {
        0 => most - most % 64,
        _ => 0,
    };
    match lines {
        0 => (most - most % element_bytes) * parts,
        _ => lines * parts,
    }
}

/// Time per byte of one port's messages, as ports and ranks share rails; with fewer `peers` than
/// ports the others idle. A message that is not striped uses one rail however many there are.
fn effective_beta(work: &Work, shape: &Shape, peers: u32, bytes: f64, model: &Model) -> f64 {
    let ports = if work.ports == 0 {
        shape.ports
    } else {
        work.ports
    };
    let ports = u32::from(ports).min(peers);
    let per_rail = f64::from(ports) * f64::from(work.node_sharers) / f64::from(shape.rails);
    let message = work.port_blocks as f64 * bytes / (work.rounds as f64).max(1.0);
    if message >= model.stripe_bytes as f64 {
        model.beta_ns_per_byte * per_rail
    } else {
        model.beta_ns_per_byte * per_rail.max(1.0)
    }
}
