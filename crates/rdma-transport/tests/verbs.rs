//! The conformance suite, and what is particular to verbs, on real queue pairs.
//!
//! Needs RDMA devices, at least two ports of them: `scripts/soft-roce` runs it with `--ignored`.

mod conformance;
#[path = "verbs/groups.rs"]
mod groups;
mod multicast;
#[path = "verbs/reach.rs"]
mod reach;

use conformance::Rails;
use conformance::memory::Memory;
use conformance::transfers::{put_arrives, put_with_wrong_key};
use conformance::{Pair, at};
use ferrorail_base::config::{RailChoice, Settings, WriteOrder};
use ferrorail_base::{PeerId, RailId};
use ferrorail_fabric::{
    AtomicScope, FabricError, LaneId, Notification, Op, RemoteRegion, Tracking, Transition,
};
use ferrorail_rdma_transport::failover::Failover;
use ferrorail_rdma_transport::verbs::{self, Bounds, VerbsTransport};
use nix::sys::resource::{Resource, setrlimit};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// What devices there are; written while a test adds one, which would be among the rails of others.
static DEVICES: Devices = Devices::new(());

#[allow(clippy::disallowed_types)] // held over waits
type Devices = std::sync::RwLock<()>;

fn open_within(settings: &Settings, bounds: Bounds) -> Result<VerbsTransport, FabricError> {
    let _stay = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
    VerbsTransport::open_within(settings, bounds)
}

fn open_with(settings: &Settings) -> Result<VerbsTransport, FabricError> {
    open_within(settings, Bounds::default())
}

fn open(rails: RailChoice) -> Result<VerbsTransport, FabricError> {
    open_with(&Settings {
        rails,
        ..Settings::default()
    })
}

fn pair() -> (VerbsTransport, VerbsTransport) {
    let make = || open(RailChoice::Auto).expect("rails");
    (make(), make())
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn verbs_conform() {
    let seen = conformance::run(pair);
    assert!(
        seen.would_block > 0,
        "thousands of messages never filled a queue"
    );
}

/// Notifications then start in registered memory.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn verbs_conform_without_inline_data() {
    let bounds = Bounds {
        inline_bytes: 0,
        ..Bounds::default()
    };
    let make = || open_within(&Settings::default(), bounds).expect("rails");
    assert_eq!(make().attributes().inline_bytes_max, 0);
    conformance::run(|| (make(), make()));
}

/// A read before each flag, which waits for it. With failover, whose probes also wake a soft-RoCE queue pair that
/// misses the end of such a wait.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn flags_that_wait_for_reads_follow_their_data() {
    let settings = Settings {
        write_order: WriteOrder::Read,
        ..Settings::default()
    };
    conformance::run_order(|| pair_with_failover_under(settings.clone()));
}

fn pair_with_failover() -> (Failover, Failover) {
    pair_with_failover_under(Settings::default())
}

fn pair_with_failover_under(settings: Settings) -> (Failover, Failover) {
    let settings = Settings {
        rail_timeout_ms: 1000,
        rail_probe_ms: Some(100),
        ..settings
    };
    let make = |index| {
        let fabric = open_with(&settings).expect("rails");
        Failover::new(Arc::new(fabric), conformance::process(index), &settings)
    };
    (make(1), make(2))
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn verbs_conform_with_failover() {
    conformance::run(pair_with_failover);
}

/// The target's end of a lane vanishes: what was sent arrives over the other rail, and the lane is
/// used again; many times over.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn a_lane_that_breaks_is_left_and_used_again() {
    let pair = Pair::new(pair_with_failover());
    for round in 1..=3u64 {
        let rail = RailId(round as u8 % 2);
        let bytes = |rail: RailId| pair.a.inner().statistics().rails[rail.index()].bytes;
        put_arrives(&pair, rail).expect("a lane in use");
        let lane = LaneId {
            peer: pair.ba,
            rail,
        };
        pair.b.inner().change_lane(lane, Transition::End).unwrap();
        let other = RailId(1 - rail.0);
        let before = bytes(other);
        put_arrives(&pair, rail).expect("another rail takes over");
        assert!(bytes(other) > before, "it travelled by the other rail");
        pair.until("return", || {
            let back = |side: &Failover| side.counters(rail).readmissions;
            back(&pair.a) >= round.div_ceil(2) && back(&pair.b) >= round.div_ceil(2)
        });
        let before = bytes(rail);
        put_arrives(&pair, rail).expect("the lane is back");
        assert!(bytes(rail) > before, "it is used again");
    }
}

/// A side that could not make a queue pair says so in its address: the other rail carries until probing
/// brings the lane in.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn a_lane_that_could_not_be_made_at_first_is_used_later() {
    let (a, b) = pair_with_failover();
    let (ab, at_a) = a.open_peer(conformance::process(2)).expect("a peer");
    let (ba, mut at_b) = b.open_peer(conformance::process(1)).expect("a peer");
    // Behind the heads of failover and of rails: the host, then the first rail with its queue pair.
    let name = u32::from_le_bytes(at_b[9..13].try_into().expect("four bytes"));
    let host = 13 + name as usize + 4 + 5;
    let rail = host + 1 + usize::from(at_b[host]);
    at_b[rail + 6..rail + 10].fill(0);
    let reach = a.connect(ab, &at_b).expect("the other rail");
    assert_eq!(reach.planes, 0b11);
    b.connect(ba, &at_a).expect("both rails");
    let pair = Pair { a, b, ab, ba };
    for rail in [0, 1] {
        put_arrives(&pair, RailId(rail)).expect("the other rail");
    }
    let bytes = || pair.a.counters(RailId(0)).bytes;
    assert!(bytes() < 4096, "trials at most");
    let back = |side: &Failover| side.counters(RailId(0)).readmissions > 0;
    pair.until("return", || back(&pair.a) && back(&pair.b));
    put_arrives(&pair, RailId(0)).expect("the lane is in use");
    assert!(bytes() >= 4096);
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn rails_are_described() {
    assert!(verbs::is_available());
    let fabric = open(RailChoice::Count(2)).unwrap();
    assert_eq!(fabric.attributes().rails.len(), 2);
    assert_eq!(fabric.wake_events().expect("armed").len(), 2, "one each");
    for (plane, rail) in fabric.attributes().rails.iter().enumerate() {
        println!("{rail:?}");
        assert_eq!(rail.name, format!("{}:{}", rail.device, rail.port));
        assert_eq!(usize::from(rail.plane), plane);
        assert!((256..=4096).contains(&rail.mtu_bytes) && rail.bandwidth_mb_s > 0);
        assert!(
            rail.address.starts_with("::ffff:"),
            "an IPv4-mapped GID is preferred"
        );
    }
    println!("{:?}", fabric.attributes());
    assert_ne!(fabric.attributes().atomics, AtomicScope::None);
}

/// One rail on the one side, both on the other: the common plane carries, the other says so.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn a_missing_rail_does_not_shift_the_others() {
    let names: Vec<String> = pair()
        .0
        .rails()
        .iter()
        .map(|rail| rail.name.clone())
        .collect();
    let mut half = names.clone();
    half[0] = "absent0".to_owned();
    let a = open(RailChoice::Names(names)).unwrap();
    let b = open(RailChoice::Names(half)).unwrap();
    assert_eq!(
        (b.attributes().rails.len(), b.attributes().rails[0].plane),
        (1, 1)
    );
    let pair = Pair::new((a, b));
    assert!(put_arrives(&pair, RailId(1)).is_ok());
    let refused = put_arrives(&pair, RailId(0)).unwrap_err();
    assert!(refused.to_string().contains("not connected"), "{refused}");
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn a_wrong_key_is_a_typed_error() {
    let pair = Pair::new(pair());
    let error = put_with_wrong_key(&pair, RailId(0));
    assert!(matches!(error, FabricError::Completion { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&pair.a.attributes().rails[0].name), "{text}");
    assert!(text.contains("remote access error"), "{text}");
    // The other rail is not concerned.
    assert!(put_arrives(&pair, RailId(1)).is_ok());
    assert!(put_arrives(&pair, RailId(0)).is_err());
}

/// With devices or without, with libibverbs or without.
#[test]
fn settings_that_leave_no_rail_say_what_there_is() {
    let error = open(RailChoice::Names(vec!["absent0".to_owned()])).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("no usable rail: "), "{text}");
    assert!(text.contains("FERRORAIL_FABRIC=loopback"), "{text}");
    assert_eq!(text.contains(" (active)"), verbs::is_available(), "{text}");
}

/// Longer than a device takes in one piece (8 MB on soft-RoCE of older kernels).
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn long_messages_arrive_whole() {
    put_20_mb(pair());
}

/// More pieces than a queue has room for, behind silent operations that have taken some of it.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn messages_longer_than_a_queue_arrive_whole() {
    let bounds = Bounds {
        message_bytes: 64 << 10,
        ..Bounds::default()
    };
    let make = || open_within(&Settings::default(), bounds).expect("rails");
    put_20_mb((make(), make()));
}

fn put_20_mb(fabrics: (VerbsTransport, VerbsTransport)) {
    const BYTES: usize = 20 << 20;
    const SILENT: u64 = 31;
    let pair = Pair::new(fabrics);
    let mut source = Memory::private(&pair.a, BYTES);
    let target = Memory::private(&pair.b, BYTES + 8);
    source.fill_pattern(3);
    let remote = RemoteRegion::of(target.region());
    let put = |bytes, value, tracking| {
        let word = at(&remote, BYTES);
        let (from, to) = (source.slice(0, bytes), at(&remote, 0));
        let op = Op::notify(from, to, Notification { word, value });
        pair.post((&pair.a, pair.ab), RailId(1), &op, tracking).0
    };
    for number in 1..=SILENT {
        put(0, number, Tracking::Silent);
    }
    let long = put(BYTES, 41, Tracking::Tracked);
    // Waits for room behind it.
    let last = put(8, 42, Tracking::Tracked);
    assert!(last.sequence > long.sequence);
    pair.wait(&pair.a, long);
    pair.wait(&pair.a, last);
    pair.until("notification", || target.load(BYTES) == 42);
    assert!(target.read(0, BYTES) == source.read(0, BYTES));
    assert_eq!(pair.a.counters(RailId(1)).messages, SILENT + 2);
}

/// Together the lanes hold more than the completion queue they share, mostly silent operations.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn many_peers_share_a_completion_queue() {
    const PEERS: u64 = 90;
    const MESSAGES: usize = 100;
    let pair = Pair::new(pair());
    let source = Memory::private(&pair.a, 4096);
    let target = Memory::private(&pair.b, 8 * PEERS as usize);
    let remote = RemoteRegion::of(target.region());
    let peers: Vec<PeerId> = (0..PEERS).map(|i| pair.join(100 + i, 300 + i).0).collect();
    let mut last = Vec::new();
    for message in 1..=MESSAGES {
        for (i, &peer) in peers.iter().enumerate() {
            let notification = Notification {
                word: at(&remote, 8 * i),
                value: message as u64,
            };
            let tracking = if message == MESSAGES {
                Tracking::Tracked
            } else {
                Tracking::Silent
            };
            let op = Op::notify(source.slice(0, 0), at(&remote, 0), notification);
            let (ticket, _) = pair.post((&pair.a, peer), RailId(0), &op, tracking);
            if message == MESSAGES {
                last.push(ticket);
            }
        }
    }
    for ticket in last {
        pair.wait(&pair.a, ticket);
    }
    pair.until("all", || {
        (0..PEERS as usize).all(|i| target.load(8 * i) == MESSAGES as u64)
    });
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn a_vanished_peer_is_a_typed_error() {
    let Pair { a, b, ab, .. } = Pair::new(pair());
    let source = Memory::private(&a, 4096);
    let remote = RemoteRegion::of(source.region());
    drop(b);
    let op = Op::put(source.slice(0, 64), at(&remote, 64));
    // SAFETY: `source` is not written, and nobody is there to receive it.
    let posted = unsafe { a.post(ab, RailId(0), &op, Tracking::Tracked) };
    let ticket = posted.unwrap();
    let start = Instant::now();
    let reported = loop {
        match a.progress() {
            Err(error) => break error.to_string(),
            Ok(_) => assert!(start.elapsed() < Duration::from_secs(60), "no error"),
        }
    };
    println!("after {:?}: {reported}", start.elapsed());
    assert!(reported.contains("retry counter exceeded"), "{reported}");
    assert_eq!(a.is_complete(ticket).unwrap_err().to_string(), reported);
    assert!(a.progress().is_ok(), "a failure is reported once");
}

/// Runs itself as an unprivileged user with little memory to lock.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn the_limit_of_locked_memory_is_named() {
    const CHILD: &str = "FERRORAIL_TEST_MEMLOCK_CHILD";
    const NOBODY: u32 = 65_534;
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "the_limit_of_locked_memory_is_named",
            "--ignored",
        ]);
        let output = child.env(CHILD, "1").uid(NOBODY).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    setrlimit(Resource::RLIMIT_MEMLOCK, 1 << 20, 1 << 20).unwrap();
    let fabric = open(RailChoice::Auto).unwrap();
    let mut memory = vec![0_u8; 4 << 20];
    // SAFETY: the memory outlives the fabric's use of it.
    let refused = unsafe { fabric.register(memory.as_mut_ptr(), memory.len(), None) };
    let text = refused.unwrap_err().to_string();
    assert!(
        text.starts_with("ibv_reg_mr failed for 4194304 bytes: "),
        "{text}"
    );
    assert!(
        text.contains("locked memory is 1024 KB (`ulimit -l`)"),
        "{text}"
    );
}
