//! Modelled rails. Times are asserted as lower bounds only.

use crate::conformance::Rails;
use crate::support::{Pair, Private, RAILS, at, settings, slice, until};
use ferrorail_base::config::Settings;
use ferrorail_fabric::{FabricError, LocalRegion, Notification, Op, RemoteRegion, Tracking};
use std::time::{Duration, Instant};

const LATENCY: Duration = Duration::from_millis(2);

fn modelled(latency: Duration, bandwidth_mb_s: Option<u64>) -> Pair {
    Pair::open(&Settings {
        loopback_latency_ns: latency.as_nanos() as u64,
        loopback_bandwidths_mb_s: vec![bandwidth_mb_s.unwrap_or(0)],
        ..settings()
    })
}

#[test]
fn delivery_takes_latency_and_transmission_without_anyone_s_progress() {
    // 100 MB/s: 1 MB takes 10 ms.
    let pair = modelled(LATENCY, Some(100));
    let (source, target) = (Private::new(1_000_000), Private::new(1_000_000));
    let (from, into) = (source.register(&pair.a), target.register(&pair.b));
    let remote = RemoteRegion::of(&into);
    let start = Instant::now();
    for (index, rail) in RAILS.into_iter().enumerate() {
        let notification = Notification {
            word: at(&remote, 8 * index),
            value: 9,
        };
        // SAFETY: the source lives until both have completed.
        let posted = unsafe {
            let (from, to) = (slice(&from, 16, 999_984), at(&remote, 16));
            pair.a.post(
                pair.ab,
                rail,
                &Op::notify(from, to, notification),
                Tracking::Tracked,
            )
        };
        posted.unwrap();
    }
    until(|| target.load(0) == 9);
    assert!(start.elapsed() >= LATENCY + Duration::from_millis(9));
    until(|| target.load(8) == 9);
    let (a, b) = (pair.a.counters(RAILS[0]), pair.a.counters(RAILS[1]));
    assert_eq!((a, a.bytes), (b, 999_984));
    until(|| pair.a.progress().unwrap() > 0);
}

#[test]
fn sources_are_read_on_delivery() {
    let pair = modelled(Duration::from_millis(500), None);
    let (source, target) = (Private::new(64), Private::new(64));
    let (from, into) = (source.register(&pair.a), target.register(&pair.b));
    let remote = RemoteRegion::of(&into);
    source.store(56, 1);
    let ticket = pair.post(|| {
        // SAFETY: the source lives until completion; writing it is what is tested.
        unsafe {
            let (from, to) = (slice(&from, 0, 64), at(&remote, 0));
            pair.a
                .post(pair.ab, RAILS[0], &Op::put(from, to), Tracking::Tracked)
        }
    });
    source.store(56, 2);
    pair.wait(ticket);
    assert_eq!(target.load(56), 2);
}

#[test]
fn messages_share_the_rail_s_bandwidth_and_keep_their_order() {
    // 10 MB/s: 100 KB takes 10 ms.
    let pair = modelled(Duration::ZERO, Some(10));
    let (source, target) = (Private::new(100_000), Private::new(100_000));
    let (from, into) = (source.register(&pair.a), target.register(&pair.b));
    let remote = RemoteRegion::of(&into);
    let start = Instant::now();
    let mut last = None;
    for value in 1..=3 {
        let notification = Notification {
            word: at(&remote, 0),
            value,
        };
        last = Some(pair.post(|| {
            // SAFETY: the source lives until the last has completed.
            unsafe {
                let (from, to) = (slice(&from, 8, 99_992), at(&remote, 8));
                pair.a.post(
                    pair.ab,
                    RAILS[0],
                    &Op::notify(from, to, notification),
                    Tracking::Silent,
                )
            }
        }));
    }
    let mut seen = 0;
    until(|| {
        let now = target.load(0);
        assert!(now >= seen, "{now} after {seen}");
        let earliest = Duration::from_micros(9_999 * now);
        assert!(start.elapsed() >= earliest, "{now} before {earliest:?}");
        seen = now;
        now == 3
    });
    pair.wait(last.unwrap());
}

#[test]
fn results_come_back_a_round_trip_later() {
    let pair = modelled(LATENCY, None);
    let (result, target) = (Private::new(64), Private::new(64));
    let (into, region) = (result.register(&pair.a), target.register(&pair.b));
    let remote = RemoteRegion::of(&region);
    target.store(0, 40);
    target.store(8, 41);
    let start = Instant::now();
    // SAFETY: the results are not touched before their tickets complete.
    let tickets = unsafe {
        [
            pair.a.post(
                pair.ab,
                RAILS[0],
                &Op::fetch_add(at(&remote, 0), 2, slice(&into, 0, 8), None),
                Tracking::Tracked,
            ),
            pair.a.post(
                pair.ab,
                RAILS[0],
                &Op::compare_swap(at(&remote, 0), 42, 7, slice(&into, 8, 8)),
                Tracking::Tracked,
            ),
            pair.a.post(
                pair.ab,
                RAILS[0],
                &Op::get(at(&remote, 0), slice(&into, 16, 16)),
                Tracking::Tracked,
            ),
        ]
    };
    let tickets = tickets.map(Result::unwrap);
    let early = pair.a.is_complete(tickets[0]).unwrap();
    assert!(!early || start.elapsed() >= 2 * LATENCY);
    pair.wait(tickets[2]);
    assert!(start.elapsed() >= 2 * LATENCY);
    assert!(tickets.iter().all(|&t| pair.a.is_complete(t).unwrap()));
    let results = [0, 8, 16, 24].map(|offset| result.load(offset));
    assert_eq!(results, [40, 42, 7, 41], "in the order posted");
}

#[test]
fn a_full_queue_says_so_and_drains() {
    let pair = modelled(Duration::from_millis(100), None);
    let (source, target) = (Private::new(8), Private::new(8));
    let (from, into) = (source.register(&pair.a), target.register(&pair.b));
    let remote = RemoteRegion::of(&into);
    let put = || {
        // SAFETY: the source lives until the last has completed.
        unsafe {
            let (from, to) = (slice(&from, 0, 8), at(&remote, 0));
            pair.a
                .post(pair.ab, RAILS[1], &Op::put(from, to), Tracking::Tracked)
        }
    };
    let start = Instant::now();
    let mut accepted = 0;
    let refused = loop {
        match put() {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "no bound after {accepted}"
        );
    };
    assert!(matches!(refused, FabricError::WouldBlock));
    assert!(accepted >= 64, "{accepted}");
    let counted = pair.a.counters(RAILS[1]).messages;
    assert_eq!(counted, accepted, "a refused post is not counted");
    let ticket = pair.post(put);
    assert_eq!(ticket.sequence, accepted + 1);
    pair.wait(ticket);
    assert!(
        start.elapsed() >= Duration::from_millis(400),
        "two round trips"
    );
}

#[test]
fn a_failure_breaks_the_lane_and_is_told() {
    let pair = modelled(Duration::from_millis(100), None);
    let (source, target) = (Private::new(64), Private::new(64));
    let (from, into) = (source.register(&pair.a), target.register(&pair.b));
    let good = RemoteRegion::of(&into);
    let mut bad = good;
    bad.rkeys = [77; 8];
    let put = |rail, remote: &RemoteRegion, offset, tracking| {
        // SAFETY: the buffers live until the fabrics are gone.
        unsafe {
            let (from, to) = (slice(&from, 0, 8), at(remote, offset));
            pair.a.post(pair.ab, rail, &Op::put(from, to), tracking)
        }
    };
    source.store(0, 1);
    let before = put(RAILS[0], &good, 0, Tracking::Tracked).unwrap();
    put(RAILS[0], &bad, 8, Tracking::Silent).unwrap();
    let behind = put(RAILS[0], &good, 16, Tracking::Tracked).unwrap();
    let mut told = Vec::new();
    until(|| {
        told.extend(pair.a.progress().err());
        pair.a.is_complete(behind).is_err()
    });
    told.extend(pair.a.progress().err());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].to_string().contains("not in force"), "{told:?}");
    until(|| pair.a.is_complete(before).unwrap());
    assert_eq!(target.load(0), 1);
    assert_eq!([8, 16].map(|at| target.load(at)), [0, 0], "flushed");
    let later = put(RAILS[0], &good, 16, Tracking::Tracked).unwrap_err();
    assert!(later.to_string().contains("flushed"), "{later}");
    let other_rail = put(RAILS[1], &good, 24, Tracking::Tracked).unwrap();
    pair.wait(other_rail);
    assert_eq!(target.load(24), 1, "the other rail works on");
}

#[test]
fn a_fabric_with_operations_in_flight_closes() {
    let pair = modelled(Duration::from_secs(3600), None);
    let (source, target) = (Private::new(8), Private::new(8));
    let (from, into) = (source.register(&pair.a), target.register(&pair.b));
    let remote = RemoteRegion::of(&into);
    // SAFETY: it is never carried out.
    let ticket = unsafe {
        let (from, to) = (slice(&from, 0, 8), at(&remote, 0));
        pair.a
            .post(pair.ab, RAILS[0], &Op::put(from, to), Tracking::Tracked)
    };
    assert!(!pair.a.is_complete(ticket.unwrap()).unwrap());
    let start = Instant::now();
    drop(pair);
    assert!(start.elapsed() < Duration::from_secs(30));
}

/// Windows register the buffer of each long put, which may be the same one: the first completes and gives its
/// registration back while the others are under way.
#[test]
fn what_uses_the_same_memory_through_another_region_goes_on() {
    let pair = modelled(LATENCY, Some(1));
    let (source, target) = (Private::new(1024), Private::new(4096));
    let into = target.register(&pair.b);
    let remote = RemoteRegion::of(&into);
    source.store(0, 7);
    let regions = [0; 3].map(|_| source.register(&pair.a));
    let tickets: Vec<_> = (0..3)
        .map(|index| {
            pair.post(|| {
                // SAFETY: the source lives until all have completed.
                unsafe {
                    let from = slice(&regions[index], 0, 1024);
                    let to = at(&remote, 1024 * index);
                    pair.a
                        .post(pair.ab, RAILS[0], &Op::put(from, to), Tracking::Tracked)
                }
            })
        })
        .collect();
    for (region, ticket) in regions.into_iter().zip(tickets) {
        pair.wait(ticket);
        pair.a.deregister(region);
    }
    assert_eq!([0, 1024, 2048].map(|at| target.load(at)), [7; 3]);
}

/// A part of a region, which only has its keys, is as much of it.
#[test]
fn what_lacks_its_region_is_not_carried_out() {
    let pair = modelled(LATENCY, Some(1));
    let (source, target) = (Private::new(1024), Private::new(4096));
    let (from, into) = (source.register(&pair.a), target.register(&pair.b));
    let remote = RemoteRegion::of(&into);
    source.store(0, 7);
    let part = LocalRegion {
        range: from.range,
        lkeys: from.lkeys,
        rkeys: from.rkeys,
        backing: None,
        handle: 0,
        description: Vec::new(),
    };
    for (index, region) in [&from, &part].into_iter().enumerate() {
        pair.post(|| {
            // SAFETY: the source lives until nothing is in flight.
            unsafe {
                let to = at(&remote, 1024 * index);
                let op = Op::put(slice(region, 0, 1024), to);
                pair.a.post(pair.ab, RAILS[0], &op, Tracking::Tracked)
            }
        });
    }
    pair.a.deregister(from);
    let other = Private::new(1024);
    let other_region = other.register(&pair.a);
    other.store(0, 8);
    let behind = pair.post(|| {
        // SAFETY: as above.
        unsafe {
            let op = Op::put(slice(&other_region, 0, 1024), at(&remote, 2048));
            pair.a.post(pair.ab, RAILS[0], &op, Tracking::Tracked)
        }
    });
    pair.wait(behind);
    assert_eq!([0, 1024, 2048].map(|at| target.load(at)), [0, 0, 8]);
}
