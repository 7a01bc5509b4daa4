//! The closed forms against the schedules, and both against the paper's equations.

use super::*;
use crate::collective::Collective;
use crate::pattern::{ceil_log, floor_log};
use crate::registry::{algorithms, find};
use crate::sample::sizes;
use ferrorail_base::Topology;

mod domains;
mod leaders;
mod standard_exchange;

fn counted(name: &str, topology: &Topology, ports: u8) -> Counts {
    let algorithm = find(Collective::Allgather, name).expect("name");
    count(&algorithm.build_all(topology, ports, Protocol::Eager))
}

fn flat(size: u32) -> Topology {
    Topology::from_sizes(&vec![1; size as usize])
}

fn check_closed_forms(topology: &Topology, ports: u8) {
    let shape = Shape::of(topology, ports, ports);
    for algorithm in Collective::ALL.iter().flat_map(|&c| algorithms(c)) {
        for &protocol in algorithm.protocols {
            let counts = count(&algorithm.build_all(topology, ports, protocol));
            let work = (algorithm.work)(&shape, protocol);
            let context = format!("{algorithm:?} {protocol:?} {shape:?}");
            assert_eq!(work.rounds, counts.rounds, "rounds of {context}");
            assert_eq!(work.port_blocks, counts.port_blocks, "volume of {context}");
            assert_eq!(work.node_syncs, counts.node_syncs, "waits of {context}");
            assert_eq!(work.copy_blocks, counts.copy_blocks, "copies of {context}");
        }
    }
}

#[test]
fn closed_forms_equal_the_schedules_on_flat_teams() {
    for size in sizes(64) {
        for ports in [1, 2, 3, 4, 8] {
            check_closed_forms(&flat(size), ports);
        }
    }
}

#[test]
fn closed_forms_equal_the_schedules_on_even_nodes() {
    for nodes in sizes(24) {
        for node_size in [2, 3, 5] {
            for ports in [1, 2, 3, 4] {
                let sizes = vec![node_size; nodes as usize];
                check_closed_forms(&Topology::from_sizes(&sizes), ports);
            }
        }
    }
}

#[test]
fn closed_forms_bound_uneven_nodes() {
    for sizes in [&[3, 1, 2][..], &[1, 4], &[2, 2, 1, 5, 1, 3]] {
        let topology = Topology::from_sizes(sizes);
        for ports in 1..=3 {
            let shape = Shape::of(&topology, ports, ports);
            for algorithm in algorithms(Collective::Allgather) {
                let counts = counted(algorithm.name, &topology, ports);
                let work = (algorithm.work)(&shape, Protocol::Eager);
                assert_eq!(work.rounds, counts.rounds, "{algorithm:?} {sizes:?}");
                assert!(
                    work.port_blocks >= counts.port_blocks,
                    "{algorithm:?} {sizes:?}"
                );
            }
        }
    }
}

#[test]
fn equation_2_direct() {
    for size in 2..=64u32 {
        for ports in 1..=4u8 {
            let steps = u64::from((size - 1).div_ceil(u32::from(ports)));
            let counts = counted("direct", &flat(size), ports);
            assert_eq!((counts.rounds, counts.port_blocks), (steps, steps));
            assert_eq!(counts.messages_per_rank, u64::from(size - 1));
            assert_eq!(counts.blocks, u64::from(size) * u64::from(size - 1));
        }
    }
}

#[test]
fn equation_1_bruck() {
    for size in 2..=64u32 {
        for ports in 1..=4u8 {
            let counts = counted("bruck", &flat(size), ports);
            let rounds = ceil_log(size, u32::from(ports) + 1);
            assert_eq!(counts.rounds, u64::from(rounds));
            let volume = (size - 1).div_ceil(u32::from(ports));
            assert_eq!(counts.port_blocks, u64::from(volume));
            assert_eq!(counts.blocks_per_rank, u64::from(size - 1));
            assert!(counts.messages_per_rank <= u64::from(rounds) * u64::from(ports));
        }
    }
}

#[test]
fn equation_1_tree_gather_then_broadcast() {
    for ports in 1..=4u8 {
        for levels in 1..=3u32 {
            let size = (u32::from(ports) + 1).pow(levels);
            let counts = counted("tree_gather_broadcast", &flat(size), ports);
            assert_eq!(counts.rounds, u64::from(2 * levels));
            let gather = u64::from((size - 1) / u32::from(ports));
            let broadcast = u64::from(size * levels);
            assert_eq!(counts.port_blocks, gather + broadcast);
        }
        for size in 2..=64 {
            let counts = counted("tree_gather_broadcast", &flat(size), ports);
            assert_eq!(
                counts.rounds,
                2 * u64::from(ceil_log(size, u32::from(ports) + 1))
            );
            assert_eq!(counts.messages, 2 * u64::from(size - 1));
        }
    }
}

#[test]
fn smp_forms_take_their_rounds_over_nodes() {
    for (nodes, node_size, ports) in [(4, 4, 2u8), (9, 2, 2), (5, 3, 1), (16, 4, 3)] {
        let topology = Topology::from_sizes(&vec![node_size; nodes as usize]);
        let k = u32::from(ports);
        let direct = u64::from((nodes - 1u32).div_ceil(k));
        let log = u64::from(ceil_log(nodes, k + 1));
        let q = u64::from(node_size);
        let smp_direct = counted("smp_direct", &topology, ports);
        assert_eq!(
            (smp_direct.rounds, smp_direct.port_blocks),
            (direct, q * direct)
        );
        let smp_bruck = counted("smp_bruck", &topology, ports);
        assert_eq!((smp_bruck.rounds, smp_bruck.port_blocks), (log, q * direct));
        let all = u64::from(nodes * node_size);
        assert_eq!(
            smp_bruck.blocks,
            all * u64::from(nodes - 1),
            "each block once per node"
        );
        let tree = counted("smp_gather_broadcast_tree", &topology, ports);
        assert_eq!(
            (tree.rounds, tree.messages),
            (2 * log, 2 * u64::from(nodes - 1))
        );
        let gathered = counted("smp_gather_broadcast_direct", &topology, ports);
        assert_eq!(gathered.rounds, direct + log);
        assert_eq!(gathered.port_blocks, q * direct + all * log);
    }
}

#[test]
fn a_million_ranks_are_predicted_at_once() {
    let shape = Shape::even(1 << 14, 64, 4, 4);
    let model = Model::default();
    let time = |name: &str, bytes| {
        let algorithm = find(Collective::Allgather, name).expect("name");
        predict(algorithm, Protocol::Eager, &shape, bytes, &model)
    };
    for algorithm in algorithms(Collective::Allgather) {
        let nanos = time(algorithm.name, 8).0;
        assert!(nanos.is_finite() && nanos > 0.0, "{algorithm:?}");
    }
    assert!(time("smp_bruck", 8) < time("bruck", 8));
    assert!(time("bruck", 8) < time("direct", 8));
    assert!(time("smp_direct", 8) > time("smp_bruck", 8));
}

#[test]
fn hockney_without_shared_memory_is_the_papers_formula() {
    let model = Model {
        alpha_ns: 2000.0,
        beta_ns_per_byte: 1.0,
        stripe_bytes: u64::MAX,
        copy_alpha_ns: 0.0,
        copy_beta_ns_per_byte: 0.0,
        sync_ns: 0.0,
        register_ns: 0.0,
    };
    let shape = Shape::of(&flat(27), 2, 2);
    let time = |name: &str| {
        let algorithm = find(Collective::Allgather, name).expect("name");
        predict(algorithm, Protocol::Eager, &shape, 512, &model)
    };
    assert_eq!(time("direct"), Nanos(13.0 * (2000.0 + 512.0)));
    assert_eq!(
        time("standard_exchange"),
        Nanos(3.0 * 2000.0 + 13.0 * 512.0)
    );
    assert_eq!(time("bruck"), time("standard_exchange"));
}

#[test]
fn large_teams_build_quickly() {
    let topology = Topology::from_sizes(&[16; 64]);
    for algorithm in algorithms(Collective::Allgather) {
        for &protocol in algorithm.protocols {
            let request = crate::Request {
                topology: &topology,
                domains: None,
                rank: ferrorail_base::Rank(1008),
                ports: 2,
                leaders: 2,
                protocol,
                root: ferrorail_base::Rank(0),
            };
            let schedule = (algorithm.build)(&request);
            // Steps grow with the team, never with its square.
            assert!(schedule.steps.len() <= 4 * 1024 + 16, "{algorithm:?}");
        }
    }
}

fn counted_of(collective: Collective, name: &str, size: u32, ports: u8, root: u32) -> Counts {
    let algorithm = find(collective, name).expect("name");
    let root = ferrorail_base::Rank(root);
    count(&algorithm.build_rooted(&flat(size), ports, Protocol::Eager, root))
}

#[test]
fn equation_1_tree_gather_and_scatter() {
    for collective in [Collective::Gather, Collective::Scatter] {
        for ports in 1..=4u8 {
            let (k, radix) = (u64::from(ports), u32::from(ports) + 1);
            for root in [0, 1, 7] {
                for size in (root + 1).max(2)..=64 {
                    let counts = counted_of(collective, "tree", size, ports, root);
                    let levels = ceil_log(size, radix);
                    assert_eq!(counts.rounds, u64::from(levels));
                    assert_eq!(counts.messages, u64::from(size - 1));
                    if floor_log(size, radix).1 == size {
                        assert_eq!(counts.port_blocks * k, u64::from(size - 1), "equation (1)");
                    }
                    let most: u64 = (0..levels).map(|i| u64::from(radix).pow(i)).sum();
                    assert!(counts.port_blocks <= most, "{size} {root}");
                }
            }
        }
    }
}

#[test]
fn equation_1_bruck_reduce_scatter() {
    for collective in [Collective::ReduceScatterBlock, Collective::ReduceScatter] {
        for (size, ports) in (2..=64u32).flat_map(|size| (1..=4u8).map(move |k| (size, k))) {
            let counts = counted_of(collective, "bruck", size, ports, 0);
            let rounds = u64::from(ceil_log(size, u32::from(ports) + 1));
            let volume = u64::from((size - 1).div_ceil(u32::from(ports)));
            assert_eq!((counts.rounds, counts.port_blocks), (rounds, volume));
            assert_eq!(counts.blocks_per_rank, u64::from(size - 1));
            assert!(counts.messages_per_rank <= rounds * u64::from(ports));
        }
    }
}

#[test]
fn equation_2_direct_gather_scatter_alltoall_and_reduce_scatter() {
    let collectives = [
        Collective::Gather,
        Collective::Scatter,
        Collective::Alltoall,
        Collective::ReduceScatterBlock,
    ];
    for collective in collectives {
        for (size, ports) in (2..=40u32).flat_map(|size| (1..=4u8).map(move |k| (size, k))) {
            let root = if collective.is_rooted() { size - 1 } else { 0 };
            let steps = u64::from((size - 1).div_ceil(u32::from(ports)));
            let counts = counted_of(collective, "direct", size, ports, root);
            assert_eq!((counts.rounds, counts.port_blocks), (steps, steps));
            let senders = if collective.is_rooted() { 1 } else { size };
            assert_eq!(counts.messages, u64::from(senders * (size - 1)));
        }
    }
}

#[test]
fn native_alltoall_takes_a_step_per_partner() {
    for size in 2..=20 {
        let pairwise = counted_of(Collective::Alltoall, "pairwise", size, 2, 0);
        let asking = counted_of(Collective::Alltoall, "permission_to_send", size, 2, 0);
        let steps = u64::from(size - 1);
        assert_eq!((pairwise.rounds, pairwise.port_blocks), (steps, steps));
        assert_eq!(asking.blocks, pairwise.blocks);
        assert_eq!(asking.messages, 2 * pairwise.messages, "permissions");
    }
}

#[test]
fn logarithmic_rounds_of_trees_barriers_and_scans() {
    let forms = [
        (Collective::Barrier, "dissemination"),
        (Collective::Bcast, "knomial"),
        (Collective::Reduce, "knomial"),
        (Collective::Scan, "recursive_doubling"),
        (Collective::Exscan, "recursive_doubling"),
    ];
    for (collective, name) in forms {
        for (size, ports) in (2..=64u32).flat_map(|size| (1..=4u8).map(move |k| (size, k))) {
            let root = if collective.is_rooted() { size / 2 } else { 0 };
            let counts = counted_of(collective, name, size, ports, root);
            let rounds = u64::from(ceil_log(size, u32::from(ports) + 1));
            assert_eq!(counts.rounds, rounds, "{collective} {name} {size}");
            assert!(counts.messages_per_rank <= rounds * u64::from(ports));
        }
    }
}

#[test]
fn pieces_fit_into_scratch_and_cover_everything() {
    let bruck = find(Collective::Allgather, "bruck").expect("name");
    assert_eq!(piece_bytes(bruck, 16, 4096, 16, 65536), 4096);
    assert_eq!(piece_bytes(bruck, 16, 4097, 16, 65536), 4096);
    assert_eq!(piece_bytes(bruck, 16, 5000, 15, 65536), 4352);
    assert_eq!(
        piece_bytes(bruck, 16, 16, 8192, 65536),
        8,
        "no room for cache lines"
    );
    let cut = find(Collective::Bcast, "scatter_allgather").expect("name");
    assert_eq!(piece_bytes(cut, 16, 65536, 16, 65536), 65536);
    assert_eq!(piece_bytes(cut, 16, 65537, 16, 65536), 65536);
    let elements = |bytes, unit| element_piece_bytes(cut, 16, bytes, 16, 65536, unit);
    assert_eq!(elements(16 * 4000, 1000), 16 * 4000);
    assert_eq!(
        elements(16 * 4096, 12),
        16 * 4092,
        "a part is whole elements"
    );
    assert_eq!(
        elements(1 << 20, 8),
        16 * 4096,
        "and cache lines, if these are"
    );
    assert_eq!(elements(1 << 20, 5000), 0, "not one has room");

    let shape = Shape::of(&flat(16), 1, 1);
    let model = Model::default();
    let of = |bytes| predict(bruck, Protocol::Eager, &shape, bytes, &model).0;
    let pieces = predict_in_pieces(bruck, Protocol::Eager, &shape, 10_000, 4096, &model);
    assert_eq!(pieces, Nanos(2.0 * of(4096) + of(10_000 - 2 * 4096)));
    let whole = predict_in_pieces(bruck, Protocol::Eager, &shape, 4096, 4096, &model);
    assert_eq!(whole, Nanos(of(4096)));
}
