//! Fortran entry points, in the four spellings that compilers make of a name.
//!
//! Open MPI's own call `PMPI_*`, so calls must be taken here; MPICH's call `MPI_*`, so they are
//! taken in C and only passed on here. What is not accelerated goes to the next library's routine
//! of the same spelling, which understands its own sentinels. `mpi_f08` passes handles as structures
//! of one integer by address, like `mpif.h` does integers; its `ierror` may be absent (null).

use crate::allgather::{self, Args};
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use crate::runtime::after_init;
use libc::{c_int, c_void};

type Int = *const c_int;
type Error = *mut c_int;

/// Addresses as Fortran passes them.
#[derive(Clone, Copy)]
struct Addresses {
    send: *const c_void,
    send_count: Int,
    send_type: Int,
    recv: *mut c_void,
    recv_count: Int,
    recv_type: Int,
    comm: Int,
}

/// Calls the next routine and returns its error code.
///
/// # Safety
/// `next` is a Fortran all-gather; the addresses are a Fortran program's.
unsafe fn forward(next: &Next, at: Addresses) -> c_int {
    let mut error = 0;
    let to: Error = &mut error;
    call_next!(
        next,
        (
            at.send => *const c_void, at.send_count => Int, at.send_type => Int,
            at.recv => *mut c_void, at.recv_count => Int, at.recv_type => Int,
            at.comm => Int, to => Error
        ) -> (),
        else error = MISSING
    );
    error
}

/// # Safety
/// The addresses are a Fortran program's.
unsafe fn allgather(next: &Next, at: Addresses, error: Error) {
    let code = guard(None, || {
        // SAFETY: Fortran passes valid addresses of integers.
        let args = unsafe {
            Args {
                send: at.send,
                send_count: *at.send_count,
                send_type: *at.send_type as usize,
                recv: at.recv,
                recv_count: *at.recv_count,
                recv_type: *at.recv_type as usize,
                comm: *at.comm as usize,
            }
        };
        // SAFETY: the arguments are those of the program's call.
        unsafe {
            match allgather::from_fortran(args) {
                Some(args) => allgather::run(args, || forward(next, at)),
                None => forward(next, at),
            }
        }
    });
    if !error.is_null() {
        // SAFETY: present, hence the address of an integer.
        unsafe { *error = code };
    }
}

macro_rules! allgathers {
    ($($name:ident)*) => {$(
        /// All-gather called from Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name(
            send: *const c_void, send_count: Int, send_type: Int,
            recv: *mut c_void, recv_count: Int, recv_type: Int,
            comm: Int, error: Error,
        ) {
            static NEXT: Next = Next::new(stringify!($name));
            let at = Addresses { send, send_count, send_type, recv, recv_count, recv_type, comm };
            // SAFETY: the program's own arguments.
            unsafe { allgather(&NEXT, at, error) }
        }
    )*};
}

allgathers! { mpi_allgather mpi_allgather_ mpi_allgather__ MPI_ALLGATHER mpi_allgather_f08_ }

macro_rules! inits {
    ($($name:ident)*) => {$(
        /// Start of MPI called from Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name(error: Error) {
            static NEXT: Next = Next::new(stringify!($name));
            guard(None, || {
                call_next!(NEXT, (error => Error) -> (), else return MISSING);
                after_init();
                0
            });
        }
    )*};
}

inits! { mpi_init mpi_init_ mpi_init__ MPI_INIT mpi_init_f08_ }

macro_rules! thread_inits {
    ($($name:ident)*) => {$(
        /// Start of MPI with threads called from Fortran.
        ///
        /// # Safety
        /// As in Fortran.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "one spelling of many")]
        pub unsafe extern "C" fn $name(required: Int, provided: Error, error: Error) {
            static NEXT: Next = Next::new(stringify!($name));
            guard(None, || {
                call_next!(
                    NEXT,
                    (required => Int, provided => Error, error => Error) -> (),
                    else return MISSING
                );
                after_init();
                0
            });
        }
    )*};
}

thread_inits! {
    mpi_init_thread mpi_init_thread_ mpi_init_thread__ MPI_INIT_THREAD mpi_init_thread_f08_
}
