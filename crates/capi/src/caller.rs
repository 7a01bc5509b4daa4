//! Whose calls of `PMPI_*` are taken: those of the program, its tools and the Fortran bindings, not
//! those that the MPI library makes by itself.
//!
//! MPICH's part for files makes collective calls and windows of its own through `PMPI_*`. To take
//! them would cost a team for each file, and wait here while that code holds the library's lock.

use ferrorail_base::sync::{AtomicUsize, Ordering};
use std::ops::Range;

/// First byte of the MPI library's code.
pub static START: AtomicUsize = AtomicUsize::new(0);

/// Its length; 0 while it is not known.
pub static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Passes on what is called from `library`, the mapping of the MPI library.
pub fn leave_alone(library: &Range<usize>) {
    START.store(library.start, Ordering::Relaxed);
    LENGTH.store(library.len(), Ordering::Release);
}

/// Defines the symbol `$name`: calls from within the MPI library go to `$passed`, others to `$taken`,
/// with all arguments as they are.
macro_rules! by_caller {
    ($name:expr, $taken:ident, $passed:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(export_name = $name)]
        #[unsafe(naked)]
        unsafe extern "C" fn by_caller() {
            // The return address is on top of the stack; rax carries no argument.
            std::arch::naked_asm!(
                "mov rax, [rsp]",
                "sub rax, [rip + {start}]",
                "cmp rax, [rip + {length}]",
                "jb {passed}",
                "jmp {taken}",
                start = sym $crate::caller::START,
                length = sym $crate::caller::LENGTH,
                passed = sym $passed,
                taken = sym $taken,
            )
        }
        #[cfg(target_arch = "aarch64")]
        #[unsafe(export_name = $name)]
        #[unsafe(naked)]
        unsafe extern "C" fn by_caller() {
            // The return address is in x30; x16 and x17 carry no argument.
            std::arch::naked_asm!(
                "adrp x16, {start}",
                "ldr x16, [x16, :lo12:{start}]",
                "sub x17, x30, x16",
                "adrp x16, {length}",
                "ldr x16, [x16, :lo12:{length}]",
                "cmp x17, x16",
                "b.lo 2f",
                "b {taken}",
                "2: b {passed}",
                start = sym $crate::caller::START,
                length = sym $crate::caller::LENGTH,
                passed = sym $passed,
                taken = sym $taken,
            )
        }
    };
}
pub(super) use by_caller;
