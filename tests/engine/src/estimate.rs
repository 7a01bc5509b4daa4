//! Estimates of teams that nobody makes. That real runs take what they say is checked by the rows of
//! the test list that expect it.

use ferrorail_base::Topology;
use ferrorail_base::config::{FabricChoice, Settings};
use ferrorail_engine::choice::Left;
use ferrorail_engine::estimate::{Asked, Estimate, Need, estimate};

fn of(nodes: u32, node_size: u32, rails: u8, settings: &Settings) -> Estimate {
    let asked = Asked {
        topology: Topology::from_sizes(&vec![node_size; nodes as usize]),
        rails,
        ports: None,
    };
    estimate(&asked, settings).expect("the shipped table")
}

fn within(less: Need, more: Need) {
    assert!(
        less.peers_of_rank <= more.peers_of_rank,
        "{less:?} {more:?}"
    );
    assert!(less.queue_pairs_of_node <= more.queue_pairs_of_node);
    assert!(less.bytes_of_node <= more.bytes_of_node);
}

#[test]
fn the_limit_of_queue_pairs_bounds_what_a_node_takes() {
    let with = |queue_pairs_max| Settings {
        queue_pairs_max,
        ..Settings::default()
    };
    let (limited, unlimited) = (Settings::default().queue_pairs_max, None);
    let large = |limit| of(64, 64, 2, &with(limit));
    assert_eq!(large(unlimited).all.queue_pairs_of_node, 64 * 4032 * 2);
    let limited = large(limited);
    assert!(
        limited.all.queue_pairs_of_node < 20_000,
        "{:?}",
        limited.all
    );
    let (pinned, first) = (
        limited.registered_bytes_of_node,
        limited.front_bytes_of_node,
    );
    assert!(
        pinned < 100_000_000 && first < 1_000_000,
        "{pinned} {first}"
    );
    let left = limited
        .rows
        .iter()
        .filter(|row| row.left_to_host == Some(Left::QueuePairs));
    let left: Vec<_> = left.map(|row| (row.collective, row.from_bytes)).collect();
    assert_eq!(
        left,
        [
            ("alltoall", 4097),
            ("gatherv", 0),
            ("scatterv", 0),
            ("alltoallv", 0)
        ]
    );
    // Nodes of one rank take few whatever the collective.
    let thin = of(64, 1, 2, &Settings::default());
    assert!(thin.rows.iter().all(|row| row.left_to_host.is_none()));
}

#[test]
fn parts_are_within_wholes() {
    let settings = Settings {
        queue_pairs_max: None,
        ..Settings::default()
    };
    for (nodes, node_size, rails) in [(1, 4, 1), (2, 1, 1), (4, 2, 2), (3, 5, 4), (40, 8, 2)] {
        let estimate = of(nodes, node_size, rails, &settings);
        assert_eq!(estimate.ranks, nodes * node_size);
        for row in &estimate.rows {
            within(row.need, estimate.all);
        }
        within(estimate.without_all_to_all, estimate.all);
        within(estimate.all, estimate.worst);
        let others = u64::from((nodes - 1) * node_size);
        assert_eq!(estimate.worst.peers_of_rank, others);
        let rails = u64::from(estimate.rails);
        assert_eq!(estimate.worst.queue_pairs_of_rank, others * rails);
        let node = others * rails * u64::from(node_size);
        assert_eq!(estimate.worst.queue_pairs_of_node, node);
        assert_eq!(
            estimate.worst.bytes_of_rank,
            others * estimate.connection_bytes
        );
        assert!(
            u64::from(node_size) * estimate.scratch_bytes_of_rank <= estimate.segment_bytes_of_node
        );
    }
}

#[test]
fn leaders_connect_and_others_do_not() {
    let settings = Settings {
        algorithm: [("allgather".to_owned(), "smp_bruck".to_owned())].into(),
        leaders: Some(1),
        ..Settings::default()
    };
    let estimate = of(8, 4, 1, &settings);
    let row = estimate
        .rows
        .iter()
        .find(|row| row.collective == "allgather")
        .expect("a row");
    assert_eq!(
        (&*row.algorithm, row.to_bytes, row.from_bytes),
        ("smp_bruck", None, 0)
    );
    // Bruck's distances 1, 2 and 4 among 8 nodes, in both directions; 4 is its own opposite.
    assert_eq!(row.need.peers_of_rank, 5);
    assert_eq!(row.need.queue_pairs_of_node, 5, "the leader's");
}

/// What a node gathers on its way to user memory goes in pieces, where scratch has no room for all of it.
#[test]
fn protocols_are_those_that_calls_have() {
    let settings = Settings {
        algorithm: [("gather".to_owned(), "smp_direct".to_owned())].into(),
        zero_copy: Some(true),
        scratch_bytes: Some(64 << 10),
        ..Settings::default()
    };
    let estimate = of(4, 2, 2, &settings);
    let rows = estimate
        .rows
        .iter()
        .filter(|row| row.collective == "gather");
    let found: Vec<_> = rows.map(|row| (row.protocol, row.to_bytes)).collect();
    assert_eq!(found, [("rendezvous", Some(32 << 10)), ("eager", None)]);
}

#[test]
fn scratch_follows_its_setting_and_loopback_has_no_queue_pairs() {
    let settings = |scratch_bytes| Settings {
        fabric: FabricChoice::Loopback,
        scratch_bytes,
        ..Settings::default()
    };
    let (small, large) = (
        of(2, 2, 2, &settings(Some(64 << 10))),
        of(2, 2, 2, &settings(Some(1 << 20))),
    );
    let more = large.scratch_bytes_of_rank - small.scratch_bytes_of_rank;
    assert_eq!(more, 9 * ((1 << 20) - (64 << 10)), "channels, area");
    assert!(large.segment_bytes_of_node >= small.segment_bytes_of_node + 2 * more);
    assert_eq!(
        (small.fabric, small.worst.queue_pairs_of_rank),
        ("loopback", 0)
    );
    assert_eq!(small.worst.peers_of_rank, 2);
}

#[test]
fn a_large_machine_is_estimated() {
    let (nodes, node_size) = (32_100, 1);
    let estimate = of(nodes, node_size, 4, &Settings::default());
    assert!(
        estimate.ranks > estimate.ranks_max,
        "left to the host, and said so"
    );
    let others = u64::from((nodes - 1) * node_size);
    assert_eq!(estimate.worst.peers_of_rank, others);
    assert_eq!(estimate.worst.queue_pairs_of_rank, 4 * others);
    let barrier = estimate.rows.iter().find(|row| row.collective == "barrier");
    let leader = barrier.expect("a row").need.peers_of_rank;
    // Seven rounds to the base of five, four peers each, there and back.
    assert!((1..=56).contains(&leader), "{leader}");
}
