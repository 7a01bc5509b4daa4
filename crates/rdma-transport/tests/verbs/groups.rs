//! Groups on real queue pairs: the suite in one machine, and members on two.

use crate::conformance::Rails;
use crate::multicast::{self, Seen, deliver, introduce, pattern};
use crate::open_with;
use ferrorail_base::RailId;
use ferrorail_base::config::Settings;
use ferrorail_fabric::multicast::To;
use ferrorail_fabric::{Group, GroupId, Multicast};
use ferrorail_rdma_transport::verbs::VerbsTransport;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

fn fabrics(count: usize, gid_index: Option<u32>) -> Vec<VerbsTransport> {
    let settings = Settings {
        gid_index,
        ..Settings::default()
    };
    let open = |_| open_with(&settings).expect("rails");
    (0..count).map(open).collect()
}

#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn groups_conform() {
    let seen = multicast::run(|count| fabrics(count, None));
    println!("with IPv4 addresses: {seen:?}");
    // What is late counts as lost.
    assert!(seen.resent < 10, "inside one machine nothing is lost");
    assert!(seen.would_block > 0, "a send queue that never was full");
    assert!(seen.dropped > 0, "a receive queue that never was full");
}

/// The first address of each rail that is IPv6 and not link-local, where all rails have one.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn groups_conform_with_ipv6_addresses() {
    let is_global = |address: &str| {
        let address: std::net::Ipv6Addr = address.parse().expect("a GID");
        address.to_ipv4_mapped().is_none() && !address.is_unicast_link_local()
    };
    let found = (0..8).find(|&index| {
        let settings = Settings {
            gid_index: Some(index),
            ..Settings::default()
        };
        let fabric = open_with(&settings);
        fabric.is_ok_and(|fabric| {
            fabric
                .attributes()
                .rails
                .iter()
                .all(|rail| is_global(&rail.address))
        })
    });
    let Some(index) = found else {
        println!("no IPv6 addresses here: nothing was tested");
        return;
    };
    let seen = multicast::run(|count| fabrics(count, Some(index)));
    println!("with IPv6 addresses: {seen:?}");
}

/// Where the process on the other host is told of its rendezvous.
const PEER: &str = "FERRORAIL_TEST_GROUP_PEER";
const PORT: u16 = 47_123;
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn exchange(stream: &mut TcpStream, mine: &[u8]) -> Vec<u8> {
    let mut length = (mine.len() as u32).to_le_bytes();
    stream.write_all(&length).expect("send");
    stream.write_all(mine).expect("send");
    stream.read_exact(&mut length).expect("receive");
    let mut theirs = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut theirs).expect("receive");
    theirs
}

/// Two members here and one on the other host, on each rail.
fn across(stream: &mut TcpStream, numbers: &[u32], others: &[u32]) -> Seen {
    let fabrics = fabrics(numbers.len(), None);
    let mut seen = Seen::default();
    for rail in 0..fabrics[0].rails().len() as u8 {
        let id = GroupId([rail ^ 0x77; 16]);
        let join = |fabric: &VerbsTransport| fabric.join(RailId(rail), id, 256).expect("join");
        let mut groups: Vec<_> = fabrics.iter().map(join).collect();
        let mut addresses = vec![Vec::new(); 3];
        for (&number, group) in numbers.iter().zip(&groups) {
            addresses[number as usize] = group.address();
        }
        for at in 0..2 {
            let mine = numbers
                .get(at)
                .map(|&number| &addresses[number as usize][..]);
            let theirs = exchange(stream, mine.unwrap_or_default());
            if let Some(&number) = others.get(at) {
                addresses[number as usize] = theirs;
            }
        }
        for (&number, group) in numbers.iter().zip(&mut groups) {
            group.set_members(number, &addresses).expect("members");
        }
        exchange(stream, b"ready");
        let mut local = Local {
            numbers,
            heard: vec![Vec::new(); numbers.len()],
            groups,
        };
        for turn in 0..60 {
            let sender = turn % 3;
            let bytes = 1 + (turn as usize * 523) % local.groups[0].limits().bytes;
            let text = pattern(turn as usize, bytes);
            let to = match turn % 2 {
                0 => To::All,
                _ => To::Member((sender + 1 + turn / 3 % 2) % 3),
            };
            local.turn(stream, (sender, to), &text, &mut seen);
        }
        exchange(stream, b"done");
    }
    seen
}

/// The members of this host, and what each has received; the other host may be a turn ahead.
struct Local<'a> {
    numbers: &'a [u32],
    groups: Vec<Box<dyn Group>>,
    heard: Vec<Vec<Vec<u8>>>,
}

impl Local<'_> {
    fn has(&mut self, at: usize, text: &[u8]) -> bool {
        let new = multicast::received(&mut *self.groups[at]);
        self.heard[at].extend(new);
        self.heard[at].iter().any(|found| found == text)
    }

    /// One datagram, sent again until all that should have it do, on both hosts.
    fn turn(
        &mut self,
        stream: &mut TcpStream,
        (sender, to): (u32, To),
        text: &[u8],
        seen: &mut Seen,
    ) {
        let wanted = |number: u32| match to {
            To::All => number != sender,
            To::Member(member) => number == member,
        };
        let here = 0..self.numbers.len();
        let (mut missing, others): (Vec<usize>, Vec<usize>) =
            here.partition(|&at| wanted(self.numbers[at]));
        for round in 0.. {
            if let Some(at) = self.numbers.iter().position(|&number| number == sender) {
                multicast::send(&mut *self.groups[at], to, &[], text);
                seen.resent += usize::from(round > 0);
            }
            let start = Instant::now();
            while !missing.is_empty() && start.elapsed() < Duration::from_secs(1) {
                missing.retain(|&at| !self.has(at, text));
                std::thread::yield_now();
            }
            let theirs = exchange(stream, &[u8::from(missing.is_empty())]);
            if missing.is_empty() && theirs == [1] {
                break;
            }
        }
        for at in others {
            assert!(!self.has(at, text), "member {} too", self.numbers[at]);
        }
    }
}

/// The part of [`members_are_on_two_hosts`] that runs on the second host.
#[test]
#[ignore = "run on another host by the test of two hosts"]
fn member_on_another_host() {
    let Ok(peer) = std::env::var(PEER) else {
        return;
    };
    let start = Instant::now();
    let mut stream = loop {
        match TcpStream::connect((peer.as_str(), PORT)) {
            Ok(stream) => break stream,
            Err(error) => assert!(start.elapsed() < TIME_LIMIT, "{peer}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    across(&mut stream, &[2], &[0, 1]);
}

/// With `SOFT_ROCE_HOSTS` naming two hosts, as in `scripts/soft-roce --nodes 2`.
#[test]
#[ignore = "needs RDMA devices on two hosts: run by scripts/soft-roce --nodes 2"]
fn members_are_on_two_hosts() {
    let hosts = std::env::var("SOFT_ROCE_HOSTS").unwrap_or_default();
    let Some((here, there)) = hosts.split_once(',') else {
        println!("one host: nothing was tested");
        return;
    };
    let there = there.split(',').next().unwrap_or_default();
    let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("listen");
    let program = std::env::current_exe().expect("this program");
    let mut remote = Command::new("ssh")
        .args([there, "env", &format!("{PEER}={here}")])
        .arg(program)
        .args([
            "--exact",
            "groups::member_on_another_host",
            "--ignored",
            "--nocapture",
        ])
        .spawn()
        .expect("ssh");
    let (mut stream, _) = listener.accept().expect("the other host connects");
    stream
        .set_read_timeout(Some(TIME_LIMIT))
        .expect("a timeout");
    let seen = across(&mut stream, &[0, 1], &[2]);
    println!("between two hosts: {seen:?}");
    assert!(
        remote.wait().expect("ssh").success(),
        "the other host failed"
    );
}

/// What one multicast to three members takes, beside as many unicasts; printed, not judged.
#[test]
#[ignore = "needs RDMA devices: run by scripts/soft-roce"]
fn a_multicast_is_measured() {
    const ROUNDS: u32 = 200;
    let fabrics = fabrics(4, None);
    let id = multicast::fresh();
    let join_time = Instant::now();
    let join = |fabric: &VerbsTransport| fabric.join(RailId(0), id, 256).expect("join");
    let mut groups: Vec<_> = fabrics.iter().map(join).collect();
    let join_time = join_time.elapsed() / 4;
    introduce(&mut groups);
    let mut seen = Seen::default();
    for bytes in [8, 4096] {
        let start = Instant::now();
        for round in 0..ROUNDS {
            let text = pattern(round as usize, bytes);
            deliver(
                &mut groups,
                0,
                To::All,
                &text,
                &[1, 2, 3],
                &mut seen,
                |_, _| {},
            );
        }
        let all = start.elapsed() / ROUNDS;
        let start = Instant::now();
        for round in 0..ROUNDS {
            let text = pattern(1000 + round as usize, bytes);
            for member in 1..4 {
                let to = To::Member(member as u32);
                deliver(&mut groups, 0, to, &text, &[member], &mut seen, |_, _| {});
            }
        }
        println!(
            "{bytes} bytes: multicast {all:?}, three unicasts {:?}",
            start.elapsed() / ROUNDS
        );
    }
    println!("joining takes {join_time:?}; {seen:?}");
}
