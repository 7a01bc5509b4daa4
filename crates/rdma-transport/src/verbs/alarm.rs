//! What wakes a thread that sleeps until a peer has written something: RDMA writes with immediate
//! data, whose arrival is an event of a completion channel.
//!
//! Each takes a receive request, which all queue pairs of a rail share. Without one the writing queue
//! pair would have to try again, so requests are replaced whenever the alarm is armed.

use super::error::set_up;
use super::handles::{Context, ProtectionDomain};
use ferrorail_fabric::FabricError;
use ibverbs_sys as ffi;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rdma_sys::{ibv_recv_wr, ibv_wc};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

/// Writes that may arrive between two calls of `arm`.
const ROOM: u32 = 256;
/// Completions taken per poll.
const BATCH: usize = 16;

/// The alarm of one rail.
#[derive(Debug)]
pub struct Alarm {
    channel: NonNull<ffi::ibv_comp_channel>,
    completions: NonNull<ffi::ibv_cq>,
    requests: NonNull<ffi::ibv_srq>,
    /// Receive requests that are posted.
    posted: Mutex<u32>,
    /// What it was made from.
    _context: Arc<Context>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs is thread-safe; what is here is destroyed by its last owner only.
unsafe impl Send for Alarm {}
// SAFETY: as above.
unsafe impl Sync for Alarm {}

fn failed() -> io::Error {
    io::Error::last_os_error()
}

impl Alarm {
    /// Makes one that is not armed: no write may come before that.
    ///
    /// # Errors
    /// The system's, e.g. on devices whose queue pairs cannot share receive requests.
    pub fn create(context: &Arc<Context>, domain: &Arc<ProtectionDomain>) -> io::Result<Self> {
        // SAFETY: the context is open.
        let channel = unsafe { ffi::ibv_create_comp_channel(context.as_ptr()) };
        let channel = NonNull::new(channel).ok_or_else(failed)?;
        let no_channel = |error| {
            // SAFETY: made above, and nothing uses it.
            unsafe { ffi::ibv_destroy_comp_channel(channel.as_ptr()) };
            error
        };
        let (cookie, entries) = (ptr::null_mut(), ROOM as i32);
        // SAFETY: context and channel are alive; the first completion vector always exists.
        let completions =
            unsafe { ffi::ibv_create_cq(context.as_ptr(), entries, cookie, channel.as_ptr(), 0) };
        let completions = NonNull::new(completions).ok_or_else(|| no_channel(failed()))?;
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
        let requests = NonNull::new(requests).ok_or_else(|| {
            let error = failed();
            // SAFETY: made above, and nothing uses it.
            unsafe { ffi::ibv_destroy_cq(completions.as_ptr()) };
            no_channel(error)
        })?;
        let alarm = Self {
            channel,
            completions,
            requests,
            posted: Mutex::new(0),
            _context: Arc::clone(context),
            _domain: Arc::clone(domain),
        };
        let flags = fcntl(alarm.descriptor(), FcntlArg::F_GETFL)?;
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
        fcntl(alarm.descriptor(), FcntlArg::F_SETFL(flags))?;
        Ok(alarm)
    }

    /// Where queue pairs report arrivals.
    pub fn completions(&self) -> *mut ffi::ibv_cq {
        self.completions.as_ptr()
    }

    /// What queue pairs receive with.
    pub fn requests(&self) -> *mut ffi::ibv_srq {
        self.requests.as_ptr()
    }

    /// Readable when something has arrived since the last [`Alarm::arm`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel, and with it the descriptor, lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }

    /// Forgets arrivals so far, and asks for an event at the next.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn arm(&self, object: &str) -> Result<(), FabricError> {
        let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        self.take_events();
        let arrived = self.take_completions();
        *posted -= arrived.min(*posted);
        while *posted < ROOM {
            self.post_request()
                .map_err(set_up("ibv_post_srq_recv", object))?;
            *posted += 1;
        }
        // SAFETY: the queue is alive.
        match unsafe { rdma_sys::ibv_req_notify_cq(self.completions.as_ptr().cast(), 0) } {
            0 => Ok(()),
            errno => {
                let error = io::Error::from_raw_os_error(errno.abs());
                Err(set_up("ibv_req_notify_cq", object)(error))
            }
        }
    }

    fn take_events(&self) {
        let (mut queue, mut cookie) = (ptr::null_mut(), ptr::null_mut());
        let mut events = 0;
        // SAFETY: the channel is alive and does not block; both places are ours.
        while unsafe {
            ffi::ibv_get_cq_event(self.channel.as_ptr(), &raw mut queue, &raw mut cookie)
        } == 0
        {
            events += 1;
        }
        if events > 0 {
            // SAFETY: so many events of this queue were taken.
            unsafe { ffi::ibv_ack_cq_events(self.completions.as_ptr(), events) };
        }
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

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: made by `create`; queue pairs that use them hold references. No events are left
        // that were taken and not acknowledged.
        let statuses = unsafe {
            [
                ffi::ibv_destroy_srq(self.requests.as_ptr()),
                ffi::ibv_destroy_cq(self.completions.as_ptr()),
                ffi::ibv_destroy_comp_channel(self.channel.as_ptr()),
            ]
        };
        for status in statuses {
            if status != 0 {
                let error = io::Error::from_raw_os_error(status.abs());
                tracing::warn!("an alarm was not released: {error}");
            }
        }
    }
}
