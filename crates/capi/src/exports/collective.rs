//! Collectives called from C.

use crate::collective::{self, Allgather, Alltoall, Args, Barrier, Bcast, Buffer, Gather, Scatter};
use crate::next::{MISSING, Next, call_next};
use crate::panic_guard::guard;
use libc::{c_int, c_void};

/// Defines `MPI_*` functions: their arguments, and what these are to which collective.
macro_rules! entries {
    ($($name:ident($($arg:ident: $ty:ty),*) is $kind:ty: $args:expr;)*) => {$(
        /// As the standard defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            static NEXT: Next = Next::new(stringify!($name));
            let args: Args = $args;
            guard(Some(args.comm), || {
                let forward = || call_next!(NEXT, ($($arg => $ty),*) -> c_int, else MISSING);
                // SAFETY: the program called the function with these arguments.
                unsafe { collective::run::<$kind>(args, forward) }
            })
        }
    )*};
}

entries! {
    MPI_Barrier(comm: usize) is Barrier: Args { comm, ..Args::NONE };

    MPI_Bcast(
        buffer: *mut c_void, count: c_int, datatype: usize, root: c_int, comm: usize
    ) is Bcast: Args {
        recv: Buffer::new(buffer, count, datatype),
        root,
        comm,
        ..Args::NONE
    };

    MPI_Gather(
        send: *const c_void, send_count: c_int, send_type: usize,
        recv: *mut c_void, recv_count: c_int, recv_type: usize, root: c_int, comm: usize
    ) is Gather: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        root,
        comm,
    };

    MPI_Scatter(
        send: *const c_void, send_count: c_int, send_type: usize,
        recv: *mut c_void, recv_count: c_int, recv_type: usize, root: c_int, comm: usize
    ) is Scatter: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        root,
        comm,
    };

    MPI_Allgather(
        send: *const c_void, send_count: c_int, send_type: usize,
        recv: *mut c_void, recv_count: c_int, recv_type: usize, comm: usize
    ) is Allgather: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        comm,
        ..Args::NONE
    };

    MPI_Alltoall(
        send: *const c_void, send_count: c_int, send_type: usize,
        recv: *mut c_void, recv_count: c_int, recv_type: usize, comm: usize
    ) is Alltoall: Args {
        send: Buffer::new(send, send_count, send_type),
        recv: Buffer::new(recv, recv_count, recv_type),
        comm,
        ..Args::NONE
    };
}
