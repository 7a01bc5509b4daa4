//! Waking a thread of another process of this host that sleeps for several reasons at once.
//!
//! A futex is one word, but a thread that serves many windows sleeps for what is stored in any of
//! their segments, and for events of devices too, which come as descriptors. So it polls
//! descriptors, one of which is a pipe that others open and write to.

use crate::segment::descriptors::above_standard;
use crate::segment::{identity, open_known};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{pipe2, read, write};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Where a thread sleeps until somebody rings.
#[derive(Debug)]
pub struct WakePipe {
    from: OwnedFd,
    to: OwnedFd,
    identity: [u64; 2],
}

/// Identifies a [`WakePipe`] to the processes of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub struct WakePipeHandle {
    pid: u32,
    fd: i32,
    identity: [u64; 2],
}

/// Rings a [`WakePipe`], possibly of another process.
#[derive(Debug)]
pub struct WakePipeWriter(File);

impl WakePipe {
    /// A new one, closed on exec.
    ///
    /// # Errors
    /// The system's, e.g. too many open files.
    pub fn create() -> io::Result<Self> {
        let (from, to) = above_standard(|| pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK))?;
        let metadata = File::from(from.try_clone()?).metadata()?;
        Ok(Self {
            from,
            to,
            identity: identity(&metadata),
        })
    }

    /// What others need to ring it, as long as this process lives.
    #[must_use]
    pub fn handle(&self) -> WakePipeHandle {
        WakePipeHandle {
            pid: std::process::id(),
            fd: self.to.as_raw_fd(),
            identity: self.identity,
        }
    }

    /// Rings from inside this process.
    pub fn ring(&self) {
        ring(self.to.as_fd());
    }

    /// Sleeps until somebody has rung since the last sleep, one of `others` is readable, a signal
    /// comes, or `timeout` is over.
    pub fn sleep(&self, others: &[BorrowedFd<'_>], timeout: Duration) {
        let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut watched = Vec::with_capacity(1 + others.len());
        watched.push(watch(self.from.as_fd()));
        watched.extend(others.iter().map(|&fd| watch(fd)));
        // Whole milliseconds, but never a busy loop.
        let timeout = timeout.max(Duration::from_millis(1));
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        // An interruption ends a sleep as anything else does.
        let _ = poll(&mut watched, timeout);
        let mut rings = [0; 64];
        while read(&self.from, &mut rings) == Ok(rings.len()) {}
    }
}

impl WakePipeHandle {
    /// Bytes of [`WakePipeHandle::to_wire`].
    pub const WIRE_BYTES: usize = size_of::<Self>();

    /// Form for out-of-band exchange inside a host.
    #[must_use]
    pub fn to_wire(&self) -> [u8; Self::WIRE_BYTES] {
        zerocopy::transmute!(*self)
    }

    /// Inverse of [`WakePipeHandle::to_wire`].
    #[must_use]
    pub fn from_wire(wire: &[u8]) -> Option<Self> {
        Self::read_from_bytes(wire).ok()
    }
}

impl WakePipeWriter {
    /// Opens the wake pipe of a process of this host.
    ///
    /// # Errors
    /// If it is gone, or its process may not be looked into.
    pub fn open(handle: &WakePipeHandle) -> io::Result<Self> {
        let path = PathBuf::from(format!("/proc/{}/fd/{}", handle.pid, handle.fd));
        let is_it = |found: &Metadata| identity(found) == handle.identity;
        let file = open_known(&path, OpenOptions::new().write(true), is_it)?;
        let other = "the descriptor is not that of the wake pipe any more";
        file.map(Self).ok_or_else(|| io::Error::other(other))
    }

    /// Wakes the thread that sleeps there, or makes its next sleep end at once.
    pub fn ring(&self) {
        ring(self.0.as_fd());
    }
}

fn ring(to: BorrowedFd<'_>) {
    // A full pipe has rung enough, and rings that are lost are for bounded sleeps to make good.
    while write(to, &[0]) == Err(Errno::EINTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_ring_ends_this_sleep_or_the_next() {
        let wake_pipe = WakePipe::create().expect("a pipe");
        let wire = wake_pipe.handle().to_wire();
        let handle = WakePipeHandle::from_wire(&wire).expect("its own form");
        assert_eq!(handle, wake_pipe.handle());
        let waker = WakePipeWriter::open(&handle).expect("of this process");
        let start = Instant::now();
        waker.ring();
        waker.ring();
        wake_pipe.sleep(&[], LONG);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                waker.ring();
            });
            wake_pipe.sleep(&[], LONG);
        });
        assert!(start.elapsed() < LONG);
        let start = Instant::now();
        wake_pipe.sleep(&[], Duration::from_millis(5));
        assert!(
            start.elapsed() >= Duration::from_millis(4),
            "rings are used up"
        );
    }

    #[test]
    fn a_ring_never_blocks() {
        let wake_pipe = WakePipe::create().expect("a pipe");
        let waker = WakePipeWriter::open(&wake_pipe.handle()).expect("of this process");
        for _ in 0..100_000 {
            waker.ring();
        }
        wake_pipe.sleep(&[], LONG);
    }

    #[test]
    fn another_descriptor_is_not_opened() {
        let wake_pipe = WakePipe::create().expect("a pipe");
        let other = WakePipe::create().expect("another");
        let handle = WakePipeHandle {
            fd: other.handle().fd,
            ..wake_pipe.handle()
        };
        assert!(WakePipeWriter::open(&handle).is_err());
        let handle = wake_pipe.handle();
        drop(wake_pipe);
        assert!(WakePipeWriter::open(&handle).is_err());
        assert_eq!(WakePipeHandle::from_wire(&[0; 25]), None);
    }

    #[test]
    fn other_descriptors_end_a_sleep() {
        let (wake_pipe, other) = (
            WakePipe::create().expect("a"),
            WakePipe::create().expect("b"),
        );
        other.ring();
        let start = Instant::now();
        wake_pipe.sleep(&[other.from.as_fd()], LONG);
        assert!(start.elapsed() < LONG);
    }
}
