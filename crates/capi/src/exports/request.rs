//! Calls on requests: the host's, which go on with non-blocking collectives of ours meanwhile (MPI 4.1, sections 3.7.3
//! to 3.7.6), and begin persistent ones (section 3.9).

use super::export;
use crate::next::MISSING;
use crate::nonblocking::{persistent, wait};
use ferrorail_mpi_abi::Functions;
use libc::{c_int, c_void};

type Out = *mut c_void;

export!(MPI_Wait(request: Out, status: Out), else MISSING, |forward| {
    // SAFETY: the program's arguments.
    unsafe { wait::one(request, forward) }
});

export!(MPI_Waitall(count: c_int, requests: Out, statuses: Out), else MISSING, |forward| {
    // SAFETY: as above.
    unsafe { wait::all(count, requests, forward) }
});

export!(
    MPI_Waitany(count: c_int, requests: Out, index: Out, status: Out),
    else MISSING,
    |forward| {
        let test = |functions: &Functions| {
            let mut flag = 0;
            // SAFETY: as above.
            let code = unsafe {
                (functions.testany)(count, requests, index.cast(), &raw mut flag, status)
            };
            (flag != 0 || code != 0).then_some(code)
        };
        // SAFETY: as above.
        unsafe { wait::any((count, requests), forward, test) }
    }
);

export!(
    MPI_Waitsome(count: c_int, requests: Out, done: Out, indices: Out, statuses: Out),
    else MISSING,
    |forward| {
        let test = |functions: &Functions| {
            // SAFETY: as above; the number of those that are complete is the program's to read.
            let (code, number) = unsafe {
                let code = (functions.testsome)(count, requests, done.cast(), indices, statuses);
                (code, *done.cast::<c_int>())
            };
            (number != 0 || code != 0).then_some(code)
        };
        // SAFETY: as above.
        unsafe { wait::any((count, requests), forward, test) }
    }
);

export!(MPI_Start(request: Out), else MISSING, |forward| {
    // SAFETY: as above.
    unsafe { persistent::start(1, request, forward) }
});

export!(MPI_Startall(count: c_int, requests: Out), else MISSING, |forward| {
    // SAFETY: as above.
    unsafe { persistent::start(count, requests, forward) }
});

export!(MPI_Request_free(request: Out), else MISSING, |forward| {
    // SAFETY: as above.
    unsafe { persistent::free(request, forward) }
});

/// Defines functions that test requests and do not wait.
macro_rules! tests {
    ($($name:ident ($($arg:ident: $ty:ty),*);)*) => {$(
        export!($name($($arg: $ty),*), else MISSING, |forward| wait::test(forward));
    )*};
}

tests! {
    MPI_Test(request: Out, flag: Out, status: Out);
    MPI_Testall(count: c_int, requests: Out, flag: Out, statuses: Out);
    MPI_Testany(count: c_int, requests: Out, index: Out, flag: Out, status: Out);
    MPI_Testsome(count: c_int, requests: Out, done: Out, indices: Out, statuses: Out);
    MPI_Request_get_status(request: usize, flag: Out, status: Out);
    // MPI 4.1.
    MPI_Request_get_status_all(count: c_int, requests: Out, flag: Out, statuses: Out);
    MPI_Request_get_status_any(count: c_int, requests: Out, index: Out, flag: Out, status: Out);
    MPI_Request_get_status_some(count: c_int, requests: Out, done: Out, indices: Out, statuses: Out);
}
