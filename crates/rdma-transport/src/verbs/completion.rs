//! Polling a rail's completion queue.

use super::rail::Rail;
use rdma_sys::{ibv_wc, ibv_wc_status};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::sync::TryLockError;

/// Completions taken per poll.
const BATCH: usize = 16;
/// Polls per pass, which bounds it.
const POLLS_MAX: usize = 4;

/// One completed work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The id it was posted with.
    pub id: u64,
    /// `None` if it succeeded.
    pub failure: Option<Failure>,
}

/// Why a work request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    status: u32,
    vendor: u32,
}

impl Failure {
    /// The status in words, with the vendor's code, which their support asks for.
    pub fn words(self) -> String {
        // SAFETY: the library returns static strings, also for unknown codes.
        let words = unsafe { CStr::from_ptr(ibverbs_sys::ibv_wc_status_str(self.status)) };
        let advice = match self.status {
            ibv_wc_status::IBV_WC_RETRY_EXC_ERR => ": the peer or the way to it is gone",
            ibv_wc_status::IBV_WC_REM_ACCESS_ERR => ": the peer does not offer that memory",
            _ => "",
        };
        let words = words.to_string_lossy();
        format!("{words}{advice} (vendor code {:#x})", self.vendor)
    }
}

/// Hands completions to `handle` in order; returns how many. 0 while another thread polls.
pub fn poll(rail: &Rail, mut handle: impl FnMut(Completion)) -> io::Result<usize> {
    let _polling = match rail.polling.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return Ok(0),
    };
    let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
    let mut seen = 0;
    for _ in 0..POLLS_MAX {
        let queue = rail.completions.as_ptr().cast();
        // SAFETY: the queue is alive and the batch has room for as many as asked for.
        let count =
            unsafe { rdma_sys::ibv_poll_cq(queue, BATCH as i32, batch.as_mut_ptr().cast()) };
        if count < 0 {
            return Err(io::Error::other(format!("ibv_poll_cq returned {count}")));
        }
        let count = count as usize;
        for entry in &batch[..count] {
            // SAFETY: the call filled the first `count` entries.
            let entry = unsafe { entry.assume_init_ref() };
            let success = entry.status == ibv_wc_status::IBV_WC_SUCCESS;
            handle(Completion {
                id: entry.wr_id,
                failure: (!success).then_some(Failure {
                    status: entry.status,
                    vendor: entry.vendor_err,
                }),
            });
        }
        seen += count;
        if count < BATCH {
            break;
        }
    }
    Ok(seen)
}
