//! Completion channels: descriptors that become readable when something completes.

use super::handles::Context;
use ibverbs_sys as ffi;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A completion channel that does not block.
#[derive(Debug)]
pub struct CompletionChannel {
    raw: NonNull<ffi::ibv_comp_channel>,
    _context: Arc<Context>,
}

// SAFETY: libibverbs is thread-safe; the channel is destroyed by its last owner only.
unsafe impl Send for CompletionChannel {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    /// `ibv_create_comp_channel`.
    pub fn create(context: &Arc<Context>) -> io::Result<Self> {
        // SAFETY: the context is open.
        let raw = unsafe { ffi::ibv_create_comp_channel(context.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        let _context = Arc::clone(context);
        let channel = Self { raw, _context };
        let flags = fcntl(channel.descriptor(), FcntlArg::F_GETFL)?;
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
        fcntl(channel.descriptor(), FcntlArg::F_SETFL(flags))?;
        Ok(channel)
    }

    /// For making completion queues.
    pub fn as_ptr(&self) -> *mut ffi::ibv_comp_channel {
        self.raw.as_ptr()
    }

    /// Readable when there are events.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel, and with it the descriptor, lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).fd) }
    }

    /// Takes all events, which are those of `queue`, the channel's only one.
    pub fn take_events(&self, queue: *mut ffi::ibv_cq) {
        let (mut of, mut cookie) = (ptr::null_mut(), ptr::null_mut());
        let mut events = 0;
        // SAFETY: the channel is alive and does not block; both places are ours.
        while unsafe { ffi::ibv_get_cq_event(self.as_ptr(), &raw mut of, &raw mut cookie) } == 0 {
            events += 1;
        }
        if events > 0 {
            // SAFETY: so many events of this queue were taken.
            unsafe { ffi::ibv_ack_cq_events(queue, events) };
        }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: made by `create`; completion queues that report here hold references.
        let status = unsafe { ffi::ibv_destroy_comp_channel(self.raw.as_ptr()) };
        if status != 0 {
            let error = io::Error::from_raw_os_error(status.abs());
            tracing::warn!("ibv_destroy_comp_channel failed: {error}");
        }
    }
}
