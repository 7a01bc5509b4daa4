//! What wakes a thread that sleeps until a peer has written something: RDMA writes with immediate
//! data, whose arrival is an event of a completion channel.
//!
//! Each takes a receive request, which all queue pairs of a rail share. Without one the writing queue
//! pair would have to try again, so requests are replaced whenever the wake-up events are armed.

use super::completion_queue::CompletionQueue;
use super::error::set_up;
use super::handles::{Context, ProtectionDomain};
use ferrorail_base::sync::Mutex;
use ferrorail_fabric::FabricError;
use ibverbs_sys as ffi;
use rdma_sys::{ibv_recv_wr, ibv_wc};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Writes that may arrive between two calls of `arm`.
const ROOM: u32 = 256;
/// Completions taken per poll.
const BATCH: usize = 16;

/// The wake-up events of one rail.
#[derive(Debug)]
pub struct WakeEvents {
    completions: CompletionQueue,
    requests: NonNull<ffi::ibv_srq>,
    /// Receive requests that are posted.
    posted: Mutex<u32>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs is thread-safe; what is here is destroyed by its last owner only.
unsafe impl Send for WakeEvents {}
// SAFETY: as above.
unsafe impl Sync for WakeEvents {}

impl WakeEvents {
    /// Makes one that is not armed: no write may come before that.
    ///
    /// # Errors
    /// The system's, e.g. on devices whose queue pairs cannot share receive requests.
    pub fn create(context: &Arc<Context>, domain: &Arc<ProtectionDomain>) -> io::Result<Self> {
        let completions = CompletionQueue::create_with_channel(context, ROOM)?;
        let mut attributes = ffi::ibv_srq_init_attr {
            attr: ffi::ibv_srq_attr {
                max_wr: ROOM,
                max_sge: 1,
                ..Default::default()
            },
            ..Default::default()
        };
        // SAFETY: the domain is alive; the structure is ours.
        let requests = unsafe { ffi::ibv_create_srq(domain.as_ptr(), &raw mut attributes) };
        let requests = NonNull::new(requests).ok_or_else(io::Error::last_os_error)?;
        Ok(Self {
            completions,
            requests,
            posted: Mutex::new(0),
            _domain: Arc::clone(domain),
        })
    }

    /// Where queue pairs report arrivals.
    pub fn completions(&self) -> *mut ffi::ibv_cq {
        self.completions.as_ptr()
    }

    /// What queue pairs receive with.
    pub fn requests(&self) -> *mut ffi::ibv_srq {
        self.requests.as_ptr()
    }

    /// Readable when something has arrived since the last [`WakeEvents::arm`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        let descriptor = self.completions.descriptor();
        descriptor.expect("made with a channel")
    }

    /// Forgets arrivals so far, and asks for an event at the next.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn arm(&self, object: &str) -> Result<(), FabricError> {
        let mut posted = self.posted.lock();
        self.completions.take_events();
        let arrived = self.take_completions();
        *posted -= arrived.min(*posted);
        while *posted < ROOM {
            self.post_request()
                .map_err(set_up("ibv_post_srq_recv", object))?;
            *posted += 1;
        }
        let armed = self.completions.arm();
        armed.map_err(set_up("ibv_req_notify_cq", object))
    }

    /// Number of receive requests used up.
    fn take_completions(&self) -> u32 {
        let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        let mut seen = 0;
        loop {
            let queue = self.completions.as_ptr().cast();
            // SAFETY: the queue is alive and the batch has room for as many as asked for.
            let count =
                unsafe { rdma_sys::ibv_poll_cq(queue, BATCH as i32, batch.as_mut_ptr().cast()) };
            let count = u32::try_from(count).unwrap_or(0);
            seen += count;
            if count < BATCH as u32 {
                return seen;
            }
        }
    }

    fn post_request(&self) -> io::Result<()> {
        // SAFETY: integers and null pointers, for which zero is a value: no memory is received into.
        let mut request: ibv_recv_wr = unsafe { std::mem::zeroed() };
        let mut bad = ptr::null_mut();
        let queue = self.requests.as_ptr().cast();
        // SAFETY: the queue is alive, and the request copied when the call returns.
        match unsafe { rdma_sys::ibv_post_srq_recv(queue, &raw mut request, &raw mut bad) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno.abs())),
        }
    }
}

impl Drop for WakeEvents {
    fn drop(&mut self) {
        // SAFETY: made by `create`; queue pairs that use them hold references.
        let status = unsafe { ffi::ibv_destroy_srq(self.requests.as_ptr()) };
        if status != 0 {
            let error = io::Error::from_raw_os_error(status.abs());
            tracing::warn!("ibv_destroy_srq failed: {error}");
        }
    }
}
