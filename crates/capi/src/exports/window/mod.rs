//! One-sided communication called from C. Functions with counts have two forms, of `int` and of
//! `MPI_Count` (names in `_c`).

mod create;
mod operation;
mod synchronise;

use libc::c_void;

type In = *const c_void;
type Out = *mut c_void;

/// A function with a window among its arguments: those before it, and those after it.
macro_rules! call {
    ($name:ident, $label:literal, ($($arg:ident: $ty:ty),*), ($($after:ident: $after_ty:ty),*),
     |$session:ident, $entry:ident| $call:expr) => {
        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($arg: $ty,)*
            win: usize
            $(, $after: $after_ty)*
        ) -> libc::c_int {
            static NEXT: $crate::next::Next = $crate::next::Next::new(stringify!($name));
            $crate::panic_guard::guard(None, || {
                let forward = || {
                    $crate::next::call_next!(
                        NEXT,
                        ($($arg => $ty,)* win => usize $(, $after => $after_ty)*) -> libc::c_int,
                        else $crate::next::MISSING
                    )
                };
                // SAFETY: the program called the function with these arguments.
                unsafe {
                    $crate::window::run($label, win, forward, |$session, $entry| $call)
                }
            })
        }
    };
}
use call;
