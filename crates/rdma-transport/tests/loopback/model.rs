//! Modelled rails. Times are asserted as lower bounds only.

use crate::conformance::{Rails, at};
use crate::support::{Pair, Private, RAILS, buffers, pair, settings, slice, until};
use ferrorail_base::config::Settings;
use ferrorail_fabric::{FabricError, LocalRegion, Notification, Op, RemoteRegion, Tracking};
use std::time::{Duration, Instant};

const LATENCY: Duration = Duration::from_millis(2);

fn modelled(latency: Duration, bandwidth_mb_s: Option<u64>) -> Pair {
    pair(&Settings {
        loopback_latency_ns: latency.as_nanos() as u64,
        loopback_bandwidths_mb_s: vec![bandwidth_mb_s.unwrap_or(0)],
        ..settings()
    })
}

#[test]
fn delivery_takes_latency_and_transmission_without_anyone_s_progress() {
    // 100 MB/s: 1 MB takes 10 ms.
    let pair = modelled(LATENCY, Some(100));
    let (_, from, target, remote) = buffers(&pair, 1_000_000, 1_000_000);
    let start = Instant::now();
    for (index, rail) in RAILS.into_iter().enumerate() {
        let notification = Notification {
            word: at(&remote, 8 * index),
            value: 9,
        };
        let (from, to) = (slice(&from, 16, 999_984), at(&remote, 16));
        pair.try_start(rail, &Op::notify(from, to, notification))
            .unwrap();
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
    let (source, from, target, remote) = buffers(&pair, 64, 64);
    source.store(56, 1);
    let put = Op::put(slice(&from, 0, 64), at(&remote, 0));
    let ticket = pair.start(RAILS[0], &put);
    source.store(56, 2);
    pair.wait(&pair.a, ticket);
    assert_eq!(target.load(56), 2);
}

#[test]
fn messages_share_the_rail_s_bandwidth_and_keep_their_order() {
    // 10 MB/s: 100 KB takes 10 ms.
    let pair = modelled(Duration::ZERO, Some(10));
    let (_, from, target, remote) = buffers(&pair, 100_000, 100_000);
    let start = Instant::now();
    let mut last = None;
    for value in 1..=3 {
        let notification = Notification {
            word: at(&remote, 0),
            value,
        };
        let op = Op::notify(slice(&from, 8, 99_992), at(&remote, 8), notification);
        let (ticket, _) = pair.post((&pair.a, pair.ab), RAILS[0], &op, Tracking::Silent);
        last = Some(ticket);
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
    pair.wait(&pair.a, last.unwrap());
}

#[test]
fn results_come_back_a_round_trip_later() {
    let pair = modelled(LATENCY, None);
    let (result, into, target, remote) = buffers(&pair, 64, 64);
    target.store(0, 40);
    target.store(8, 41);
    let start = Instant::now();
    let word = at(&remote, 0);
    let operations = [
        Op::fetch_add(word, 2, slice(&into, 0, 8), None),
        Op::compare_swap(word, 42, 7, slice(&into, 8, 8)),
        Op::get(word, slice(&into, 16, 16)),
    ];
    let tickets = operations.map(|op| pair.try_start(RAILS[0], &op).unwrap());
    let early = pair.a.is_complete(tickets[0]).unwrap();
    assert!(!early || start.elapsed() >= 2 * LATENCY);
    pair.wait(&pair.a, tickets[2]);
    assert!(start.elapsed() >= 2 * LATENCY);
    assert!(tickets.iter().all(|&t| pair.a.is_complete(t).unwrap()));
    let results = [0, 8, 16, 24].map(|offset| result.load(offset));
    assert_eq!(results, [40, 42, 7, 41], "in the order posted");
}

#[test]
fn a_full_queue_says_so_and_drains() {
    let pair = modelled(Duration::from_millis(100), None);
    let (_, from, _, remote) = buffers(&pair, 8, 8);
    let put = Op::put(slice(&from, 0, 8), at(&remote, 0));
    let start = Instant::now();
    let mut accepted = 0;
    let refused = loop {
        match pair.try_start(RAILS[1], &put) {
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
    let ticket = pair.start(RAILS[1], &put);
    assert_eq!(ticket.sequence, accepted + 1);
    pair.wait(&pair.a, ticket);
    assert!(
        start.elapsed() >= Duration::from_millis(400),
        "two round trips"
    );
}

#[test]
fn a_failure_breaks_the_lane_and_is_told() {
    let pair = modelled(Duration::from_millis(100), None);
    let (source, from, target, good) = buffers(&pair, 64, 64);
    let mut bad = good;
    bad.rkeys = [77; 8];
    let put = |rail, remote: &RemoteRegion, offset| {
        pair.try_start(rail, &Op::put(slice(&from, 0, 8), at(remote, offset)))
    };
    source.store(0, 1);
    let before = put(RAILS[0], &good, 0).unwrap();
    put(RAILS[0], &bad, 8).unwrap();
    let behind = put(RAILS[0], &good, 16).unwrap();
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
    let later = put(RAILS[0], &good, 16).unwrap_err();
    assert!(later.to_string().contains("flushed"), "{later}");
    let other_rail = put(RAILS[1], &good, 24).unwrap();
    pair.wait(&pair.a, other_rail);
    assert_eq!(target.load(24), 1, "the other rail works on");
}

#[test]
fn a_fabric_with_operations_in_flight_closes() {
    let pair = modelled(Duration::from_secs(3600), None);
    let (_, from, _, remote) = buffers(&pair, 8, 8);
    let put = Op::put(slice(&from, 0, 8), at(&remote, 0));
    let ticket = pair.try_start(RAILS[0], &put).unwrap();
    assert!(!pair.a.is_complete(ticket).unwrap());
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
    let tickets = [0, 1, 2].map(|index| {
        let (from, to) = (slice(&regions[index], 0, 1024), at(&remote, 1024 * index));
        pair.start(RAILS[0], &Op::put(from, to))
    });
    for (region, ticket) in regions.into_iter().zip(tickets) {
        pair.wait(&pair.a, ticket);
        pair.a.deregister(region);
    }
    assert_eq!([0, 1024, 2048].map(|at| target.load(at)), [7; 3]);
}

/// A part of a region, which only has its keys, is as much of it.
#[test]
fn what_lacks_its_region_is_not_carried_out() {
    let pair = modelled(LATENCY, Some(1));
    let (source, from, target, remote) = buffers(&pair, 1024, 4096);
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
        let (from, to) = (slice(region, 0, 1024), at(&remote, 1024 * index));
        pair.start(RAILS[0], &Op::put(from, to));
    }
    pair.a.deregister(from);
    let other = Private::new(1024);
    let other_region = other.register(&pair.a);
    other.store(0, 8);
    let (from, to) = (slice(&other_region, 0, 1024), at(&remote, 2048));
    pair.carry(RAILS[0], &Op::put(from, to));
    assert_eq!([0, 1024, 2048].map(|at| target.load(at)), [0, 0, 8]);
}
