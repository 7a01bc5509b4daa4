//! `MPI_Init` and `MPI_Init_thread` (MPI 4.1, section 11.2.1): the host's, between our two halves. And
//! `MPI_Session_init` (section 11.3.1).

use super::export;
use crate::lifetime::initialise;
use crate::next::MISSING;
use crate::panic_guard::around;
use crate::presence;
use libc::{c_char, c_int, c_void};

type Argc = *mut c_int;
type Argv = *mut *mut *mut c_char;

export!(MPI_Init(argc: Argc, argv: Argv), else MISSING, |forward| {
    initialise(forward)
});

export!(
    MPI_Init_thread(argc: Argc, argv: Argv, required: c_int, provided: *mut c_int),
    else MISSING,
    |forward| initialise(forward)
);

export!(
    MPI_Session_init(info: usize, errhandler: usize, session: *mut c_void),
    else UNAVAILABLE,
    |forward| around(None, presence::session_begins, forward, |(), code| code)
);

/// mpi4py's own code for functions that a library lacks, as it would have it without ferrorail.
const UNAVAILABLE: c_int = 0xaaaa_aaaa_u32 as c_int;
