//! The C functions, ours or the host's, behind one way to call them.

use super::operation::{ELEMENT_BYTES, Form, Operation};
use ferrorail_mpi_abi::{Comm, Datatype, Op};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

type In = *const c_void;
type Out = *mut c_void;
type Ints = *const c_int;

/// Prototypes (MPI 4.1, chapter 6); handles are passed as register values.
#[derive(Clone, Copy)]
enum Prototype {
    Barrier(unsafe extern "C" fn(Comm) -> c_int),
    Bcast(unsafe extern "C" fn(Out, c_int, Datatype, c_int, Comm) -> c_int),
    Blocks(unsafe extern "C" fn(In, c_int, Datatype, Out, c_int, Datatype, Comm) -> c_int),
    RootedBlocks(
        unsafe extern "C" fn(In, c_int, Datatype, Out, c_int, Datatype, c_int, Comm) -> c_int,
    ),
    Gatherv(
        unsafe extern "C" fn(In, c_int, Datatype, Out, Ints, Ints, Datatype, c_int, Comm) -> c_int,
    ),
    Scatterv(
        unsafe extern "C" fn(In, Ints, Ints, Datatype, Out, c_int, Datatype, c_int, Comm) -> c_int,
    ),
    Allgatherv(unsafe extern "C" fn(In, c_int, Datatype, Out, Ints, Ints, Datatype, Comm) -> c_int),
    Alltoallv(
        unsafe extern "C" fn(In, Ints, Ints, Datatype, Out, Ints, Ints, Datatype, Comm) -> c_int,
    ),
    Reduce(unsafe extern "C" fn(In, Out, c_int, Datatype, Op, c_int, Comm) -> c_int),
    Fold(unsafe extern "C" fn(In, Out, c_int, Datatype, Op, Comm) -> c_int),
    ReduceScatter(unsafe extern "C" fn(In, Out, Ints, Datatype, Op, Comm) -> c_int),
}

/// One implementation of one operation.
#[derive(Clone, Copy)]
pub struct Function(Prototype);

/// What is passed, buffers apart; one size of one operation.
pub struct Arguments {
    pub comm: Comm,
    pub root: c_int,
    pub byte: Datatype,
    pub int: Datatype,
    pub sum: Op,
    /// Of a block, or the vector, in elements.
    pub count: c_int,
    /// `count` for each rank, and where its block begins.
    counts: Vec<c_int>,
    displacements: Vec<c_int>,
}

impl Arguments {
    /// For blocks, or a vector, of `bytes`; blocks of vector forms lie side by side.
    pub fn new(
        host: &ferrorail_mpi_abi::Host,
        operation: &Operation,
        size: usize,
        root: usize,
        bytes: usize,
    ) -> Self {
        let predefined = host.predefined();
        let elements = match operation.reduces() {
            true => bytes / ELEMENT_BYTES,
            false => bytes,
        };
        // Sizes are checked to fit.
        let count = elements as c_int;
        Self {
            comm: predefined.comm_world,
            root: root as c_int,
            byte: predefined.byte,
            int: predefined.int,
            sum: predefined.op_sum,
            count,
            counts: vec![count; size],
            displacements: (0..size).map(|rank| (rank * elements) as c_int).collect(),
        }
    }
}

impl Function {
    /// # Safety
    /// `address` is the MPI function that `operation` names.
    pub unsafe fn new(operation: &Operation, address: NonNull<c_void>) -> Self {
        macro_rules! of {
            ($($form:ident),*) => {
                match operation.form {
                    $(Form::$form => Prototype::$form(
                        // SAFETY: the standard defines this prototype for the form.
                        unsafe { std::mem::transmute::<*mut c_void, _>(address.as_ptr()) },
                    ),)*
                }
            };
        }
        Self(of!(
            Barrier,
            Bcast,
            Blocks,
            RootedBlocks,
            Gatherv,
            Scatterv,
            Allgatherv,
            Alltoallv,
            Reduce,
            Fold,
            ReduceScatter
        ))
    }

    /// Calls it.
    ///
    /// # Safety
    /// The buffers have the lengths that [`Operation::lengths`] states for these arguments.
    pub unsafe fn call(&self, a: &Arguments, send: *const u8, recv: *mut u8) -> c_int {
        let (send, recv): (In, Out) = (send.cast(), recv.cast());
        let (n, byte, int) = (a.count, a.byte, a.int);
        let (counts, places) = (a.counts.as_ptr(), a.displacements.as_ptr());
        // SAFETY: the caller vouches for the buffers; the arrays have an entry for each rank.
        unsafe {
            match self.0 {
                Prototype::Barrier(call) => call(a.comm),
                Prototype::Bcast(call) => call(recv, n, byte, a.root, a.comm),
                Prototype::Blocks(call) => call(send, n, byte, recv, n, byte, a.comm),
                Prototype::RootedBlocks(call) => call(send, n, byte, recv, n, byte, a.root, a.comm),
                Prototype::Gatherv(call) => {
                    call(send, n, byte, recv, counts, places, byte, a.root, a.comm)
                }
                Prototype::Scatterv(call) => {
                    call(send, counts, places, byte, recv, n, byte, a.root, a.comm)
                }
                Prototype::Allgatherv(call) => {
                    call(send, n, byte, recv, counts, places, byte, a.comm)
                }
                Prototype::Alltoallv(call) => call(
                    send, counts, places, byte, recv, counts, places, byte, a.comm,
                ),
                Prototype::Reduce(call) => call(send, recv, n, int, a.sum, a.root, a.comm),
                Prototype::Fold(call) => call(send, recv, n, int, a.sum, a.comm),
                Prototype::ReduceScatter(call) => call(send, recv, counts, int, a.sum, a.comm),
            }
        }
    }
}
