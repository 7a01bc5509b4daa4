//! Two processes: a forked child offers memory, the parent uses it.

use crate::conformance::{Rails, at};
use crate::status;
use crate::support::{Private, RAILS, backing, object, register, settings, slice, until};
use ferrorail_base::config::Settings;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    FabricError, LocalRegion, Notification, Op, RemoteRegion, Ticket, Tracking,
};
use ferrorail_rdma_transport::loopback::LoopbackTransport;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// One end of a conversation in messages.
pub struct Channel(UnixStream);

impl Channel {
    pub fn send(&mut self, message: &[u8]) {
        let length = (message.len() as u32).to_le_bytes();
        self.0.write_all(&length).expect("send");
        self.0.write_all(message).expect("send");
    }

    pub fn receive(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).expect("receive");
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        self.0.read_exact(&mut message).expect("receive");
        message
    }

    /// A loopback fabric of this process, joined with the one at the other end.
    fn join(&mut self, settings: &Settings) -> (LoopbackTransport, PeerId) {
        let fabric = LoopbackTransport::open(settings).expect("open");
        self.send(&ferrorail_shm::process_id().to_wire());
        let process = ProcessId::from_wire(&self.receive()).expect("a process id");
        let (peer, address) = fabric.open_peer(process).expect("open_peer");
        self.send(&address);
        fabric.connect(peer, &self.receive()).expect("connect");
        (fabric, peer)
    }
}

/// The child, reaped at the end at the latest.
pub struct Child(Option<Pid>);

impl Child {
    /// Waits for its end, which must be a good one.
    pub fn reap(&mut self) {
        if let Some(pid) = self.0.take() {
            let status = waitpid(pid, None).expect("waitpid");
            assert_eq!(status, WaitStatus::Exited(pid, 0), "the child failed");
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.0.take() {
            // Only on the way out of a failed test; the child sees its channel close, too.
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            let _ = waitpid(pid, None);
        }
    }
}

/// Forks; the child runs `body` and never returns.
pub fn with_child(body: impl FnOnce(Channel)) -> (Child, Channel) {
    let (parent_end, child_end) = UnixStream::pair().expect("socketpair");
    for end in [&parent_end, &child_end] {
        end.set_read_timeout(Some(crate::support::TIME_LIMIT))
            .unwrap();
    }
    // SAFETY: the child uses what the C library keeps usable after fork, and leaves by `_exit`.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => (Child(Some(child)), Channel(parent_end)),
        ForkResult::Child => {
            drop(parent_end);
            let body = std::panic::AssertUnwindSafe(|| body(Channel(child_end)));
            let code = i32::from(std::panic::catch_unwind(body).is_err());
            // SAFETY: ends the process without the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
    }
}

fn announce(channel: &mut Channel, region: &LocalRegion) {
    channel.send(&RemoteRegion::of(region).to_wire());
}

fn announced(channel: &mut Channel) -> RemoteRegion {
    let wire = channel.receive();
    RemoteRegion::from_wire(wire.as_slice().try_into().expect("an announcement"))
}

/// A child that offers a shared object and private memory, and checks what arrives.
fn offer(mut channel: Channel, settings: Settings) {
    let (fabric, _) = channel.join(&settings);
    let segment = object(1 << 16);
    let memory = Private::new(1 << 20);
    let shared = register(&fabric, &segment);
    let private = memory.register(&fabric);
    channel.send(&shared.description);
    announce(&mut channel, &shared);
    announce(&mut channel, &private);
    let word = segment.word(4096);
    until(|| word.load(Ordering::Acquire) == 1);
    for offset in (0..4096).step_by(8) {
        assert_eq!(segment.word(offset).load(Ordering::Relaxed), 1);
    }
    channel.send(b"seen");
    // What arrived in private memory, which the parent says has arrived.
    channel.receive();
    for index in 0..(1 << 17) {
        assert_eq!(memory.load(8 * index), index as u64 ^ 0x55, "word {index}");
    }
    assert_eq!(segment.word(8192).load(Ordering::Acquire), 12);
    fabric.deregister(private);
    channel.send(b"revoked");
    channel.receive();
}

/// Posts `op`, whose memory lives to the end of the test and is left alone until it is complete.
fn post(
    fabric: &LoopbackTransport,
    peer: PeerId,
    rail: RailId,
    op: Op<'_>,
) -> Result<Ticket, FabricError> {
    // SAFETY: just that.
    unsafe { fabric.post(peer, rail, &op, Tracking::Tracked) }
}

fn complete(fabric: &LoopbackTransport, ticket: Ticket) {
    until(|| {
        fabric.progress().unwrap();
        fabric.is_complete(ticket).unwrap()
    });
}

fn use_the_offer(settings: Settings) {
    let child_settings = settings.clone();
    let (mut child, mut channel) = with_child(|channel| offer(channel, child_settings));
    let (fabric, peer) = channel.join(&settings);
    assert!(
        fabric.attributes().reaches_private_memory(),
        "no cross-memory attach here"
    );
    let description = channel.receive();
    let shared = fabric.import(peer, &description).unwrap();
    assert_ne!(shared.mapping, 0);
    let also_shared = announced(&mut channel);
    assert_eq!(
        (also_shared.address, also_shared.mapping),
        (shared.address, 0)
    );
    let private = announced(&mut channel);

    let memory = Private::new(1 << 20);
    let mine = memory.register(&fabric);
    for offset in (0..4096).step_by(8) {
        memory.store(offset, 1);
    }
    let (low, high) = (slice(&mine, 0, 2048), slice(&mine, 2048, 2048));
    let notification = Notification {
        word: at(&also_shared, 4096),
        value: 1,
    };
    post(&fabric, peer, RAILS[0], Op::put(low, at(&shared, 0))).unwrap();
    let notify = Op::notify(high, at(&also_shared, 2048), notification);
    complete(&fabric, post(&fabric, peer, RAILS[0], notify).unwrap());
    assert_eq!(channel.receive(), b"seen");

    exchange_words(
        &fabric,
        peer,
        &memory,
        &mine,
        [&shared, &also_shared, &private],
    );
    channel.send(b"check");
    assert_eq!(channel.receive(), b"revoked");
    fabric.release(peer, shared);
    channel.send(b"done");
    child.reap();
}

/// A put to private memory, atomics on a shared word, and a get of private memory.
fn exchange_words(
    fabric: &LoopbackTransport,
    peer: PeerId,
    memory: &Private,
    mine: &LocalRegion,
    [shared, also_shared, private]: [&RemoteRegion; 3],
) {
    for index in 0..(1 << 17) {
        memory.store(8 * index, index as u64 ^ 0x55);
    }
    let put = Op::put(slice(mine, 0, 1 << 20), at(private, 0));
    complete(fabric, post(fabric, peer, RAILS[1], put).unwrap());
    let add = Op::fetch_add(at(shared, 8192), 5, slice(mine, 0, 8), None);
    complete(fabric, post(fabric, peer, RAILS[0], add).unwrap());
    assert_eq!(memory.load(0), 0);
    let word = at(also_shared, 8192);
    let swap = |swap, result| Op::compare_swap(word, 5, swap, slice(mine, result, 8));
    let read = Op::get(at(private, 80), slice(mine, 16, 8000));
    let tickets = [
        post(fabric, peer, RAILS[0], swap(12, 0)),
        post(fabric, peer, RAILS[0], swap(13, 8)),
        post(fabric, peer, RAILS[1], read),
    ];
    for ticket in tickets {
        complete(fabric, ticket.unwrap());
    }
    assert_eq!((memory.load(0), memory.load(8)), (5, 12));
    assert_eq!(
        (memory.load(16), memory.load(8008)),
        (10 ^ 0x55, 1009 ^ 0x55)
    );
}

#[test]
fn another_process_is_reached() {
    use_the_offer(settings());
}

#[test]
fn another_process_is_reached_through_posix_memory() {
    use_the_offer(Settings {
        shm: ferrorail_base::config::ShmKind::Posix,
        ..settings()
    });
}

#[test]
fn another_process_is_reached_over_a_modelled_rail() {
    use_the_offer(Settings {
        loopback_latency_ns: 20_000,
        loopback_bandwidths_mb_s: vec![1000],
        ..settings()
    });
}

/// A child that offers memory and leaves when told.
fn offer_until_told(mut channel: Channel) {
    let (fabric, _) = channel.join(&settings());
    let segment = object(4096);
    let memory = Private::new(4096);
    let (shared, private) = (register(&fabric, &segment), memory.register(&fabric));
    channel.send(&shared.description);
    announce(&mut channel, &private);
    channel.receive();
    fabric.deregister(private);
    let private = memory.register(&fabric);
    announce(&mut channel, &private);
    channel.receive();
}

#[test]
fn what_private_memory_cannot_do_is_refused() {
    let (mut child, mut channel) = with_child(offer_until_told);
    let (fabric, peer) = channel.join(&settings());
    let shared = fabric.import(peer, &channel.receive()).unwrap();
    let private = announced(&mut channel);
    let memory = Private::new(4096);
    let mine = memory.register(&fabric);
    let (rail, from) = (RAILS[0], slice(&mine, 0, 8));
    let notification = |region| Notification {
        word: at(region, 0),
        value: 1,
    };
    let to = at(&private, 8);
    let notify = |region| Op::notify(from, to, notification(region));
    let notified = post(&fabric, peer, rail, notify(&private));
    assert!(status(notified).contains("notifications need memory in a shared object"));
    let add = Op::fetch_add(at(&private, 0), 1, from, None);
    let added = post(&fabric, peer, rail, add);
    assert!(status(added).contains("atomics need memory in a shared object"));
    let half = post(&fabric, peer, rail, notify(&shared));
    half.expect("data in private memory, the word in a shared object");
    channel.send(b"register again");
    let again = announced(&mut channel);
    assert_eq!(again.address, private.address);
    let stale = post(&fabric, peer, rail, Op::put(from, to));
    assert!(status(stale).contains("not in force"));
    post(&fabric, peer, rail, Op::put(from, at(&again, 8))).expect("with the new key");
    channel.send(b"leave");
    let pid = child.0.expect("not reaped yet");
    child.reap();
    let gone = post(&fabric, peer, rail, Op::put(from, at(&again, 8)));
    let text = gone.unwrap_err().to_string();
    assert_eq!(
        text,
        format!("rail loop0 to process {pid}: the process is gone")
    );
}

#[test]
fn without_cross_memory_attach_shared_objects_still_work() {
    let (mut child, mut channel) = with_child(offer_until_told);
    let without = Settings {
        cma: false,
        ..settings()
    };
    let (fabric, peer) = channel.join(&without);
    assert!(!fabric.attributes().reaches_private_memory());
    let shared = fabric.import(peer, &channel.receive()).unwrap();
    let private = announced(&mut channel);
    let memory = Private::new(64);
    let mine = memory.register(&fabric);
    memory.store(0, 3);
    let from = slice(&mine, 0, 8);
    let into = slice(&mine, 8, 8);
    let post = |op| post(&fabric, peer, RAILS[0], op);
    let put = post(Op::put(from, at(&private, 0)));
    assert!(status(put).contains("FERRORAIL_CMA"));
    let got = post(Op::get(at(&private, 0), into));
    assert!(status(got).contains("FERRORAIL_CMA"));
    post(Op::put(from, at(&shared, 64))).unwrap();
    post(Op::get(at(&shared, 64), into)).unwrap();
    assert_eq!(memory.load(8), 3);
    channel.send(b"register again");
    announced(&mut channel);
    channel.send(b"leave");
    child.reap();
}

/// The object belongs to a third party: a rank registers the segment its leader created.
#[test]
fn a_region_may_lie_in_a_third_process_s_object() {
    let segment = object(1 << 14);
    let theirs = backing(&segment);
    let inherited = segment.range().address;
    let (mut child, mut channel) = with_child(move |mut channel| {
        let (fabric, _) = channel.join(&settings());
        let mut part = theirs;
        part.offset = 8192;
        // SAFETY: inherited over the fork and mapped to the end of the child.
        let region = unsafe { fabric.register((inherited + 8192) as *mut u8, 8192, Some(part)) };
        channel.send(&region.unwrap().description);
        channel.receive();
    });
    let (fabric, peer) = channel.join(&settings());
    let remote = fabric.import(peer, &channel.receive()).unwrap();
    let memory = Private::new(64);
    let mine = memory.register(&fabric);
    memory.store(0, 4);
    let put = Op::put(slice(&mine, 0, 8), at(&remote, 4096));
    complete(&fabric, post(&fabric, peer, RAILS[0], put).unwrap());
    let word = segment.word(8192 + 4096);
    assert_eq!(word.load(Ordering::Acquire), 4);
    channel.send(b"done");
    child.reap();
}
