//! No panic crosses the C boundary.

use crate::runtime;
use ferrorail_mpi_abi::{AbiKind, Constants};
use libc::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call`; a panic becomes `MPI_ERR_INTERN` on the error handler of communicator `comm` (as
/// it came in a register).
#[inline]
pub fn guard(comm: Option<usize>, call: impl FnOnce() -> c_int) -> c_int {
    // Nothing of `call` is used after a panic; teams mark themselves broken.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(code) => code,
        Err(_) => after_panic(comm),
    }
}

/// The standard hook has printed the panic's message already.
#[cold]
fn after_panic(comm: Option<usize>) -> c_int {
    catch_unwind(|| {
        let host = &runtime::get()?.host;
        let class = host.constants().errors.intern;
        if let Some(comm) = comm {
            host.call_error_handler(host.comm(comm), class);
        }
        Some(class)
    })
    .ok()
    .flatten()
    .unwrap_or(Constants::of(AbiKind::OpenMpi).errors.intern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_code() {
        assert_eq!(guard(None, || 0), 0);
        assert_eq!(guard(None, || panic!("a defect")), 17);
    }
}
