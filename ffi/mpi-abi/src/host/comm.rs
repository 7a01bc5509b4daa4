//! Communicators.

use super::{Host, MpiError};
use crate::{Comm, CommDeleteFn};
use libc::{c_int, c_void};

/// A copy callback that copies nothing: `MPI_COMM_NULL_COPY_FN` differs between interfaces.
pub(super) unsafe extern "C" fn copy_nothing(
    _handle: usize,
    _keyval: c_int,
    _extra: *mut c_void,
    _value_in: *mut c_void,
    _value_out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the library passes a live flag.
    unsafe { *flag = 0 };
    0
}

impl Host {
    /// `MPI_Comm_rank`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_rank(&self, comm: Comm) -> Result<u32, MpiError> {
        let mut rank = 0;
        // SAFETY: `rank` is live.
        let code = unsafe { (self.functions.comm_rank)(comm, &mut rank) };
        self.check("MPI_Comm_rank", code)?;
        Ok(rank as u32)
    }

    /// `MPI_Comm_size`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_size(&self, comm: Comm) -> Result<u32, MpiError> {
        let mut size = 0;
        // SAFETY: `size` is live.
        let code = unsafe { (self.functions.comm_size)(comm, &mut size) };
        self.check("MPI_Comm_size", code)?;
        Ok(size as u32)
    }

    /// `MPI_Comm_test_inter`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn is_inter_comm(&self, comm: Comm) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: `flag` is live.
        let code = unsafe { (self.functions.comm_test_inter)(comm, &mut flag) };
        self.check("MPI_Comm_test_inter", code)?;
        Ok(flag != 0)
    }

    /// A communicator of the same ranks, without the attributes of `comm`, that returns errors.
    /// Collective.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn private_comm(&self, comm: Comm) -> Result<Comm, MpiError> {
        let rank = self.comm_rank(comm)? as c_int;
        let mut private = Comm(0);
        // SAFETY: `private` is live and as large as any handle.
        let code = unsafe { (self.functions.comm_split)(comm, 0, rank, &mut private) };
        self.check("MPI_Comm_split", code)?;
        self.return_errors(private)?;
        Ok(private)
    }

    /// The ranks of `comm` that share memory with this one, as a communicator that returns errors.
    /// Collective.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn shared_memory_comm(&self, comm: Comm) -> Result<Comm, MpiError> {
        let rank = self.comm_rank(comm)? as c_int;
        let kind = self.constants().comm_type_shared;
        let info = self.predefined.info_null;
        let mut shared = Comm(0);
        // SAFETY: `shared` is live and as large as any handle.
        let code = unsafe { (self.functions.comm_split_type)(comm, kind, rank, info, &mut shared) };
        self.check("MPI_Comm_split_type", code)?;
        self.return_errors(shared)?;
        Ok(shared)
    }

    fn return_errors(&self, comm: Comm) -> Result<(), MpiError> {
        // SAFETY: a predefined error handler on a live communicator.
        let code =
            unsafe { (self.functions.comm_set_errhandler)(comm, self.predefined.errors_return) };
        self.check("MPI_Comm_set_errhandler", code)
    }

    /// `MPI_Comm_free`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn free_comm(&self, mut comm: Comm) -> Result<(), MpiError> {
        // SAFETY: `comm` is live and as large as any handle.
        let code = unsafe { (self.functions.comm_free)(&mut comm) };
        self.check("MPI_Comm_free", code)
    }

    /// A communicator key whose values are not copied to duplicates. `delete` is called when a
    /// value goes away (MPI 4.1, section 7.7.2).
    ///
    /// # Errors
    /// The library's, after its error handler.
    ///
    /// # Safety
    /// `delete` keeps to the callback's contract and does not unwind.
    pub unsafe fn create_comm_key(&self, delete: CommDeleteFn) -> Result<c_int, MpiError> {
        let mut key = self.constants().keyval_invalid;
        // SAFETY: the caller vouches for `delete`.
        let code = unsafe {
            let extra = std::ptr::null_mut();
            (self.functions.comm_create_keyval)(copy_nothing, delete, &mut key, extra)
        };
        self.check("MPI_Comm_create_keyval", code)?;
        Ok(key)
    }

    /// The value of `key` on `comm`, if set.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn comm_attribute(&self, comm: Comm, key: c_int) -> Result<Option<usize>, MpiError> {
        let mut value = 0usize;
        let mut flag = 0;
        // SAFETY: `value` and `flag` are live.
        let code = unsafe {
            (self.functions.comm_get_attr)(comm, key, (&raw mut value).cast(), &mut flag)
        };
        self.check("MPI_Comm_get_attr", code)?;
        Ok((flag != 0).then_some(value))
    }

    /// Sets the value of `key` on `comm`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn set_comm_attribute(&self, comm: Comm, key: c_int, value: usize) -> Result<(), MpiError> {
        // SAFETY: the library only keeps the value.
        let code = unsafe { (self.functions.comm_set_attr)(comm, key, value as *mut c_void) };
        self.check("MPI_Comm_set_attr", code)
    }

    /// Calls the error handler of `comm` with an error class (which is also an error code).
    /// Returns only if the handler does.
    pub fn call_error_handler(&self, comm: Comm, class: c_int) {
        // SAFETY: any class may be reported on a live communicator.
        unsafe { (self.functions.comm_call_errhandler)(comm, class) };
    }

    /// `MPI_Barrier`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn barrier(&self, comm: Comm) -> Result<(), MpiError> {
        // SAFETY: no memory is passed.
        let code = unsafe { (self.functions.barrier)(comm) };
        self.check("MPI_Barrier", code)
    }
}
