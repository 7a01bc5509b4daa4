//! Puts that wake a sleeping thread of the target.

use super::Rails;
use super::{Pair, at};
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_fabric::{Notification, Op};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::BorrowedFd;

/// More than a wake-up events has room for without being armed again.
const ROUNDS: u64 = 600;
const TIME_LIMIT_MS: u16 = 60_000;

/// Number of wake-up events that have gone off, after `timeout_ms` at the latest.
fn gone_off(wake_descriptors: &[BorrowedFd<'_>], timeout_ms: u16) -> i32 {
    let watch = |&wake_events| PollFd::new(wake_events, PollFlags::POLLIN);
    let mut watched: Vec<PollFd<'_>> = wake_descriptors.iter().map(watch).collect();
    poll(&mut watched, PollTimeout::from(timeout_ms)).expect("poll")
}

pub fn who_sleeps_is_woken_by_what_has_arrived<F: Rails>(pair: &Pair<F>) {
    let (mut source, target, remote) = pair.memories(4096, 4096);
    source.fill_pattern(9);
    let wake_descriptors = pair.b.wake_events().expect("wake-up events");
    let wakes = !wake_descriptors.is_empty();
    for rail in pair.rails() {
        for round in 1..=ROUNDS {
            let value = u64::from(rail.0) << 32 | round;
            let bytes = (round as usize * 7) % 1000;
            let woken = AtomicBool::new(false);
            std::thread::scope(|scope| {
                if wakes {
                    scope.spawn(|| {
                        let gone_off = gone_off(&wake_descriptors, TIME_LIMIT_MS);
                        woken.store(gone_off > 0, Ordering::Release);
                    });
                }
                let word = at(&remote, 8);
                let (from, to) = (source.slice(0, bytes), at(&remote, 64));
                pair.carry(rail, &Op::wake(from, to, Notification { word, value }));
            });
            assert_eq!(woken.load(Ordering::Acquire), wakes, "{round}");
            pair.until("arrival", || target.load(8) == value);
            assert_eq!(target.read(64, bytes), source.read(0, bytes));
            pair.b.wake_events().expect("wake-up events");
            if round == 1 && wakes {
                assert_eq!(gone_off(&wake_descriptors, 0), 0, "armed anew");
            }
        }
    }
}
