//! Rounds, volumes and ports of the forms with several leaders per node.

use super::*;
use crate::leaders::Leaders;
use crate::schedule::{Schedule, Step};
use ferrorail_base::Rank;

const FORMS: &[(Collective, &str)] = &[
    (Collective::Allgather, "multi_leader_direct"),
    (Collective::Allgatherv, "multi_leader_direct"),
    (Collective::Alltoall, "multi_leader_direct"),
    (Collective::Bcast, "multi_leader_knomial"),
    (Collective::Allreduce, "multi_leader_recursive_multiplying"),
    (Collective::Reduce, "multi_leader_knomial"),
    (Collective::ReduceScatterBlock, "multi_leader_direct"),
    (Collective::ReduceScatter, "multi_leader_direct"),
];

/// Nodes, ranks of each, ports, and the leaders that makes.
const SHAPES: &[(u32, u32, u8, u32)] = &[
    (2, 2, 2, 2),
    (3, 4, 2, 2),
    (4, 4, 4, 4),
    (5, 3, 4, 2),
    (9, 2, 4, 2),
    (8, 5, 3, 3),
    (4, 2, 3, 1),
    (6, 1, 2, 1),
];

fn built(collective: Collective, name: &str, shape: (u32, u32, u8)) -> (Topology, Vec<Schedule>) {
    let (nodes, node_size, ports) = shape;
    let topology = Topology::from_sizes(&vec![node_size; nodes as usize]);
    let algorithm = find(collective, name).expect("name");
    let schedules = algorithm.build_all(&topology, ports, Protocol::Eager);
    (topology, schedules)
}

#[test]
fn every_form_is_listed() {
    for algorithm in Collective::ALL.iter().flat_map(|&c| algorithms(c)) {
        let led = algorithm.name.starts_with("multi_leader");
        let listed = FORMS.contains(&(algorithm.collective, algorithm.name));
        assert_eq!(led, listed, "{algorithm:?}");
    }
}

#[test]
fn each_leader_drives_its_own_ports_and_all_ports_are_driven() {
    for (&(collective, name), &(nodes, node_size, ports, count)) in FORMS
        .iter()
        .flat_map(|form| SHAPES.iter().map(move |shape| (form, shape)))
    {
        let (topology, schedules) = built(collective, name, (nodes, node_size, ports));
        let mut driven = vec![false; usize::from(ports)];
        for (rank, schedule) in (0..).map(Rank).zip(&schedules) {
            let local = topology.node_rank_of(rank).0;
            let own = u32::from(ports) / count;
            assert_eq!(
                schedule.own_rails,
                count > 1 && own == 1 && local < count,
                "{name} {rank}"
            );
            for step in &schedule.steps {
                if let Step::Put { to, port, .. } = *step {
                    assert_eq!(topology.node_rank_of(to).0, local, "{name}");
                    assert!(!topology.same_node(to, rank) && local < count);
                    assert_eq!(u32::from(port) / own, local, "{collective} {name}");
                    driven[usize::from(port)] = true;
                }
            }
        }
        let peers = (nodes - 1) * count >= u32::from(ports);
        assert!(
            !peers || driven.iter().all(|&port| port),
            "{collective} {name}"
        );
    }
}

#[test]
fn rounds_and_volumes_over_nodes() {
    for &(nodes, node_size, ports, count) in SHAPES {
        let leaders = Leaders::new(ports, node_size, ports);
        assert_eq!(leaders.count, count);
        let counted =
            |collective, name| count_of(built(collective, name, (nodes, node_size, ports)).1);
        let (ranks, k) = (u64::from(nodes * node_size), u32::from(ports) / count);
        let (direct, log) = (
            u64::from((nodes - 1).div_ceil(k)),
            ceil_log(nodes, k + 1).into(),
        );
        let (others, share) = (u64::from(nodes - 1), u64::from(node_size.div_ceil(count)));
        let (q, l) = (u64::from(node_size), u64::from(count));
        let slice = ranks.div_ceil(l);
        let pairs = l * u64::from(nodes) * others;

        let gathered = counted(Collective::Allgather, "multi_leader_direct");
        assert_eq!(
            (gathered.rounds, gathered.port_blocks),
            (direct, direct * share)
        );
        assert_eq!(
            (gathered.messages, gathered.blocks),
            (pairs, ranks * others)
        );
        let exchanged = counted(Collective::Alltoall, "multi_leader_direct");
        assert_eq!(
            (exchanged.rounds, exchanged.port_blocks),
            (direct, direct * share * q)
        );
        assert_eq!(
            (exchanged.messages, exchanged.blocks),
            (pairs, ranks * (ranks - q))
        );
        let scattered = counted(Collective::ReduceScatterBlock, "multi_leader_direct");
        assert_eq!(
            (scattered.rounds, scattered.port_blocks),
            (direct, direct * share)
        );
        assert_eq!(
            (scattered.messages, scattered.blocks),
            (pairs, ranks * others)
        );
        for collective in [Collective::Bcast, Collective::Reduce] {
            let tree = counted(collective, "multi_leader_knomial");
            assert_eq!(
                (tree.rounds, tree.port_blocks),
                (log, log * slice),
                "{collective}"
            );
            assert_eq!((tree.messages, tree.blocks), (l * others, ranks * others));
        }
        let reduced = counted(Collective::Allreduce, "multi_leader_recursive_multiplying");
        if nodes <= k + 1 || floor_log(nodes, k + 1).1 == nodes {
            assert_eq!((reduced.rounds, reduced.port_blocks), (log, log * slice));
        } else {
            assert!(reduced.rounds <= log + 2, "{nodes} {k}");
        }
    }
}

fn count_of(schedules: Vec<Schedule>) -> Counts {
    count(&schedules)
}

#[test]
fn parts_of_a_reduction_pass_the_rails_twice() {
    for (size, ports) in (2..=40u32).flat_map(|size| (1..=4u8).map(move |k| (size, k))) {
        let steps = 2 * u64::from((size - 1).div_ceil(u32::from(ports)));
        let name = "reduce_scatter_gather";
        let counts = counted_of(Collective::Reduce, name, size, ports, size - 1);
        assert_eq!((counts.rounds, counts.port_blocks), (steps, steps));
        assert_eq!(counts.messages, u64::from((size - 1) * (size + 1)));
    }
}
