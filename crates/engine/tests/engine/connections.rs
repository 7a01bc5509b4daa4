//! What is registered of the node segments, and when.

use crate::ranks::{on_ranks, settings};
use ferrorail_base::Topology;
use ferrorail_base::config::{Settings, StripeChoice};
use ferrorail_engine::estimate::{Asked, Total, total};
use ferrorail_engine::{EngineError, Team};
use std::sync::Barrier;

const BARRIER: (&str, &str, &str) = ("barrier", "smp_dissemination", "eager");
const ALLGATHER: (&str, &str, &str) = ("allgather", "smp_bruck", "eager");

fn estimated(size: u32, settings: &Settings, used: &[(&str, &str, &str)]) -> Total {
    let asked = Asked {
        topology: Topology::from_host_keys(&vec![0; size as usize], settings.node_size),
        rails: 2,
        ports: None,
    };
    total(&asked, settings, used.iter().copied()).expect("names of algorithms")
}

/// All-gathers the ranks.
fn allgather(team: &Team) -> Result<(), EngineError> {
    let mine = team.rank().0.to_le_bytes();
    let mut all = vec![0xee; 4 * team.size() as usize];
    // SAFETY: the buffers hold 4 bytes, and as many per rank.
    unsafe { team.allgather(Some(mine.as_ptr()), all.as_mut_ptr(), 4) }?;
    let expected: Vec<u8> = (0..team.size()).flat_map(u32::to_le_bytes).collect();
    assert_eq!(all, expected);
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
