//! One-sided communication called from Fortran.
//!
//! Open MPI's routines call `PMPI_*`, so all are taken here. MPICH's call `MPI_*`, and are passed on,
//! but for those of `mpi_f08` without a buffer, which call `PMPI_*` too.

mod create;
mod operation;
mod synchronise;

use crate::panic_guard::guard;
use crate::window::Translation;
use libc::{c_int, c_void};

use crate::window::Int;
type In = *const c_void;
type Out = *mut c_void;
type Aint = *const isize;
type Error = *mut c_int;

/// Runs `own` where the call is ours to take, and else `forward`.
///
/// # Safety
/// `error` is the program's `ierror`, or absent.
unsafe fn answer(
    direct: bool,
    own: impl FnOnce(&Translation) -> c_int,
    forward: impl FnOnce() -> c_int,
    error: Error,
) {
    let code = guard(None, || match Translation::new(direct) {
        Some(translation) => own(&translation),
        None => forward(),
    });
    if !error.is_null() {
        // SAFETY: present, hence the address of an integer.
        unsafe { *error = code };
    }
}

/// One spelling of a routine.
macro_rules! entry {
    ($name:ident, $direct:expr, ($($arg:ident: $ty:ty),*), |$t:ident, $forward:ident| $own:expr) => {
        /// As the standard defines it for Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name($($arg: $ty,)* error: $crate::exports::fortran_window::Error) {
            static NEXT: $crate::next::Next = $crate::next::Next::new(stringify!($name));
            let $forward = || {
                let mut code = 0;
                let to: *mut libc::c_int = &mut code;
                $crate::next::call_next!(
                    NEXT,
                    ($($arg => $ty,)* to => *mut libc::c_int) -> (),
                    else code = $crate::next::MISSING
                );
                code
            };
            // SAFETY: the program's own arguments, here and below.
            let own = |$t: &$crate::window::Translation| unsafe { $own };
            // SAFETY: as above.
            unsafe { $crate::exports::fortran_window::answer($direct, own, $forward, error) }
        }
    };
}
use entry;

/// Defines all spellings of routines: their arguments and what they do; the last spelling is that
/// of `mpi_f08`.
macro_rules! routines {
    ($($arguments:tt |$t:ident, $forward:ident| $own:expr, as $($name:ident)*; $f08:ident;)*) => {$(
        $crate::exports::fortran_window::spellings!(
            $arguments, |$t, $forward| $own, $($name)*
        );
        $crate::exports::fortran_window::entry!(
            $f08, true, $arguments, |$t, $forward| $own
        );
    )*};
}
use routines;

macro_rules! spellings {
    ($arguments:tt, |$t:ident, $forward:ident| $own:expr, $($name:ident)*) => {
        $($crate::exports::fortran_window::entry!(
            $name, false, $arguments, |$t, $forward| $own
        );)*
    };
}
use spellings;
