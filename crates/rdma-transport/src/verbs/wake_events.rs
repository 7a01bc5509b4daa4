//! What wakes a thread that sleeps until a peer has written something: RDMA writes with immediate
//! data, whose arrival is an event of a completion channel.
//!
//! Each takes a receive request, which all queue pairs of a rail share. Without one the writing queue
//! pair would have to try again, so requests are replaced whenever the wake-up events are armed.

use super::completion_queue::{BATCH, CompletionQueue, NO_COMPLETIONS};
use super::error::set_up;
use super::handles::{Context, Handle, ProtectionDomain, check};
use ferrorail_base::sync::Mutex;
use ferrorail_fabric::FabricError;
use ibverbs_sys as ffi;
use rdma_sys::ibv_recv_wr;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;

/// Writes that may arrive between two calls of `arm`.
const ROOM: u32 = 256;

/// The wake-up events of one rail.
#[derive(Debug)]
pub struct WakeEvents {
    requests: Handle<ffi::ibv_srq>,
    completions: Arc<CompletionQueue>,
    /// Receive requests that are posted.
    posted: Mutex<u32>,
    _domain: Arc<ProtectionDomain>,
}

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
        // SAFETY: the domain is alive; the structure is ours. Queue pairs hold references to the wake-up events.
        let requests = unsafe {
            let raw = ffi::ibv_create_srq(domain.as_ptr(), &raw mut attributes);
            Handle::new(raw, "ibv_destroy_srq", ffi::ibv_destroy_srq)
        }?;
        Ok(Self {
            requests,
            completions: Arc::new(completions),
            posted: Mutex::new(0),
            _domain: Arc::clone(domain),
        })
    }

    /// Where queue pairs report arrivals.
    pub fn completions(&self) -> &Arc<CompletionQueue> {
        &self.completions
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
        let mut batch = NO_COMPLETIONS;
        let mut seen = 0;
        loop {
            let taken = self.completions.poll(&mut batch).map_or(0, <[_]>::len);
            seen += taken as u32;
            if taken < BATCH {
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
        check(unsafe { rdma_sys::ibv_post_srq_recv(queue, &raw mut request, &raw mut bad) })
    }
}
