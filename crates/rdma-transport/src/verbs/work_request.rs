//! From an operation to the work requests that `ibv_post_send` takes.

use super::queue_pair::QueuePair;
use super::rail::WORK_REQUESTS_PER_OPERATION;
use ferrorail_fabric::RemoteSlice;
use rdma_sys::{ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};
use std::io;

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct LocalPart {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: usize,
    /// Its key on the rail.
    pub lkey: u32,
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug)]
pub struct RemotePart {
    /// First byte in the peer's address space.
    pub address: u64,
    /// Its key on the rail.
    pub rkey: u32,
}

impl RemotePart {
    /// `bytes` bytes of `slice`, by way of `plane`.
    pub fn of(slice: RemoteSlice<'_>, bytes: usize, plane: usize) -> Self {
        debug_assert!(
            slice.offset as u64 + bytes as u64 <= slice.region.bytes,
            "{bytes} bytes at offset {} leave a region of {}",
            slice.offset,
            slice.region.bytes
        );
        Self {
            address: slice.region.address + slice.offset as u64,
            rkey: slice.region.rkeys[plane],
        }
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Local memory to the peer's.
    Write,
    /// That, and when its notification has arrived the peer's wake-up event goes off.
    WriteAndWake,
    /// The peer's memory to local.
    Read,
    /// Adds to the peer's word; its old value goes to local memory.
    FetchAdd(u64),
    /// Compares the peer's word with the first and stores the second if equal.
    CompareSwap(u64, u64),
}

impl Kind {
    /// Whether nothing comes back.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteAndWake)
    }
}

/// What a caller wants done.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Write, read or atomic.
    pub kind: Kind,
    /// Source of a write, else destination.
    pub local: LocalPart,
    /// The peer's memory.
    pub remote: RemotePart,
    /// Word to write afterwards, and its value.
    pub notification: Option<(RemotePart, u64)>,
    /// Whether its completion is wanted soon.
    pub tracked: bool,
}

impl Operation {
    /// Its first `bytes` bytes, without what is done at its end, and the rest; or all of it.
    pub fn cut(self, bytes: usize) -> (Self, Option<Self>) {
        if self.local.bytes <= bytes {
            return (self, None);
        }
        let first = Self {
            local: LocalPart {
                bytes,
                ..self.local
            },
            notification: None,
            tracked: false,
            ..self
        };
        let rest = Self {
            local: LocalPart {
                address: self.local.address + bytes as u64,
                bytes: self.local.bytes - bytes,
                ..self.local
            },
            remote: RemotePart {
                address: self.remote.address + bytes as u64,
                ..self.remote
            },
            ..self
        };
        (first, Some(rest))
    }

    /// Whether memory that it touches is not registered with its rail, on either side.
    pub fn lacks_key(&self) -> bool {
        let unregistered = self.local.lkey == 0 || self.remote.rkey == 0;
        let word = self.notification.is_some_and(|(word, _)| word.rkey == 0);
        unregistered && self.local.bytes > 0 || word
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// Source of a write, destination of everything else.
    pub local: LocalPart,
    /// The other end.
    pub remote: RemotePart,
}

/// How the requests of one operation are posted.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Comes back with the completion.
    pub id: u64,
    /// Whether the last request makes a completion.
    pub signalled: bool,
    /// Whether the first waits for earlier reads and atomics of the queue pair.
    pub fenced: bool,
    /// Writes up to this long travel inside the request.
    pub inline_bytes: u32,
}

const REQUESTS_MAX: usize = WORK_REQUESTS_PER_OPERATION as usize;

/// Posts `requests` in order with a single `ibv_post_send`.
///
/// # Errors
/// The system's reason, and whether some of the requests were taken nevertheless.
///
/// # Safety
/// Memory that the requests name is registered and stays valid until they complete.
pub unsafe fn post(
    queue_pair: &QueuePair,
    requests: &[Request],
    mode: Mode,
) -> Result<(), (io::Error, bool)> {
    debug_assert!((1..=REQUESTS_MAX).contains(&requests.len()));
    let mut parts = [ibv_sge {
        addr: 0,
        length: 0,
        lkey: 0,
    }; REQUESTS_MAX];
    // SAFETY: integers, null pointers and unions of them, for which zero is a value.
    let mut list: [ibv_send_wr; REQUESTS_MAX] = unsafe { std::mem::zeroed() };
    let (first_part, first) = (parts.as_mut_ptr(), list.as_mut_ptr());
    for (i, request) in requests.iter().enumerate() {
        let mut flags = 0;
        if i == 0 && mode.fenced {
            flags |= ibv_send_flags::IBV_SEND_FENCE.0;
        }
        let last = i + 1 == requests.len();
        if last && mode.signalled {
            flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        if request.kind.is_write() && request.local.bytes <= mode.inline_bytes as usize {
            flags |= ibv_send_flags::IBV_SEND_INLINE.0;
        }
        // SAFETY: `i` is inside both arrays, which nothing else refers to.
        unsafe {
            let (part, work) = (&mut *first_part.add(i), &mut *first.add(i));
            *part = ibv_sge {
                addr: request.local.address,
                length: request.local.bytes as u32,
                lkey: request.local.lkey,
            };
            work.sg_list = part;
            work.num_sge = i32::from(request.local.bytes > 0);
            work.send_flags = flags;
            work.wr_id = mode.id;
            work.next = if last {
                std::ptr::null_mut()
            } else {
                first.add(i + 1)
            };
            describe(work, request);
        }
    }
    let mut bad = std::ptr::null_mut();
    // SAFETY: the queue pair is connected, the chain is well formed, and the device has copied it
    // when the call returns.
    match unsafe { rdma_sys::ibv_post_send(queue_pair.as_ptr(), first, &raw mut bad) } {
        0 => Ok(()),
        errno => Err((
            io::Error::from_raw_os_error(errno.abs()),
            !bad.is_null() && bad != first,
        )),
    }
}

fn describe(work: &mut ibv_send_wr, request: &Request) {
    let (remote_addr, rkey) = (request.remote.address, request.remote.rkey);
    let rdma = rdma_sys::rdma_t { remote_addr, rkey };
    let atomic = |compare_add, swap| rdma_sys::atomic_t {
        remote_addr,
        compare_add,
        swap,
        rkey,
    };
    (work.opcode, work.wr) = match request.kind {
        Kind::Write => (ibv_wr_opcode::IBV_WR_RDMA_WRITE, rdma_sys::wr_t { rdma }),
        // The immediate data is zero: what is to be known lies in memory.
        Kind::WriteAndWake => (
            ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            rdma_sys::wr_t { rdma },
        ),
        Kind::Read => (ibv_wr_opcode::IBV_WR_RDMA_READ, rdma_sys::wr_t { rdma }),
        Kind::FetchAdd(add) => (
            ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD,
            rdma_sys::wr_t {
                atomic: atomic(add, 0),
            },
        ),
        Kind::CompareSwap(compare, swap) => (
            ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP,
            rdma_sys::wr_t {
                atomic: atomic(compare, swap),
            },
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_an_operation_and_its_end_comes_last() {
        let word = RemotePart {
            address: 7,
            rkey: 8,
        };
        let whole = Operation {
            kind: Kind::WriteAndWake,
            local: LocalPart {
                address: 1000,
                bytes: 25,
                lkey: 1,
            },
            remote: RemotePart {
                address: 2000,
                rkey: 2,
            },
            notification: Some((word, 9)),
            tracked: true,
        };
        let (mut left, mut pieces) = (Some(whole), Vec::new());
        while let Some(operation) = left {
            let (piece, rest) = operation.cut(10);
            let last = rest.is_none();
            assert_eq!((piece.notification.is_some(), piece.tracked), (last, last));
            assert_eq!((piece.local.lkey, piece.remote.rkey), (1, 2));
            let offset = piece.local.address - 1000;
            assert_eq!(piece.remote.address, 2000 + offset);
            pieces.push((offset, piece.local.bytes));
            left = rest;
        }
        assert_eq!(pieces, [(0, 10), (10, 10), (20, 5)]);
        let nothing = LocalPart {
            bytes: 0,
            ..whole.local
        };
        let empty = Operation {
            local: nothing,
            ..whole
        };
        let (piece, rest) = empty.cut(10);
        assert!(piece.notification.is_some() && rest.is_none());
    }
}
