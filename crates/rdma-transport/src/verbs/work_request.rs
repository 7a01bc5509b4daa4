//! From an operation to the work requests that `ibv_post_send` takes.

use super::handles::check;
use super::order::{REQUESTS_MAX, Requests};
use super::queue_pair::QueuePair;
use super::request::{LocalPart, RemotePart, Request, split};
use ferrorail_fabric::{Kind, Op};
use rdma_sys::{ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};
use std::io;

/// What a caller wants done.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The whole, or what of it is left.
    pub request: Request,
    /// Whether its completion is wanted soon.
    pub tracked: bool,
}

impl Operation {
    /// `op` by way of `plane`.
    #[inline]
    pub fn of(op: &Op<'_>, plane: usize, tracked: bool) -> Self {
        let local = LocalPart {
            address: op
                .local
                .region
                .range
                .slice(op.local.offset, op.local.bytes)
                .address as u64,
            bytes: op.local.bytes,
            lkey: op.local.region.lkeys[plane],
        };
        Self {
            request: op.map(local, local.bytes, |remote, bytes| {
                RemotePart::of(remote, bytes, plane)
            }),
            // What brings something back is waited for.
            tracked: tracked || !op.kind.is_put(),
        }
    }

    /// Its first `bytes` bytes, without what is done at its end, and the rest; or all of it.
    pub fn cut(self, bytes: usize) -> (Self, Option<Self>) {
        if self.request.local.bytes <= bytes {
            return (self, None);
        }
        let (first, rest) = split(&self.request, bytes);
        let first = Self {
            request: Request {
                kind: data(self.request.kind),
                ..first
            },
            tracked: false,
        };
        let rest = Self {
            request: rest,
            ..self
        };
        (first, Some(rest))
    }

    /// Whether memory that it touches is not registered with its rail, on either side.
    pub fn lacks_key(&self) -> bool {
        let Request {
            local,
            remote,
            kind,
        } = &self.request;
        let unregistered = local.lkey == 0 || remote.rkey == 0;
        let word = kind.notification();
        unregistered && local.bytes > 0 || word.is_some_and(|(word, _)| word.rkey == 0)
    }
}

/// What is done before the end of `kind`.
fn data(kind: Kind<RemotePart>) -> Kind<RemotePart> {
    match kind.is_put() {
        true => Kind::Put,
        false => kind,
    }
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

/// Posts `requests` in order with a single `ibv_post_send`.
///
/// # Errors
/// The system's reason, and whether some of the requests were taken nevertheless.
///
/// # Safety
/// Memory that the requests name is registered and stays valid until they complete.
pub unsafe fn post(
    queue_pair: &QueuePair,
    requests: &Requests,
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
    for (i, (request, waits)) in requests.iter(mode.fenced).enumerate() {
        let mut flags = 0;
        if waits {
            flags |= ibv_send_flags::IBV_SEND_FENCE.0;
        }
        let last = i + 1 == requests.len();
        if last && mode.signalled {
            flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        if request.kind.is_put() && request.local.bytes <= mode.inline_bytes as usize {
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
    check(unsafe { rdma_sys::ibv_post_send(queue_pair.as_ptr(), first, &raw mut bad) })
        .map_err(|error| (error, !bad.is_null() && bad != first))
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
    let rdma = |opcode| (opcode, rdma_sys::wr_t { rdma });
    (work.opcode, work.wr) = match request.kind {
        Kind::Put | Kind::Ordered | Kind::Eager(_) | Kind::Notify(..) => {
            rdma(ibv_wr_opcode::IBV_WR_RDMA_WRITE)
        }
        // The immediate data is zero: what is to be known lies in memory.
        Kind::Wake(..) => rdma(ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM),
        Kind::Get => rdma(ibv_wr_opcode::IBV_WR_RDMA_READ),
        Kind::FetchAdd { add, .. } => (
            ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD,
            rdma_sys::wr_t {
                atomic: atomic(add, 0),
            },
        ),
        Kind::CompareSwap { compare, swap } => (
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
            request: Request {
                kind: Kind::Wake(word, 9),
                local: LocalPart {
                    address: 1000,
                    bytes: 25,
                    lkey: 1,
                },
                remote: RemotePart {
                    address: 2000,
                    rkey: 2,
                },
            },
            tracked: true,
        };
        let (mut left, mut pieces) = (Some(whole), Vec::new());
        while let Some(operation) = left {
            let (piece, rest) = operation.cut(10);
            let last = rest.is_none();
            let Request {
                kind,
                local,
                remote,
            } = piece.request;
            assert_eq!((kind.notification().is_some(), piece.tracked), (last, last));
            assert_eq!((local.lkey, remote.rkey), (1, 2));
            let offset = local.address - 1000;
            assert_eq!(remote.address, 2000 + offset);
            pieces.push((offset, local.bytes));
            left = rest;
        }
        assert_eq!(pieces, [(0, 10), (10, 10), (20, 5)]);
        let mut empty = whole;
        empty.request.local.bytes = 0;
        let (piece, rest) = empty.cut(10);
        assert!(piece.request.kind.notification().is_some() && rest.is_none());
    }
}
