//! Every algorithm and protocol on every size, k and many node shapes.

use super::super::*;
use crate::registry::{Algorithm, Collective, algorithms};
use proptest::prelude::*;

/// All roots of small teams, the first, second and last of large ones.
fn roots(algorithm: &Algorithm, size: u32) -> Vec<u32> {
    match size {
        _ if !algorithm.collective.is_rooted() => vec![0],
        1..=16 => (0..size).collect(),
        _ => vec![0, 1, size - 1],
    }
}

fn check(algorithm: &Algorithm, topology: &Topology, ports: u8) {
    for &protocol in algorithm.protocols {
        for root in roots(algorithm, topology.size()) {
            check_root(algorithm, topology, ports, protocol, Rank(root));
        }
    }
}

fn check_root(
    algorithm: &Algorithm,
    topology: &Topology,
    ports: u8,
    protocol: Protocol,
    root: Rank,
) {
    let semantics = algorithm.collective.semantics();
    let schedules = algorithm.build_rooted(topology, ports, protocol, root);
    for in_place in [false, true] {
        if in_place && !semantics.in_place_protocols.contains(&protocol) {
            continue;
        }
        let task = Task {
            topology,
            ports,
            protocol,
            root,
            semantics,
            parts: algorithm.cut.parts(topology.size()),
            rank_order: !algorithm.commutative_only(topology),
            in_place,
        };
        if let Err(error) = verify(&task, &schedules) {
            panic!(
                "{algorithm:?} {protocol:?} k={ports} root={root} in_place={in_place} \
                 {topology:?}: {error}"
            );
        }
    }
}

fn check_all(topology: &Topology, ports: std::ops::RangeInclusive<u8>) {
    for algorithm in Collective::ALL.iter().flat_map(|&c| algorithms(c)) {
        for ports in ports.clone() {
            check(algorithm, topology, ports);
        }
    }
}

#[test]
fn every_algorithm_every_size_every_k_on_nodes_of_one() {
    for size in 1..=64 {
        check_all(&Topology::from_sizes(&vec![1; size]), 1..=4);
    }
}

#[test]
fn every_algorithm_with_more_ports_than_peers() {
    for size in (1..=20).chain([64, 65, 81, 82]) {
        check_all(&Topology::from_sizes(&vec![1; size]), 5..=8);
    }
}

/// Node-aware algorithms on every size; the others, to which nodes matter little, on some.
fn check_nodes(size: u32, topology: &Topology) {
    for algorithm in Collective::ALL.iter().flat_map(|&c| algorithms(c)) {
        if algorithm.smp_aware || size % 9 == 5 {
            for ports in 1..=4 {
                check(algorithm, topology, ports);
            }
        }
    }
}

#[test]
fn every_size_on_nodes_of_two_three_and_four() {
    for size in 1..=64 {
        for node_size in [2, 3, 4] {
            let topology = Topology::from_host_keys(&vec![7; size as usize], Some(node_size));
            check_nodes(size, &topology);
        }
    }
}

#[test]
fn every_size_on_interleaved_nodes() {
    for size in 1..=64u32 {
        for (hosts, node_size) in [(2, None), (3, Some(4)), (size.div_ceil(3), None)] {
            let keys: Vec<u64> = (0..size).map(|rank| u64::from(rank % hosts)).collect();
            check_nodes(size, &Topology::from_host_keys(&keys, node_size));
        }
    }
}

#[test]
fn every_size_on_one_node() {
    for size in 1..=64 {
        check_nodes(size, &Topology::from_sizes(&[size]));
    }
}

#[test]
fn every_algorithm_on_uneven_nodes() {
    let shapes: &[&[u32]] = &[
        &[3, 1, 2],
        &[1, 2],
        &[2, 1],
        &[1, 1, 4],
        &[5, 1, 1, 1],
        &[1, 7, 2, 2, 3],
        &[4, 4, 4, 3],
        &[1, 2, 3, 4, 5, 6, 7],
        &[16, 1, 1, 9, 2, 1, 1, 1, 8],
    ];
    for sizes in shapes {
        check_all(&Topology::from_sizes(sizes), 1..=4);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_placement_of_ranks(
        keys in proptest::collection::vec(0u64..9, 1..40),
        node_size in proptest::option::of(1u32..6),
        ports in 1u8..=8,
    ) {
        check_all(&Topology::from_host_keys(&keys, node_size), ports..=ports);
    }
}
