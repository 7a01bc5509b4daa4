//! What a Fortran program's arguments are in C.

use super::Place;
use crate::collective::Buffer;
use crate::runtime;
use ferrorail_mpi_abi::{
    AbiKind, Constants, Datatype, FortranHandles, FortranSentinels, Group, Info, Op, Request, Win,
};
use libc::{c_int, c_void};

/// Handles and sentinels of the host's Fortran.
pub struct Translation {
    handles: FortranHandles,
    sentinels: Option<&'static FortranSentinels>,
    constants: &'static Constants,
    is_mpich: bool,
}

/// The address of a Fortran integer.
pub type Int = *const c_int;

impl Translation {
    /// `None` if the call is to be passed on: it then comes by again as one from C. MPICH's routines
    /// do that, but for the few that are `direct`, and those of the standard interface as well.
    pub fn new(direct: bool) -> Option<Self> {
        let host = runtime::session()?.host();
        let taken = match host.kind() {
            AbiKind::OpenMpi => true,
            AbiKind::Mpich => direct,
            AbiKind::Standard => false,
        };
        taken.then_some(())?;
        Some(Self {
            handles: host.fortran_handles()?,
            sentinels: host.fortran_sentinels(),
            constants: host.constants(),
            is_mpich: host.kind() == AbiKind::Mpich,
        })
    }

    /// An address, or `MPI_BOTTOM`.
    pub fn address(&self, address: *const c_void) -> *mut c_void {
        match self.sentinels {
            Some(sentinels) => sentinels.to_c(address as usize, self.constants) as *mut c_void,
            None => address.cast_mut(),
        }
    }

    /// # Safety
    /// The address of a window's handle, as all addresses below are those of integers.
    pub unsafe fn win(&self, win: Int) -> usize {
        // SAFETY: the caller's contract.
        let Win(handle) = self.handles.win(unsafe { *win });
        handle
    }

    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn group(&self, group: Int) -> usize {
        // SAFETY: the caller's contract.
        let Group(handle) = self.handles.group(unsafe { *group });
        handle
    }

    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn info(&self, info: Int) -> usize {
        // SAFETY: the caller's contract.
        let Info(handle) = self.handles.info(unsafe { *info });
        handle
    }

    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn comm(&self, comm: Int) -> usize {
        // SAFETY: the caller's contract.
        self.handles.comm(unsafe { *comm }).0
    }

    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn op(&self, op: Int) -> usize {
        // SAFETY: the caller's contract.
        let Op(handle) = self.handles.op(unsafe { *op });
        handle
    }

    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn datatype(&self, datatype: Int) -> usize {
        // SAFETY: the caller's contract.
        let Datatype(handle) = self.handles.datatype(unsafe { *datatype });
        handle
    }

    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn buffer(&self, address: *const c_void, count: Int, datatype: Int) -> Buffer {
        // SAFETY: the caller's contract.
        unsafe { Buffer::new(self.address(address), *count, self.datatype(datatype)) }
    }

    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn place(
        &self,
        rank: Int,
        displacement: *const isize,
        count: Int,
        datatype: Int,
    ) -> Place {
        // SAFETY: the caller's contract.
        unsafe { Place::new(*rank, *displacement, *count, self.datatype(datatype)) }
    }

    /// A key of an attribute: MPICH's Fortran has its own, one above C's.
    ///
    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn key(&self, key: Int) -> c_int {
        // SAFETY: the caller's contract.
        unsafe { *key - c_int::from(self.is_mpich) }
    }

    /// Runs what leaves a C handle of a window, and gives Fortran its own.
    ///
    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn made_window(
        &self,
        win: *mut c_int,
        make: impl FnOnce(*mut c_void) -> c_int,
    ) -> c_int {
        let mut handle = 0usize;
        let code = make((&raw mut handle).cast());
        if handle != 0 {
            // SAFETY: the caller's contract.
            unsafe { *win = self.handles.win_back(Win(handle)) };
        }
        code
    }

    /// The same for a request.
    ///
    /// # Safety
    /// As [`Translation::win`].
    pub unsafe fn made_request(
        &self,
        request: *mut c_int,
        make: impl FnOnce(*mut c_void) -> c_int,
    ) -> c_int {
        let mut handle = 0usize;
        let code = make((&raw mut handle).cast());
        if handle != 0 {
            // SAFETY: the caller's contract.
            unsafe { *request = self.handles.request_back(Request(handle)) };
        }
        code
    }
}
