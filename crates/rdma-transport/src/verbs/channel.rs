//! Completion channels: descriptors that become readable when something completes.

use super::handles::{Context, Handle};
use ibverbs_sys as ffi;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;

/// Has reads of `descriptor` not wait.
pub fn do_not_block(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(descriptor, FcntlArg::F_GETFL)?);
    fcntl(descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// A completion channel that does not block.
#[derive(Debug)]
pub struct CompletionChannel {
    raw: Handle<ffi::ibv_comp_channel>,
    _context: Arc<Context>,
}

impl CompletionChannel {
    /// `ibv_create_comp_channel`.
    pub fn create(context: &Arc<Context>) -> io::Result<Self> {
        let verb = "ibv_destroy_comp_channel";
        // SAFETY: the context is open; completion queues that report to the channel hold it.
        let raw = unsafe {
            let raw = ffi::ibv_create_comp_channel(context.as_ptr());
            Handle::new(raw, verb, ffi::ibv_destroy_comp_channel)
        }?;
        let _context = Arc::clone(context);
        let channel = Self { raw, _context };
        do_not_block(channel.descriptor())?;
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
