//! Taking completions, and giving the device memory to receive into.

use super::super::handles::CompletionQueue;
use super::pool::Pool;
use super::queue_pair::DatagramQueuePair;
use rdma_sys::{ibv_recv_wr, ibv_sge, ibv_wc};
use std::io;
use std::mem::MaybeUninit;

/// Completions taken per poll, receives posted at a time.
pub const BATCH: usize = 16;

/// Room for the completions of a poll.
pub type Batch = [MaybeUninit<ibv_wc>; BATCH];

/// Completions that have come, [`BATCH`] at most.
///
/// # Errors
/// What the device answered instead, in words.
pub fn take<'a>(queue: &CompletionQueue, batch: &'a mut Batch) -> Result<&'a [ibv_wc], String> {
    let most = BATCH as i32;
    let queue = queue.as_ptr().cast();
    // SAFETY: the queue is alive and the batch has room for as many as asked for.
    let count = unsafe { rdma_sys::ibv_poll_cq(queue, most, batch.as_mut_ptr().cast()) };
    let count = usize::try_from(count).map_err(|_| format!("it returned {count}"))?;
    // SAFETY: the call filled the first `count` entries.
    Ok(unsafe { std::slice::from_raw_parts(batch.as_ptr().cast(), count) })
}

/// Gives slots of `pool` to the device, [`BATCH`] at most, in one call.
///
/// # Errors
/// The system's reason.
pub fn post_receives(
    queue_pair: &DatagramQueuePair,
    pool: &Pool,
    slots: &[usize],
) -> io::Result<()> {
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
    match unsafe { rdma_sys::ibv_post_recv(queue_pair.as_ptr(), first, &raw mut bad) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}
