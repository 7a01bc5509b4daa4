//! Puts that wake a sleeping thread of the target.

use super::Rails;
use super::memory::Memory;
use super::{Pair, at, whole};
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_fabric::{Notification, Op, Tracking};
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
    let mut source = Memory::shared(&pair.a, 4096);
    let mut target = Memory::shared(&pair.b, 4096);
    let description = &target.region().description;
    let remote = pair.a.import(pair.ab, description).expect("import");
    source.fill_pattern(9);
    let wake_descriptors = pair.b.wake_events().expect("wake-up events");
    for rail in pair.rails() {
        for round in 1..=ROUNDS {
            let value = u64::from(rail.0) << 32 | round;
            let bytes = (round as usize * 7) % 1000;
            let woken = AtomicBool::new(false);
            std::thread::scope(|scope| {
                if !wake_descriptors.is_empty() {
                    scope.spawn(|| {
                        woken.store(
                            gone_off(&wake_descriptors, TIME_LIMIT_MS) > 0,
                            Ordering::Release,
                        );
                    });
                }
                let (ticket, _) = pair.post(|| {
                    let notification = Notification {
                        word: at(&remote, 8),
                        value,
                    };
                    let (from, to) = (whole(&source, 0, bytes), at(&remote, 64));
                    // SAFETY: `source` is not written again.
                    unsafe {
                        pair.a.post(
                            pair.ab,
                            rail,
                            &Op::wake(from, to, notification),
                            Tracking::Tracked,
                        )
                    }
                });
                pair.wait(&pair.a, ticket);
            });
            assert_eq!(
                woken.load(Ordering::Acquire),
                !wake_descriptors.is_empty(),
                "{round}"
            );
            pair.until("arrival", || target.load(8) == value);
            assert_eq!(target.read(64, bytes), source.read(0, bytes));
            pair.b.wake_events().expect("wake-up events");
            if round == 1 && !wake_descriptors.is_empty() {
                assert_eq!(gone_off(&wake_descriptors, 0), 0, "armed anew");
            }
        }
    }
    drop(wake_descriptors);
    source.give_back(&pair.a);
    target.give_back(&pair.b);
}
