//! Whether a call of ours is still under way further up the thread's stack. A callback of the program may leave it by a jump,
//! which runs no destructor, and later calls may lie where it lay.

use ferrorail_mpi_abi::mapping_of;
use libc::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

/// `struct _Unwind_Context`.
#[repr(C)]
struct Context {
    _opaque: [u8; 0],
}

type Visit = extern "C" fn(*mut Context, *mut c_void) -> c_int;

// The unwinder that Rust's own panics take.
unsafe extern "C" {
    fn _Unwind_Backtrace(visit: Visit, argument: *mut c_void) -> c_int;
    fn _Unwind_GetCFA(context: *mut Context) -> usize;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
}

/// The function whose stack holds an address, looked for from the innermost function on.
struct Search<'a> {
    at: usize,
    /// Of a variable of the present call, where it begins; without, it is this library's part of the stack.
    present: Option<usize>,
    /// Where this library's code is.
    own: &'a Range<usize>,
    /// Whether the function looked at last is this library's.
    is_own: bool,
    /// Whether one further in is no part of the present call, or all of those were.
    is_past: bool,
    found: Option<bool>,
}

impl Search<'_> {
    /// Goes on with the next function, which runs `code`, on a stack from `bottom` on; false if the search is over.
    fn visit(&mut self, bottom: usize, code: usize) -> bool {
        if bottom > self.at {
            self.found = Some(self.is_own && self.is_past);
            return false;
        }
        self.is_past |= match self.present {
            Some(present) => bottom > present,
            None => !self.is_own,
        };
        self.is_own = self.own.contains(&code);
        true
    }
}

extern "C" fn visit(context: *mut Context, search: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const STOP: c_int = 5;
    // SAFETY: the argument of `_Unwind_Backtrace` below, and the context that it made.
    let goes_on = unsafe {
        let search = &mut *search.cast::<Search<'_>>();
        search.visit(_Unwind_GetCFA(context), _Unwind_GetIP(context))
    };
    if goes_on { GO_ON } else { STOP }
}

/// Whether the call of ours that has a variable at `at`, on this thread's stack above the present call's, is under way: what is
/// there is a function of this library. `present` is a variable of the function that the present call began with; without, the
/// two calls have functions of others between them. If that cannot be told, it is under way.
#[cold]
pub fn is_under_way(at: usize, present: Option<usize>) -> bool {
    static OWN: OnceLock<Option<Range<usize>>> = OnceLock::new();
    let code = is_under_way as fn(usize, Option<usize>) -> bool as usize;
    let Some(own) = OWN.get_or_init(|| mapping_of(code)) else {
        return true;
    };
    let mut search = Search {
        at,
        present,
        own,
        is_own: true,
        is_past: false,
        found: None,
    };
    // SAFETY: `visit` is called during this call only, with the search as its argument.
    unsafe { _Unwind_Backtrace(visit, (&raw mut search).cast()) };
    search.found.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions from the innermost on: where their stacks begin and what they run.
    const FUNCTIONS: [(usize, usize); 7] = [
        (16, 1500),
        (32, 1600),
        (64, 500),
        (96, 1700),
        (112, 1750),
        (128, 300),
        (160, 1800),
    ];

    fn found(at: usize, present: Option<usize>) -> Option<bool> {
        let mut search = Search {
            at,
            present,
            own: &(1000..2000),
            is_own: true,
            is_past: false,
            found: None,
        };
        let mut functions = FUNCTIONS.into_iter();
        functions.all(|(bottom, code)| search.visit(bottom, code));
        search.found
    }

    #[test]
    fn a_call_is_under_way_if_others_were_called_since() {
        assert_eq!(found(100, None), Some(true));
        assert_eq!(found(96, None), Some(true));
        // The present call, others, and what is not known.
        assert_eq!(found(40, None), Some(false));
        assert_eq!(found(70, None), Some(false));
        assert_eq!(found(200, None), None);
    }

    #[test]
    fn a_call_is_under_way_if_the_present_one_is_a_part_of_it() {
        // With nothing in between, as after a call that ends another function.
        assert_eq!(found(120, Some(100)), Some(true));
        assert_eq!(found(100, Some(40)), Some(true));
        assert_eq!(found(110, Some(100)), Some(false));
        assert_eq!(found(140, Some(100)), Some(false));
    }

    #[test]
    fn the_present_call_is_no_other() {
        let value = 0u8;
        let at = std::hint::black_box(std::ptr::from_ref(&value)).addr();
        assert!(!is_under_way(at, None) && !is_under_way(at, Some(at)));
    }
}
