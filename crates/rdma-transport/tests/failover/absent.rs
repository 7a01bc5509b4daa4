//! Lanes that cannot be made or connected, and cards that are pulled.

use super::side::{Side, drive, sides};
use super::support::{Private, buffers, pair, slice};
use super::{Failover, NEVER, conformance, open, play_between, settings};
use crate::conformance::transfers::put_arrives;
use crate::conformance::{Rails, at, process};
use ferrorail_base::RailId;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{FabricError, Op, Tracking};
use std::time::{Duration, Instant};

#[test]
fn a_lane_that_could_not_be_connected_at_first_is_used_later() {
    for (left, right) in [
        ("loop1:apart", NEVER),
        (NEVER, "loop1:apart"),
        ("loop0:apart", "loop0:apart:every=1"),
        ("loop0:apart:every=1", "loop0:apart"),
    ] {
        let pair = sides(&settings(left), &settings(right));
        let mends = !left.contains("every") && !right.contains("every");
        play_between(&pair, |left, right, round| {
            let back = |side: &Side| side.events()[1] > 0;
            round > 50 && (!mends || back(left) && back(right))
        });
        for side in [&pair.0, &pair.1] {
            assert!(side.events()[0] >= 1, "{left}, {right}");
            let readmissions = side.fabric.counters(RailId(0)).readmissions;
            assert!(mends || readmissions == 0, "{left}, {right}");
        }
    }
}

/// Nobody may be written to before it has connected: what is said of such a lane would break the others.
#[test]
fn nothing_is_said_of_it_before_the_peer_is_there() {
    let (a, b) = (settings("loop1:apart"), settings(NEVER));
    let (a, b) = (open(process(1), &a), open(process(2), &b));
    let (ab, _) = a.open_peer(process(2)).unwrap();
    let (_, at_b) = b.open_peer(process(1)).unwrap();
    a.connect(ab, &at_b).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        a.progress().unwrap();
    }
    let messages = |rail| a.counters(RailId(rail)).messages;
    assert_eq!((messages(0), messages(1)), (0, 0));
}

#[test]
fn where_no_lane_can_be_connected_that_is_the_error() {
    let faults = "loop0:apart,loop1:apart";
    let (a, b) = (
        open(process(1), &settings(faults)),
        open(process(2), &settings(NEVER)),
    );
    let (ab, _) = a.open_peer(process(2)).unwrap();
    let (_, address) = b.open_peer(process(1)).unwrap();
    let error = a.connect(ab, &address).unwrap_err();
    assert!(matches!(error, FabricError::NoRails { .. }), "{error}");
    a.connect(ab, &address).expect("at the second attempt");
}

/// A card that is pulled: what is registered from then on has no key there and goes by other rails, and
/// so does what goes to peers that are met later.
#[test]
fn a_card_that_is_pulled_is_done_without() {
    let with = |index, faults| open(process(index), &settings(faults));
    let put = |pair: &conformance::Pair<Failover>| {
        put_arrives(pair, RailId(1)).expect("a rail that works");
    };
    // Whoever comes first loses its card with the first operation.
    let pair = conformance::Pair::new((with(1, "loop1:gone:after=1"), with(2, NEVER)));
    put(&pair);
    let keys = |rails: &Failover| Private::new(64).register(rails).rkeys;
    assert!(keys(&pair.a)[0] != 0 && keys(&pair.b)[1] != 0);
    assert_eq!(keys(&pair.a)[1], 0);
    put(&pair);
    let conformance::Pair { a, b, ab, ba } = pair;
    let pair = conformance::Pair {
        a: b,
        b: a,
        ab: ba,
        ba: ab,
    };
    put(&pair);
    let first = pair.b;
    let other = with(3, NEVER);
    let (theirs, address) = first.open_peer(process(3)).unwrap();
    let (ours, at_other) = other.open_peer(process(1)).unwrap();
    first.connect(theirs, &at_other).unwrap();
    other.connect(ours, &address).unwrap();
    let pair = conformance::Pair {
        a: other,
        b: first,
        ab: ours,
        ba: theirs,
    };
    for _ in 0..3 {
        put(&pair);
    }
    let counters = [&pair.a, &pair.b].map(|side| side.counters(RailId(1)));
    assert_eq!(counters.map(|counters| counters.readmissions), [0, 0]);
    assert_eq!(counters[0].messages, 0);
}

/// Such memory is not posted with a key that means nothing.
#[test]
fn memory_without_a_key_breaks_the_lane_before_anything_is_posted() {
    for here in [true, false] {
        let pair = pair(&settings(NEVER));
        let (_, mut from, _, mut into) = buffers(&pair, 64, 64);
        if here {
            from.lkeys[1] = 0;
        } else {
            into.rkeys[1] = 0;
        }
        let op = Op::put(slice(&from, 0, 8), at(&into, 0));
        let put = |rail| pair.try_start(RailId(rail), &op);
        for _ in 0..2 {
            let error = put(1).unwrap_err();
            assert!(matches!(error, FabricError::LaneDown { .. }), "{error}");
        }
        put(0).expect("it has a key there");
    }
}

/// With failover another rail takes it, also where nothing has told of the card before.
#[test]
fn what_has_no_key_on_a_lane_in_use_takes_another() {
    let (left, right) = sides(&settings(NEVER), &settings(NEVER));
    let mut keyless = *left.theirs();
    keyless.rkeys[1] = 0;
    left.mine.0.word(0).store(77, Ordering::Release);
    let put = Op::put(slice(&left.mine.1, 0, 8), at(&keyless, 0));
    let posted = left.post(1, &put, Tracking::Tracked);
    let ticket = posted.expect("the other rail");
    let told = drive((&left, &right), || {
        left.fabric.is_complete(ticket).expect("the other rail")
    });
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(right.found(0), 77);
    assert!(left.events()[0] >= 1, "the lane was left");
}

#[test]
fn without_any_card_memory_is_refused() {
    let fabric = open(process(1), &settings("loop0:gone,loop1:gone"));
    let memory = Private::new(64);
    // SAFETY: nothing is registered.
    let refused = unsafe { fabric.register(memory.address(), 64, None) };
    let error = refused.unwrap_err();
    assert!(
        matches!(error, FabricError::RegisterMemory { .. }),
        "{error}"
    );
}
