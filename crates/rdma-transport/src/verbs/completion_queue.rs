//! Completion queues, with a completion channel where threads sleep for them.

use super::channel::CompletionChannel;
use super::handles::{Context, non_null, released};
use ibverbs_sys as ffi;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// Where a rail's queue pairs report completions.
#[derive(Debug)]
pub struct CompletionQueue {
    raw: NonNull<ffi::ibv_cq>,
    channel: Option<CompletionChannel>,
    _context: Arc<Context>,
}

// SAFETY: as for `Context`.
unsafe impl Send for CompletionQueue {}
// SAFETY: as for `Context`.
unsafe impl Sync for CompletionQueue {}

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
        // SAFETY: context and channel are alive; the first completion vector always exists.
        let raw = unsafe { ffi::ibv_create_cq(raw, entries, cookie, reports_to, 0) };
        let _context = Arc::clone(context);
        non_null(raw).map(|raw| Self {
            raw,
            channel,
            _context,
        })
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
        match unsafe { rdma_sys::ibv_req_notify_cq(self.as_ptr().cast(), 0) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno.abs())),
        }
    }

    /// For making queue pairs and polling.
    pub fn as_ptr(&self) -> *mut ffi::ibv_cq {
        self.raw.as_ptr()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: created by `create`; its queue pairs hold references.
        released("ibv_destroy_cq", unsafe {
            ffi::ibv_destroy_cq(self.raw.as_ptr())
        });
    }
}
