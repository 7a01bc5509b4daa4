//! The C functions, ours or the host's, behind one way to call them.

use super::job_sizes::Team;
use super::operation::{ELEMENT_BYTES, Form, Operation};
use ferrorail_mpi_abi::{Comm, Datatype, Op};
use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr::NonNull;

type In = *const c_void;
type Out = *mut c_void;
type Ints = *const c_int;

/// `MPI_Wait`.
type Wait = unsafe extern "C" fn(Out, Out) -> c_int;

/// Forms of operations: the types of what is passed, and what that is, as `$a`, `$send` and `$recv` have it.
macro_rules! prototypes {
    (|$a:ident, $send:ident, $recv:ident|
     $($form:ident($($type:ty),*) = ($($value:expr),*);)*) => {
        /// Prototypes (MPI 4.1, chapter 6); handles are passed as register values.
        #[derive(Clone, Copy)]
        pub enum Prototype {
            $($form(unsafe extern "C" fn($($type),*) -> c_int),)*
        }

        /// Those of non-blocking forms, which have a request as well.
        #[derive(Clone, Copy)]
        pub enum Nonblocking {
            $($form(unsafe extern "C" fn($($type,)* Out) -> c_int),)*
        }

        impl Function {
            /// What a library `find`s by the name of `operation`, and what awaits it, if it has that.
            ///
            /// # Safety
            /// These are the MPI functions of these names.
            pub unsafe fn new(
                operation: &Operation,
                find: impl Fn(&str) -> Option<NonNull<c_void>>,
            ) -> Option<Self> {
                let address = find(&operation.symbol())?.as_ptr();
                if !operation.is_nonblocking {
                    return Some(Self::Blocking(match operation.form {
                        $(Form::$form => {
                            type F = unsafe extern "C" fn($($type),*) -> c_int;
                            // SAFETY: the standard defines this prototype for the form.
                            Prototype::$form(unsafe { mem::transmute::<*mut c_void, F>(address) })
                        })*
                    }));
                }
                let start = match operation.form {
                    $(Form::$form => {
                        type F = unsafe extern "C" fn($($type,)* Out) -> c_int;
                        // SAFETY: as above.
                        Nonblocking::$form(unsafe { mem::transmute::<*mut c_void, F>(address) })
                    })*
                };
                // SAFETY: as above.
                let wait = unsafe { mem::transmute::<*mut c_void, Wait>(find("Wait")?.as_ptr()) };
                Some(Self::Awaited { start, wait })
            }

            /// Calls it, and waits for its end.
            ///
            /// # Safety
            /// The buffers have the lengths that [`Operation::lengths`] states for these arguments.
            pub unsafe fn call(&self, $a: &Arguments, send: *const u8, recv: *mut u8) -> c_int {
                let ($send, $recv): (In, Out) = (send.cast(), recv.cast());
                // No request is larger than an address.
                let mut request = 0usize;
                let request: Out = (&raw mut request).cast();
                // SAFETY: the caller vouches for the buffers; the arrays have an entry for each rank.
                unsafe {
                    match self {
                        $(
                            Self::Blocking(Prototype::$form(call)) => call($($value),*),
                            Self::Awaited { start: Nonblocking::$form(start), wait } => {
                                match start($($value,)* request) {
                                    0 => wait(request, $a.status_ignore),
                                    code => code,
                                }
                            }
                        )*
                    }
                }
            }
        }
    };
}

prototypes! { |a, send, recv|
    Barrier(Comm) = (a.comm);
    Bcast(Out, c_int, Datatype, c_int, Comm) = (recv, a.count, a.byte, a.root, a.comm);
    Blocks(In, c_int, Datatype, Out, c_int, Datatype, Comm) =
        (send, a.count, a.byte, recv, a.count, a.byte, a.comm);
    RootedBlocks(In, c_int, Datatype, Out, c_int, Datatype, c_int, Comm) =
        (send, a.count, a.byte, recv, a.count, a.byte, a.root, a.comm);
    Gatherv(In, c_int, Datatype, Out, Ints, Ints, Datatype, c_int, Comm) =
        (send, a.count, a.byte, recv, a.counts(), a.places(), a.byte, a.root, a.comm);
    Scatterv(In, Ints, Ints, Datatype, Out, c_int, Datatype, c_int, Comm) =
        (send, a.counts(), a.places(), a.byte, recv, a.count, a.byte, a.root, a.comm);
    Allgatherv(In, c_int, Datatype, Out, Ints, Ints, Datatype, Comm) =
        (send, a.count, a.byte, recv, a.counts(), a.places(), a.byte, a.comm);
    Alltoallv(In, Ints, Ints, Datatype, Out, Ints, Ints, Datatype, Comm) =
        (send, a.counts(), a.places(), a.byte, recv, a.counts(), a.places(), a.byte, a.comm);
    Reduce(In, Out, c_int, Datatype, Op, c_int, Comm) =
        (send, recv, a.count, a.int, a.sum, a.root, a.comm);
    Fold(In, Out, c_int, Datatype, Op, Comm) = (send, recv, a.count, a.int, a.sum, a.comm);
    ReduceScatter(In, Out, Ints, Datatype, Op, Comm) =
        (send, recv, a.counts(), a.int, a.sum, a.comm);
}

/// One implementation of one operation.
#[derive(Clone, Copy)]
pub enum Function {
    Blocking(Prototype),
    Awaited { start: Nonblocking, wait: Wait },
}

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
    status_ignore: Out,
}

impl Arguments {
    /// Of a team, for blocks, or a vector, of `bytes`; blocks of vector forms lie side by side.
    pub fn new(
        host: &ferrorail_mpi_abi::Host,
        operation: &Operation,
        Team { comm, ring, place }: Team,
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
            comm: match operation.is_among_neighbours() {
                true => ring,
                false => comm,
            },
            root: place.root as c_int,
            byte: predefined.byte,
            int: predefined.int,
            sum: predefined.op_sum,
            count,
            counts: vec![count; place.size],
            displacements: (0..place.size)
                .map(|rank| (rank * elements) as c_int)
                .collect(),
            status_ignore: host.constants().status_ignore as Out,
        }
    }

    fn counts(&self) -> Ints {
        self.counts.as_ptr()
    }

    fn places(&self) -> Ints {
        self.displacements.as_ptr()
    }
}
