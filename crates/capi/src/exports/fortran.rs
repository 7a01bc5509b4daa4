//! `MPI_WIN_GET_ATTR` from Fortran, the one routine that no binding passes on to C.

use crate::lifetime;
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use crate::window;
use ferrorail_mpi_abi::{AbiKind, Win};
use libc::{c_int, c_void};

type Int = *const c_int;
type Error = *mut c_int;

/// # Safety
/// The arguments of a Fortran program.
unsafe fn attribute(
    (win, key): (Int, Int),
    (value, flag): (*mut isize, *mut c_int),
    forward: impl Fn() -> c_int,
) -> c_int {
    let Some(session) = lifetime::session() else {
        return forward();
    };
    let host = session.host();
    // SAFETY: addresses of integers.
    let (window, key) = unsafe { (host.window_from_fortran(*win), *key) };
    let Some(Win(window)) = window else {
        return forward();
    };
    // MPICH's Fortran has keys of its own, one above C's.
    let key = key - c_int::from(host.kind() == AbiKind::Mpich);
    let none = std::ptr::without_provenance(usize::MAX);
    let mut found: *const c_void = none;
    // SAFETY: the program's arguments.
    unsafe {
        let code = window::attribute(window, key, (&raw mut found).cast(), flag, forward);
        if found != none {
            *value = window::attribute_value(host, key, found);
        }
        code
    }
}

macro_rules! spellings {
    ($($name:ident)*) => {$(
        /// As the standard defines it for Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name(
            win: Int,
            key: Int,
            value: *mut isize,
            flag: *mut c_int,
            error: Error,
        ) {
            static NEXT: Next = Next::new(stringify!($name));
            let forward = || {
                let mut code = 0;
                let to: Error = &mut code;
                call_next!(
                    NEXT,
                    (
                        win => Int, key => Int, value => *mut isize, flag => *mut c_int, to => Error
                    ) -> (),
                    else code = MISSING
                );
                code
            };
            // SAFETY: the program's own arguments.
            let code = guard(None, || unsafe { attribute((win, key), (value, flag), forward) });
            if !error.is_null() {
                // SAFETY: present, hence the address of an integer.
                unsafe { *error = code };
            }
        }
    )*};
}

spellings! {
    mpi_win_get_attr mpi_win_get_attr_ mpi_win_get_attr__ MPI_WIN_GET_ATTR mpi_win_get_attr_f08_
    pmpi_win_get_attr pmpi_win_get_attr_ pmpi_win_get_attr__ PMPI_WIN_GET_ATTR
    pmpi_win_get_attr_f08_ pmpir_win_get_attr_f08_
}
