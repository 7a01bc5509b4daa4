//! One-sided communication called from C.

mod create;
mod operation;
mod synchronise;

use crate::error::CallError;
use crate::session::Session;
use crate::window::{self, Entry};
use libc::{c_int, c_void};

type In = *const c_void;
type Out = *mut c_void;

/// Runs `call` on the window `win` as a program calls it; it is called `name` in messages.
///
/// # Safety
/// As [`window::run`].
#[inline(always)]
unsafe fn run(
    name: &'static str,
    win: usize,
    forward: impl FnOnce() -> c_int,
    call: impl FnOnce(&Session, &Entry) -> Result<(), CallError>,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { window::run(name, win, forward, call) }
}

/// Defines functions that act on the window `$win` among their arguments.
macro_rules! calls {
    ($($name:ident $arguments:tt $label:literal on $win:ident
       |$session:ident, $entry:ident| $call:expr;)*) => {$(
        $crate::exports::export!($name $arguments, else $crate::next::MISSING, |forward| {
            // SAFETY: the program called the function with these arguments.
            unsafe {
                $crate::exports::window::run($label, $win, forward, |$session, $entry| $call)
            }
        });
    )*};
}
use calls;
