//! Checks end to end (`FERRORAIL_RELIABLE`): results are right over rails that damage what they carry,
//! and without the checks they are not.

#![allow(clippy::disallowed_types)]

use super::ranks::{SHAPES, allgather, forced, on_ranks, settings};
use ferrorail_base::config::{Settings, StripeChoice};
use ferrorail_base::{Rank, Topology};
use ferrorail_coll::schedule::slots;
use ferrorail_coll::{Collective, Step, algorithms};
use ferrorail_engine::{Context, ErrorClass, Team};
use ferrorail_test_data::contents;
use std::sync::Mutex;

const SIZES: [usize; 7] = [1, 60, 1023, 1025, 4097, 70_000, 300_000];

/// An all-gather that is right.
fn right(team: &Team, op: usize, bytes: usize) {
    let right = allgather(team, op, bytes).expect("a result");
    assert!(right, "{bytes} bytes");
}

/// Whether a broadcast is right.
fn bcast(team: &Team, op: usize, bytes: usize) -> bool {
    let root = Rank(op as u32 % team.size());
    let mut data = match team.rank() == root {
        true => contents(root.0, 0, op, bytes),
        false => vec![0xee; bytes],
    };
    // SAFETY: the buffer holds `bytes` bytes.
    unsafe { team.bcast(data.as_mut_ptr(), bytes, root) }.expect("a result");
    data == contents(root.0, 0, op, bytes)
}

/// All ranks share the rails that count operations: with more faults than these, ranks that send again
/// at the same time can have the same message damaged as often as is allowed.
fn damaging(node_size: u32, rails: u8, faults: &str) -> Settings {
    Settings {
        reliable: true,
        loopback_faults: faults.into(),
        ..settings(node_size, rails)
    }
}

fn damaged(context: &Context) -> u64 {
    let fabrics = context.opened_rails();
    let stats = context.stats();
    let rails = fabrics.iter().flat_map(|fabric| {
        let rails = fabric.attributes().rails.iter();
        rails.map(|rail| stats.damaged_chunks(fabric.attributes().name, &rail.name))
    });
    rails.sum()
}

#[test]
fn every_algorithm_is_right_over_rails_that_damage() {
    let faults = "loop0:corrupt:every=23,loop1:corrupt:after=1:every=31";
    // Multicasts have checks of their own.
    let puts = algorithms(Collective::Allgather)
        .iter()
        .filter(|a| !a.multicast);
    for algorithm in puts {
        for (size, node_size) in SHAPES {
            let settings = forced(damaging(node_size, 2, faults), "allgather", algorithm.name);
            let context = on_ranks(size, &settings, |team| {
                for (op, bytes) in SIZES.into_iter().enumerate() {
                    right(team, op, bytes);
                }
            });
            if size > node_size {
                assert!(damaged(&context) > 0, "{} {size}", algorithm.name);
                assert!(context.stats().checked_messages() > 0);
            }
        }
    }
}

#[test]
fn every_policy_and_protocol_is_right() {
    let policies = [
        StripeChoice::Even,
        StripeChoice::Weighted,
        StripeChoice::Adaptive,
        StripeChoice::RoundRobin,
    ];
    for stripe_policy in policies {
        for zero_copy in [Some(true), Some(false)] {
            let settings = Settings {
                stripe_policy,
                zero_copy,
                ..damaging(2, 3, "loop2:corrupt:every=19,loop0:corrupt:every=29")
            };
            let context = on_ranks(5, &settings, |team| {
                for (op, bytes) in SIZES.into_iter().enumerate() {
                    right(team, op, bytes);
                    assert!(bcast(team, op, bytes), "{bytes} bytes");
                }
            });
            assert!(damaged(&context) > 0);
        }
    }
}

#[test]
fn rails_may_fail_and_damage_at_once() {
    let settings = Settings {
        rail_timeout_ms: 20,
        rail_probe_ms: Some(10),
        ..damaging(
            1,
            2,
            "loop0:corrupt:every=23,loop1:corrupt:every=29,loop1:mute:after=30:for=60:every=80",
        )
    };
    let context = on_ranks(4, &settings, |team| {
        for op in 0..60 {
            right(team, op, SIZES[op % SIZES.len()]);
        }
    });
    let fabric = &context.opened_rails()[0];
    assert!(damaged(&context) > 0 && fabric.statistics().rails[1].failures > 0);
}

#[test]
fn without_checks_damage_is_delivered() {
    let settings = Settings {
        reliable: false,
        ..damaging(1, 1, "loop0:corrupt:after=2:every=3")
    };
    let wrong = Mutex::new(0);
    let context = on_ranks(2, &settings, |team| {
        for op in 0..8 {
            // Scratch only: a damaged RTR would be refused instead.
            if !allgather(team, op, 1000).expect("a result") {
                *wrong.lock().unwrap() += 1;
            }
        }
    });
    assert!(wrong.into_inner().unwrap() > 0);
    assert_eq!(context.stats().checked_messages(), 0);
}

#[test]
fn a_rail_that_damages_everything_is_an_error_on_both_sides() {
    let settings = damaging(1, 1, "loop0:corrupt:every=1");
    let errors = Mutex::new(Vec::new());
    on_ranks(2, &settings, |team| {
        let error = allgather(team, 0, 5000).expect_err("nothing gets through");
        assert_eq!(error.class(), ErrorClass::Other);
        errors.lock().unwrap().push(error.to_string());
    });
    let errors = errors.into_inner().unwrap();
    let damage = errors
        .iter()
        .filter(|error| error.contains("damaged on its way"));
    assert_eq!(damage.count(), 2, "{errors:?}");
}

/// There are as many cells for what a rank sends in one operation as arrival slots.
#[test]
fn no_rank_sends_more_messages_than_there_are_cells() {
    for size in 2..=40 {
        for node_size in [1, 2, 3] {
            let topology = Topology::from_host_keys(&vec![7; size], Some(node_size));
            for algorithm in Collective::ALL.iter().flat_map(|&c| algorithms(c)) {
                for ports in [1, 3, 8] {
                    for &protocol in algorithm.protocols {
                        let schedules = algorithm.build_rooted(&topology, ports, protocol, Rank(0));
                        for (rank, schedule) in (0..).map(Rank).zip(&schedules) {
                            let sends = |step: &&Step| match step {
                                Step::Put { to, .. } | Step::SendRtr { to, .. } => {
                                    !topology.same_node(*to, rank)
                                }
                                _ => false,
                            };
                            let sent = schedule.steps.iter().filter(sends).count();
                            let cells = slots(&topology, algorithm.all_pairs) as usize;
                            assert!(sent <= cells, "{algorithm:?} {sent}");
                        }
                    }
                }
            }
        }
    }
}
