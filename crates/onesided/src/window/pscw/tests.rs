//! Epochs of more ranks than a word has bits, in different numbers for each pair.

use crate::window::by_rail::tests::{Narrow, on_one_node};
use crate::window::layout::Status;
use crate::window::{Window, WindowError, WindowLayout};
use ferrorail_base::Rank;
use ferrorail_base::config::{Pscw, WindowSettings};
use std::sync::Arc;

const RANKS: u32 = 70;

/// All ranks of a window of one node, in this process.
fn windows(pscw: Pscw) -> Vec<Arc<Window<Narrow>>> {
    let layout = WindowLayout {
        ranks: RANKS,
        local_ranks: RANKS,
        rails: false,
        dynamic: false,
        operand_bytes: 0,
    };
    let usual = WindowSettings::default();
    on_one_node(layout, WindowSettings { pscw, ..usual })
}

/// Whether `from` has posted to `to` as often as `to` expects once it has started `number` times.
fn posted(to: &Window<Narrow>, from: u32, number: u64) -> bool {
    to.has_signalled(Rank(from), Status::Posted, number)
}

fn epochs(pscw: Pscw) {
    let all = windows(pscw);
    let origin = &all[0];
    // Pair (0, t) has t % 3 epochs before those that all share.
    for target in 1..RANKS {
        for number in 1..=u64::from(target % 3) {
            assert!(!posted(origin, target, number), "{target}, {number}");
            all[target as usize].post(&[Rank(0)]).expect("no epoch");
            assert!(posted(origin, target, number));
            assert!(!all[target as usize].test().expect("posted"));
            origin.start(&[Rank(target)]).expect("no epoch");
            origin.complete().expect("started");
            assert!(all[target as usize].test().expect("posted"));
        }
    }
    let targets: Vec<Rank> = (1..RANKS).map(Rank).collect();
    for round in 1..=5 {
        for target in 1..RANKS {
            let number = u64::from(target % 3) + round;
            // What the ranks before it wrote is not taken for its own.
            assert!(!posted(origin, target, number), "{target}, {number}");
            all[target as usize].post(&[Rank(0)]).expect("no epoch");
        }
        origin.start(&targets).expect("no epoch");
        origin.complete().expect("all have posted");
        for (index, target) in all.iter().enumerate().skip(1) {
            match index % 2 {
                0 => assert!(target.test().expect("posted")),
                _ => target.wait().expect("completed"),
            }
        }
    }
}

#[test]
fn epochs_of_many_ranks_do_not_mix() {
    for pscw in [Pscw::Counters, Pscw::BitVectors] {
        epochs(pscw);
    }
}

#[test]
fn who_is_not_posted_to_waits() {
    for pscw in [Pscw::Counters, Pscw::BitVectors] {
        let all = windows(pscw);
        all[1].post(&[Rank(2)]).expect("no epoch");
        all[0].start(&[Rank(1)]).expect("no epoch");
        // The process gives up, as its peers are found dead.
        let outcome = all[0].complete();
        assert!(matches!(outcome, Err(WindowError::Peer(_))), "{outcome:?}");
    }
}
