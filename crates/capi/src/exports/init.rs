//! `MPI_Init` and `MPI_Init_thread` (MPI 4.1, section 11.2.1): the host's, then ours.

use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use crate::runtime::after_init;
use libc::{c_char, c_int};

/// `MPI_Init`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    static NEXT: Next = Next::new("MPI_Init");
    guard(None, || {
        let code = call_next!(
            NEXT,
            (argc => *mut c_int, argv => *mut *mut *mut c_char) -> c_int,
            else return MISSING
        );
        after_init();
        code
    })
}

/// `MPI_Init_thread`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    static NEXT: Next = Next::new("MPI_Init_thread");
    guard(None, || {
        let code = call_next!(
            NEXT,
            (
                argc => *mut c_int, argv => *mut *mut *mut c_char,
                required => c_int, provided => *mut c_int
            ) -> c_int,
            else return MISSING
        );
        after_init();
        code
    })
}
