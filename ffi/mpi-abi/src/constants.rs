//! Integers and sentinels of each interface, from the projects' own `mpi.h`: Open MPI 4 and 5
//! (`ompi/include/mpi.h.in`), MPICH 3 to 5 (`src/include/mpi.h.in`), and MPI 5.0 (appendix A).

use crate::AbiKind;
use libc::c_int;

/// Defines a structure of constants: each with its values in Open MPI, in MPICH, and in MPI 5.0.
macro_rules! constants {
    (
        $(#[$about:meta])*
        $table:ident {
            $($(#[$doc:meta])* $name:ident: $ty:ty = $open_mpi:expr, $mpich:expr, $standard:expr;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $table {
            $($(#[$doc])* pub $name: $ty,)*
        }

        impl $table {
            const OPEN_MPI: Self = Self { $($name: $open_mpi,)* };
            const MPICH: Self = Self { $($name: $mpich,)* };
            const STANDARD: Self = Self { $($name: $standard,)* };

            /// Those of `kind`.
            pub const fn of(kind: AbiKind) -> &'static Self {
                match kind {
                    AbiKind::OpenMpi => &Self::OPEN_MPI,
                    AbiKind::Mpich => &Self::MPICH,
                    AbiKind::Standard => &Self::STANDARD,
                }
            }
        }
    };
}

/// `MPI_SUCCESS`, 0 in every library (MPI 4.1, section 9.5).
pub const SUCCESS: c_int = 0;

constants! {
    /// `MPI_ERR_*` (MPI 4.1, section 9.4).
    #[expect(missing_docs, reason = "the names are the standard's")]
    ErrorClasses {
        buffer: c_int = 1, 1, 1;
        count: c_int = 2, 2, 2;
        datatype: c_int = 3, 3, 3;
        rank: c_int = 6, 6, 6;
        op: c_int = 10, 9, 10;
        arg: c_int = 13, 12, 13;
        unknown: c_int = 14, 13, 14;
        truncate: c_int = 15, 14, 15;
        other: c_int = 16, 15, 16;
        intern: c_int = 17, 16, 17;
        no_mem: c_int = 39, 34, 39;
    }
}

constants! {
    /// What a program's compiler took from the library's `mpi.h`.
    Constants {
        /// `MPI_IN_PLACE`, an address.
        in_place: usize = 1, usize::MAX, 1;
        /// `MPI_STATUS_IGNORE`, an address.
        status_ignore: usize = 0, 1, 0;
        /// `MPI_STATUSES_IGNORE`, an address.
        statuses_ignore: usize = 0, 1, 0;
        /// `MPI_ANY_SOURCE`.
        any_source: c_int = -1, -2, -1;
        /// `MPI_PROC_NULL`.
        proc_null: c_int = -2, -1, -3;
        /// `MPI_ROOT`.
        root: c_int = -4, -3, -4;
        /// `MPI_CART`, `MPI_GRAPH`, `MPI_DIST_GRAPH`.
        topologies: [c_int; 3] = [1, 2, 3], [2, 1, 3], [211, 212, 213];
        /// `MPI_UNDEFINED`.
        undefined: c_int = -32766, -32766, -32766;
        /// `MPI_IDENT` and `MPI_CONGRUENT`.
        same_ranks: [c_int; 2] = [0, 1], [0, 1], [201, 202];
        /// `MPI_KEYVAL_INVALID`.
        keyval_invalid: c_int = -1, 0x2400_0000, 0;
        /// `MPI_TAG_UB`, a key.
        tag_ub: c_int = 0, 0x6440_0001, 501;
        /// `MPI_ORDER_C`.
        order_c: c_int = 0, 56, 12;
        /// `MPI_DISTRIBUTE_BLOCK`, `_CYCLIC`, `_NONE`.
        distributions: [c_int; 3] = [0, 1, 2], [121, 122, 123], [17, 18, 16];
        /// `MPI_DISTRIBUTE_DFLT_DARG`.
        default_length: c_int = -1, -49767, 19;
        /// `MPI_THREAD_SERIALIZED`.
        thread_serialized: c_int = 2, 2, 2048;
        /// `MPI_THREAD_MULTIPLE`.
        thread_multiple: c_int = 3, 3, 4096;
        /// `MPI_ERR_*`.
        errors: ErrorClasses =
            ErrorClasses::OPEN_MPI, ErrorClasses::MPICH, ErrorClasses::STANDARD;
    }
}

constants! {
    /// Error classes of one-sided communication (MPI 4.1, section 12.7.1).
    #[expect(missing_docs, reason = "the names are the standard's")]
    WindowErrors {
        group: c_int = 9, 8, 9;
        size: c_int = 49, 51, 52;
        disp: c_int = 26, 52, 26;
        locktype: c_int = 37, 47, 37;
        assert: c_int = 22, 53, 22;
        rma_sync: c_int = 47, 50, 50;
        rma_range: c_int = 68, 55, 48;
        rma_attach: c_int = 69, 56, 46;
        rma_flavor: c_int = 70, 58, 57;
    }
}

constants! {
    /// What one-sided communication has of its own. Keys are those that C programs pass.
    WindowConstants {
        /// `MPI_LOCK_EXCLUSIVE`.
        lock_exclusive: c_int = 1, 234, 301;
        /// `MPI_LOCK_SHARED`.
        lock_shared: c_int = 2, 235, 302;
        /// `MPI_MODE_NOCHECK`.
        nocheck: c_int = 1, 1024, 1024;
        /// `MPI_MODE_NOSTORE`.
        nostore: c_int = 8, 2048, 8192;
        /// `MPI_MODE_NOPUT`.
        noput: c_int = 4, 4096, 4096;
        /// `MPI_MODE_NOPRECEDE`.
        noprecede: c_int = 2, 8192, 2048;
        /// `MPI_MODE_NOSUCCEED`.
        nosucceed: c_int = 16, 16384, 16384;
        /// `MPI_WIN_FLAVOR_CREATE`, `_ALLOCATE`, `_DYNAMIC`, `_SHARED`.
        flavors: [c_int; 4] = [1, 2, 3, 4], [1, 2, 3, 4], [311, 312, 313, 314];
        /// `MPI_WIN_UNIFIED`.
        unified: c_int = 0, 2, 321;
        /// `MPI_WIN_BASE`, a key.
        base: c_int = 7, 0x6600_0001, 601;
        /// `MPI_WIN_SIZE`, a key.
        size: c_int = 8, 0x6600_0003, 603;
        /// `MPI_WIN_DISP_UNIT`, a key.
        disp_unit: c_int = 9, 0x6600_0005, 602;
        /// `MPI_WIN_CREATE_FLAVOR`, a key.
        create_flavor: c_int = 10, 0x6600_0007, 604;
        /// `MPI_WIN_MODEL`, a key.
        model: c_int = 11, 0x6600_0009, 605;
        /// `MPI_ERR_*`.
        errors: WindowErrors =
            WindowErrors::OPEN_MPI, WindowErrors::MPICH, WindowErrors::STANDARD;
    }
}
