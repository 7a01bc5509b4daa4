//! Cross-memory attach: `process_vm_readv` and `process_vm_writev`.
//!
//! Raw system-call wrappers of libc are used rather than nix's, which take `IoSlice`, that is
//! references to memory that peers may write.

use super::staged::Staging;
use crate::process;
use ferrorail_base::ProcessId;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU64, Ordering};
use std::io;

/// One process of this host, whose memory is reached into. Its number alone would not do: the kernel
/// gives the number of a process that ended to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cma {
    pid: u32,
    started: u64,
}

impl Cma {
    /// A process that told its identity, on the same host.
    #[inline]
    pub fn of(process: ProcessId) -> Cma {
        let ProcessId { pid, started, .. } = process;
        Cma { pid, started }
    }

    /// The process that has this number now, if there is one and the system says so.
    pub fn named(pid: u32) -> Option<Cma> {
        let started = process::started(pid).ok().flatten()?;
        Some(Cma { pid, started })
    }

    /// Whether this process may read the other's memory, and finds the word `expect` at `address`
    /// there. That should be a number nobody else has at that address: where `pid` means another
    /// process here (another pid namespace), the answer is no.
    pub fn reads(self, address: u64, expect: u64) -> bool {
        let mut word = 0u64;
        let local = MemoryRange::new((&raw mut word).cast(), size_of::<u64>());
        // SAFETY: `local` is this frame's own word; whatever the peer has there is only read.
        let read = unsafe { self.read(address, local) };
        read.is_ok() && word == expect
    }

    /// Writes `local` to `remote` of the process, all of it.
    ///
    /// # Errors
    /// The system's: `EPERM` without the right, `ESRCH` if the process ended, `EFAULT` if it has no
    /// writable memory there (a part may have been written); `InvalidInput` if the range wraps around.
    ///
    /// # Safety
    /// `local` is readable. The memory at `remote` is meant to be written by this process now; nothing
    /// checks that but the peer's page tables.
    pub unsafe fn write(self, local: MemoryRange, remote: u64) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        let direct =
            |local, remote| unsafe { self.transfer(libc::process_vm_writev, local, remote) };
        match Staging::of(local.address, remote as usize, local.bytes) {
            Some(staging) => staging.each(local, remote, |part, chunk, there| {
                // SAFETY: the caller vouches for `local`; the chunk is this call's own.
                unsafe { part.copy_to(chunk) };
                direct(chunk, there)
            }),
            None => direct(local, remote),
        }
    }

    /// Reads `local.bytes` bytes at `remote` of the process into `local`.
    ///
    /// # Errors
    /// As [`Cma::write`].
    ///
    /// # Safety
    /// `local` is writable and nobody else touches it meanwhile.
    pub unsafe fn read(self, remote: u64, local: MemoryRange) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        let direct =
            |local, remote| unsafe { self.transfer(libc::process_vm_readv, local, remote) };
        match Staging::of(remote as usize, local.address, local.bytes) {
            Some(staging) => staging.each(local, remote, |part, chunk, there| {
                direct(chunk, there)?;
                // SAFETY: the caller vouches for `local`; the chunk was just filled.
                unsafe { chunk.copy_to(part) };
                Ok(())
            }),
            None => direct(local, remote),
        }
    }

    /// [`Cma::write`] of each of `runs`, ranges here and addresses there, in as few system calls as there can be.
    ///
    /// # Errors
    /// As [`Cma::write`]; any of the runs may have been written.
    ///
    /// # Safety
    /// As [`Cma::write`], for each.
    pub unsafe fn write_all(self, runs: &[(MemoryRange, u64)]) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { self.transfer_all(libc::process_vm_writev, runs) }
    }

    /// [`Cma::read`] of each of `runs`, ranges here and addresses there, in as few system calls as there can be.
    ///
    /// # Errors
    /// As [`Cma::read`]; any of the runs may have been read.
    ///
    /// # Safety
    /// As [`Cma::read`], for each.
    pub unsafe fn read_all(self, runs: &[(MemoryRange, u64)]) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { self.transfer_all(libc::process_vm_readv, runs) }
    }

    /// # Safety
    /// As [`Cma::write`] or [`Cma::read`] of each run, whichever `call` does.
    unsafe fn transfer_all(self, call: Call, runs: &[(MemoryRange, u64)]) -> io::Result<()> {
        let pid = libc::pid_t::try_from(self.pid).unwrap_or(0);
        let vector = |address: usize, bytes: usize| libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: bytes,
        };
        for runs in runs.chunks(VECTORS_MAX) {
            if let &[(run, remote)] = runs {
                // SAFETY: passed on to the caller.
                unsafe { self.transfer(call, run, remote)? };
                continue;
            }
            self.verify()?;
            let (mut here, mut there) = ([vector(0, 0); VECTORS_MAX], [vector(0, 0); VECTORS_MAX]);
            for (index, &(run, remote)) in runs.iter().enumerate() {
                here[index] = vector(run.address, run.bytes);
                there[index] = vector(remote as usize, run.bytes);
            }
            let (here, there) = (here.as_ptr(), there.as_ptr());
            let (count, bytes) = (
                runs.len() as libc::c_ulong,
                runs.iter().map(|(run, _)| run.bytes).sum(),
            );
            // SAFETY: so many vectors each; the kernel checks remote addresses, the caller vouches for both.
            let moved = unsafe { call(pid, here, count, there, count, 0) };
            if usize::try_from(moved) != Ok(bytes) {
                // Some of it was moved, or nothing: one after the other goes on, or tells what is wrong.
                for &(run, remote) in runs {
                    // SAFETY: passed on to the caller.
                    unsafe { self.transfer(call, run, remote)? };
                }
            }
        }
        Ok(())
    }

    /// Repeats `call` until everything is transferred: one call moves at most 2 GiB and stops at the
    /// first page it cannot reach.
    ///
    /// # Safety
    /// As [`Cma::write`] or [`Cma::read`], whichever `call` does.
    unsafe fn transfer(self, call: Call, local: MemoryRange, remote: u64) -> io::Result<()> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let remote = usize::try_from(remote)
            .ok()
            .filter(|start| start.checked_add(local.bytes).is_some())
            .ok_or_else(|| invalid("the remote range wraps"))?;
        let pid = libc::pid_t::try_from(self.pid).map_err(|_| invalid("no such process number"))?;
        let mut done = 0;
        while done < local.bytes {
            self.verify()?;
            let vector = |start: usize| libc::iovec {
                iov_base: (start + done) as *mut libc::c_void,
                iov_len: local.bytes - done,
            };
            let (here, there) = (vector(local.address), vector(remote));
            // SAFETY: one vector each; the kernel checks remote addresses, the caller vouches for both.
            let moved = unsafe { call(pid, &raw const here, 1, &raw const there, 1, 0) };
            match usize::try_from(moved) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => done += moved,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the number still is this process's, unless that was found a moment ago.
    #[inline]
    fn verify(self) -> io::Result<()> {
        let (now, tag) = (milliseconds(), self.tag());
        let known = self.slot().load(Ordering::Relaxed);
        match (known >> 32) as u32 == tag && now.wrapping_sub(known as u32) < VALID_MS {
            true => Ok(()),
            false => self.verify_now(now),
        }
    }

    #[cold]
    fn verify_now(self, now: u32) -> io::Result<()> {
        let same = match process::started(self.pid) {
            Ok(started) => started == Some(self.started),
            // Without a descriptor to look with, what was seen before has to do.
            Err(_) => (self.slot().load(Ordering::Relaxed) >> 32) as u32 == self.tag(),
        };
        if self.started == 0 || !same {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let known = u64::from(self.tag()) << 32 | u64::from(now);
        self.slot().store(known, Ordering::Relaxed);
        Ok(())
    }

    /// Tells apart processes that share a slot; never 0.
    #[inline]
    fn tag(self) -> u32 {
        let mixed = self.started.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed as u32 ^ self.pid | 1
    }

    #[inline]
    fn slot(self) -> &'static AtomicU64 {
        &VERIFIED[self.pid as usize % VERIFIED.len()]
    }
}

/// For how long a process is taken for the same without another look, which costs some microseconds.
/// Numbers are given away in turn, so that one comes round only after all others of the system did:
/// tens of thousands of processes have to be started meanwhile.
const VALID_MS: u32 = 100;

/// When which process was last looked at: its tag, and milliseconds.
static VERIFIED: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// A clock that is read in a few nanoseconds, and steps every few milliseconds.
#[inline]
fn milliseconds() -> u32 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC_COARSE);
    now.map_or(0, |now| {
        (now.tv_sec() as u32)
            .wrapping_mul(1000)
            .wrapping_add(now.tv_nsec() as u32 / 1_000_000)
    })
}

/// Lets processes of the same user reach into this one's memory where the Yama security module
/// restricts that to descendants. It stays allowed for the life of the process. Harmless elsewhere.
pub fn cma_allow() {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_ok_and(|scope| scope.trim() == "1") {
        // SAFETY: sets a flag of this process; unused arguments are ignored.
        let set = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        if set != 0 {
            tracing::debug!(error = %io::Error::last_os_error(), "PR_SET_PTRACER failed");
        }
    }
}

/// Ranges that one system call moves, whose lists lie on the stack; the system's limit is four times as high.
const VECTORS_MAX: usize = 256;

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

#[cfg(test)]
mod tests {
    use super::*;

    fn range(bytes: &[u8]) -> MemoryRange {
        MemoryRange::new(bytes.as_ptr(), bytes.len())
    }

    fn me() -> Cma {
        Cma::of(process::process_id())
    }

    #[test]
    fn probing_compares_the_word() {
        let word = 0x5eed_0000_0000_0001_u64;
        let address = (&raw const word) as u64;
        assert_eq!(Cma::named(std::process::id()), Some(me()));
        assert!(me().reads(address, word));
        assert!(!me().reads(address, word + 1));
        assert!(!me().reads(8, word), "an unmapped address");
        assert!(Cma::named(u32::MAX).is_none());
    }

    #[test]
    fn a_number_that_was_given_away_is_not_written_to() {
        let (word, new) = ([0u8; 8], [7u8; 8]);
        let before = Cma {
            started: me().started - 1,
            ..me()
        };
        // SAFETY: refused; else to this frame's own bytes, to none of which there is a reference.
        let error = unsafe { before.write(range(&new), word.as_ptr() as u64) }.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        let unknown = Cma { started: 0, ..me() };
        assert!(!unknown.reads(word.as_ptr() as u64, 0));
        assert!(me().reads(word.as_ptr() as u64, 0));
        assert!(!before.reads(word.as_ptr() as u64, 0), "after another look");
    }

    #[test]
    fn wrapping_ranges_are_refused() {
        let local = [1u8; 16];
        // SAFETY: refused before anything is touched.
        let error = unsafe { me().write(range(&local), u64::MAX - 8) };
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn nothing_to_move_is_no_error() {
        // SAFETY: an empty range.
        assert!(unsafe { me().read(0, range(&[])) }.is_ok());
        // SAFETY: nothing.
        assert!(unsafe { me().read_all(&[]) }.is_ok());
    }

    #[test]
    fn bytes_arrive_wherever_both_ends_are_in_their_pages() {
        const BYTES: usize = 100_000;
        let from: Vec<u8> = (0..2 * BYTES).map(|index| (index % 251) as u8).collect();
        for (here, there) in [(0, 8), (8, 0), (4090, 1), (7, 7), (0, 31)] {
            let into = vec![0u8; 2 * BYTES];
            let in_page = |bytes: &[u8], at| (bytes.as_ptr() as usize).next_multiple_of(4096) + at;
            let (source, target) = (in_page(&from, here), in_page(&into, there));
            let offset = target - into.as_ptr() as usize;
            let first = source - from.as_ptr() as usize;
            let local = |address| MemoryRange {
                address,
                bytes: BYTES,
            };
            for reads in [false, true] {
                // SAFETY: from and to this frame's own bytes, which nobody looks at meanwhile.
                unsafe {
                    match reads {
                        true => me().read(source as u64, local(target)),
                        false => me().write(local(source), target as u64),
                    }
                }
                .unwrap();
                assert!(into[..offset].iter().all(|&byte| byte == 0));
                assert_eq!(into[offset..offset + BYTES], from[first..first + BYTES]);
                assert!(into[offset + BYTES..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn many_runs_move_together() {
        let from: Vec<u8> = (0..2000).map(|index| index as u8).collect();
        let into = vec![0u8; 4000];
        let run = |index: usize| {
            (
                range(&from[2 * index..][..2]),
                into[4 * index..].as_ptr() as u64,
            )
        };
        let mut runs: Vec<_> = (0..1000).map(run).collect();
        // SAFETY: to this frame's own bytes, which nobody looks at meanwhile.
        unsafe { me().write_all(&runs) }.unwrap();
        let expected = |index: usize| {
            if index % 4 < 2 {
                (index / 4 * 2 + index % 4) as u8
            } else {
                0
            }
        };
        assert!(
            into.iter()
                .enumerate()
                .all(|(index, &byte)| byte == expected(index))
        );
        runs[700].1 = 8;
        // SAFETY: as above; nothing is at that address.
        let error = unsafe { me().write_all(&runs) }.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }
}
