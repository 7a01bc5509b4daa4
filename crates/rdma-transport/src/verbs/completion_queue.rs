//! Completion queues, with a completion channel where threads sleep for them.

use super::channel::CompletionChannel;
use super::handles::{Context, Handle, check};
use ibverbs_sys as ffi;
use rdma_sys::ibv_wc;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Completions taken per poll.
pub const BATCH: usize = 16;

/// Room for the completions of a poll.
pub type Batch = [MaybeUninit<ibv_wc>; BATCH];

/// Room that is not used yet.
pub const NO_COMPLETIONS: Batch = [const { MaybeUninit::uninit() }; BATCH];

/// Where queue pairs report completions.
#[derive(Debug)]
pub struct CompletionQueue {
    raw: Handle<ffi::ibv_cq>,
    channel: Option<CompletionChannel>,
    _context: Arc<Context>,
}

impl CompletionQueue {
    /// `ibv_create_cq` with room for at least `entries_min` completions.
    pub fn create(context: &Arc<Context>, entries_min: u32) -> io::Result<Self> {
        Self::create_for(context, None, entries_min)
    }

    /// The same with a channel of its own, for threads that sleep until something completes.
    pub fn create_with_channel(context: &Arc<Context>, entries_min: u32) -> io::Result<Self> {
        let channel = CompletionChannel::create(context)?;
        Self::create_for(context, Some(channel), entries_min)
    }

    fn create_for(
        context: &Arc<Context>,
        channel: Option<CompletionChannel>,
        entries_min: u32,
    ) -> io::Result<Self> {
        let cookie = std::ptr::null_mut();
        let reports_to = channel
            .as_ref()
            .map_or(std::ptr::null_mut(), CompletionChannel::as_ptr);
        let (raw, entries) = (context.as_ptr(), entries_min as i32);
        // SAFETY: context and channel are alive; the first completion vector always exists. Queue pairs hold
        // references to the queue.
        let raw = unsafe {
            let raw = ffi::ibv_create_cq(raw, entries, cookie, reports_to, 0);
            Handle::new(raw, "ibv_destroy_cq", ffi::ibv_destroy_cq)
        }?;
        Ok(Self {
            raw,
            channel,
            _context: Arc::clone(context),
        })
    }

    /// Completions that have come, [`BATCH`] at most.
    ///
    /// # Errors
    /// What the device returned instead of their number.
    #[inline]
    pub fn poll<'a>(&self, batch: &'a mut Batch) -> Result<&'a [ibv_wc], i32> {
        let (queue, most) = (self.as_ptr().cast(), BATCH as i32);
        // SAFETY: the queue is alive and the batch has room for as many as asked for.
        let count = unsafe { rdma_sys::ibv_poll_cq(queue, most, batch.as_mut_ptr().cast()) };
        let taken = usize::try_from(count).map_err(|_| count)?;
        // SAFETY: the call filled the first `taken` entries.
        Ok(unsafe { std::slice::from_raw_parts(batch.as_ptr().cast(), taken) })
    }

    /// Readable when something has completed since the last [`CompletionQueue::arm`]; `None` without a channel.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(CompletionChannel::descriptor)
    }

    /// Forgets the events so far.
    pub fn take_events(&self) {
        if let Some(channel) = &self.channel {
            channel.take_events(self.as_ptr());
        }
    }

    /// Asks for an event at the next completion.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn arm(&self) -> io::Result<()> {
        // SAFETY: the queue is alive.
        check(unsafe { rdma_sys::ibv_req_notify_cq(self.as_ptr().cast(), 0) })
    }

    /// For making queue pairs and polling.
    pub fn as_ptr(&self) -> *mut ffi::ibv_cq {
        self.raw.as_ptr()
    }
}
