//! Collectives called from C.

use crate::allgather::{self, Args};
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use libc::{c_int, c_void};

/// `MPI_Allgather`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Allgather(
    send: *const c_void,
    send_count: c_int,
    send_type: usize,
    recv: *mut c_void,
    recv_count: c_int,
    recv_type: usize,
    comm: usize,
) -> c_int {
    static NEXT: Next = Next::new("MPI_Allgather");
    let args = Args {
        send,
        send_count,
        send_type,
        recv,
        recv_count,
        recv_type,
        comm,
    };
    guard(Some(comm), || {
        let forward = || {
            call_next!(
                NEXT,
                (
                    send => *const c_void, send_count => c_int, send_type => usize,
                    recv => *mut c_void, recv_count => c_int, recv_type => usize, comm => usize
                ) -> c_int,
                else MISSING
            )
        };
        // SAFETY: the program called MPI_Allgather with these arguments.
        unsafe { allgather::run(args, forward) }
    })
}
