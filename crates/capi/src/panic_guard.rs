//! No panic crosses the C boundary.

use crate::runtime;
use ferrorail_mpi_abi::{AbiKind, Constants};
use libc::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call`; a panic becomes `MPI_ERR_INTERN` on the error handler of communicator `comm` (as
/// it came in a register).
#[inline]
pub fn guard(comm: Option<usize>, call: impl FnOnce() -> c_int) -> c_int {
    guarded(call).unwrap_or_else(|| after_panic(comm))
}

/// Runs `call`; `None` after a panic, which [`after_panic`] reports. An exception of another language cannot pass: what
/// may call the program's error handlers, which may throw one, is to be called outside.
#[inline]
pub fn guarded<R>(call: impl FnOnce() -> R) -> Option<R> {
    // Nothing of `call` is used after a panic; teams mark themselves broken.
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// Runs `before`, what the `host` does, and `after` with what `before` gave and the host's code. The host may run callbacks
/// of the program that throw exceptions of another language: these pass, and drop what `before` gave.
#[inline]
pub fn around<B>(
    comm: Option<usize>,
    before: impl FnOnce() -> B,
    host: impl FnOnce() -> c_int,
    after: impl FnOnce(B, c_int) -> c_int,
) -> c_int {
    let Some(kept) = guarded(before) else {
        return after_panic(comm);
    };
    let code = host();
    guard(comm, || after(kept, code))
}

/// Reports a panic, of which the standard hook has printed the message already.
#[cold]
pub fn after_panic(comm: Option<usize>) -> c_int {
    let Some(Some(runtime)) = guarded(runtime::get) else {
        return Constants::of(AbiKind::OpenMpi).errors.intern;
    };
    let host = &runtime.host;
    let class = host.constants().errors.intern;
    if let Some(comm) = comm {
        host.call_error_handler(host.comm(comm), class);
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_code() {
        assert_eq!(guard(None, || 0), 0);
        assert_eq!(guard(None, || panic!("a defect")), 17);
        let around = |before: fn() -> c_int, after: fn(c_int, c_int) -> c_int| {
            around(None, before, || 3, after)
        };
        assert_eq!(around(|| 2, |kept, code| kept * code), 6);
        assert_eq!(around(|| panic!("a defect"), |_, code| code), 17);
        assert_eq!(around(|| 2, |_, _| panic!("a defect")), 17);
    }
}
