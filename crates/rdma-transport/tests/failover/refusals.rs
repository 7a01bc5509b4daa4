//! Requests that are refused: they fail, and nothing else does.

use super::settings;
use super::side::{drive, sides};
use super::support::{object, register, slice, until};
use crate::conformance::{Rails, at};
use ferrorail_base::RailId;
use ferrorail_base::config::{RailChoice, Settings};
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{FabricError, Notification, Op, Tracking};

#[test]
fn a_refused_put_fails_alone_and_its_rail_comes_back() {
    let slow = Settings {
        loopback_latency_ns: 20_000_000,
        ..settings("")
    };
    let (left, right) = sides(&slow, &settings(""));
    let good = left.theirs();
    let mut bad = *good;
    bad.rkeys = [77; 8];
    left.mine.0.word(0).store(7, Ordering::Release);
    let before = left.put(good, 0);
    let refused = left.put(&bad, 8);
    let behind = left.put(good, 16);
    let complete = |ticket| left.fabric.is_complete(ticket).unwrap();
    let told = drive((&left, &right), || complete(behind) && left.events()[1] > 0);
    assert_eq!(told.len(), 1, "{told:?}");
    for error in [&told[0], &left.fabric.is_complete(refused).unwrap_err()] {
        assert!(matches!(error, FabricError::Completion { .. }), "{error:?}");
        assert!(error.to_string().contains("not in force"), "{error}");
    }
    assert!(complete(before));
    let arrived = [0, 8, 16].map(|at| right.found(at));
    assert_eq!(arrived, [7, 0, 7]);
    assert_eq!(left.events(), [1, 1, 1], "one failure, one put done again");
    let later = left.put(good, 24);
    assert_eq!(later.rail, RailId(0));
    assert!(drive((&left, &right), || complete(later)).is_empty());
}

/// The way to the peer fails before it refuses the put; another rail does.
#[test]
fn a_put_that_is_refused_when_done_again_fails_then() {
    let three = |faults| Settings {
        rails: RailChoice::Count(3),
        ..settings(faults)
    };
    let (left, right) = sides(&three("loop0:down:after=1"), &three(""));
    let mut bad = *left.theirs();
    bad.rkeys = [77; 8];
    let refused = left.put(&bad, 8);
    let mut error = None;
    let told = drive((&left, &right), || {
        error = error.take().or(left.fabric.is_complete(refused).err());
        error.is_some()
    });
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(error.unwrap().to_string().contains("not in force"));
    assert_eq!(left.events()[0], 2);
}

/// A flag cannot be read back: its owner let it go, because all that it waited for had arrived.
#[test]
fn a_flag_that_is_gone_costs_one_rail() {
    let three = |faults| Settings {
        rails: RailChoice::Count(3),
        ..settings(faults)
    };
    let (left, right) = sides(&three("loop0:mute:after=1:for=10"), &three(""));
    let segment = object(4096);
    let flags = register(&right.fabric, &segment);
    let described = &flags.description;
    let theirs = left.fabric.import(left.peer, described).unwrap();
    let notification = Notification {
        word: at(&theirs, 64),
        value: 1,
    };
    let op = Op::notify(slice(&left.mine.1, 0, 8), at(&theirs, 0), notification);
    let first = left.post(0, &op, Tracking::Tracked).unwrap();
    until(|| segment.word(64).load(Ordering::Acquire) == 1);
    right.fabric.deregister(flags);
    let told = drive((&left, &right), || {
        left.fabric.is_complete(first).unwrap() && left.events()[1] >= 2
    });
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(left.events(), [2, 2, 0]);
    left.fabric.check(left.peer).unwrap();
}

/// Whoever posted a put gave it up and let its memory go, before its rail failed.
#[test]
fn what_was_abandoned_is_not_done_again() {
    let (left, right) = sides(&settings("loop0:down"), &settings(""));
    let theirs = left.theirs();
    let segment = object(4096);
    segment.word(0).store(9, Ordering::Release);
    let region = register(&left.fabric, &segment);
    let op = Op::put(slice(&region, 0, 8), at(theirs, 8));
    left.post(0, &op, Tracking::Tracked).unwrap();
    left.mine.0.word(0).store(7, Ordering::Release);
    let behind = left.put(theirs, 16);
    ferrorail_fabric::Endpoint::abandon(&left.fabric, region);
    drop(segment);
    let complete = |ticket| left.fabric.is_complete(ticket).unwrap();
    let told = drive((&left, &right), || complete(behind));
    assert!(told.is_empty(), "{told:?}");
    let arrived = [8, 16].map(|at| right.found(at));
    assert_eq!(arrived, [0, 7]);
    assert_eq!(left.events(), [1, 0, 1], "one failure, one put done again");
}
