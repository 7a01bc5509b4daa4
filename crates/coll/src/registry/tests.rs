//! Names.

use super::*;
use crate::algorithm::Request;
use crate::collective::find_collective;
use crate::schedule::{Step, barrier_slots, slots};
use ferrorail_base::{Rank, Topology};

#[test]
fn names_are_unique_and_found() {
    for &collective in Collective::ALL {
        assert_eq!(Collective::from_name(collective.name()), Some(collective));
        for algorithm in algorithms(collective) {
            assert_eq!(algorithm.collective, collective);
            assert_eq!(find(collective, algorithm.name), Ok(algorithm));
            assert!(!algorithm.protocols.is_empty());
            assert!(!algorithm.description.contains('\n'));
        }
        let names: std::collections::HashSet<_> =
            algorithms(collective).iter().map(|a| a.name).collect();
        assert_eq!(names.len(), algorithms(collective).len());
    }
}

#[test]
fn unknown_names_come_with_the_nearest() {
    let error = find(Collective::Allgather, "smp_bruk").unwrap_err();
    assert_eq!(
        error.to_string(),
        "allgather has no algorithm \"smp_bruk\"; did you mean \"smp_bruck\"?"
    );
    let error = find_collective("allgater").unwrap_err();
    assert_eq!(error.hint, "did you mean \"allgather\"?");
    assert_eq!(find_collective("bcast"), Ok(Collective::Bcast));
}

/// Some rank, which may be the root, has all others for peers, or each has much fewer.
#[test]
fn every_rank_connects_to_every_other_where_it_is_said() {
    let topology = Topology::from_sizes(&[8; 12]);
    for &collective in Collective::ALL {
        for algorithm in algorithms(collective) {
            let request = |rank, root, protocol| Request {
                topology: &topology,
                domains: None,
                rank: Rank(rank),
                ports: 2,
                leaders: 2,
                protocol,
                root: Rank(root),
            };
            // A root that leads its node, one that does not, and ranks of other nodes.
            let places = [(0, 0), (9, 0), (9, 9), (16, 9)];
            let schedules = algorithm.protocols.iter().flat_map(|&protocol| {
                places.map(|(rank, root)| (algorithm.build)(&request(rank, root, protocol)))
            });
            let peers = schedules.map(|schedule| schedule.peers().len()).max();
            let all = peers.is_some_and(|peers| peers == 95);
            assert_eq!(all, algorithm.all_pairs, "{algorithm:?}: {peers:?} peers");
            assert!(
                all || peers.is_some_and(|peers| peers < 48),
                "{algorithm:?}: {peers:?}"
            );
        }
    }
}

/// One more than the last slot of `schedule`, and the messages it sends.
fn slots_and_messages(schedule: &crate::Schedule) -> (u32, usize) {
    let slot = |step: &Step| match *step {
        Step::Put { slot, .. }
        | Step::Await { slot, .. }
        | Step::SendRtr { slot, .. }
        | Step::AwaitRtr { slot, .. } => Some(slot + 1),
        _ => None,
    };
    let sends = |step: &&Step| matches!(step, Step::Put { .. } | Step::SendRtr { .. });
    let steps = &schedule.steps;
    let most = steps.iter().filter_map(slot).max().unwrap_or(0);
    (most, steps.iter().filter(sends).count())
}

/// What the verifier proves of teams up to 64 ranks, of large ones, whose segments rest on it.
#[test]
fn few_peers_take_few_slots() {
    for (nodes, node_size) in [
        (64, 64),
        (500, 64),
        (1024, 1),
        (16, 512),
        (3, 700),
        (19, 39),
        (57, 116),
    ] {
        let topology = Topology::from_sizes(&vec![node_size; nodes]);
        let size = topology.size();
        let places = [0, 1, size / 2, size - 1].map(Rank);
        let all = Collective::ALL.iter().flat_map(|&c| algorithms(c));
        for algorithm in all.filter(|algorithm| !algorithm.all_pairs) {
            let limit = match algorithm.collective {
                Collective::Barrier => barrier_slots(size),
                _ => slots(&topology, false),
            };
            for (ports, rank) in [1, 2, 4, 7, 8]
                .map(|k| places.map(|rank| (k, rank)))
                .concat()
            {
                for &protocol in algorithm.protocols {
                    let schedule = (algorithm.build)(&Request {
                        topology: &topology,
                        domains: None,
                        rank,
                        ports,
                        leaders: ports,
                        protocol,
                        root: places[usize::from(ports) % 4],
                    });
                    let (slot, messages) = slots_and_messages(&schedule);
                    let within = slot <= limit && messages <= limit as usize;
                    assert!(
                        within,
                        "{algorithm:?} {protocol:?} k={ports} {nodes} nodes: {slot}, {messages} messages"
                    );
                }
            }
        }
    }
}
