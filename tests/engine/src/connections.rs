//! What is registered of the node segments, and when.

use super::ranks::{self, on_ranks, on_worlds, settings, window};
use ferrorail_base::config::{Settings, StripeChoice};
use ferrorail_base::runs::Piece;
use ferrorail_base::{Rank, Topology};
use ferrorail_engine::estimate::{Asked, total};
use ferrorail_engine::{ConnectionRow, Context, EngineError, NoHost, Shape, Team};
use std::sync::Barrier;

const WORD: Shape<'static> = Shape::Dense(Piece {
    offset: 0,
    bytes: 8,
});

const BARRIER: (&str, &str, &str) = ("barrier", "smp_dissemination", "eager");
const ALLGATHER: (&str, &str, &str) = ("allgather", "smp_bruck", "eager");

fn estimated(size: u32, settings: &Settings, used: &[(&str, &str, &str)]) -> ConnectionRow {
    let asked = Asked {
        topology: Topology::from_host_keys(&vec![0; size as usize], settings.node_size),
        rails: 2,
        ports: None,
    };
    total(&asked, settings, used.iter().copied()).expect("names of algorithms")
}

/// An all-gather that is right, if it is done.
fn allgather(team: &Team) -> Result<(), EngineError> {
    assert!(ranks::allgather(team, 0, 4)?);
    Ok(())
}

#[test]
fn a_segment_is_registered_when_data_first_needs_it() {
    for (size, node_size) in [(2, 1), (5, 2), (4, 4)] {
        for stripe_policy in [StripeChoice::Even, StripeChoice::Weighted] {
            let settings = Settings {
                stripe_policy,
                ..settings(node_size, 2)
            };
            let [barriers, data] = [&[BARRIER][..], &[BARRIER, ALLGATHER]]
                .map(|used| estimated(size, &settings, used).segment_bytes_registered);
            let step = Barrier::new(size as usize);
            on_ranks(size, &settings, |team| {
                let found = || {
                    step.wait();
                    let found = team.context().connections().segment_bytes_registered;
                    step.wait();
                    found
                };
                (0..3).for_each(|_| team.barrier().expect("a barrier"));
                assert_eq!(found(), barriers, "{size} ranks by {node_size}");
                (0..3).for_each(|_| allgather(team).expect("a result"));
                team.barrier().expect("a barrier");
                assert_eq!(found(), data, "{size} ranks by {node_size}");
            });
            let small = size > node_size && stripe_policy == StripeChoice::Even;
            assert_eq!(8 * barriers < data, small, "{barriers} {data}");
        }
    }
}

#[test]
fn where_a_rank_cannot_register_its_segment_all_leave_the_call_to_the_host() {
    for barrier_first in [true, false] {
        let unlimited = settings(1, 2);
        let segments = estimated(3, &unlimited, &[ALLGATHER]).segment_bytes;
        // Room for those of two ranks, and all fronts.
        let settings = Settings {
            loopback_faults: format!("loop0:limit:bytes={}", segments * 5 / 6),
            ..unlimited
        };
        on_ranks(3, &settings, |team| {
            if barrier_first {
                team.barrier().expect("a barrier");
            }
            for _ in 0..2 {
                let error = allgather(team).expect_err("one rank was refused");
                assert!(matches!(error, EngineError::Unconnected), "{error}");
            }
            let error = team.barrier().expect_err("the team is of no use");
            assert!(matches!(error, EngineError::Unconnected), "{error}");
        });
    }
}

/// A window connects all ranks of a team that has registered its front.
#[test]
fn a_window_and_its_team_do_not_disturb_each_other() {
    for barrier_first in [true, false] {
        on_ranks(5, &settings(2, 2), |team| {
            if barrier_first {
                team.barrier().expect("a barrier");
            }
            let window = window(team, 8, 8, None);
            let onesided = window.onesided();
            for round in 1..4 {
                let next = Rank((team.rank().0 + 1) % team.size());
                let value: u64 = round << 32 | u64::from(team.rank().0);
                let from = (&raw const value).cast();
                onesided.fence(false).expect("no epoch");
                // SAFETY: the word is read by the next fence.
                let put = unsafe { onesided.put(from, &WORD, next, 0, &WORD) };
                put.expect("in an epoch");
                onesided.fence(false).expect("an epoch");
                let before = (team.rank().0 + team.size() - 1) % team.size();
                // SAFETY: nobody writes the word between the fences.
                let found = unsafe { (window.base() as *const u64).read() };
                assert_eq!(found, round << 32 | u64::from(before));
                allgather(team).expect("a result");
            }
            onesided.fence(true).expect("an epoch");
            window.close().expect("no epoch is open");
            allgather(team).expect("a result");
        });
    }
}

/// Threads of a rank have teams of their own, which come and go meanwhile.
#[test]
fn a_segment_is_registered_while_other_threads_use_theirs() {
    const RANKS: u32 = 3;
    const ROUNDS: usize = 6;
    let settings = Settings {
        // Operations are under way for a while.
        loopback_latency_ns: 20_000,
        ..settings(2, 2)
    };
    let context = Context::new(settings, Box::new(NoHost));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                on_worlds(RANKS, ROUNDS, |oobs| {
                    for oob in oobs {
                        let team = Team::create(&context, context.settings(), Box::new(oob));
                        let team = team.expect("a team");
                        team.barrier().expect("a barrier");
                        (0..10).for_each(|_| allgather(&team).expect("a result"));
                        team.barrier().expect("a barrier");
                        team.free();
                    }
                });
            });
        }
    });
}

/// A rail fails before, while or after the ranks register their segments: the other one carries.
#[test]
fn a_segment_is_registered_while_a_rail_fails() {
    for kind in ["gone", "down", "mute", "late:for=30", "apart"] {
        for after in (0..24).step_by(4) {
            let settings = Settings {
                loopback_faults: format!("loop0:{kind}:after={after}"),
                rail_timeout_ms: 5,
                rail_probe_ms: Some(5),
                ..settings(1, 2)
            };
            on_ranks(3, &settings, |team| {
                (0..2).for_each(|_| team.barrier().expect("a barrier"));
                (0..2).for_each(|_| allgather(team).expect("a result"));
                team.barrier().expect("a barrier");
                allgather(team).expect("a result");
            });
        }
    }
}
