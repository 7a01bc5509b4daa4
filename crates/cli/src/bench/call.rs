//! The C functions, ours or the host's, behind one way to call them.

use super::job_sizes::Team;
use super::operation::{ELEMENT_BYTES, Form, Operation};
use ferrorail_mpi_abi::{Comm, Datatype, Op};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

type In = *const c_void;
type Out = *mut c_void;
type Ints = *const c_int;

macro_rules! prototypes {
    ($($form:ident($($argument:ty),*);)*) => {
        /// Prototypes (MPI 4.1, chapter 6); handles are passed as register values.
        #[derive(Clone, Copy)]
        enum Prototype {
            $($form(unsafe extern "C" fn($($argument),*) -> c_int),)*
        }

        impl Function {
            /// # Safety
            /// `address` is the MPI function that `operation` names.
            pub unsafe fn new(operation: &Operation, address: NonNull<c_void>) -> Self {
                let address = address.as_ptr();
                Self(match operation.form {
                    $(Form::$form => {
                        type F = unsafe extern "C" fn($($argument),*) -> c_int;
                        // SAFETY: the standard defines this prototype for the form.
                        Prototype::$form(unsafe { std::mem::transmute::<*mut c_void, F>(address) })
                    })*
                })
            }
        }
    };
}

prototypes! {
    Barrier(Comm);
    Bcast(Out, c_int, Datatype, c_int, Comm);
    Blocks(In, c_int, Datatype, Out, c_int, Datatype, Comm);
    RootedBlocks(In, c_int, Datatype, Out, c_int, Datatype, c_int, Comm);
    Gatherv(In, c_int, Datatype, Out, Ints, Ints, Datatype, c_int, Comm);
    Scatterv(In, Ints, Ints, Datatype, Out, c_int, Datatype, c_int, Comm);
    Allgatherv(In, c_int, Datatype, Out, Ints, Ints, Datatype, Comm);
    Alltoallv(In, Ints, Ints, Datatype, Out, Ints, Ints, Datatype, Comm);
    Reduce(In, Out, c_int, Datatype, Op, c_int, Comm);
    Fold(In, Out, c_int, Datatype, Op, Comm);
    ReduceScatter(In, Out, Ints, Datatype, Op, Comm);
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
    /// Of a team, for blocks, or a vector, of `bytes`; blocks of vector forms lie side by side.
    pub fn new(
        host: &ferrorail_mpi_abi::Host,
        operation: &Operation,
        Team { comm, place }: Team,
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
            comm,
            root: place.root as c_int,
            byte: predefined.byte,
            int: predefined.int,
            sum: predefined.op_sum,
            count,
            counts: vec![count; place.size],
            displacements: (0..place.size)
                .map(|rank| (rank * elements) as c_int)
                .collect(),
        }
    }
}

impl Function {
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
