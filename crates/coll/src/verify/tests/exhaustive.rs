//! Every algorithm and protocol on every size, k and many node shapes; which sizes a run takes says `sample`.

use super::super::*;
use crate::algorithm::Algorithm;
use crate::collective::Collective;
use crate::registry::{algorithms, find};
use crate::sample::{cases, one_of, sizes};
use crate::schedule::{barrier_slots, slots};
use proptest::prelude::*;
use std::ops::RangeInclusive;

/// All roots of small teams, the first, second and last of large ones.
fn roots(algorithm: &Algorithm, size: u32) -> Vec<u32> {
    match size {
        _ if !algorithm.collective.is_rooted() => vec![0],
        1..=16 => (0..size).collect(),
        _ => vec![0, 1, size - 1],
    }
}

/// Verification depends on k only in that ports are below it. So schedules that are those of the k
/// before, as where there are fewer peers than ports, are proven.
fn check(algorithm: &Algorithm, topology: &Topology, ports: RangeInclusive<u8>) {
    check_over(algorithm, (topology, None), ports);
}

/// As [`check`], over the domains of nodes.
fn check_over(
    algorithm: &Algorithm,
    (topology, domains): (&Topology, Option<&Topology>),
    ports: RangeInclusive<u8>,
) {
    for &protocol in algorithm.protocols {
        for root in roots(algorithm, topology.size()).into_iter().map(Rank) {
            let mut proven = None;
            for ports in ports.clone() {
                let over = (topology, domains);
                let schedules = algorithm.build_over(over, ports, protocol, root);
                if proven.as_ref() != Some(&schedules) {
                    check_schedules(algorithm, over, ports, protocol, root, &schedules);
                }
                proven = Some(schedules);
            }
        }
    }
}

fn check_schedules(
    algorithm: &Algorithm,
    (topology, domains): (&Topology, Option<&Topology>),
    ports: u8,
    protocol: Protocol,
    root: Rank,
    schedules: &[Schedule],
) {
    let semantics = algorithm.collective.semantics();
    let slots = match algorithm.collective {
        Collective::Barrier => barrier_slots(topology.size()),
        _ => slots(topology, algorithm.all_pairs),
    };
    for in_place in [false, true] {
        if in_place && !semantics.in_place_protocols.contains(&protocol) {
            continue;
        }
        let task = Task {
            topology,
            ports,
            protocol,
            root,
            slots,
            semantics,
            parts: algorithm.cut.parts(topology.size()),
            rank_order: !algorithm.commutative_only(topology, domains),
            in_place,
        };
        if let Err(error) = verify(&task, schedules) {
            panic!(
                "{algorithm:?} {protocol:?} k={ports} root={root} in_place={in_place} \
                 {topology:?} {domains:?}: {error}"
            );
        }
    }
}

/// Every algorithm, once: not again as one of the vector form of its collective.
fn all() -> impl Iterator<Item = &'static Algorithm> {
    let collectives = Collective::ALL.iter().filter(|c| c.regular() == **c);
    collectives.flat_map(|&collective| algorithms(collective))
}

fn check_all(topology: &Topology, ports: RangeInclusive<u8>) {
    for algorithm in all() {
        check(algorithm, topology, ports.clone());
    }
}

#[test]
fn vector_forms_have_the_schedules_of_their_regular_collectives() {
    let topologies = [
        Topology::from_sizes(&[1; 9]),
        Topology::from_host_keys(&[0, 1, 1, 0, 2, 0, 1, 0, 2, 0, 0], Some(3)),
    ];
    for &collective in Collective::ALL.iter().filter(|c| c.regular() != **c) {
        assert_eq!(collective.is_rooted(), collective.regular().is_rooted());
        for form in algorithms(collective) {
            let proven = find(collective.regular(), form.name).expect("a row of its name");
            assert_eq!((form.cut, form.rank_order), (proven.cut, proven.rank_order));
            for &protocol in form.protocols {
                assert!(proven.supports(protocol), "{form:?}");
                for topology in &topologies {
                    let root = Rank(roots(form, topology.size()).pop().expect("a root"));
                    let build = |row: &Algorithm| row.build_rooted(topology, 3, protocol, root);
                    assert_eq!(build(form), build(proven), "{form:?}");
                }
            }
        }
    }
}

#[test]
fn every_algorithm_every_size_every_k_on_nodes_of_one() {
    for size in sizes(64) {
        check_all(&Topology::from_sizes(&vec![1; size as usize]), 1..=4);
    }
}

#[test]
fn every_algorithm_with_more_ports_than_peers() {
    for size in (1..=20).chain(one_of(&[64, 65, 81, 82]).iter().copied()) {
        check_all(&Topology::from_sizes(&vec![1; size as usize]), 5..=8);
    }
}

/// Node-aware algorithms on every size; the others, to which nodes matter little, on some.
fn check_nodes(size: u32, topology: &Topology) {
    for algorithm in all() {
        if algorithm.smp_aware || size % 9 == 5 {
            check(algorithm, topology, 1..=4);
        }
    }
}

#[test]
fn every_size_on_nodes_of_two_three_and_four() {
    for size in sizes(64) {
        for node_size in [2, 3, 4] {
            let topology = Topology::from_host_keys(&vec![7; size as usize], Some(node_size));
            check_nodes(size, &topology);
        }
    }
}

#[test]
fn every_size_on_interleaved_nodes() {
    for size in sizes(64) {
        for (hosts, node_size) in [(2, None), (3, Some(4)), (size.div_ceil(3), None)] {
            let keys: Vec<u64> = (0..size).map(|rank| u64::from(rank % hosts)).collect();
            check_nodes(size, &Topology::from_host_keys(&keys, node_size));
        }
    }
}

#[test]
fn every_size_on_one_node() {
    for size in sizes(64) {
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

/// On several nodes over their domains. That some have several is what makes schedules differ.
fn check_domains(keys: &[u64], node_size: Option<u32>, domain_of: impl Fn(Rank) -> u32) {
    let topology = Topology::from_host_keys(keys, node_size);
    if topology.node_count() == 1 {
        return;
    }
    let domains = topology.divided(domain_of, None);
    for algorithm in all().filter(|algorithm| algorithm.by_domains) {
        check_over(algorithm, (&topology, Some(&domains)), 1..=4);
    }
}

#[test]
fn every_size_over_domains_of_several_nodes() {
    for size in sizes(64).skip(1) {
        for (node_size, domain_size) in [(4, 2), (6, 2), (9, 4), (16, 4), (24, 7), (33, 3)] {
            let keys = vec![0; size as usize];
            let domain = |rank: Rank| rank.0 % node_size / domain_size;
            check_domains(&keys, Some(node_size), domain);
            let in_turn = |rank: Rank| rank.0 % domain_size;
            check_domains(&keys, Some(node_size), in_turn);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn any_placement_of_ranks(
        keys in proptest::collection::vec(0u64..9, 1..40),
        node_size in proptest::option::of(1u32..6),
        ports in 1u8..=8,
    ) {
        check_all(&Topology::from_host_keys(&keys, node_size), ports..=ports);
    }

    #[test]
    fn any_placement_of_ranks_in_domains(
        places in proptest::collection::vec((0u64..4, 0u32..5), 1..40),
        node_size in proptest::option::of(3u32..12),
    ) {
        let (keys, domains): (Vec<u64>, Vec<u32>) = places.into_iter().unzip();
        check_domains(&keys, node_size, |rank| domains[rank.index()]);
    }
}
