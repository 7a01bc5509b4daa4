//! Groups on loopback rails: the suite, a modelled latency, and members that are processes.

use crate::conformance;
use crate::multicast::{self, fresh, introduce, pattern, received, send};
use crate::processes::{Channel, with_child};
use crate::support::{self, TIME_LIMIT, until};
use ferrorail_base::RailId;
use ferrorail_base::config::{MulticastFaults, Settings};
use ferrorail_fabric::multicast::To;
use ferrorail_fabric::multicast::faults::Faulty;
use ferrorail_fabric::{Group, GroupId, Multicast};
use ferrorail_rdma_transport::loopback::LoopbackTransport;
use std::time::{Duration, Instant};

fn fabrics(settings: &Settings, count: usize) -> Vec<LoopbackTransport> {
    let open = |i| LoopbackTransport::open_as(conformance::process(i), settings).unwrap();
    (1..=count as u64).map(open).collect()
}

/// Members of a new group on `rail`.
fn members<M: Multicast>(fabrics: &[M], rail: RailId) -> Vec<Box<dyn Group>> {
    let id = fresh();
    let join = |fabric: &M| fabric.join(rail, id, 64).unwrap();
    let mut groups: Vec<_> = fabrics.iter().map(join).collect();
    introduce(&mut groups);
    groups
}

#[test]
fn groups_conform() {
    let seen = multicast::run(|count| fabrics(&support::settings(), count));
    assert_eq!(seen.resent, 0, "memory loses nothing");
    assert_eq!(seen.would_block, 0, "nothing queues without a model");
    assert!(seen.dropped > 0, "a queue that never was full");
}

#[test]
fn groups_conform_with_a_model() {
    let modelled = Settings {
        loopback_latency_ns: 30_000,
        loopback_bandwidths_mb_s: vec![500],
        ..support::settings()
    };
    let seen = multicast::run(|count| fabrics(&modelled, count));
    assert!(seen.would_block > 0, "half a megabyte takes a millisecond");
    assert!(seen.dropped > 0, "a queue that never was full");
}

#[test]
fn datagrams_take_the_latency_and_their_turn() {
    const LATENCY: Duration = Duration::from_millis(20);
    let modelled = Settings {
        loopback_latency_ns: LATENCY.as_nanos() as u64,
        loopback_bandwidths_mb_s: vec![1],
        ..support::settings()
    };
    let fabrics = fabrics(&modelled, 3);
    let mut groups = members(&fabrics, RailId(0));
    let start = Instant::now();
    for number in 0..10u8 {
        // One millisecond each at 1 MB/s.
        send(&mut *groups[0], To::All, &[number], &[0; 999]);
    }
    let mut heard: [Vec<(u8, Duration)>; 2] = Default::default();
    until(|| {
        for (group, heard) in groups[1..].iter_mut().zip(&mut heard) {
            let mut each = |datagram: &[u8]| heard.push((datagram[0], start.elapsed()));
            group.poll(usize::MAX, &mut each).unwrap();
        }
        heard.iter().all(|heard| heard.len() == 10)
    });
    for (number, at) in heard.into_iter().flatten() {
        let least = LATENCY + Duration::from_millis(1 + u64::from(number));
        assert!(at >= least, "datagram {number} after {at:?}");
    }
}

#[test]
fn a_rail_that_is_down_loses_datagrams() {
    let broken = Settings {
        loopback_faults: "loop0:down".to_owned(),
        ..support::settings()
    };
    let fabrics = fabrics(&broken, 2);
    for (rail, arrives) in [(RailId(0), 0), (RailId(1), 1)] {
        let mut groups = members(&fabrics, rail);
        send(&mut *groups[0], To::All, &[], &[1, 2, 3]);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(received(&mut *groups[1]).len(), arrives);
    }
}

/// All faults at once: resending gets everything through, and nothing unsent is taken for it.
#[test]
fn faults_are_survived_by_sending_again() {
    let faults = "drop=0.2,corrupt=0.1,duplicate=0.1,reorder=0.1,down=10..20,seed=5";
    let faults = MulticastFaults::parse(faults).unwrap();
    let open = |fabric| Faulty::new(fabric, &faults);
    let all: Vec<_> = fabrics(&support::settings(), 3)
        .into_iter()
        .map(open)
        .collect();
    let mut groups = members(&all, RailId(0));
    let mut heard = [0; 2];
    for number in 0..200 {
        let text = pattern(number, 600);
        let mut missing = vec![1, 2];
        until(|| {
            send(&mut *groups[0], To::All, &text[..100], &text[100..]);
            missing.retain(|&member: &usize| {
                let found = received(&mut *groups[member]);
                heard[member - 1] += found.len();
                !found.contains(&text)
            });
            missing.is_empty()
        });
    }
    let suppressed: u64 = all.iter().map(|one| one.counters().suppressed).sum();
    assert_eq!(suppressed, 10);
    for (receiver, heard) in all[1..].iter().zip(heard) {
        let counters = receiver.counters();
        assert!(
            counters.dropped > 20 && counters.corrupted > 10,
            "{counters:?}"
        );
        assert!(
            counters.duplicated > 10 && counters.reordered > 10,
            "{counters:?}"
        );
        assert!(heard > 200, "{heard} datagrams");
    }
}

/// What member `sender` sends as its datagram `number`.
fn datagram(sender: usize, number: usize) -> Vec<u8> {
    pattern(sender * 100_000 + number, 16 + (sender + number) % 2000)
}

const MEMBERS: usize = 4;
const ROUNDS: usize = 200;

/// A member in a process of its own: joins, is told of the others, then sends in turn.
fn member(me: usize, id: GroupId, channel: &mut Channel) {
    let fabric = LoopbackTransport::open(&support::settings()).expect("open");
    let mut group = fabric.join(RailId(0), id, 64).expect("join");
    channel.send(&group.address());
    let addresses: Vec<Vec<u8>> = (0..MEMBERS).map(|_| channel.receive()).collect();
    group.set_members(me as u32, &addresses).expect("members");
    channel.send(b"ready");
    channel.receive();
    let mut inbox = Inbox(Vec::new());
    for number in 0..ROUNDS {
        let (root, answer) = (number % MEMBERS, (number as u64).to_le_bytes());
        if root == me {
            send(&mut *group, To::All, &[], &datagram(me, number));
            // One of each other member, to this one alone.
            for _ in 1..MEMBERS {
                inbox.take(&mut *group, &answer);
            }
        } else {
            inbox.take(&mut *group, &datagram(root, number));
            send(&mut *group, To::Member(root as u32), &answer, &[]);
        }
    }
    assert_eq!(inbox.0, [] as [Vec<u8>; 0], "sent to another, or twice");
    channel.send(b"done");
    channel.receive();
}

/// What has come; the next root may be ahead of a slower member.
struct Inbox(Vec<Vec<u8>>);

impl Inbox {
    /// Waits for `wanted`.
    fn take(&mut self, group: &mut dyn Group, wanted: &[u8]) {
        let start = Instant::now();
        loop {
            self.0.extend(received(group));
            if let Some(at) = self.0.iter().position(|found| found == wanted) {
                self.0.swap_remove(at);
                return;
            }
            assert!(start.elapsed() < TIME_LIMIT, "{} others", self.0.len());
            ferrorail_base::sync::yield_now();
        }
    }
}

#[test]
fn processes_are_members() {
    let id = fresh();
    let start = |me| with_child(move |mut channel| member(me, id, &mut channel));
    let mut children: Vec<_> = (0..MEMBERS).map(start).collect();
    let addresses: Vec<Vec<u8>> = children.iter_mut().map(|(_, c)| c.receive()).collect();
    for (_, channel) in &mut children {
        addresses.iter().for_each(|address| channel.send(address));
    }
    for word in ["ready", "done"] {
        for (_, channel) in &mut children {
            assert_eq!(channel.receive(), word.as_bytes());
        }
        for (_, channel) in &mut children {
            channel.send(b"go");
        }
    }
    for (child, _) in &mut children {
        child.reap();
    }
}
