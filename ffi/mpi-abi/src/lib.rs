//! What differs between MPI libraries, found at run time, without linking any of them.
//!
//! One program may meet any of three binary interfaces ([`AbiKind`]): Open MPI's, the one MPICH
//! shares with Intel MPI, MVAPICH and Cray MPI, and the standard one of MPI 5.0 (chapter 20).
//!
//! * [`AbiKind`]: detection, which needs no `MPI_Init`;
//! * [`Constants`]: sentinels, special ranks, error classes; [`WindowConstants`]: what one-sided communication has
//!   of its own;
//! * [`Comm`], [`Datatype`], …: handles as the host's own register values, [`Predefined`] ones;
//! * [`DatatypeTable`]: bytes of predefined datatypes, in a few instructions;
//! * [`HandleTable`]: any facts by handle, as fast; [`PREDEFINED_OPERATIONS`]: what to reduce with;
//! * [`Functions`]: the `PMPI_*` entry points, called with every handle as a `usize`;
//! * [`Host`]: all of the above for the MPI library of this process, and checked wrappers;
//!
//! Handles are `int` in MPICH and pointers elsewhere. Both travel in one register, or one 8-byte
//! stack slot, under the System V and AArch64 calling conventions; an `int`'s upper half is
//! undefined there, hence [`Host::comm`] and [`Host::datatype`] for handles that come from a program.
//! Handles are never created here: the program's own are used as they are.
//!
//! A non-PIC program holds *copies* of Open MPI's data symbols (copy relocation), and the library
//! uses the program's. Data is therefore looked up in the global scope first, and only functions
//! "next" to the caller.

mod combiner;
mod constants;
mod datatype;
mod functions;
mod handle;
mod handle_table;
mod host;
mod kind;
mod library;
mod operation;

pub use combiner::Combiner;
pub use constants::{Constants, ErrorClasses, SUCCESS, WindowConstants, WindowErrors};
pub use datatype::{DatatypeTable, PREDEFINED_DATATYPES};
pub use functions::{CopyFn, DeleteFn, Functions, RequestCancelFn, RequestFreeFn, RequestQueryFn};
pub use handle::{Comm, Datatype, Group, Info, Op, Predefined, PredefinedHandle, Request, Win};
pub use handle_table::HandleTable;
pub use host::{
    BareWindow, Contents, Envelope, Host, HostError, MpiError, RequestList, Topology, TypeLayout,
};
pub use kind::AbiKind;
pub use library::{Library, find_loaded, mapping_of, name_of};
pub use operation::PREDEFINED_OPERATIONS;
