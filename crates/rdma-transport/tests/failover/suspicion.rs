//! Lanes that are left before their device gives them up.

use super::side::{drive, sides};
use super::{NEVER, play_between, settings};
use crate::conformance::Rails;
use ferrorail_base::RailId;
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{AtomicBool, Ordering};
use std::time::Duration;

/// Devices that take too long to wait for.
fn patient(faults: &str) -> Settings {
    Settings {
        rail_suspect_ms: Some(40),
        rail_timeout_ms: 600_000,
        ..settings(faults)
    }
}

#[test]
fn a_lane_that_delivers_nothing_is_left_for_one_that_does() {
    let pair = sides(&patient("loop1:stuck:after=40:for=400"), &patient(NEVER));
    play_between(&pair, |left, _, round| round > 200 && left.events()[1] > 0);
    let [failures, readmissions, resent] = pair.0.events();
    assert!(failures >= 1 && readmissions >= 1 && resent >= 1);
}

/// What was on its way on the lane lands when the fault ends, long after it was done again elsewhere and the
/// memory is in use again: the peer has ended the lane.
#[test]
fn late_packets_of_a_lane_that_was_left_land_nowhere() {
    let pair = sides(
        &patient("loop1:late:after=50:for=300:every=100"),
        &patient(NEVER),
    );
    play_between(&pair, |left, _, _| left.events()[1] > 1);
    let [failures, readmissions, resent] = pair.0.events();
    assert!(failures >= 2 && readmissions >= 2 && resent >= 2);
}

/// Plays with a port that is down for a while, and with a thread for each side that does the watchdog's part, until
/// it was left and taken into use again.
fn play_with_port_down(left: &Settings, right: &Settings) {
    let pair = sides(left, right);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for side in [&pair.0, &pair.1] {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    side.fabric.tend();
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        play_between(&pair, |left, _, round| round > 100 && left.events()[1] > 0);
        is_over.store(true, Ordering::Release);
    });
    assert!(pair.0.fabric.counters(RailId(0)).failures >= 1);
}

/// [`patient`], and lanes are not suspected unless a device says something.
fn never_suspected(faults: &str) -> Settings {
    Settings {
        rail_suspect_ms: None,
        ..patient(faults)
    }
}

#[test]
fn a_port_that_its_device_says_is_down_is_left_at_once() {
    play_with_port_down(
        &never_suspected("loop0:unplugged:after=40:for=300"),
        &never_suspected(NEVER),
    );
}

/// Either side's device may say so, and lanes are not to be tried for long after.
#[test]
fn a_port_that_comes_back_is_used_at_once() {
    let rarely_tried = |faults: &str| Settings {
        rail_probe_ms: Some(3_600_000),
        ..never_suspected(faults)
    };
    let (faults, never) = ("loop0:unplugged:after=40:for=300", NEVER);
    play_with_port_down(&rarely_tried(faults), &rarely_tried(never));
    play_with_port_down(&rarely_tried(never), &rarely_tried(faults));
}

/// It must not be done again, and it is not: it completes when the lane delivers again.
#[test]
fn a_lane_with_an_atomic_in_flight_is_not_left() {
    let (left, right) = sides(&patient("loop0:stuck:after=1:for=500"), &patient(""));
    let before = right.found(0);
    let first = left.add(5, 0);
    assert_eq!(first.rail, RailId(0));
    let told = drive((&left, &right), || left.fabric.is_complete(first).unwrap());
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(right.found(0), before + 5);
    assert_eq!(left.events(), [0; 3]);
}
