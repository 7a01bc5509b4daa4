//! One-sided communication called from C. Functions with counts have two forms, of `int` and of
//! `MPI_Count` (names in `_c`).

mod create;
mod operation;
mod synchronise;

use libc::c_void;

type In = *const c_void;
type Out = *mut c_void;

/// A function with a window among its arguments: those before it, and those after it. `$narrow` is
/// its form with `int`, if it is one with `MPI_Count`.
macro_rules! call {
    (@ $name:ident, $label:literal, ($($arg:ident: $ty:ty),*), ($($after:ident: $after_ty:ty),*),
     else ($win:ident) $missing:expr, |$session:ident, $entry:ident| $call:expr) => {
        $crate::exports::export!(
            $name($($arg: $ty,)* $win: usize $(, $after: $after_ty)*),
            else $missing,
            |forward| $crate::panic_guard::guard(None, || {
                // SAFETY: the program called the function with these arguments.
                unsafe {
                    $crate::window::run($label, $win, forward, |$session, $entry| $call)
                }
            })
        );
    };
    ($name:ident, $label:literal, $before:tt, $after:tt, |$session:ident, $entry:ident| $call:expr) => {
        $crate::exports::window::call!(
            @ $name, $label, $before, $after, else (win) $crate::next::MISSING,
            |$session, $entry| $call
        );
    };
    ($name:ident for $narrow:ident, $label:literal, ($($arg:ident: $ty:ty),*),
     ($($after:ident: $after_ty:ty),*), |$session:ident, $entry:ident| $call:expr) => {
        $crate::exports::window::call!(
            @ $name, $label, ($($arg: $ty),*), ($($after: $after_ty),*),
            else (win) $crate::exports::narrow::call_narrowed!(
                $narrow,
                ($($arg: $ty,)* win: usize $(, $after: $after_ty)*),
                $crate::exports::narrow::Peers::None,
                $crate::exports::narrow::Handler::Window(win)
            ),
            |$session, $entry| $call
        );
    };
}
use call;
