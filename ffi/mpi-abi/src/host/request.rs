//! Requests for operations that are not the library's own.

use super::{Host, MpiError};
use crate::Request;
use libc::{c_int, c_void};
use std::ptr;

/// Says what an operation that moved nothing of the library's did. `extra` is the host.
unsafe extern "C" fn describe(extra: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: the address of a host that is never freed, passed below.
    let host = unsafe { &*extra.cast::<Host>() };
    let functions = host.functions();
    // SAFETY: the library passes a live status.
    unsafe {
        (functions.status_set_elements)(status, host.predefined().byte, 0);
        (functions.status_set_cancelled)(status, 0);
    }
    host.constants().success
}

unsafe extern "C" fn free(_extra: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn cancel(_extra: *mut c_void, _complete: c_int) -> c_int {
    0
}

impl Host {
    /// A request whose operation is complete already (`MPI_Grequest_start`; MPI 4.1, section 13.2).
    /// The library's calls that test, await and free requests take it.
    ///
    /// # Errors
    /// The library's.
    pub fn completed_request(&'static self) -> Result<Request, MpiError> {
        let start = self.functions.grequest_start;
        let extra = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the callbacks keep to their contracts; `request` is as large as any handle.
        let request = self.answer("MPI_Grequest_start", Request(0), |request| unsafe {
            start(describe, free, cancel, extra, ptr::from_mut(request).cast())
        })?;
        // SAFETY: a request made just now.
        let code = unsafe { (self.functions.grequest_complete)(request) };
        self.check("MPI_Grequest_complete", code)?;
        Ok(request)
    }
}
