//! Integers, sentinels and layouts of each interface, from the projects' own `mpi.h`.

use crate::AbiKind;
use libc::c_int;

/// Where `MPI_Status` keeps its public fields, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLayout {
    /// Size of the structure.
    pub bytes: usize,
    /// Offset of `MPI_SOURCE`.
    pub source: usize,
    /// Offset of `MPI_TAG`.
    pub tag: usize,
    /// Offset of `MPI_ERROR`.
    pub error: usize,
}

/// `MPI_ERR_*` (MPI 4.1, section 9.4). `MPI_SUCCESS` is 0 everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub struct ErrorClasses {
    pub buffer: c_int,
    pub count: c_int,
    pub datatype: c_int,
    pub tag: c_int,
    pub comm: c_int,
    pub rank: c_int,
    pub request: c_int,
    pub root: c_int,
    pub op: c_int,
    pub arg: c_int,
    pub unknown: c_int,
    pub truncate: c_int,
    pub other: c_int,
    pub intern: c_int,
    pub no_mem: c_int,
}

/// What a program's compiler took from the library's `mpi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// `MPI_SUCCESS`.
    pub success: c_int,
    /// `MPI_IN_PLACE`, an address.
    pub in_place: usize,
    /// `MPI_BOTTOM`, an address.
    pub bottom: usize,
    /// `MPI_STATUS_IGNORE`, an address.
    pub status_ignore: usize,
    /// `MPI_STATUSES_IGNORE`, an address.
    pub statuses_ignore: usize,
    /// `MPI_ANY_SOURCE`.
    pub any_source: c_int,
    /// `MPI_ANY_TAG`.
    pub any_tag: c_int,
    /// `MPI_PROC_NULL`.
    pub proc_null: c_int,
    /// `MPI_ROOT`.
    pub root: c_int,
    /// `MPI_CART`, `MPI_GRAPH`, `MPI_DIST_GRAPH`.
    pub topologies: [c_int; 3],
    /// `MPI_UNDEFINED`.
    pub undefined: c_int,
    /// `MPI_IDENT` and `MPI_CONGRUENT`.
    pub same_ranks: [c_int; 2],
    /// `MPI_KEYVAL_INVALID`.
    pub keyval_invalid: c_int,
    /// `MPI_TAG_UB`, a key.
    pub tag_ub: c_int,
    /// `MPI_COMM_TYPE_SHARED`.
    pub comm_type_shared: c_int,
    /// `MPI_ORDER_C`.
    pub order_c: c_int,
    /// `MPI_THREAD_SINGLE`, `_FUNNELED`, `_SERIALIZED`, `_MULTIPLE`.
    pub thread_levels: [c_int; 4],
    /// `MPI_Status`.
    pub status: StatusLayout,
    /// `MPI_ERR_*`.
    pub errors: ErrorClasses,
}

impl Constants {
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
const OPEN_MPI: Constants = Constants {
    success: 0,
    in_place: 1,
    bottom: 0,
    status_ignore: 0,
    statuses_ignore: 0,
    any_source: -1,
    any_tag: -1,
    proc_null: -2,
    root: -4,
    topologies: [1, 2, 3],
    undefined: -32766,
    same_ranks: [0, 1],
    keyval_invalid: -1,
    tag_ub: 0,
    comm_type_shared: 0,
    order_c: 0,
    thread_levels: [0, 1, 2, 3],
    status: StatusLayout {
        bytes: 24,
        source: 0,
        tag: 4,
        error: 8,
    },
    errors: ErrorClasses {
        buffer: 1,
        count: 2,
        datatype: 3,
        tag: 4,
        comm: 5,
        rank: 6,
        request: 7,
        root: 8,
        op: 10,
        arg: 13,
        unknown: 14,
        truncate: 15,
        other: 16,
        intern: 17,
        no_mem: 39,
    },
};

/// MPICH 3 to 5, `src/include/mpi.h.in`.
const MPICH: Constants = Constants {
    success: 0,
    in_place: usize::MAX,
    bottom: 0,
    status_ignore: 1,
    statuses_ignore: 1,
    any_source: -2,
    any_tag: -1,
    proc_null: -1,
    root: -3,
    topologies: [2, 1, 3],
    undefined: -32766,
    same_ranks: [0, 1],
    keyval_invalid: 0x2400_0000,
    tag_ub: 0x6440_0001,
    comm_type_shared: 1,
    order_c: 56,
    thread_levels: [0, 1, 2, 3],
    status: StatusLayout {
        bytes: 20,
        source: 8,
        tag: 12,
        error: 16,
    },
    errors: ErrorClasses {
        buffer: 1,
        count: 2,
        datatype: 3,
        tag: 4,
        comm: 5,
        rank: 6,
        request: 19,
        root: 7,
        op: 9,
        arg: 12,
        unknown: 13,
        truncate: 14,
        other: 15,
        intern: 16,
        no_mem: 34,
    },
};

/// MPI 5.0, appendix A.
const STANDARD: Constants = Constants {
    success: 0,
    in_place: 1,
    bottom: 0,
    status_ignore: 0,
    statuses_ignore: 0,
    any_source: -1,
    any_tag: -2,
    proc_null: -3,
    root: -4,
    topologies: [211, 212, 213],
    undefined: -32766,
    same_ranks: [201, 202],
    keyval_invalid: 0,
    tag_ub: 501,
    comm_type_shared: 221,
    order_c: 12,
    thread_levels: [0, 1024, 2048, 4096],
    status: StatusLayout {
        bytes: 32,
        source: 0,
        tag: 4,
        error: 8,
    },
    errors: ErrorClasses {
        buffer: 1,
        count: 2,
        datatype: 3,
        tag: 4,
        comm: 5,
        rank: 6,
        request: 7,
        root: 8,
        op: 10,
        arg: 13,
        unknown: 14,
        truncate: 15,
        other: 16,
        intern: 17,
        no_mem: 39,
    },
};
