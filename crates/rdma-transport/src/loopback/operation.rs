//! One posted operation, and the copy that carries it out.

use super::peer::{Link, Peer};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU64, Ordering, fence};
use ferrorail_fabric::{Kind, LocalSlice, Op, RemoteSlice};
use ferrorail_shm::Cma;
use std::io;

const WORD: usize = size_of::<u64>();

/// Why an operation was not carried out. The words of an RDMA completion where it has some.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("local protection error: {bytes} bytes at offset {offset} leave a region of {region}")]
    Local {
        offset: usize,
        bytes: usize,
        region: usize,
    },
    #[error("remote access error: {bytes} bytes at offset {offset} leave a region of {region}")]
    Remote {
        offset: usize,
        bytes: usize,
        region: u64,
    },
    #[error("remote access error: the key {0:#x} is not in force")]
    Key(u32),
    #[error("the memory is not registered with it")]
    NoKey,
    #[error("remote access error: the key {0:#x} does not cover the bytes")]
    Bounds(u32),
    #[error("remote invalid request: the word is not 8-byte aligned")]
    Unaligned,
    #[error("remote invalid request: {0} need memory in a shared object")]
    Unmapped(&'static str),
    #[error(
        "the peer's memory is private and cross-memory attach does not work \
         (FERRORAIL_CMA, ptrace_scope or a container's seccomp profile)"
    )]
    NoAttach,
    #[error("the process is gone")]
    Gone,
    #[error("remote access error: {0}")]
    System(io::Error),
    #[error("the rail's queue was flushed after an earlier error")]
    Flushed,
    #[error("not connected")]
    NotConnected,
    #[error("no such {0}")]
    Unknown(&'static str),
}

/// Checked bytes of a region here, for an operation by way of `plane`.
fn local(slice: LocalSlice<'_>, plane: u8) -> Result<MemoryRange, Refusal> {
    if slice.bytes > 0 && slice.region.lkeys[usize::from(plane)] == 0 {
        return Err(Refusal::NoKey);
    }
    let region = slice.region.range.bytes;
    if slice.offset > region || slice.bytes > region - slice.offset {
        return Err(Refusal::Local {
            offset: slice.offset,
            bytes: slice.bytes,
            region,
        });
    }
    Ok(slice.region.range.slice(slice.offset, slice.bytes))
}

/// The operation on checked memory of this process and memory of the peer that is not checked yet, by way of
/// `plane`.
#[inline]
pub(super) fn resolve(op: &Op<'_>, plane: u8) -> Result<Operation, Refusal> {
    let mut here = op.local;
    if op.kind.is_atomic() {
        here.bytes = WORD;
    }
    let range = local(here, plane)?;
    if op.kind.is_atomic() && !range.address.is_multiple_of(WORD) {
        return Err(Refusal::Unaligned);
    }
    op.try_map(range, range.bytes, |remote, bytes| {
        Remote::new(*remote, plane, bytes)
    })
}

/// First byte of a part of a peer's region, and the key to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    address: u64,
    /// Where this process has it mapped, or 0.
    mapping: usize,
    rkey: u32,
}

impl Remote {
    /// Checks `bytes` bytes at `slice` against the region as announced. The owner's table is
    /// consulted when the operation is carried out.
    #[inline]
    fn new(slice: RemoteSlice<'_>, plane: u8, bytes: usize) -> Result<Self, Refusal> {
        let (region, offset) = (slice.region, slice.offset);
        let end = (offset as u64).checked_add(bytes as u64);
        if end.is_none_or(|end| end > region.bytes) {
            return Err(Refusal::Remote {
                offset,
                bytes,
                region: region.bytes,
            });
        }
        let rkey = region.rkeys[usize::from(plane)];
        if bytes > 0 && rkey == 0 {
            return Err(Refusal::NoKey);
        }
        Ok(Self {
            address: region.address.wrapping_add(offset as u64),
            mapping: match region.mapping {
                0 => 0,
                mapping => mapping.wrapping_add(offset),
            },
            rkey,
        })
    }
}

/// What is to be done. Addresses of this process are checked; remote ones are not yet.
pub(super) type Operation = ferrorail_fabric::Operation<MemoryRange, Remote>;

/// How bytes of a peer are reached.
enum Reach {
    /// At this address of this process.
    Mapped(usize),
    /// Through the kernel, in another process.
    Attach { process: Cma, address: u64 },
}

/// Whether `operation` reads or writes some of `memory` of this process.
pub(super) fn uses(operation: &Operation, memory: MemoryRange) -> bool {
    let MemoryRange { address, bytes } = operation.local;
    address < memory.address + memory.bytes && memory.address < address + bytes
}

/// Whether `operation` brings bytes and says so.
pub(super) fn is_message(operation: &Operation) -> bool {
    operation.kind.notification().is_some() && operation.local.bytes > 0
}

/// Copies what a put writes; it reads the copy from then on, which the caller keeps that long.
/// `None` for what is no put.
///
/// # Safety
/// The source is readable.
pub(super) unsafe fn detach_payload(operation: &mut Operation) -> Option<Vec<u8>> {
    if !operation.kind.is_put() {
        return None;
    }
    let mut bytes = vec![0; operation.local.bytes];
    let copy = MemoryRange::new(bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the caller's promise; the copy is ours.
    unsafe { operation.local.copy_to(copy) };
    operation.local = copy;
    Some(bytes)
}

/// Carries `operation` out, wholly or, if it is refused by a check, not at all.
///
/// # Safety
/// The memory of both sides is as [`ferrorail_fabric::Transport::post`] demands: mapped, and
/// the source not being written.
#[inline]
pub(super) unsafe fn execute(operation: &Operation, peer: &Peer, plane: u8) -> Result<(), Refusal> {
    let link = peer.link().ok_or(Refusal::NotConnected)?;
    let (local, remote) = (operation.local, &operation.remote);
    let target = || word_of(peer, link, plane, remote, "atomics");
    let old = match &operation.kind {
        Kind::Put | Kind::Ordered | Kind::Eager(_) => {
            // SAFETY: the caller's promise.
            return unsafe { write(local, reach(peer, link, plane, remote, local.bytes)?) };
        }
        Kind::Notify(word, value) | Kind::Wake(word, value) => {
            let target = word_of(peer, link, plane, word, "notifications")?;
            // SAFETY: the caller's promise.
            unsafe { write(local, reach(peer, link, plane, remote, local.bytes)?)? };
            // SAFETY: `target` is an aligned, mapped word that only atomics touch.
            unsafe { atomic(target) }.store(*value, Ordering::Release);
            return Ok(());
        }
        Kind::Get => {
            // SAFETY: the caller's promise.
            return unsafe { read(reach(peer, link, plane, remote, local.bytes)?, local) };
        }
        Kind::FetchAdd { add, .. } => {
            // SAFETY: as above.
            let target = unsafe { atomic(target()?) };
            target.fetch_add(*add, Ordering::SeqCst)
        }
        Kind::CompareSwap { compare, swap } => {
            // SAFETY: as above.
            let target = unsafe { atomic(target()?) };
            let (Ok(old) | Err(old)) =
                target.compare_exchange(*compare, *swap, Ordering::SeqCst, Ordering::SeqCst);
            old
        }
    };
    // SAFETY: an aligned word, which the caller leaves alone.
    unsafe { atomic(local.address) }.store(old, Ordering::Relaxed);
    Ok(())
}

/// Checks `bytes` bytes at `remote` against the owner's key table and finds the way to them.
#[inline]
fn reach(
    peer: &Peer,
    link: &Link,
    plane: u8,
    remote: &Remote,
    bytes: usize,
) -> Result<Reach, Refusal> {
    let Remote {
        address,
        mapping,
        rkey,
    } = *remote;
    if bytes == 0 {
        return Ok(Reach::Mapped(0));
    }
    let region = link.keys.lookup(rkey, plane).ok_or(Refusal::Key(rkey))?;
    let offset = (address as usize).wrapping_sub(region.address);
    if offset > region.bytes || bytes > region.bytes - offset {
        return Err(Refusal::Bounds(rkey));
    }
    if mapping != 0 {
        return Ok(Reach::Mapped(mapping));
    }
    if link.same_process {
        return Ok(Reach::Mapped(address as usize));
    }
    if let Some(mapped) = peer.mapped(rkey, plane, address, bytes) {
        return Ok(Reach::Mapped(mapped));
    }
    let process = link.attach.ok_or(Refusal::NoAttach)?;
    Ok(Reach::Attach { process, address })
}

/// The address, here, of a word that this process may use atomically.
#[inline]
fn word_of(
    peer: &Peer,
    link: &Link,
    plane: u8,
    remote: &Remote,
    what: &'static str,
) -> Result<usize, Refusal> {
    match reach(peer, link, plane, remote, WORD) {
        Ok(Reach::Mapped(address)) if address.is_multiple_of(WORD) => Ok(address),
        Ok(Reach::Mapped(_)) => Err(Refusal::Unaligned),
        Ok(Reach::Attach { .. }) | Err(Refusal::NoAttach) => Err(Refusal::Unmapped(what)),
        Err(refusal) => Err(refusal),
    }
}

/// # Safety
/// `address` is a mapped, 8-byte-aligned word for as long as the result is used.
#[inline]
unsafe fn atomic<'a>(address: usize) -> &'a AtomicU64 {
    // SAFETY: the caller's promise; every bit pattern is a valid AtomicU64.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

/// # Safety
/// As [`execute`].
#[inline]
unsafe fn write(from: MemoryRange, to: Reach) -> Result<(), Refusal> {
    match to {
        Reach::Mapped(to) => {
            // Puts take effect in order: on weakly ordered CPUs this keeps an 8-byte put that
            // serves as a flag behind the data put before it.
            fence(Ordering::Release);
            if from.bytes == WORD && (from.address | to).is_multiple_of(WORD) {
                // SAFETY: both are aligned and mapped; the source is not being written.
                let value = unsafe { (from.as_ptr() as *const u64).read() };
                // SAFETY: as above.
                unsafe { atomic(to) }.store(value, Ordering::Relaxed);
            } else {
                // SAFETY: mapped by the caller's promise. `copy` because the two may overlap where
                // the peer is this process.
                unsafe { core::ptr::copy(from.as_ptr(), to as *mut u8, from.bytes) };
            }
            Ok(())
        }
        Reach::Attach { process, address } => {
            // SAFETY: `from` is readable; the key table vouched for the peer's side.
            unsafe { process.write(from, address) }.map_err(refused)
        }
    }
}

/// # Safety
/// As [`execute`].
#[inline]
unsafe fn read(from: Reach, into: MemoryRange) -> Result<(), Refusal> {
    match from {
        Reach::Mapped(from) => {
            if into.bytes == WORD && (from | into.address).is_multiple_of(WORD) {
                // SAFETY: both are aligned and mapped.
                let value = unsafe { atomic(from) }.load(Ordering::Acquire);
                // SAFETY: as above; nobody touches `into` before the operation completes.
                unsafe { (into.as_ptr() as *mut u64).write(value) };
            } else {
                // SAFETY: mapped by the caller's promise; may overlap, as in `write`.
                unsafe { core::ptr::copy(from as *const u8, into.as_ptr(), into.bytes) };
                fence(Ordering::Acquire);
            }
            Ok(())
        }
        Reach::Attach { process, address } => {
            // SAFETY: `into` is writable; the key table vouched for the peer's side.
            unsafe { process.read(address, into) }.map_err(refused)
        }
    }
}

#[cold]
fn refused(error: io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Refusal::Gone,
        Some(libc::EPERM | libc::ENOSYS) => Refusal::NoAttach,
        _ => Refusal::System(error),
    }
}
