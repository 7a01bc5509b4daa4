//! Striping policies: whatever the shares of the rails, results are right, and traffic follows them.

use super::ranks::{self, SHAPES, on_ranks, settings, window};
use ferrorail_base::Rank;
use ferrorail_base::config::{RailChoice, Settings, StripeChoice};
use ferrorail_base::runs::Piece;
use ferrorail_engine::{Context, LockMode, RailCounters, Shape, Team};
use ferrorail_test_data::contents;
use std::time::Duration;

fn allgather(team: &Team, op: usize, bytes: usize) {
    let right = ranks::allgather(team, op, bytes).expect("a result");
    assert!(right, "op {op}, {bytes} bytes");
}

/// What each rail counted.
fn counts(context: &Context, of: fn(&RailCounters) -> u64) -> Vec<u64> {
    let fabrics = context.opened_rails();
    let rails = fabrics[0].statistics().rails;
    rails.iter().map(of).collect()
}

/// Bytes that each rail carried.
fn traffic(context: &Context) -> Vec<u64> {
    counts(context, |rail| rail.bytes)
}

/// Qian and Afsahi 2008, section 3.2: k messages of a round leave on k links at once. Each goes to a peer
/// that hears from its origin for the first time.
#[test]
fn short_messages_of_a_round_take_different_rails() {
    for (ranks, node_size) in [(9, 1), (16, 1), (12, 2)] {
        for rails in 2..=4u8 {
            let settings = Settings {
                algorithm: [("allgather".to_owned(), "direct".to_owned())].into(),
                ..settings(node_size, rails)
            };
            let carried = |operations| {
                let context = on_ranks(ranks, &settings, |team| {
                    (0..operations).for_each(|op| allgather(team, op, 64));
                });
                counts(&context, |rail| rail.messages)
            };
            // The first one connects, too.
            let before = carried(1);
            let counts: Vec<u64> = carried(2).iter().zip(&before).map(|(a, b)| a - b).collect();
            let sent = u64::from(ranks * (ranks - node_size));
            assert_eq!(counts.iter().sum::<u64>(), sent, "{counts:?}");
            // Equal within one for each rank.
            let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
            let uneven = !(ranks - node_size).is_multiple_of(rails.into());
            let most = if uneven { u64::from(ranks) } else { 0 };
            assert!(
                spread <= most,
                "{ranks} ranks, nodes of {node_size}: {counts:?}"
            );
        }
    }
}

/// One fast and one slow rail, with messages large enough for the model to be what limits them.
fn unequal(policy: StripeChoice) -> Settings {
    Settings {
        stripe_policy: policy,
        loopback_bandwidths_mb_s: vec![100, 10],
        ..settings(1, 2)
    }
}

fn exchange(policy: StripeChoice) -> Vec<u64> {
    let context = on_ranks(2, &unequal(policy), |team| {
        for op in 0..8 {
            allgather(team, op, 1 << 20);
        }
    });
    traffic(&context)
}

#[test]
fn even_shares_are_even() {
    let bytes = exchange(StripeChoice::Even);
    assert!(bytes[0].abs_diff(bytes[1]) < bytes[0] / 50, "{bytes:?}");
}

#[test]
fn shares_follow_the_descriptions_of_rails_by_default() {
    let bytes = exchange(settings(1, 2).stripe_policy);
    let slow = bytes[0] / 10;
    assert!(bytes[1].abs_diff(slow) < slow / 10, "{bytes:?}");
}

#[test]
fn measured_shares_spare_the_slow_rail() {
    let bytes = exchange(StripeChoice::Weighted);
    assert!(bytes[0] > 2 * bytes[1], "{bytes:?}");
}

#[test]
fn adapted_shares_spare_the_slow_rail() {
    let bytes = exchange(StripeChoice::Adaptive);
    assert!(bytes[0] > 2 * bytes[1], "{bytes:?}");
}

/// Bytes that the rails carried while rank 0 put a large block into rank 1's window, again and again.
fn put_into_a_window(policy: StripeChoice) -> Vec<u64> {
    const BYTES: usize = 1 << 20;
    let whole = Shape::Dense(Piece {
        offset: 0,
        bytes: BYTES,
    });
    let context = on_ranks(2, &unequal(policy), |team| {
        let window = window(team, BYTES as u64, 1, None);
        let (onesided, target) = (window.onesided(), Rank(1));
        if onesided.rank() == Rank(0) {
            let block = contents(0, 0, 1, BYTES);
            let mut back = vec![0; BYTES];
            onesided
                .lock(target, LockMode::Exclusive, false)
                .expect("no epoch");
            for _ in 0..8 {
                // SAFETY: both buffers outlive the flush.
                let moved = unsafe { onesided.put(block.as_ptr(), &whole, target, 0, &whole) };
                moved.and_then(|()| onesided.flush(target)).expect("locked");
            }
            // SAFETY: as above.
            let moved = unsafe { onesided.get(back.as_mut_ptr(), &whole, target, 0, &whole) };
            moved.and_then(|()| onesided.flush(target)).expect("locked");
            onesided.unlock(target).expect("locked");
            assert_eq!(back, block);
        }
        window.close().expect("no epoch is open");
    });
    traffic(&context)
}

#[test]
fn adapted_shares_of_a_window_spare_the_slow_rail() {
    let even = put_into_a_window(StripeChoice::Even);
    assert!(even[0].abs_diff(even[1]) < even[0] / 50, "{even:?}");
    let adapted = put_into_a_window(StripeChoice::Adaptive);
    assert!(adapted[0] > 2 * adapted[1], "{adapted:?}");
}

/// One rail of four is lost for good: the others carry equal shares of all that follows.
#[test]
fn rails_that_are_left_share_what_a_lost_one_carried() {
    let settings = Settings {
        stripe_policy: StripeChoice::Even,
        loopback_faults: "loop1:down:after=3".into(),
        rail_timeout_ms: 60,
        rail_probe_ms: None,
        ..settings(1, 4)
    };
    let context = on_ranks(2, &settings, |team| {
        for op in 0..40 {
            allgather(team, op, 1 << 20);
        }
    });
    let bytes = traffic(&context);
    let left = [bytes[0], bytes[2], bytes[3]];
    assert!(bytes[1] < left[0] / 4, "{bytes:?}");
    let (most, least) = (left.iter().max().unwrap(), left.iter().min().unwrap());
    assert!(most - least < least / 10, "{bytes:?}");
}

#[test]
fn every_policy_is_right_at_every_size() {
    for policy in [
        StripeChoice::Auto,
        StripeChoice::Even,
        StripeChoice::Weighted,
        StripeChoice::Adaptive,
        StripeChoice::RoundRobin,
    ] {
        for (size, node_size) in SHAPES {
            let (rails, least) = [(2, 512), (3, 128), (8, 1000)][size as usize % 3];
            let settings = Settings {
                stripe_policy: policy,
                stripe_bytes_min: least,
                ..settings(node_size, rails)
            };
            on_ranks(size, &settings, |team| {
                for (op, bytes) in [1, 64, 1023, 1024, 4097, 70_000, 300_000]
                    .into_iter()
                    .enumerate()
                {
                    allgather(team, op, bytes);
                }
            });
        }
    }
}

/// What is short keeps to the rails of the rank's own NUMA node, what is long takes all.
#[test]
fn numa_local_rails_carry_what_is_short() {
    // Where this process is bound to no node, none is near, and all rails take turns.
    let bound = ferrorail_bootstrap::HostInfo::probe().numa_node;
    let here = bound.map_or(0, u64::from);
    let settings = Settings {
        loopback_numa: vec![here + 1, here],
        ..settings(1, 2)
    };
    let bytes_of = |bytes| {
        let context = on_ranks(2, &settings, |team| {
            for op in 0..8 {
                allgather(team, op, bytes);
            }
        });
        traffic(&context)
    };
    let short = bytes_of(64);
    assert_eq!(short[0] == 0, bound.is_some(), "{short:?}");
    assert!(short[1] > 0, "{short:?}");
    let long = bytes_of(1 << 20);
    assert!(long[0].abs_diff(long[1]) < long[0] / 50, "{long:?}");
}

/// Who waits long asks the other over a rail of the team, also where the first plane has none.
#[test]
fn late_ranks_are_asked_over_a_rail_that_is_there() {
    let names = ["nonsense", "loop0"].map(str::to_owned);
    let settings = Settings {
        rails: RailChoice::Names(names.into()),
        ..settings(1, 1)
    };
    on_ranks(2, &settings, |team| {
        for op in 0..2 {
            if op == team.rank().index() {
                // Longer than a rank waits before it asks.
                std::thread::sleep(Duration::from_millis(400));
            }
            allgather(team, op, 5);
        }
    });
}
