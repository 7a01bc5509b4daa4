//! The shipped table against the cost model, between nodes; inside one measurements rule.

use super::*;
use crate::algorithm::Request;
use crate::cost::{Model, Shape, piece_bytes, predict_in_pieces};
use crate::registry::algorithms;
use ferrorail_base::{Rank, Topology};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A choice that is predicted to take this much longer than the best counts as slow.
const SLOW: f64 = 1.3;
/// None may take this much longer. The model is as far from the truth at times: it counts what
/// flat algorithms put within a node as if it crossed rails, and knows no overlap.
const TOO_SLOW: f64 = 2.0;
/// Share of all choices that may be slow.
const SLOW_SHARE_MAX: f64 = 0.02;
/// `FERRORAIL_SCRATCH`.
const SCRATCH_BYTES: u64 = 64 << 10;

/// Where measurements, on verbs and on loopback, contradict the model: it has zero-copy faster
/// than what lands in scratch from 8 KiB on, they have it from 32 KiB on, among few ranks also of
/// all-to-all, and of gather from 128 KiB on.
fn is_measured(collective: Collective, ranks: u32, bytes: u64) -> bool {
    match collective {
        Collective::Allgather => bytes <= 32 << 10,
        Collective::Alltoall => ranks <= 4 && bytes <= 32 << 10,
        Collective::Gather => ranks <= 4 && bytes <= 64 << 10,
        _ => false,
    }
}

struct Candidate {
    algorithm: &'static Algorithm,
    protocol: Protocol,
    scratch_blocks: u32,
}

/// Everything that could run on `topology`.
fn candidates(collective: Collective, topology: &Topology, ports: u8) -> Vec<Candidate> {
    let all = algorithms(collective).iter().filter(|a| !a.multicast);
    let all = all.flat_map(|algorithm| algorithm.protocols.iter().map(move |&l| (algorithm, l)));
    let with_scratch = all.map(|(algorithm, protocol)| {
        let schedule = (algorithm.build)(&Request {
            topology,
            domains: None,
            rank: Rank(0),
            ports,
            leaders: ports,
            protocol,
            root: Rank(0),
        });
        Candidate {
            algorithm,
            protocol,
            scratch_blocks: schedule.scratch_blocks,
        }
    });
    with_scratch.collect()
}

fn predicted(candidate: &Candidate, shape: &Shape, bytes: u64) -> f64 {
    let Candidate {
        algorithm,
        protocol,
        ..
    } = *candidate;
    let piece = match protocol {
        Protocol::Eager => piece_bytes(
            algorithm,
            shape.ranks,
            bytes,
            candidate.scratch_blocks,
            SCRATCH_BYTES,
        ),
        Protocol::Rendezvous => bytes,
    };
    predict_in_pieces(algorithm, protocol, shape, bytes, piece, &Model::default()).0
}

/// Choices for which another algorithm is predicted to be faster, by what is chosen and what is
/// best.
#[derive(Default)]
struct Findings {
    choices: usize,
    slow: BTreeMap<String, Slow>,
}

#[derive(Default)]
struct Slow {
    choices: usize,
    worst: f64,
    place: String,
}

impl Findings {
    /// Compares the choices for one team.
    fn add(&mut self, shape: &Shape, topology: &Topology, zero_copy: bool) {
        // Where one algorithm is all there is, the length of each message decides.
        let collectives = Collective::ALL.iter().copied();
        for collective in collectives.filter(|&c| algorithms(c).len() > 1) {
            let mut all = candidates(collective, topology, shape.ports);
            all.retain(|c| zero_copy || c.protocol == Protocol::Eager);
            let sizes = (0..=22).map(|class| 1u64 << class);
            for bytes in sizes.filter(|&bytes| !is_measured(collective, shape.ranks, bytes)) {
                let choice = Table::shipped().choose(&Query {
                    collective,
                    bytes,
                    ranks: shape.ranks,
                    nodes: shape.nodes,
                    node_size_max: shape.node_size,
                    domains: 1,
                    ranks_per_core: 1,
                    attach_percent: NOT_MEASURED,
                    rails: shape.rails,
                    ports: shape.ports,
                    zero_copy,
                    multicast: false,
                    all_pairs: true,
                });
                self.add_choice(&choice, &all, shape, bytes);
            }
        }
    }

    fn add_choice(&mut self, choice: &Choice, all: &[Candidate], shape: &Shape, bytes: u64) {
        self.choices += 1;
        let timed: Vec<_> = all
            .iter()
            .map(|c| (predicted(c, shape, bytes), c))
            .collect();
        let is_chosen = |c: &Candidate| {
            (c.algorithm, c.protocol) == (choice.variant.algorithm, choice.protocol)
        };
        let chosen = timed
            .iter()
            .find(|(_, c)| is_chosen(c))
            .expect("a candidate");
        let best = timed
            .iter()
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("some");
        let ratio = chosen.0 / best.0;
        if ratio <= SLOW {
            return;
        }
        let name = |c: &Candidate| format!("{:?} by {:?}", c.algorithm, c.protocol);
        let slow = self
            .slow
            .entry(format!("{}: {}", name(chosen.1), name(best.1)));
        let slow = slow.or_default();
        slow.choices += 1;
        if ratio > slow.worst {
            slow.worst = ratio;
            slow.place = format!("{bytes} bytes, {shape:?}");
        }
    }

    fn text(&self) -> String {
        let mut text = String::from("chosen: best, choices, worst ratio\n");
        for (pair, slow) in &self.slow {
            let Slow {
                choices,
                worst,
                place,
            } = slow;
            let _ = writeln!(text, "{pair}: {choices}, {worst:.2} at {place}");
        }
        text
    }
}

#[test]
fn between_nodes_few_choices_are_predicted_to_be_slow() {
    let mut findings = Findings::default();
    for (nodes, node_size) in (2..=8u32).flat_map(|v| [1, 2, 4, 8].map(|q| (v, q))) {
        let topology = Topology::from_sizes(&vec![node_size; nodes as usize]);
        for rails in [1, 2, 4] {
            let shape = Shape::of(&topology, rails, rails);
            for zero_copy in [true, false] {
                findings.add(&shape, &topology, zero_copy);
            }
        }
    }
    let slow: usize = findings.slow.values().map(|slow| slow.choices).sum();
    let share = slow as f64 / findings.choices as f64;
    let worst = findings.slow.values().map(|slow| slow.worst);
    let worst = worst.fold(0.0, f64::max);
    let text = findings.text();
    println!(
        "{:.1} % of {} choices are slow\n{text}",
        100.0 * share,
        findings.choices
    );
    assert!(
        worst <= TOO_SLOW && share <= SLOW_SHARE_MAX,
        "{share} {worst} {text}"
    );
}
