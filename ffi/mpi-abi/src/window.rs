//! Integers of one-sided communication in each interface, from the projects' own `mpi.h`.

use crate::AbiKind;
use libc::c_int;

/// Error classes of one-sided communication (MPI 4.1, section 12.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct WindowErrors {
    pub win: c_int,
    pub group: c_int,
    pub base: c_int,
    pub size: c_int,
    pub disp: c_int,
    pub locktype: c_int,
    pub assert: c_int,
    pub rma_conflict: c_int,
    pub rma_sync: c_int,
    pub rma_range: c_int,
    pub rma_attach: c_int,
    pub rma_shared: c_int,
    pub rma_flavor: c_int,
}

/// What one-sided communication has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConstants {
    /// `MPI_LOCK_EXCLUSIVE`.
    pub lock_exclusive: c_int,
    /// `MPI_LOCK_SHARED`.
    pub lock_shared: c_int,
    /// `MPI_MODE_NOCHECK`.
    pub nocheck: c_int,
    /// `MPI_MODE_NOSTORE`.
    pub nostore: c_int,
    /// `MPI_MODE_NOPUT`.
    pub noput: c_int,
    /// `MPI_MODE_NOPRECEDE`.
    pub noprecede: c_int,
    /// `MPI_MODE_NOSUCCEED`.
    pub nosucceed: c_int,
    /// `MPI_WIN_FLAVOR_CREATE`, `_ALLOCATE`, `_DYNAMIC`, `_SHARED`.
    pub flavors: [c_int; 4],
    /// `MPI_WIN_UNIFIED`.
    pub unified: c_int,
    /// `MPI_WIN_BASE`, a key.
    pub base: c_int,
    /// `MPI_WIN_SIZE`, a key.
    pub size: c_int,
    /// `MPI_WIN_DISP_UNIT`, a key.
    pub disp_unit: c_int,
    /// `MPI_WIN_CREATE_FLAVOR`, a key.
    pub create_flavor: c_int,
    /// `MPI_WIN_MODEL`, a key.
    pub model: c_int,
    /// `MPI_ERR_*`.
    pub errors: WindowErrors,
}

impl WindowConstants {
    /// Those of `kind`.
    pub const fn of(kind: AbiKind) -> &'static Self {
        match kind {
            AbiKind::OpenMpi => &OPEN_MPI,
            AbiKind::Mpich => &MPICH,
            AbiKind::Standard => &STANDARD,
        }
    }
}

/// Open MPI 4 and 5, `ompi/include/mpi.h.in`.
const OPEN_MPI: WindowConstants = WindowConstants {
    lock_exclusive: 1,
    lock_shared: 2,
    nocheck: 1,
    noprecede: 2,
    noput: 4,
    nostore: 8,
    nosucceed: 16,
    flavors: [1, 2, 3, 4],
    unified: 0,
    base: 7,
    size: 8,
    disp_unit: 9,
    create_flavor: 10,
    model: 11,
    errors: WindowErrors {
        win: 53,
        group: 9,
        base: 24,
        size: 49,
        disp: 26,
        locktype: 37,
        assert: 22,
        rma_conflict: 46,
        rma_sync: 47,
        rma_range: 68,
        rma_attach: 69,
        rma_flavor: 70,
        rma_shared: 71,
    },
};

/// MPICH 3 to 5, `src/include/mpi.h.in`. The keys are those that C programs pass.
const MPICH: WindowConstants = WindowConstants {
    lock_exclusive: 234,
    lock_shared: 235,
    nocheck: 1024,
    nostore: 2048,
    noput: 4096,
    noprecede: 8192,
    nosucceed: 16384,
    flavors: [1, 2, 3, 4],
    unified: 2,
    base: 0x6600_0001,
    size: 0x6600_0003,
    disp_unit: 0x6600_0005,
    create_flavor: 0x6600_0007,
    model: 0x6600_0009,
    errors: WindowErrors {
        win: 45,
        group: 8,
        base: 46,
        size: 51,
        disp: 52,
        locktype: 47,
        assert: 53,
        rma_conflict: 49,
        rma_sync: 50,
        rma_range: 55,
        rma_attach: 56,
        rma_shared: 57,
        rma_flavor: 58,
    },
};

/// MPI 5.0, appendix A.
const STANDARD: WindowConstants = WindowConstants {
    lock_exclusive: 301,
    lock_shared: 302,
    nocheck: 1024,
    noprecede: 2048,
    noput: 4096,
    nostore: 8192,
    nosucceed: 16384,
    flavors: [311, 312, 313, 314],
    unified: 321,
    base: 601,
    disp_unit: 602,
    size: 603,
    create_flavor: 604,
    model: 605,
    errors: WindowErrors {
        win: 56,
        group: 9,
        base: 24,
        size: 52,
        disp: 26,
        locktype: 37,
        assert: 22,
        rma_attach: 46,
        rma_conflict: 47,
        rma_range: 48,
        rma_shared: 49,
        rma_sync: 50,
        rma_flavor: 57,
    },
};
