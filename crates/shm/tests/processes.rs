//! What only shows between processes: attaching, crashes, cross-memory attach, waking.

use ferrorail_base::config::ShmKind;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{NodeRank, ProcessId};
use ferrorail_shm::{
    Cma, Doorbell, EAGER_SLOTS, NodeGeometry, NodeSegment, Segment, SegmentHandle, ShmError,
    WaitPolicy, Waiter, cma_allow, cores_of, is_alive, process_id,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// A forked process, killed and reaped at the latest when it is dropped.
struct Child(Option<Pid>);

impl Child {
    /// Runs `body` in a fork; its exit status says whether it returned `true`. The C library makes
    /// allocation usable in the fork of a threaded process; `body` must not print. No child
    /// outlives its alarm.
    fn start(body: impl FnOnce() -> bool) -> Child {
        // SAFETY: the child calls `body` under the conditions above, then `_exit`.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => Child(Some(child)),
            ForkResult::Child => {
                alarm::set(60);
                let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
                // SAFETY: ends the process without running the parent's exit handlers.
                unsafe { libc::_exit(if good.unwrap_or(false) { 0 } else { 1 }) }
            }
        }
    }

    fn pid(&self) -> u32 {
        self.0.expect("not reaped").as_raw() as u32
    }

    fn succeeds(mut self) {
        let pid = self.0.take().expect("not reaped");
        assert_eq!(waitpid(pid, None).unwrap(), WaitStatus::Exited(pid, 0));
    }

    /// Kills it and waits until it is a zombie.
    fn kill(&self) {
        let pid = self.0.expect("not reaped");
        kill(pid, Signal::SIGKILL).unwrap();
        // SAFETY: an all-zero siginfo_t is valid; waitid fills it.
        let waited = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, self.pid(), &raw mut info, options)
        };
        assert_eq!(waited, 0);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.0.take() {
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, None);
        }
    }
}

fn wait_until(mut arrived: impl FnMut() -> bool) {
    let start = Instant::now();
    while !arrived() {
        assert!(start.elapsed() < Duration::from_secs(30), "timed out");
        std::thread::yield_now();
    }
}

/// Names in `/dev/shm` that process `pid` created.
fn names_of(pid: u32) -> Vec<String> {
    let prefix = format!("ferrorail-{pid}-");
    let entries = std::fs::read_dir("/dev/shm").unwrap();
    entries
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with(&prefix))
        .collect()
}

#[test]
fn a_child_attaches_and_shares() {
    for kind in [ShmKind::Memfd, ShmKind::Posix] {
        let segment = Segment::create(kind, 1 << 16).unwrap();
        let wire = segment.handle().to_wire();
        let child = Child::start(|| {
            let handle = SegmentHandle::from_wire(&wire).unwrap();
            let attached = Segment::attach(&handle).unwrap();
            assert_ne!(attached.range(), segment.range());
            attached.word(8).store(41, Ordering::Release);
            wait_until(|| attached.word(16).load(Ordering::Acquire) == 42);
            true
        });
        wait_until(|| segment.word(8).load(Ordering::Acquire) == 41);
        segment.word(16).store(42, Ordering::Release);
        child.succeeds();
    }
}

/// A child that creates a segment, sends its handle, and then only lives.
fn creator(kind: ShmKind, unlink: bool) -> (Child, SegmentHandle) {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let child = Child::start(move || {
        let segment = Segment::create(kind, 1 << 16).unwrap();
        segment.word(0).store(17, Ordering::Release);
        if unlink {
            segment.unlink();
        }
        let wire = segment.handle().to_wire();
        writer.write_all(&[wire.len() as u8]).unwrap();
        writer.write_all(&wire).unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let mut length = [0];
    reader.read_exact(&mut length).unwrap();
    let mut wire = vec![0; length[0].into()];
    reader.read_exact(&mut wire).unwrap();
    (child, SegmentHandle::from_wire(&wire).unwrap())
}

#[test]
fn a_killed_memfd_creator_leaves_nothing() {
    let (child, handle) = creator(ShmKind::Memfd, false);
    let attached = Segment::attach(&handle).unwrap();
    child.kill();
    assert_eq!(attached.word(0).load(Ordering::Acquire), 17);
    assert_eq!(names_of(handle.pid), [] as [String; 0]);
    drop(child);
    let error = Segment::attach(&handle).unwrap_err();
    assert!(matches!(error, ShmError::AttachGone { .. }), "{error}");
}

#[test]
fn a_killed_posix_creator_leaves_nothing() {
    let (child, handle) = creator(ShmKind::Posix, true);
    child.kill();
    assert_eq!(names_of(handle.pid), [] as [String; 0]);

    let (child, handle) = creator(ShmKind::Posix, false);
    let attached = Segment::attach(&handle).unwrap();
    assert_eq!(names_of(handle.pid).len(), 1);
    // Others' segments come and go meanwhile; a living creator's name stays.
    drop(Segment::create(ShmKind::Posix, 4096).unwrap());
    assert_eq!(names_of(handle.pid).len(), 1);
    child.kill();
    assert_eq!(names_of(handle.pid).len(), 1, "it had no chance");
    drop(Segment::create(ShmKind::Posix, 4096).unwrap());
    assert_eq!(
        names_of(handle.pid),
        [] as [String; 0],
        "swept though still a zombie"
    );
    assert_eq!(attached.word(0).load(Ordering::Acquire), 17);
}

#[test]
fn liveness_is_told() {
    let child = Child::start(|| {
        std::thread::sleep(Duration::from_secs(50));
        true
    });
    let shared = Segment::create(ShmKind::Memfd, 4096).unwrap();
    let grandchild = Child::start(|| {
        let me = process_id();
        for (index, part) in [me.host, me.pid.into(), me.started].into_iter().enumerate() {
            shared.word(8 * index).store(part, Ordering::Release);
        }
        wait_until(|| shared.word(24).load(Ordering::Acquire) == 1);
        true
    });
    wait_until(|| shared.word(16).load(Ordering::Acquire) != 0);
    let id = ProcessId {
        host: shared.word(0).load(Ordering::Acquire),
        pid: shared.word(8).load(Ordering::Acquire) as u32,
        started: shared.word(16).load(Ordering::Acquire),
    };
    assert_eq!((id.host, id.pid), (process_id().host, grandchild.pid()));
    assert!(is_alive(id));
    assert!(
        !is_alive(ProcessId {
            started: id.started + 1,
            ..id
        }),
        "a reused pid"
    );
    shared.word(24).store(1, Ordering::Release);
    grandchild.succeeds();
    assert!(!is_alive(id), "reaped");

    let id = ProcessId {
        pid: child.pid(),
        started: 0,
        ..id
    };
    assert!(is_alive(id));
    child.kill();
    assert!(!is_alive(id), "a zombie is dead");
    assert_eq!(
        cores_of(&[std::process::id()]),
        cores_of(&[std::process::id(), id.pid])
    );
}

#[test]
fn memory_of_another_process_is_read_and_written() {
    const BYTES: usize = (5 << 20) + 3;
    let shared = Segment::create(ShmKind::Memfd, 4096).unwrap();
    // The fork has its own copy of this at the same address.
    let buffer = vec![0x11u8; BYTES];
    let word = 0x0ddb_a11d_0000_1234_u64 ^ u64::from(std::process::id());
    let address = buffer.as_ptr() as u64;
    let child = Child::start(|| {
        cma_allow();
        shared.word(0).store(1, Ordering::Release);
        wait_until(|| shared.word(8).load(Ordering::Acquire) == 1);
        // SAFETY: the parent has finished writing; volatile because the compiler cannot know it.
        (0..BYTES).all(|i| unsafe { buffer.as_ptr().add(i).read_volatile() } == (i % 251) as u8)
    });
    wait_until(|| shared.word(0).load(Ordering::Acquire) == 1);
    let cma = Cma::named(child.pid()).expect("it lives");
    assert!(
        cma.reads((&raw const word) as u64, word),
        "the right to attach"
    );
    let sent: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    let mut received = vec![0u8; BYTES];
    let local = |bytes: &[u8]| MemoryRange::new(bytes.as_ptr(), bytes.len());
    // SAFETY: the child waits and its copy of `buffer` is ours to use; `received` is ours.
    unsafe {
        let target = MemoryRange::new(received.as_mut_ptr(), BYTES);
        cma.read(address, target).unwrap();
        assert!(target.slice(BYTES - 1, 1).as_ptr().read() == 0x11);
        cma.write(local(&sent), address).unwrap();
        cma.read(address, target).unwrap();
    }
    assert!(received == sent);
    assert!(buffer.iter().all(|&byte| byte == 0x11), "not our own copy");
    // SAFETY: nothing is mapped there.
    let error = unsafe { cma.write(local(&sent), 4096) }.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    shared.word(8).store(1, Ordering::Release);
    child.succeeds();
    // SAFETY: the process is gone.
    let error = unsafe { cma.write(local(&sent), address) }.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
}

#[test]
fn a_ring_wakes_another_process() {
    let segment = Segment::create(ShmKind::Memfd, 4096).unwrap();
    let doorbell = Doorbell::new(segment.word32(0), segment.word32(4));
    let child = Child::start(|| {
        let attached = Segment::attach(&segment.handle()).unwrap();
        let doorbell = Doorbell::new(attached.word32(0), attached.word32(4));
        let ticket = doorbell.prepare();
        attached.word(64).store(1, Ordering::Release);
        let start = Instant::now();
        doorbell.sleep(ticket, Duration::from_secs(30));
        attached.word(64).load(Ordering::Acquire) == 2 && start.elapsed() < Duration::from_secs(20)
    });
    wait_until(|| segment.word(64).load(Ordering::Acquire) == 1);
    std::thread::sleep(Duration::from_millis(50));
    segment.word(64).store(2, Ordering::Release);
    doorbell.ring();
    child.succeeds();
}

/// Six processes, more than the cores of most test machines, exchange through eager slots, meet
/// in flags, and sleep on the doorbell now and then.
#[test]
fn many_processes_meet() {
    const RANKS: u32 = 6;
    const OPERATIONS: u64 = 300;
    let geometry = NodeGeometry {
        local_ranks: RANKS,
        eager_slots: EAGER_SLOTS,
        channels: 1,
        slots: 1,
        rails: 1,
        scratch_bytes: 4096,
        ..NodeGeometry::default()
    };
    let node = NodeSegment::create(ShmKind::Memfd, geometry, 0).unwrap();
    let handle = node.segment().handle();
    let body = |me: u32| {
        let node = NodeSegment::attach(&handle, geometry).unwrap();
        let mut policy = WaitPolicy::for_host(RANKS, 2, None);
        policy.yields = Duration::from_micros(100);
        let wait = |arrived: &dyn Fn() -> bool| {
            let mut waiter = Waiter::new(&policy);
            while !arrived() {
                waiter.idle(Some(&node.doorbell()), &mut || ());
            }
        };
        for operation in 1..=OPERATIONS {
            let parity = (operation % 2) as u32;
            let payload = |rank: u32| [(operation * 7 + u64::from(rank)) as u8; 19];
            node.eager_slot(NodeRank(me), parity)
                .publish(operation, &payload(me));
            node.doorbell().ring();
            for rank in 0..RANKS {
                let slot = node.eager_slot(NodeRank(rank), parity);
                wait(&|| slot.value() == operation);
                let mut out = [0; 19];
                assert!(slot.try_read(operation, &mut out));
                assert_eq!(out, payload(rank));
            }
            node.flags().signal(NodeRank(me), operation);
            node.doorbell().ring();
            wait(&|| node.flags().all_reached(operation));
            if operation % 64 == u64::from(me) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        true
    };
    let children: Vec<Child> = (0..RANKS).map(|me| Child::start(|| body(me))).collect();
    for child in children {
        child.succeeds();
    }
    assert!(node.flags().all_reached(OPERATIONS));
}
