//! Polling a rail's completion queue.

use super::completion_queue::{BATCH, NO_COMPLETIONS};
use super::rail::Rail;
use ferrorail_base::PeerId;
use rdma_sys::{ibv_wc, ibv_wc_status};
use std::ffi::CStr;
use std::io;

/// Polls per pass, which bounds it.
const POLLS_MAX: usize = 4;

/// What an operation's work requests carry, and its completion brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionId {
    /// The peer; below 2^24.
    pub peer: PeerId,
    /// The generation of the lane that posted it.
    pub generation: u8,
    /// Low half of the operation's number.
    pub low: u32,
}

impl CompletionId {
    /// As the id of a work request.
    #[inline]
    pub fn pack(self) -> u64 {
        u64::from(self.peer.0) << 40 | u64::from(self.generation) << 32 | u64::from(self.low)
    }

    /// Inverse of [`CompletionId::pack`].
    #[inline]
    pub fn unpack(id: u64) -> Self {
        Self {
            peer: PeerId((id >> 40) as u32),
            generation: (id >> 32) as u8,
            low: id as u32,
        }
    }
}

/// One completed work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The id it was posted with.
    pub id: CompletionId,
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
    /// Why `entry` failed; `None` if it succeeded.
    pub fn of(entry: &ibv_wc) -> Option<Self> {
        let failed = entry.status != ibv_wc_status::IBV_WC_SUCCESS;
        failed.then_some(Self {
            status: entry.status,
            vendor: entry.vendor_err,
        })
    }

    /// Whether it says that the way to the peer failed, not that the request was wrong.
    pub fn is_of_path(self) -> bool {
        !matches!(
            self.status,
            ibv_wc_status::IBV_WC_LOC_LEN_ERR
                | ibv_wc_status::IBV_WC_LOC_PROT_ERR
                | ibv_wc_status::IBV_WC_LOC_ACCESS_ERR
                | ibv_wc_status::IBV_WC_MW_BIND_ERR
                | ibv_wc_status::IBV_WC_REM_INV_REQ_ERR
                | ibv_wc_status::IBV_WC_REM_ACCESS_ERR
        )
    }

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
    let Some(_polling) = rail.polling.try_lock() else {
        return Ok(0);
    };
    let mut batch = NO_COMPLETIONS;
    let mut seen = 0;
    for _ in 0..POLLS_MAX {
        let taken = rail.completions.poll(&mut batch);
        let taken =
            taken.map_err(|answer| io::Error::other(format!("ibv_poll_cq returned {answer}")))?;
        for entry in taken {
            handle(Completion {
                id: CompletionId::unpack(entry.wr_id),
                failure: Failure::of(entry),
            });
        }
        seen += taken.len();
        if taken.len() < BATCH {
            break;
        }
    }
    Ok(seen)
}
