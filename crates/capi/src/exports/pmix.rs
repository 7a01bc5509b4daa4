//! `PMIx_Init`, by which hosts reach their launcher inside `MPI_Init`; others' calls are passed on.

use crate::presence::pmix::initialise;
use libc::{c_int, c_void};

macro_rules! init {
    ($($name:ident $prefix:literal;)*) => {$(
        /// As PMIx defines it.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            process: *mut c_void,
            info: *const c_void,
            count: usize,
        ) -> c_int {
            // SAFETY: the caller's arguments.
            unsafe { initialise($prefix, process, info, count) }
        }
    )*};
}

init! {
    PMIx_Init "";
    // The copy that comes with Open MPI 4.
    OPAL_MCA_PMIX3X_PMIx_Init "OPAL_MCA_PMIX3X_";
}
