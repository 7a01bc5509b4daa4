//! Reduction operations.

use super::{Host, MpiError};
use crate::{Comm, Datatype, Op, SUCCESS};
use libc::c_int;

impl Host {
    /// `MPI_Op_commutative`.
    ///
    /// # Errors
    /// The library's, after its error handler (on `MPI_COMM_WORLD` or `MPI_COMM_SELF`).
    pub fn is_commutative(&self, op: Op) -> Result<bool, MpiError> {
        // SAFETY: `flag` is live.
        let flag = self.answer("MPI_Op_commutative", 0, |flag| unsafe {
            (self.functions.op_commutative)(op, flag)
        })?;
        Ok(flag != 0)
    }

    /// `MPI_Reduce_local`: `into = from ∘ into` for each of `count` elements.
    ///
    /// # Errors
    /// The library's, after its error handler (on `MPI_COMM_WORLD` or `MPI_COMM_SELF`).
    ///
    /// # Safety
    /// `from` holds and `into` has room for `count` elements; they do not overlap.
    pub unsafe fn reduce_local(
        &self,
        from: *const u8,
        into: *mut u8,
        count: c_int,
        datatype: Datatype,
        op: Op,
    ) -> Result<(), MpiError> {
        // SAFETY: the caller's contract.
        let code =
            unsafe { (self.functions.reduce_local)(from.cast(), into.cast(), count, datatype, op) };
        self.check("MPI_Reduce_local", code)
    }

    /// Whether the library applies `op` to `datatype`, as its own all-reduce of one element in
    /// place says on `comm`, a communicator of this process alone that returns errors.
    ///
    /// # Safety
    /// `element` is the address of an element of `datatype`, readable and writable.
    pub unsafe fn accepts(&self, op: Op, datatype: Datatype, element: *mut u8, comm: Comm) -> bool {
        let in_place = self.constants().in_place as *const libc::c_void;
        // SAFETY: the caller's contract.
        let code =
            unsafe { (self.functions.allreduce)(in_place, element.cast(), 1, datatype, op, comm) };
        code == SUCCESS
    }
}
