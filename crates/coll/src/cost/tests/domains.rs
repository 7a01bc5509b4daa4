//! What crosses between the domains of a node, which schedules over domains are there to reduce.

use crate::Collective;
use crate::algorithm::Request;
use crate::named::variant;
use crate::schedule::{Buffer, Protocol, Schedule, Span, Step};
use ferrorail_base::{Rank, Topology};

/// Sums over all ranks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Crossings {
    /// Blocks that a rank copies, combines or writes where either end is in another domain than the rank.
    blocks: u64,
    /// Flags of ranks of other domains that are waited for.
    flags: u64,
}

/// Of schedules that take the nodes of `taken` for nodes, between the domains `domains`.
fn crossings(schedules: &[Schedule], taken: &Topology, domains: &Topology) -> Crossings {
    let mut all = Crossings::default();
    for (rank, schedule) in schedules.iter().enumerate() {
        let rank = Rank(rank as u32);
        let neighbours = taken.ranks_of(taken.node_of(rank));
        let crosses = |other: Rank| u64::from(!domains.same_node(rank, other));
        let leader = |rank: Rank| taken.leader_of(taken.node_of(rank));
        let owner = |span: &Span, of: Rank| match span.buffer {
            Buffer::Node => leader(of),
            _ => of,
        };
        let moved = |span: &Span, of: Rank| u64::from(span.count) * crosses(owner(span, of));
        for step in &schedule.steps {
            match step {
                Step::Copy { from, into } => {
                    all.blocks += moved(from, rank) + moved(into, rank);
                }
                Step::Reduce {
                    left, right, into, ..
                } => {
                    // What a fold has made so far is in this rank's cache.
                    let operands = [left, right].into_iter().filter(|operand| *operand != into);
                    all.blocks += operands.map(|operand| moved(operand, rank)).sum::<u64>();
                }
                Step::Put { to, into, .. } => {
                    all.blocks += moved(into, *to);
                    all.flags += crosses(*to);
                }
                Step::NodeAwait { of, .. } => all.flags += crosses(neighbours[of.index()]),
                Step::NodeAwaitAll { .. } => {
                    all.flags += neighbours.iter().map(|&other| crosses(other)).sum::<u64>();
                }
                _ => {}
            }
        }
    }
    all
}

/// Of an algorithm on one node and over its domains.
fn both(collective: Collective, name: &str, domains: &Topology) -> [Crossings; 2] {
    let node = Topology::from_sizes(&[domains.size()]);
    [&node, domains].map(|topology| {
        let algorithm = variant(collective, name).unwrap().algorithm;
        let build = |rank| {
            (algorithm.build)(&Request {
                topology,
                domains: None,
                rank: Rank(rank),
                ports: 1,
                leaders: 1,
                protocol: Protocol::Eager,
                root: Rank(0),
            })
        };
        let schedules: Vec<Schedule> = (0..domains.size()).map(build).collect();
        crossings(&schedules, topology, domains)
    })
}

/// Two sockets of 96 cores, of which 8 share a cache, as the machine of the collectives `acoll` of Open MPI.
#[test]
fn little_crosses_between_24_caches_of_192_ranks() {
    let caches = Topology::from_sizes(&[8; 24]);
    let crossings = |blocks, flags| Crossings { blocks, flags };
    let of = |collective, name| both(collective, name, &caches);
    // Each of the 184 ranks that are not near the root reads its flag and message; or 23 leaders get them.
    assert_eq!(
        of(Collective::Bcast, "smp_knomial"),
        [crossings(184, 184), crossings(23, 23)]
    );
    // All write to one leader's memory, which then reads it.
    assert_eq!(
        of(Collective::Reduce, "smp_knomial"),
        [crossings(184, 184), crossings(23, 23)]
    );
    // All read what all have written; or leaders exchange: 16 in 4 rounds, 8 corrected before and after.
    let [flat, over] = of(Collective::Allreduce, "smp_recursive_multiplying");
    assert_eq!(flat, crossings(184 + 184 * 192, 192 * 184));
    assert_eq!(over, crossings(8 + 4 * 16 + 8, 8 + 4 * 16 + 8));
    let [flat, over] = of(Collective::Barrier, "smp_dissemination");
    assert_eq!(flat, crossings(0, 192 * 184));
    assert_eq!(over, crossings(0, 5 * 24));
}

/// Vectors that the busiest rank combines and flags of its node that it waits for, and how many ranks wait for the flag
/// that most wait for.
fn busiest(collective: Collective, name: &str, domains: Option<&Topology>) -> [u64; 3] {
    let nodes = Topology::from_sizes(&[192; 2]);
    let algorithm = variant(collective, name).unwrap().algorithm;
    let schedules = algorithm.build_over((&nodes, domains), 1, Protocol::Eager, Rank(0));
    let (mut combines, mut waits, mut awaited) = (0, 0, [0; 192]);
    for schedule in &schedules[..192] {
        let (mut combined, mut waited) = (0, 0);
        for step in &schedule.steps {
            match step {
                Step::Reduce { .. } => combined += 1,
                Step::NodeAwaitAll { .. } => waited += 191,
                Step::NodeAwait { of, .. } => {
                    waited += 1;
                    awaited[of.index()] += 1;
                }
                _ => {}
            }
        }
        combines = combines.max(combined);
        waits = waits.max(waited);
    }
    [combines, waits, awaited.into_iter().max().unwrap()]
}

#[test]
fn leaders_of_nodes_hear_of_their_24_caches_instead_of_192_ranks() {
    let caches = Topology::from_sizes(&[8; 48]);
    let both = |collective, name| [None, Some(&caches)].map(|d| busiest(collective, name, d));
    // One more vector is that of the other node. A leader's flag is awaited by 23 others and by its own 7.
    assert_eq!(
        both(Collective::Allreduce, "smp_recursive_multiplying"),
        [[191 + 1, 191, 191], [7 + 23 + 1, 7 + 23, 23 + 7]]
    );
    assert_eq!(
        both(Collective::Barrier, "smp_dissemination"),
        [[0, 191, 191], [0, 7 + 23, 23 + 7]]
    );
    assert_eq!(
        both(Collective::Reduce, "smp_knomial"),
        [[191 + 1, 191, 0], [7 + 23 + 1, 7 + 23, 1]]
    );
    assert_eq!(
        both(Collective::Bcast, "smp_knomial"),
        [[0, 1, 191], [0, 1, 23 + 7]]
    );
}
