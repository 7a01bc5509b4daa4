//! Locks whose operations fail.

use super::*;
use crate::window::by_rail::tests::{Narrow, window};
use std::sync::Arc;

const TARGET: Rank = Rank(1);

fn on_failing_rails() -> (Arc<Narrow>, Arc<Window<Narrow>>) {
    let fabric = Arc::new(Narrow::default());
    fabric.loses_atomics.store(true, Ordering::Relaxed);
    let window = window(&fabric, 1);
    (fabric, window)
}

#[test]
fn a_lock_that_was_lost_is_not_asked_for_again() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let (fabric, window) = on_failing_rails();
        let posted = || fabric.atomics.load(Ordering::Relaxed);
        window.lock(TARGET, mode, false).expect("nobody waits yet");
        window.flush(TARGET).expect_err("it is lost");
        assert_eq!(posted(), 1);
        window.enter(TARGET).expect_err("it stays lost");
        window.flush(TARGET).expect_err("it stays lost");
        window.unlock(TARGET).expect_err("it stays lost");
        window.lock(TARGET, mode, false).expect_err("it stays lost");
        window.lock_all(false).expect_err("it stays lost");
        assert_eq!(posted(), 1, "the algorithm ran again");
        assert!(!window.any_locked());
        window.start(&[]).expect("no epoch is open");
    }
}

#[test]
fn an_accumulate_lock_that_was_lost_is_not_asked_for_again() {
    let (fabric, window) = on_failing_rails();
    let posted = || fabric.atomics.load(Ordering::Relaxed);
    for _ in 0..2 {
        let accumulated = window.exclusively(TARGET, Held::NOTHING, || Ok(()));
        accumulated.expect_err("it is lost");
        assert_eq!(posted(), 1);
    }
}

#[test]
fn a_lock_that_cannot_be_asked_for_is_not_wanted() {
    let (fabric, window) = on_failing_rails();
    fabric.refuses.store(true, Ordering::Relaxed);
    window
        .lock(TARGET, Mode::Exclusive, false)
        .expect_err("the rail refuses");
    assert!(!window.any_locked());
    fabric.refuses.store(false, Ordering::Relaxed);
    window
        .lock(TARGET, Mode::Exclusive, false)
        .expect("nobody waits yet");
}
