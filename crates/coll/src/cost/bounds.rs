//! What no algorithm can go below whose messages have one receiver each. Multicasts have more.
//!
//! A rank that sends and receives k messages at a time knows at most k+1 times as much after a
//! round as before, so that what depends on N ranks takes ⌈log_{k+1} N⌉ rounds (Bruck et al., IEEE
//! TPDS 8, 1997, section 2). Bytes that must leave or reach one rank are shared by its k ports at
//! best (Chan et al., Concurrency and Computation 19, 2007, section 4):
//!
//! | collective | bytes | because |
//! |---|---|---|
//! | `barrier` | 0 | |
//! | `bcast`, `reduce`, `scan`, `exscan` | l | some rank learns l bytes that it had nothing of |
//! | `gather`, `scatter` | (N-1) l | the root takes, or gives, everyone's |
//! | `allgather` | (N-1) l | everyone takes everyone's |
//! | `reduce_scatter_block` | (N-1) l | everyone gives its part of all other results |
//! | `alltoall` | (N-1) l | everyone gives everyone else its own |
//! | `allreduce` | 2(N-1)/N l | a reduction to parts, and their all-gather |
//!
//! Vector forms are bounded as if all blocks had the size of the largest.
//!
//! The same holds for nodes of q ranks that share memory, as members with q k ports, whose bytes
//! the rails share.

use super::{Model, Nanos, Shape};
use crate::collective::Collective;
use crate::pattern::ceil_log;
use serde::Serialize;

/// Lower bounds of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// Rounds, if ranks share nothing.
    pub rounds: u64,
    /// Bytes through the busiest port of such ranks.
    pub port_bytes: u64,
    /// Rounds between nodes whose ranks share memory.
    pub node_rounds: u64,
    /// Bytes through one rail of the busiest node.
    pub rail_bytes: u64,
}

impl Bounds {
    /// Those of `collective` with blocks, or a vector, of `bytes`.
    pub fn of(collective: Collective, shape: &Shape, bytes: u64) -> Self {
        let (ranks, nodes, size) = (shape.ranks, shape.nodes, shape.node_size);
        let ports = u32::from(shape.ports);
        let port_bytes = busiest(collective, ranks, 1, ranks, bytes);
        let rail_bytes = busiest(collective, ranks, size, nodes, bytes);
        Self {
            rounds: ceil_log(ranks, ports + 1).into(),
            port_bytes: port_bytes.div_ceil(shape.ports.into()),
            node_rounds: ceil_log(nodes, size.saturating_mul(ports).saturating_add(1)).into(),
            rail_bytes: rail_bytes.div_ceil(shape.rails.into()),
        }
    }

    /// The time that the network, or on one node a single wait, takes at least.
    pub fn time(&self, shape: &Shape, model: &Model) -> Nanos {
        Nanos(match (shape.ranks, shape.nodes) {
            (1, _) => 0.0,
            (_, 1) => model.sync_ns,
            _ => {
                let bytes = self.rail_bytes as f64;
                self.node_rounds as f64 * model.alpha_ns + bytes * model.beta_ns_per_byte
            }
        })
    }
}

/// Bytes that leave or reach the busiest of `members` groups of ranks, the largest of which has
/// `home` of all `ranks`.
fn busiest(collective: Collective, ranks: u32, home: u32, members: u32, bytes: u64) -> u64 {
    if members == 1 {
        return 0;
    }
    let (home, away) = (u64::from(home), u64::from(ranks - home));
    match collective {
        Collective::Barrier => 0,
        Collective::Bcast | Collective::Reduce | Collective::Scan | Collective::Exscan => bytes,
        Collective::Gather
        | Collective::Gatherv
        | Collective::Scatter
        | Collective::Scatterv
        | Collective::Allgather
        | Collective::Allgatherv
        | Collective::ReduceScatterBlock
        | Collective::ReduceScatter => away * bytes,
        Collective::Alltoall | Collective::Alltoallv => home * away * bytes,
        Collective::Allreduce => 2 * u64::from(members - 1) * bytes / u64::from(members),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{count, predict};
    use crate::registry::algorithms;
    use ferrorail_base::Topology;

    /// A multicast has more receivers than a round has ports.
    fn all() -> impl Iterator<Item = &'static crate::Algorithm> {
        let all = Collective::ALL.iter().flat_map(|&c| algorithms(c));
        all.filter(|algorithm| !algorithm.multicast)
    }

    #[test]
    fn values_by_hand() {
        let shape = |nodes, node_size, ports| Shape::even(nodes, node_size, ports, ports);
        let of = |collective, shape: &Shape| Bounds::of(collective, shape, 100);
        let flat = shape(27, 1, 2);
        let gather = of(Collective::Allgather, &flat);
        assert_eq!((gather.rounds, gather.port_bytes), (3, 1300));
        assert_eq!((gather.node_rounds, gather.rail_bytes), (3, 1300));
        let reduced = of(Collective::Allreduce, &flat);
        assert_eq!((reduced.rounds, reduced.port_bytes), (3, 96));
        assert_eq!(of(Collective::Barrier, &flat).port_bytes, 0);
        assert_eq!(of(Collective::Bcast, &flat).port_bytes, 50);

        let smp = shape(4, 4, 1);
        let exchanged = of(Collective::Alltoall, &smp);
        assert_eq!((exchanged.rounds, exchanged.port_bytes), (4, 1500));
        assert_eq!((exchanged.node_rounds, exchanged.rail_bytes), (1, 4800));

        let alone = Bounds::of(Collective::Allgather, &shape(1, 1, 1), 100);
        assert_eq!((alone.rounds, alone.port_bytes), (0, 0));
        let node = of(Collective::Allgather, &shape(1, 8, 1));
        assert_eq!((node.node_rounds, node.rail_bytes), (0, 0));
        assert_eq!((node.rounds, node.port_bytes), (3, 700));
    }

    #[test]
    fn no_algorithm_beats_them() {
        for algorithm in all() {
            for (size, ports) in (2..=33u32).flat_map(|size| (1..=4u8).map(move |k| (size, k))) {
                let topology = Topology::from_sizes(&vec![1; size as usize]);
                let shape = Shape::of(&topology, ports, ports);
                // A vector of one byte per part.
                let bytes = u64::from(algorithm.cut.parts(size));
                let bounds = Bounds::of(algorithm.collective, &shape, bytes);
                for &protocol in algorithm.protocols {
                    let counts = count(&algorithm.build_all(&topology, ports, protocol));
                    let context = format!("{algorithm:?} {protocol:?} {shape:?}");
                    assert!(counts.rounds >= bounds.rounds, "{context}");
                    let through_port = counts.port_blocks;
                    let is_empty = algorithm.collective == Collective::Barrier;
                    assert!(is_empty || through_port >= bounds.port_bytes, "{context}");
                }
            }
        }
    }

    #[test]
    fn no_prediction_is_below_them() {
        let model = Model::default();
        for algorithm in all() {
            for (nodes, node_size) in [(1, 8), (2, 4), (3, 1), (4, 4), (8, 2), (9, 3), (64, 16)] {
                for (ports, rails) in [(1, 1), (1, 2), (2, 2), (2, 1), (4, 4)] {
                    let shape = Shape::even(nodes, node_size, ports, rails);
                    for bytes in [1, 64, 4096, 1 << 20] {
                        let least = Bounds::of(algorithm.collective, &shape, bytes);
                        let least = least.time(&shape, &model);
                        for &protocol in algorithm.protocols {
                            let time = predict(algorithm, protocol, &shape, bytes, &model);
                            let context = format!("{algorithm:?} {protocol:?} {shape:?} {bytes}");
                            assert!(time >= least, "{time} < {least}: {context}");
                        }
                    }
                }
            }
        }
    }
}
