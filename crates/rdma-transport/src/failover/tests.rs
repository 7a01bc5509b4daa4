//! Tests that need to see inside.

use super::Failover;
use crate::loopback::LoopbackTransport;
use ferrorail_base::config::{Settings, ShmKind};
use ferrorail_base::sync::{AtomicBool, Ordering, yield_now};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    Endpoint, LaneId, LocalRegion, LocalSlice, Notification, Op, RemoteRegion, RemoteSlice,
    SharedBacking, Ticket, Tracking,
};
use ferrorail_shm::Segment;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TIME_LIMIT: Duration = Duration::from_secs(30);

type Rails = Failover;

/// Rails whose operations take a while.
fn settings() -> Settings {
    Settings {
        loopback_latency_ns: 1000,
        rail_timeout_ms: 60,
        rail_probe_ms: Some(20),
        ..Settings::default()
    }
}

fn process(started: u64) -> ProcessId {
    ProcessId {
        host: 1,
        pid: std::process::id(),
        started,
    }
}

/// A process and what it shares with its peer.
struct Side {
    rails: Rails,
    peer: PeerId,
    /// What the peer connects to.
    address: Vec<u8>,
    region: LocalRegion,
    /// Keeps the region's memory.
    _memory: Segment,
    theirs: Option<RemoteRegion>,
}

impl Side {
    fn new(me: u64, other: u64, settings: &Settings) -> Self {
        let fabric = LoopbackTransport::open_as(process(me), settings).unwrap();
        let rails = Failover::new(Arc::new(fabric), process(me), settings);
        let (peer, address) = rails.open_peer(process(other)).unwrap();
        let memory = Segment::create(ShmKind::Memfd, 4096).unwrap();
        let (range, backing) = (
            memory.range(),
            SharedBacking::whole(memory.fd(), memory.bytes()),
        );
        // SAFETY: the segment outlives every use of the region.
        let region = unsafe { rails.register(range.as_ptr(), range.bytes, Some(backing)) }.unwrap();
        Self {
            rails,
            peer,
            address,
            region,
            _memory: memory,
            theirs: None,
        }
    }

    fn connect(&mut self, other: &Self) {
        self.rails.connect(self.peer, &other.address).unwrap();
        let theirs = self.rails.import(self.peer, &other.region.description);
        self.theirs = Some(theirs.unwrap());
    }

    fn put(&self, rail: u8) -> Ticket {
        self.post(rail, &Op::put(self.source(), self.there(64)))
    }

    fn post(&self, rail: u8, op: &Op<'_>) -> Ticket {
        let (peer, rail) = (self.peer, RailId(rail));
        // SAFETY: both segments outlive the rails.
        unsafe { self.rails.post(peer, rail, op, Tracking::Tracked) }.unwrap()
    }

    fn source(&self) -> LocalSlice<'_> {
        LocalSlice {
            region: &self.region,
            offset: 0,
            bytes: 8,
        }
    }

    fn there(&self, offset: usize) -> RemoteSlice<'_> {
        let region = self.theirs.as_ref().unwrap();
        RemoteSlice { region, offset }
    }
}

fn sides() -> (Side, Side) {
    sides_with("")
}

fn sides_with(faults: &str) -> (Side, Side) {
    let faulty = Settings {
        loopback_faults: faults.into(),
        ..settings()
    };
    let (mut a, mut b) = (Side::new(1, 2, &faulty), Side::new(2, 1, &settings()));
    a.connect(&b);
    b.connect(&a);
    (a, b)
}

/// Drives both sides, and has each ask whether the other answers, until `done`.
fn until(sides: [&Side; 2], mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        for side in sides {
            side.rails.progress().unwrap();
            side.rails.check(side.peer).unwrap();
        }
        assert!(start.elapsed() < TIME_LIMIT, "it takes for ever");
        yield_now();
    }
}

/// A thread chooses a lane, is held up, and goes on when that lane has failed and is being tried
/// again: what it posts there would be in nobody's account.
#[test]
fn a_lane_that_failed_since_it_was_chosen_takes_no_post() {
    let (a, _b) = sides();
    let pair = a.rails.pair(a.peer).unwrap();
    let held = pair.journals[0].lock();
    let chosen = AtomicBool::new(false);
    let ticket = std::thread::scope(|scope| {
        let posting = scope.spawn(|| {
            chosen.store(true, Ordering::Release);
            a.put(0)
        });
        while !chosen.load(Ordering::Acquire) {
            yield_now();
        }
        // If it has not chosen by then, it sees the failure when it does.
        std::thread::sleep(Duration::from_millis(100));
        pair.up.fetch_and(!1, Ordering::AcqRel);
        drop(held);
        posting.join().unwrap()
    });
    assert_eq!(ticket.rail, RailId(1));
    assert!(!pair.journals[0].lock().holds(1));
}

/// Failures are told one at a time: the lane may be in its next generation by then.
#[test]
fn a_failure_told_late_ends_no_reset_lane() {
    let (a, b) = sides();
    let pair = a.rails.pair(a.peer).unwrap();
    let lane = LaneId {
        peer: a.peer,
        rail: RailId(0),
    };
    a.rails.end_lane(lane);
    a.rails.mark_down(lane);
    assert!(!pair.is_up(0));
    until([&a, &b], || pair.is_up(0));
    a.rails.mark_down(lane);
    assert!(pair.is_up(0));
}

/// The proposer would wait for the answer for ever, and the other side for the proposer.
#[test]
fn a_trial_that_is_never_answered_is_given_up() {
    let (a, b) = sides_with("loop0:stuck:after=1");
    let pair = a.rails.pair(a.peer).unwrap();
    let lost = a.put(0);
    let number = || pair.recovery.lock().lanes[0].number;
    until([&a, &b], || {
        number() >= 2 && a.rails.is_complete(lost).unwrap()
    });
}

#[test]
fn a_peer_that_no_rail_reaches_takes_no_attention() {
    let (a, _b) = sides_with("loop0:down:after=1,loop1:down:after=1");
    a.put(0);
    a.put(1);
    let start = Instant::now();
    while a.rails.check(a.peer).is_ok() {
        // It tells of what was owed.
        let _ = a.rails.progress();
        assert!(start.elapsed() < TIME_LIMIT, "nothing broke");
        yield_now();
    }
    assert_eq!(a.rails.attention.load(Ordering::Relaxed), 0);
}

/// Nothing comes after it whose flag would prove more.
#[test]
fn what_its_own_flag_proves_is_not_done_again() {
    let (a, b) = sides_with("loop0:mute:after=1");
    let notification = Notification {
        word: a.there(128),
        value: 5,
    };
    let op = Op::notify(a.source(), a.there(64), notification);
    let ticket = a.post(0, &op);
    until([&a, &b], || a.rails.is_complete(ticket).unwrap());
    let counters = &a.rails.statistics().rails[0];
    assert_eq!((counters.failures, counters.resent), (1, 0));
}
