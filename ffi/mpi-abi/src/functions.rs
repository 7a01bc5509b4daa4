//! The host's entry points. Every handle is a `usize`, every `MPI_Aint` an `isize`, every
//! `MPI_Count` an `i64`.

use crate::library::Library;
use crate::{Comm, Datatype, Group, Info, Op, Request, Win};
use libc::{c_char, c_double, c_int, c_void};

/// `MPI_Comm_copy_attr_function`, `MPI_Type_copy_attr_function`.
pub type CopyFn = unsafe extern "C" fn(
    handle: usize,
    keyval: c_int,
    extra: *mut c_void,
    value_in: *mut c_void,
    value_out: *mut c_void,
    flag: *mut c_int,
) -> c_int;

/// `MPI_Comm_delete_attr_function`, `MPI_Type_delete_attr_function`.
pub type DeleteFn = unsafe extern "C" fn(
    handle: usize,
    keyval: c_int,
    value: *mut c_void,
    extra: *mut c_void,
) -> c_int;

/// `MPI_Grequest_query_function`.
pub type RequestQueryFn = unsafe extern "C" fn(extra: *mut c_void, status: *mut c_void) -> c_int;

/// `MPI_Grequest_free_function`.
pub type RequestFreeFn = unsafe extern "C" fn(extra: *mut c_void) -> c_int;

/// `MPI_Grequest_cancel_function`.
pub type RequestCancelFn = unsafe extern "C" fn(extra: *mut c_void, complete: c_int) -> c_int;

macro_rules! functions {
    (
        required { $($name:ident = $symbol:literal ($($arg:ty),*) $(-> $ret:ty)?;)* }
        optional { $($opt:ident = $opt_symbol:literal ($($opt_arg:ty),*);)* }
    ) => {
        /// Entry points of the host MPI (MPI 4.1), named as there without `PMPI_`. Those that are
        /// `None` are not in every supported library. Error handlers of the program run in them, and may throw.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "the names are the standard's")]
        pub struct Functions {
            $(pub $name: unsafe extern "C-unwind" fn($($arg),*) $(-> $ret)?,)*
            $(pub $opt: Option<unsafe extern "C-unwind" fn($($opt_arg),*) -> c_int>,)*
        }

        impl Functions {
            /// Looks all of them up.
            ///
            /// # Errors
            /// The name of the first required one that is missing.
            pub(crate) fn load(library: &Library) -> Result<Self, &'static str> {
                // SAFETY: the standard defines these signatures for these names; handles travel as
                // register values.
                Ok(unsafe {
                    Self {
                        $($name: library.function_as($symbol).ok_or($symbol)?,)*
                        $($opt: library.function_as($opt_symbol),)*
                    }
                })
            }
        }
    };
}

type In = *const c_void;
type Out = *mut c_void;
type Ints = *const c_int;
type Flag = *mut c_int;

functions! {
    required {
        // Start and end.
        init = "PMPI_Init" (*mut c_int, *mut *mut *mut c_char) -> c_int;
        init_thread = "PMPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, Flag) -> c_int;
        query_thread = "PMPI_Query_thread" (Flag) -> c_int;
        initialized = "PMPI_Initialized" (Flag) -> c_int;
        finalized = "PMPI_Finalized" (Flag) -> c_int;
        finalize = "PMPI_Finalize" () -> c_int;
        abort = "PMPI_Abort" (Comm, c_int) -> c_int;
        wtime = "PMPI_Wtime" () -> c_double;
        // Communicators.
        comm_rank = "PMPI_Comm_rank" (Comm, Flag) -> c_int;
        comm_size = "PMPI_Comm_size" (Comm, Flag) -> c_int;
        comm_split = "PMPI_Comm_split" (Comm, c_int, c_int, *mut Comm) -> c_int;
        comm_free = "PMPI_Comm_free" (*mut Comm) -> c_int;
        comm_compare = "PMPI_Comm_compare" (Comm, Comm, Flag) -> c_int;
        comm_remote_size = "PMPI_Comm_remote_size" (Comm, Flag) -> c_int;
        comm_group = "PMPI_Comm_group" (Comm, *mut Group) -> c_int;
        comm_test_inter = "PMPI_Comm_test_inter" (Comm, Flag) -> c_int;
        comm_get_attr = "PMPI_Comm_get_attr" (Comm, c_int, Out, Flag) -> c_int;
        comm_set_attr = "PMPI_Comm_set_attr" (Comm, c_int, Out) -> c_int;
        comm_delete_attr = "PMPI_Comm_delete_attr" (Comm, c_int) -> c_int;
        comm_create_keyval = "PMPI_Comm_create_keyval"
            (CopyFn, DeleteFn, *mut c_int, Out) -> c_int;
        comm_set_errhandler = "PMPI_Comm_set_errhandler" (Comm, usize) -> c_int;
        comm_get_errhandler = "PMPI_Comm_get_errhandler" (Comm, *mut usize) -> c_int;
        errhandler_free = "PMPI_Errhandler_free" (*mut usize) -> c_int;
        comm_call_errhandler = "PMPI_Comm_call_errhandler" (Comm, c_int) -> c_int;
        error_class = "PMPI_Error_class" (c_int, *mut c_int) -> c_int;
        // Topologies.
        topo_test = "PMPI_Topo_test" (Comm, *mut c_int) -> c_int;
        cartdim_get = "PMPI_Cartdim_get" (Comm, *mut c_int) -> c_int;
        cart_create = "PMPI_Cart_create"
            (Comm, c_int, *const c_int, *const c_int, c_int, *mut Comm) -> c_int;
        cart_shift = "PMPI_Cart_shift" (Comm, c_int, c_int, *mut c_int, *mut c_int) -> c_int;
        graph_neighbors_count = "PMPI_Graph_neighbors_count" (Comm, c_int, *mut c_int) -> c_int;
        graph_neighbors = "PMPI_Graph_neighbors" (Comm, c_int, c_int, *mut c_int) -> c_int;
        dist_graph_neighbors_count = "PMPI_Dist_graph_neighbors_count"
            (Comm, *mut c_int, *mut c_int, Flag) -> c_int;
        dist_graph_neighbors = "PMPI_Dist_graph_neighbors"
            (Comm, c_int, *mut c_int, *mut c_int, c_int, *mut c_int, *mut c_int) -> c_int;
        // Datatypes.
        type_size = "PMPI_Type_size" (Datatype, *mut c_int) -> c_int;
        type_get_extent = "PMPI_Type_get_extent" (Datatype, *mut isize, *mut isize) -> c_int;
        type_get_true_extent = "PMPI_Type_get_true_extent"
            (Datatype, *mut isize, *mut isize) -> c_int;
        type_get_envelope = "PMPI_Type_get_envelope"
            (Datatype, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
        type_get_contents = "PMPI_Type_get_contents"
            (Datatype, c_int, c_int, c_int, *mut c_int, *mut isize, Out) -> c_int;
        type_dup = "PMPI_Type_dup" (Datatype, *mut Datatype) -> c_int;
        type_free = "PMPI_Type_free" (*mut Datatype) -> c_int;
        type_get_attr = "PMPI_Type_get_attr" (Datatype, c_int, Out, Flag) -> c_int;
        type_set_attr = "PMPI_Type_set_attr" (Datatype, c_int, Out) -> c_int;
        type_create_keyval = "PMPI_Type_create_keyval"
            (CopyFn, DeleteFn, *mut c_int, Out) -> c_int;
        pack = "PMPI_Pack" (In, c_int, Datatype, Out, c_int, *mut c_int, Comm) -> c_int;
        unpack = "PMPI_Unpack" (In, c_int, *mut c_int, Out, c_int, Datatype, Comm) -> c_int;
        // Collectives.
        barrier = "PMPI_Barrier" (Comm) -> c_int;
        allgather = "PMPI_Allgather" (In, c_int, Datatype, Out, c_int, Datatype, Comm) -> c_int;
        allgatherv = "PMPI_Allgatherv"
            (In, c_int, Datatype, Out, Ints, Ints, Datatype, Comm) -> c_int;
        allreduce = "PMPI_Allreduce" (In, Out, c_int, Datatype, Op, Comm) -> c_int;
        op_commutative = "PMPI_Op_commutative" (Op, *mut c_int) -> c_int;
        reduce_local = "PMPI_Reduce_local" (In, Out, c_int, Datatype, Op) -> c_int;
        // Messages. Statuses may be the host's "ignore" sentinels.
        send = "PMPI_Send" (In, c_int, Datatype, c_int, c_int, Comm) -> c_int;
        recv = "PMPI_Recv" (Out, c_int, Datatype, c_int, c_int, Comm, Out) -> c_int;
        isend = "PMPI_Isend" (In, c_int, Datatype, c_int, c_int, Comm, Out) -> c_int;
        irecv = "PMPI_Irecv" (Out, c_int, Datatype, c_int, c_int, Comm, Out) -> c_int;
        recv_init = "PMPI_Recv_init" (Out, c_int, Datatype, c_int, c_int, Comm, Out) -> c_int;
        test = "PMPI_Test" (*mut Request, Flag, Out) -> c_int;
        testall = "PMPI_Testall" (c_int, Out, Flag, Out) -> c_int;
        testany = "PMPI_Testany" (c_int, Out, Flag, Flag, Out) -> c_int;
        testsome = "PMPI_Testsome" (c_int, Out, Flag, Out, Out) -> c_int;
        waitall = "PMPI_Waitall" (c_int, Out, Out) -> c_int;
        cancel = "PMPI_Cancel" (Out) -> c_int;
        request_free = "PMPI_Request_free" (Out) -> c_int;
        request_get_status = "PMPI_Request_get_status" (Request, Flag, Out) -> c_int;
        iprobe = "PMPI_Iprobe" (c_int, c_int, Comm, Flag, Out) -> c_int;
        grequest_start = "PMPI_Grequest_start"
            (RequestQueryFn, RequestFreeFn, RequestCancelFn, Out, Out) -> c_int;
        grequest_complete = "PMPI_Grequest_complete" (Request) -> c_int;
        status_set_elements = "PMPI_Status_set_elements" (Out, Datatype, c_int) -> c_int;
        status_set_cancelled = "PMPI_Status_set_cancelled" (Out, c_int) -> c_int;
        // Windows and groups.
        win_create_dynamic = "PMPI_Win_create_dynamic" (Info, Comm, *mut Win) -> c_int;
        win_allocate = "PMPI_Win_allocate" (isize, c_int, Info, Comm, Out, *mut Win) -> c_int;
        win_allocate_shared = "PMPI_Win_allocate_shared"
            (isize, c_int, Info, Comm, Out, *mut Win) -> c_int;
        win_call_errhandler = "PMPI_Win_call_errhandler" (Win, c_int) -> c_int;
        win_get_group = "PMPI_Win_get_group" (Win, *mut Group) -> c_int;
        group_size = "PMPI_Group_size" (Group, Flag) -> c_int;
        group_translate_ranks = "PMPI_Group_translate_ranks"
            (Group, c_int, Ints, Group, *mut c_int) -> c_int;
        group_free = "PMPI_Group_free" (*mut Group) -> c_int;
        info_get_nkeys = "PMPI_Info_get_nkeys" (Info, *mut c_int) -> c_int;
        info_get_nthkey = "PMPI_Info_get_nthkey" (Info, c_int, *mut c_char) -> c_int;
        info_set = "PMPI_Info_set" (Info, *const c_char, *const c_char) -> c_int;
        info_get = "PMPI_Info_get" (Info, *const c_char, c_int, *mut c_char, Flag) -> c_int;
    }
    optional {
        // MPI 3.0; superseded by the `_c` forms, which older libraries lack.
        type_size_x = "PMPI_Type_size_x" (Datatype, *mut i64);
        // MPI 3.0, section 5.12.
        ibarrier = "PMPI_Ibarrier" (Comm, Out);
        iallgather = "PMPI_Iallgather" (In, c_int, Datatype, Out, c_int, Datatype, Comm, Out);
        iallgatherv = "PMPI_Iallgatherv"
            (In, c_int, Datatype, Out, Ints, Ints, Datatype, Comm, Out);
        iallreduce = "PMPI_Iallreduce" (In, Out, c_int, Datatype, Op, Comm, Out);
        // MPI 4.0, sections 5.1.13 and 5.2.
        type_get_envelope_c = "PMPI_Type_get_envelope_c"
            (Datatype, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int);
        type_get_contents_c = "PMPI_Type_get_contents_c"
            (Datatype, i64, i64, i64, i64, *mut c_int, *mut isize, *mut i64, Out);
        pack_c = "PMPI_Pack_c" (In, i64, Datatype, Out, i64, *mut i64, Comm);
        unpack_c = "PMPI_Unpack_c" (In, i64, *mut i64, Out, i64, Datatype, Comm);
    }
}

/// Open MPI's conversion of a window's handle in Fortran; a macro or absent elsewhere.
pub(crate) type WindowFromFortran = unsafe extern "C" fn(c_int) -> Win;

/// Looks [`WindowFromFortran`] up.
pub(crate) fn window_from_fortran(library: &Library) -> Option<WindowFromFortran> {
    // SAFETY: MPI 4.1, section 19.3.4, defines this signature; MPI_Fint is `int`.
    unsafe { library.function_as("PMPI_Win_f2c") }
}
