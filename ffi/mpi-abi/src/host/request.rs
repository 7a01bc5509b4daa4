//! Requests for operations that are not the library's own.

use super::{Host, MpiError};
use crate::{AbiKind, Comm, Request, SUCCESS};
use libc::{c_int, c_void};
use std::ptr;

/// What the library keeps for a request.
struct Kept {
    host: &'static Host,
    /// Called when the program has no more use for the request.
    on_free: Box<dyn FnOnce() + Send>,
}

/// Says what an operation that moved nothing of the library's did.
unsafe extern "C" fn describe(extra: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: what was kept for the request, which is not freed yet.
    let host = unsafe { &*extra.cast::<Kept>() }.host;
    let functions = host.functions();
    // SAFETY: the library passes a live status.
    unsafe {
        (functions.status_set_elements)(status, host.predefined().byte, 0);
        (functions.status_set_cancelled)(status, 0);
    }
    SUCCESS
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: leaked when the request was made; the library calls this once.
    let kept = unsafe { Box::from_raw(extra.cast::<Kept>()) };
    (kept.on_free)();
    SUCCESS
}

unsafe extern "C" fn cancel(_extra: *mut c_void, _complete: c_int) -> c_int {
    SUCCESS
}

impl Host {
    /// A request whose operation is complete already: of a message to nobody on `comm` (MPI 4.1, section 3.10), for which
    /// libraries have one at hand. Their calls that test, await and free requests take it.
    ///
    /// # Errors
    /// The library's.
    pub fn completed_request(&self, comm: Comm) -> Result<Request, MpiError> {
        if let Some(&request) = self.completed.get() {
            return Ok(request);
        }
        let (byte, nobody) = (self.predefined.byte, self.constants().proc_null);
        let nothing = ptr::null();
        // SAFETY: no byte is sent; `request` is as large as any handle.
        let request = self.answer("MPI_Isend", Request(0), |request| unsafe {
            let request = ptr::from_mut(request).cast();
            (self.functions.isend)(nothing, 0, byte, nobody, 0, comm, request)
        })?;
        if self.kind == AbiKind::OpenMpi {
            // The same one for all such messages, which the library never frees.
            self.completed.get_or_init(|| request);
        }
        Ok(request)
    }

    /// A request that is complete after [`Host::complete_request`] (`MPI_Grequest_start`; MPI 4.1, section 13.2). The library
    /// calls `on_free`, which must not panic, in the program's call that frees it.
    ///
    /// # Errors
    /// The library's.
    pub fn start_request(
        &'static self,
        on_free: Box<dyn FnOnce() + Send>,
    ) -> Result<Request, MpiError> {
        let start = self.functions.grequest_start;
        let kept = Box::new(Kept {
            host: self,
            on_free,
        });
        let extra: *mut c_void = Box::into_raw(kept).cast();
        // SAFETY: the callbacks keep to their contracts; `request` is as large as any handle.
        let request = self.answer("MPI_Grequest_start", Request(0), |request| unsafe {
            start(describe, free, cancel, extra, ptr::from_mut(request).cast())
        });
        if request.is_err() {
            // SAFETY: the library did not take it.
            drop(unsafe { Box::from_raw(extra.cast::<Kept>()) });
        }
        request
    }

    /// Completes a request of [`Host::start_request`], once.
    ///
    /// # Errors
    /// The library's.
    pub fn complete_request(&self, request: Request) -> Result<(), MpiError> {
        // SAFETY: made by `start_request`, and not complete yet.
        let code = unsafe { (self.functions.grequest_complete)(request) };
        self.check("MPI_Grequest_complete", code)
    }

    /// A persistent request (MPI 4.1, section 3.9): each time that the program has started it, it is complete after
    /// [`Host::complete_started`]. Of an empty message from this process to itself with this `tag`, on `comm` of it alone.
    ///
    /// # Errors
    /// The library's.
    pub fn persistent_request(&self, comm: Comm, tag: c_int) -> Result<Request, MpiError> {
        let (byte, nothing) = (self.predefined.byte, ptr::null_mut());
        // SAFETY: no byte is received; `request` is as large as any handle.
        self.answer("MPI_Recv_init", Request(0), |request| unsafe {
            let request = ptr::from_mut(request).cast();
            (self.functions.recv_init)(nothing, 0, byte, 0, tag, comm, request)
        })
    }

    /// Completes the request that [`Host::persistent_request`] made of `comm` and `tag`, once for each start.
    ///
    /// # Errors
    /// The library's.
    pub fn complete_started(&self, comm: Comm, tag: c_int) -> Result<(), MpiError> {
        // SAFETY: no byte is sent; the receive has been started, so that this does not wait.
        let code =
            unsafe { (self.functions.send)(ptr::null(), 0, self.predefined.byte, 0, tag, comm) };
        self.check("MPI_Send", code)
    }

    /// Frees a request of [`Host::persistent_request`].
    ///
    /// # Errors
    /// The library's.
    pub fn free_request(&self, mut request: Request) -> Result<(), MpiError> {
        // SAFETY: a request of the caller's; the handle is as large as any.
        let code = unsafe { (self.functions.request_free)((&raw mut request).cast()) };
        self.check("MPI_Request_free", code)
    }

    /// Whether `request` was complete, which is then gone; drives the library's progress.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// A request of the caller's.
    pub unsafe fn test(&self, request: &mut Request) -> Result<bool, MpiError> {
        let ignored = self.constants().status_ignore as *mut c_void;
        // SAFETY: the caller's contract.
        let complete = self.answer("MPI_Test", 0, |flag| unsafe {
            (self.functions.test)(request, flag, ignored)
        })?;
        Ok(complete != 0)
    }

    /// Whether `request` is complete, or none; drives the library's progress and frees nothing.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// A request of the program's.
    pub unsafe fn is_complete(&self, request: Request) -> Result<bool, MpiError> {
        let ask = self.functions.request_get_status;
        let ignored = self.constants().status_ignore as *mut c_void;
        // SAFETY: the caller's contract.
        let complete = self.answer("MPI_Request_get_status", 0, |flag| unsafe {
            ask(request, flag, ignored)
        })?;
        Ok(complete != 0)
    }
}
