//! Posting datagrams and memory to receive into, and taking completions.

use super::super::completion::Failure;
use super::super::completion_queue::{BATCH, Batch, CompletionQueue};
use super::super::handles::check;
use super::super::queue_pair::QueuePair;
use super::pool::Pool;
use rdma_sys::{ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wr_opcode};
use std::io;

/// Completions that have come in `queue`, if all are of what succeeded; else what failed, which else is `what`,
/// and why.
///
/// # Errors
/// That.
pub fn succeeded<'a>(
    queue: &CompletionQueue,
    batch: &'a mut Batch,
    what: &'static str,
) -> Result<&'a [ibv_wc], (&'static str, String)> {
    let taken = queue
        .poll(batch)
        .map_err(|answer| ("ibv_poll_cq", format!("it returned {answer}")))?;
    match taken.iter().find_map(Failure::of) {
        Some(failure) => Err((what, failure.words())),
        None => Ok(taken),
    }
}

/// Gives slots of `pool` to the device, [`BATCH`] at most, in one call.
///
/// # Errors
/// The system's reason.
pub fn post_receives(queue_pair: &QueuePair, pool: &Pool, slots: &[usize]) -> io::Result<()> {
    let nothing = ibv_sge {
        addr: 0,
        length: 0,
        lkey: 0,
    };
    let mut parts = [nothing; BATCH];
    // SAFETY: integers and null pointers, for which zero is a value.
    let mut list: [ibv_recv_wr; BATCH] = unsafe { std::mem::zeroed() };
    let (first_part, first) = (parts.as_mut_ptr(), list.as_mut_ptr());
    for (i, &slot) in slots.iter().enumerate() {
        assert!(i < BATCH, "more than a batch");
        // SAFETY: `i` is inside both arrays, which nothing else refers to.
        unsafe {
            let (part, request) = (first_part.add(i), &mut *first.add(i));
            *part = pool.part(slot, pool.slot_bytes());
            request.wr_id = slot as u64;
            request.sg_list = part;
            request.num_sge = 1;
            if i + 1 < slots.len() {
                request.next = first.add(i + 1);
            }
        }
    }
    let mut bad = std::ptr::null_mut();
    // SAFETY: the chain is well formed, and copied when the call returns; its slots stay until the
    // queue pair is gone, by the order of fields.
    check(unsafe { rdma_sys::ibv_post_recv(queue_pair.as_ptr(), first, &raw mut bad) })
}

/// A datagram to post.
#[derive(Clone, Copy)]
pub struct Send<'a> {
    /// Comes back with its completion.
    pub id: u64,
    /// Its data, which may be in no part at all.
    pub parts: &'a [ibv_sge],
    /// Whether the data travels inside the request.
    pub inline: bool,
    /// Where it goes.
    pub to: rdma_sys::ud_t,
}

/// Posts a datagram, which then completes.
///
/// # Errors
/// The system's reason; nothing was posted.
///
/// # Safety
/// What the parts name is registered and stays valid until completion; the address handle likewise.
pub unsafe fn post_send(queue_pair: &QueuePair, send: Send<'_>) -> io::Result<()> {
    let mut flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
    if send.inline {
        flags |= ibv_send_flags::IBV_SEND_INLINE.0;
    }
    // SAFETY: integers, null pointers and unions of them, for which zero is a value.
    let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
    request.wr_id = send.id;
    // The call only reads them.
    request.sg_list = send.parts.as_ptr().cast_mut();
    request.num_sge = send.parts.len() as i32;
    request.opcode = ibv_wr_opcode::IBV_WR_SEND;
    request.send_flags = flags;
    request.wr = rdma_sys::wr_t { ud: send.to };
    let mut bad = std::ptr::null_mut();
    // SAFETY: the queue pair is ready to send; request and parts are copied when the call returns,
    // and what they name stays by the caller's promise.
    check(unsafe { rdma_sys::ibv_post_send(queue_pair.as_ptr(), &raw mut request, &raw mut bad) })
}
