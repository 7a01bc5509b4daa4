//! Failover over loopback rails with faults: nothing is lost, nothing lands twice, rails come back,
//! and without any rail left an error comes in bounded time.

mod conformance;

#[path = "failover/absent.rs"]
mod absent;
#[path = "failover/history/mod.rs"]
mod history;
#[path = "failover/late.rs"]
mod late;
#[path = "failover/refusals.rs"]
mod refusals;
#[path = "failover/side.rs"]
mod side;
#[path = "loopback/support.rs"]
#[allow(dead_code)]
mod support;
#[path = "failover/suspicion.rs"]
mod suspicion;

use conformance::transfers::put_arrives;
use conformance::{Rails, at, process};
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, yield_now};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{FabricError, LaneId, Op, Tracking, Transition};
use ferrorail_rdma_transport::failover::{Failover, Watchdog};
use ferrorail_rdma_transport::loopback::LoopbackTransport;
use side::{Side, drive, sides};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Private, buffers, slice, until};

fn settings(faults: &str) -> Settings {
    Settings {
        loopback_faults: faults.into(),
        rail_timeout_ms: 60,
        rail_suspect_ms: None,
        rail_probe_ms: Some(20),
        ..Settings::default()
    }
}

fn open(process: ProcessId, settings: &Settings) -> Failover {
    let fabric = LoopbackTransport::open_as(process, settings).unwrap();
    Failover::new(Arc::new(fabric), process, settings)
}

fn conformance_pair(settings: &Settings) -> (Failover, Failover) {
    (open(process(1), settings), open(process(2), settings))
}

#[test]
fn conforms() {
    conformance::run(|| conformance_pair(&Settings::default()));
}

#[test]
fn conforms_with_a_model() {
    let modelled = Settings {
        loopback_latency_ns: 30_000,
        loopback_bandwidths_mb_s: vec![4000],
        ..Settings::default()
    };
    conformance::run(|| conformance_pair(&modelled));
}

/// A process connects again for each communicator. Its peer may have ended a lane meanwhile, of which it
/// has not heard: what it is told then is not what it connected to.
#[test]
fn connecting_again_after_a_failure_changes_nothing() {
    let pair = conformance::Pair::new(conformance_pair(&settings("loop0:down")));
    let lost = put_arrives(&pair, RailId(0));
    lost.expect("the other rail");
    let failures = pair.a.counters(RailId(0)).failures;
    assert_eq!(failures, 1);
    let (_, address) = pair.a.open_peer(process(2)).unwrap();
    pair.b.connect(pair.ba, &address).expect("the same peer");
    put_arrives(&pair, RailId(0)).expect("the other rail");
}

/// A plane that leads one way only carries nothing, whoever asks for it.
#[test]
fn planes_that_are_not_kept_carry_nothing() {
    let pair = conformance::Pair::new(conformance_pair(&settings("")));
    let bytes = |rail| pair.a.counters(RailId(rail)).bytes;
    pair.a.keep_planes(pair.ab, 0b10).unwrap();
    let before = (bytes(0), bytes(1));
    for rail in [0, 1, 0] {
        put_arrives(&pair, RailId(rail)).expect("the other rail");
    }
    assert_eq!(bytes(0), before.0);
    assert!(bytes(1) > before.1);
}

/// A model without faults.
const NEVER: &str = "loop0:mute:after=18446744073709551615";

/// Plays rounds back and forth until `enough`, with `faults` at the left side.
fn play(faults: &str, enough: impl Fn(&Side, u64) -> bool) -> [u64; 3] {
    let pair = sides(&settings(faults), &settings(NEVER));
    play_between(&pair, |left, _, round| enough(left, round));
    pair.0.events()
}

/// Plays rounds back and forth until `enough`.
fn play_between((left, right): &(Side, Side), enough: impl Fn(&Side, &Side, u64) -> bool) {
    // Set before that round is sent, so that whoever receives it knows.
    let last = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (last, is_over) = (&last, &is_over);
        scope.spawn(move || {
            for round in 1.. {
                right.receive(round).unwrap();
                right.send(round).unwrap();
                if last.load(Ordering::Acquire) == round {
                    break;
                }
            }
            // The last answer may be lost with a rail, and nobody else can send it again.
            let start = Instant::now();
            while !is_over.load(Ordering::Acquire) && start.elapsed() < support::TIME_LIMIT {
                right.fabric.progress().unwrap();
                yield_now();
            }
        });
        let start = Instant::now();
        for round in 1.. {
            left.send(round).unwrap();
            left.receive(round).unwrap();
            if last.load(Ordering::Acquire) == round {
                break;
            }
            if enough(left, right, round) {
                last.store(round + 1, Ordering::Release);
            }
            assert!(
                start.elapsed() < support::TIME_LIMIT,
                "not enough after {round} rounds"
            );
        }
        is_over.store(true, Ordering::Release);
    });
}

#[test]
fn a_rail_that_goes_down_and_comes_back_is_left_and_used_again() {
    let back = |left: &Side, round| round > 200 && left.events()[1] > 0;
    let [failures, readmissions, resent] = play("loop1:down:after=40:for=200", back);
    assert!(failures >= 1 && readmissions >= 1 && resent >= 1);
}

#[test]
fn what_arrived_is_not_sent_again_when_only_its_completion_is_lost() {
    let back = |left: &Side, round| round > 200 && left.events()[0] > 0;
    let [failures, _, resent] = play("loop0:mute:after=40:for=10:every=200", back);
    assert!(failures >= 1);
    assert_eq!(resent, 0);
}

#[test]
fn a_device_that_says_nothing_is_given_up_and_used_again() {
    let back = |left: &Side, round| round > 200 && left.events()[1] > 0;
    let [failures, readmissions, resent] = play("loop1:stuck:after=40:for=800", back);
    assert!(failures >= 1 && readmissions >= 1 && resent >= 1);
}

#[test]
fn late_packets_of_a_lane_that_broke_land_nowhere() {
    // They are let go long after the rounds they belong to, into memory that is in use again.
    let back = |left: &Side, round| round > 300 && left.events()[1] > 0;
    let [failures, _, resent] = play("loop1:late:after=50:for=150", back);
    assert!(failures >= 1 && resent >= 1);
}

#[test]
fn a_rail_fails_again_and_again() {
    let faults = "loop1:down:after=30:for=100:every=40,loop1:late:after=200:for=100:every=90";
    let enough = |left: &Side, _| left.events()[1] >= 4;
    let [failures, readmissions, _] = play(faults, enough);
    assert!(failures >= 4 && readmissions >= 4);
}

#[test]
fn without_a_rail_left_sender_and_receiver_are_told() {
    told_under("loop0:down:after=20,loop1:down:after=20");
}

#[test]
fn so_they_are_when_no_device_says_anything() {
    told_under("loop0:stuck:after=20,loop1:stuck:after=20");
}

fn told_under(faults: &str) {
    let (left, right) = sides(&settings(faults), &settings(faults));
    let start = Instant::now();
    let outcome = |side: &Side, first: bool| {
        for round in 1.. {
            if first || round > 1 {
                side.send(round - u64::from(!first))?;
            }
            side.receive(round)?;
        }
        Ok::<(), FabricError>(())
    };
    let (at_left, at_right) = std::thread::scope(|scope| {
        let at_right = scope.spawn(|| outcome(&right, false));
        (outcome(&left, true), at_right.join().unwrap())
    });
    for outcome in [at_left, at_right] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, FabricError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("no rail reaches"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// What the account of a failure protects from: a late packet does land while the target keeps its
/// end of the lane.
#[test]
fn late_packets_do_land_where_the_target_has_not_ended_the_lane() {
    for ended in [false, true] {
        let pair = support::pair(&settings("loop1:late:for=200"));
        let (source, from, target, remote) = buffers(&pair, 64, 64);
        source.store(0, 77);
        let put = Op::put(slice(&from, 0, 8), at(&remote, 0));
        let lost = pair.try_start(RailId(1), &put).unwrap();
        until(|| {
            let _ = pair.a.progress();
            pair.a.is_complete(lost).is_err()
        });
        assert_eq!(target.load(0), 0);
        if ended {
            let lane = LaneId {
                peer: PeerId(0),
                rail: RailId(1),
            };
            pair.b
                .transport()
                .change_lane(lane, Transition::End)
                .unwrap();
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(target.load(0), 0, "the gate is closed");
        } else {
            until(|| target.load(0) == 77);
        }
    }
}

/// Also when it is asked for late: the lane is in use again, with all that its earlier generation lost
/// counted as done.
#[test]
fn an_atomic_of_unknown_outcome_never_counts_as_done() {
    let (left, right) = sides(&settings("loop0:down:after=1:for=600"), &settings(""));
    let lost = left.add(1, 8);
    assert_eq!(lost.rail, RailId(0));
    let told = drive((&left, &right), || left.events()[1] > 0);
    assert!(told.is_empty(), "{told:?}");
    for _ in 0..2 {
        let error = left.fabric.is_complete(lost).unwrap_err().to_string();
        assert!(
            error.contains("whether it took effect is unknown"),
            "{error}"
        );
    }
    let next = left.add(2, 16);
    assert_eq!(next.rail, RailId(0));
    until(|| {
        left.fabric.progress().unwrap();
        left.fabric.is_complete(next).unwrap()
    });
}

/// Control words of 64 peers share a registration.
#[test]
fn a_peer_that_found_no_memory_may_be_opened_later() {
    let fabric = open(process(0), &settings("loop0:limit:bytes=110000"));
    let other = support::object(8192);
    let others = support::register(&fabric, &other);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let peer = |number| Ok::<_, FabricError>(fabric.open_peer(process(number))?.0);
        let first: Vec<_> = (1..=64).map(|number| peer(number).unwrap()).collect();
        let refused = [peer(65), peer(66)].map(|opened| opened.is_err());
        let known = peer(64).unwrap();
        fabric.deregister(others);
        let later = [peer(66), peer(65)].map(Result::unwrap);
        tell.send((first, refused, known, later)).unwrap();
    });
    let (first, refused, known, later) = told.recv_timeout(support::TIME_LIMIT).unwrap();
    assert_eq!(refused, [true; 2]);
    assert_eq!(known, first[63]);
    assert_eq!(later.map(|peer| peer.index()), [64, 65]);
}

/// Atomics on this process's own words must go by the rail that everybody else's go by.
#[test]
fn a_lane_to_oneself_comes_back() {
    let fabric = open(process(1), &settings("loop0:down:after=1:for=600"));
    let (own, address) = fabric.open_peer(process(1)).unwrap();
    fabric.connect(own, &address).unwrap();
    let memory = Private::new(64);
    let region = memory.register(&fabric);
    let remote = fabric.import(own, &region.description).unwrap();
    let put = |offset| {
        let (from, to) = (slice(&region, 0, 8), at(&remote, offset));
        // SAFETY: the memory lives until the fabric is gone.
        unsafe { fabric.post(own, RailId(0), &Op::put(from, to), Tracking::Tracked) }.unwrap()
    };
    memory.store(0, 7);
    let done = |ticket| {
        fabric.progress().unwrap();
        fabric.is_complete(ticket).unwrap()
    };
    let first = put(8);
    until(|| done(first));
    assert_eq!(memory.load(8), 7);
    let counters = || fabric.counters(RailId(0));
    until(|| done(first) && counters().readmissions > 0);
    assert_eq!((counters().failures, counters().resent), (1, 1));
    let next = put(16);
    assert_eq!(next.rail, RailId(0));
    until(|| done(next));
    assert_eq!(memory.load(16), 7);
}

/// Who has sent its last message and does something else meanwhile is still the only one who can
/// send it again.
#[test]
fn what_was_lost_is_sent_again_by_the_watchdog_while_nobody_calls() {
    let (left, right) = sides(&settings("loop1:down:after=1:for=150"), &settings(""));
    left.send(1).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The watchdog's thread owns what it tends; here the two sides outlive it.
        let tending = scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                left.fabric.tend();
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        right.receive(1).unwrap();
        stop.store(true, Ordering::Release);
        tending.join().unwrap();
    });
    let [failures, _, resent] = left.events();
    assert!(failures >= 1 && resent >= 1, "{failures} {resent}");
}

#[test]
fn a_watchdog_tends_until_it_is_dropped() {
    let calls = std::sync::Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let watchdog = Watchdog::start(move |wake| {
        counted.fetch_add(1, Ordering::Relaxed);
        wake.sleep(&[], Duration::from_millis(100));
    })
    .unwrap();
    until(|| calls.load(Ordering::Relaxed) >= 2);
    drop(watchdog);
    let last = calls.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(calls.load(Ordering::Relaxed), last);
}
