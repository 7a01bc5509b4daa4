//! The symbols that programs find here before they find the MPI library's. `exports.txt` lists
//! them; `cargo xtask exports` compares.
//!
//! Each function has two names: programs call `MPI_*`; tools in front of ferrorail, and the Fortran
//! bindings of the hosts, call `PMPI_*`. Fortran therefore needs no entry of its own, but where no
//! binding passes through C (`fortran.rs`).

mod collective;
mod communicator;
mod fortran;
mod init;
mod narrow;
mod pmix;
mod request;
mod statistics;
mod window;

/// Defines `MPI_*` and `PMPI_*` of one function, through which an exception of the program's error handler may pass. In its
/// body, `$forward` calls the next library's
/// function of the same name; where there is none it is `$missing`.
macro_rules! export {
    ($name:ident ($($arg:ident: $ty:ty),* $(,)?), else $missing:expr, |$forward:ident| $body:expr) => {
        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> libc::c_int {
            static NEXT: $crate::next::Next = $crate::next::Next::new(stringify!($name));
            let $forward = move || {
                $crate::next::call_next!(
                    NEXT, ($($arg => $ty),*) -> libc::c_int, else $missing
                )
            };
            $body
        }
        const _: () = {
            static NEXT: $crate::next::Next =
                $crate::next::Next::new(concat!("P", stringify!($name)));
            unsafe extern "C-unwind" fn taken($($arg: $ty),*) -> libc::c_int {
                let $forward = move || {
                    $crate::next::call_next!(
                        NEXT, ($($arg => $ty),*) -> libc::c_int, else $missing
                    )
                };
                $body
            }
            unsafe extern "C-unwind" fn passed($($arg: $ty),*) -> libc::c_int {
                $crate::next::call_next!(
                    NEXT, ($($arg => $ty),*) -> libc::c_int, else $missing
                )
            }
            $crate::caller::by_caller!(
                concat!("P", stringify!($name)), taken, passed
            );
        };
    };
}
use export;

/// Defines both forms of functions with numbers of elements: in their arguments these are of type `Count`,
/// displacements in arrays of type `Displacement`, displacement units of type `Unit`. Counts are `int`, or `MPI_Count`
/// in names that end in `_c` (MPI 4.0, section 19.2). Where the library has only the first form, that does the work of
/// the second: `$peers` says which ranks arrays have entries for, `$handler` who is told that a number is too large.
macro_rules! export_both {
    ($($name:ident $large:ident $arguments:tt, $peers:expr, $handler:expr,
       |$forward:ident| $body:expr;)*) => {
        mod int {
            use super::*;
            use $crate::exports::narrow::int::*;
            $($crate::exports::export!(
                $name $arguments, else $crate::next::MISSING, |$forward| $body
            );)*
        }
        mod large {
            use super::*;
            use $crate::exports::narrow::large::*;
            $($crate::exports::export!(
                $large $arguments,
                else $crate::exports::narrow::call_narrowed!($name, $arguments, $peers, $handler),
                |$forward| $body
            );)*
        }
    };
}
use export_both;
