//! The collectives: checks, then the engine or the host. One way to run them, [`run`]; what each
//! has of its own is its [`Collective`].

mod attempt;
mod edges;
mod even;
mod fast_path;
mod handing_on;
mod list;
mod neighbour;
mod persist;
mod plain;
mod reduction;
mod rooted;
mod side;
mod start;
mod table;
mod typed;
mod vector;

pub use attempt::run;
pub use even::{Allgather, Alltoall, Barrier};
pub use handing_on::forwarded;
pub use neighbour::{
    NeighborAllgather, NeighborAllgatherv, NeighborAlltoall, NeighborAlltoallv, NeighborAlltoallw,
};
pub use persist::persist;
pub use reduction::{Allreduce, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan};
pub use rooted::{Bcast, Gather, Scatter};
pub use start::start;
pub use vector::{Allgatherv, Alltoallv, Alltoallw, Gatherv, Scatterv};

use crate::error::CallError;
use crate::reason;
use crate::session::Session;
use fast_path::FastCall;
use ferrorail_base::Rank;
use ferrorail_engine::{EngineError, Team};
use libc::{c_int, c_void};
use std::ptr;

/// One side's arguments as they came in registers.
#[derive(Clone, Copy)]
pub struct Buffer {
    /// First element, or `MPI_IN_PLACE`.
    pub address: *mut c_void,
    /// Elements for each rank.
    pub count: i64,
    /// Their type, or where an array has a type for each rank.
    pub datatype: usize,
}

/// Counts and displacements of a vector form as they came in registers: arrays with an entry per
/// rank, or per neighbour.
#[derive(Clone, Copy)]
pub struct Table {
    /// Elements of each block, `int` or `MPI_Count`.
    pub counts: *const c_void,
    /// Where each begins, in extents, or in bytes where each has a type; `int` or `MPI_Aint`.
    pub displacements: *const c_void,
    /// Whether counts have 64 bits.
    pub large: bool,
    /// Whether displacements have.
    pub large_displacements: bool,
}

impl Table {
    /// As passed to C.
    pub fn new<C, D>(counts: *const C, displacements: *const D) -> Self {
        Self {
            counts: counts.cast(),
            displacements: displacements.cast(),
            large: size_of::<C>() == size_of::<i64>(),
            large_displacements: size_of::<D>() == size_of::<i64>(),
        }
    }
}

/// The arguments as they came in registers. A collective without some of them leaves those of
/// [`Args::NONE`].
#[derive(Clone, Copy)]
pub struct Args {
    /// What is sent. Broadcast has its only buffer in `recv`.
    pub send: Buffer,
    /// What is received.
    pub recv: Buffer,
    /// The blocks of `send`, whose count then says nothing.
    pub send_table: Table,
    /// The blocks of `recv`, likewise.
    pub recv_table: Table,
    /// Rank of the root.
    pub root: c_int,
    /// The operation of a reduction.
    pub op: usize,
    /// The communicator.
    pub comm: usize,
}

impl Buffer {
    /// As passed to C: an address, a number of elements and their type.
    pub fn new(address: *const c_void, count: impl Into<i64>, datatype: usize) -> Self {
        Self {
            address: address.cast_mut(),
            count: count.into(),
            datatype,
        }
    }
}

impl Args {
    /// No argument.
    pub const NONE: Self = {
        let none = Buffer {
            address: ptr::null_mut(),
            count: 0,
            datatype: 0,
        };
        let no_table = Table {
            counts: ptr::null(),
            displacements: ptr::null(),
            large: false,
            large_displacements: false,
        };
        Self {
            send: none,
            recv: none,
            send_table: no_table,
            recv_table: no_table,
            root: 0,
            op: 0,
            comm: 0,
        }
    };

    /// The root, if it is a rank of `team`.
    #[inline(always)]
    fn root_in(&self, team: &Team) -> Option<Rank> {
        let root = u32::try_from(self.root).ok()?;
        (root < team.size()).then_some(Rank(root))
    }

    /// Negative roots are meant for inter-communicators, where the other arguments may mean nothing.
    #[inline]
    fn check_root(&self) -> Result<(), Refusal> {
        match self.root < 0 {
            true => Err(Refusal::Invalid),
            false => Ok(()),
        }
    }
}

/// Why a call does not run here.
pub enum Refusal {
    /// It is left to the host, which says what is wrong with it.
    Invalid,
    /// It is left to the host on all ranks, for this reason.
    Left(&'static str),
    /// It fails here. In a box, as outcomes are handed up on every call.
    Error(Box<CallError>),
}

impl<E: Into<CallError>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Error(Box::new(error.into()))
    }
}

/// Arguments that are right as far as the communicator does not matter.
pub trait Checked {
    /// Bytes of one block, as far as known.
    fn known_bytes(&self) -> usize {
        0
    }
}

/// How a collective checks what does not depend on the communicator. Arguments that are not significant on
/// some ranks may only be looked at in [`Collective::perform`].
pub type Check<C> = fn(&Session, &Args) -> Result<C, Refusal>;

/// A call on its team.
pub struct Call<'a> {
    session: &'a Session,
    team: &'a Team,
    args: &'a Args,
}

impl Call<'_> {
    /// The root, if it is a rank of the team.
    #[inline]
    fn root(&self) -> Result<Rank, Refusal> {
        self.args.root_in(self.team).ok_or(Refusal::Invalid)
    }
}

/// Which ranks arrays have entries for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Entries {
    /// All of the communicator.
    All,
    /// The same, but only at the root.
    AtRoot,
    /// The neighbours in its topology.
    Neighbours,
}

/// What one collective has of its own.
pub trait Collective {
    /// Its name in statistics and messages.
    const NAME: &'static str;

    /// That of its non-blocking form.
    const NONBLOCKING_NAME: &'static str;

    /// That of the call that makes a persistent request for it.
    const PERSISTENT_NAME: &'static str;

    /// What rules and settings for algorithms call it.
    const RULE_NAME: &'static str = Self::NAME;

    /// What its arrays have entries for.
    const ENTRIES: Entries = Entries::All;

    /// Whether an array has a type for each entry, where others have one type.
    const TYPE_EACH: bool = false;

    /// What is left to look at of its arguments.
    type Checked: Checked + Clone + 'static;

    /// How it gets there.
    const CHECK: Check<Self::Checked>;

    /// Whether the host has no part in what is computed. The same on all ranks.
    fn is_computed_here(_checked: &Self::Checked) -> bool {
        true
    }

    /// How many entries arrays about what is sent, and about what is received, have.
    fn entries(team: &Team, _checked: &Self::Checked) -> (usize, usize) {
        (team.size() as usize, team.size() as usize)
    }

    /// Runs a checked call on its team.
    ///
    /// # Safety
    /// The buffers are the program's for the duration of the call, with the sizes that the
    /// arguments describe.
    unsafe fn perform(call: &Call<'_>, checked: &Self::Checked) -> Result<(), Refusal>;

    /// Runs a call that may take the fast path, if it does.
    ///
    /// # Safety
    /// As [`Collective::perform`].
    unsafe fn fast_path(call: &FastCall<'_>) -> Option<fast_path::Outcome>;
}

/// What the engine says, as a refusal of the call.
#[inline(always)]
fn done(outcome: Result<(), EngineError>) -> Result<(), Refusal> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => Err(refusal(error)),
    }
}

#[cold]
fn refusal(error: EngineError) -> Refusal {
    match error {
        EngineError::ElementTooLarge { .. } => Refusal::Left(reason::LARGE_ELEMENT),
        EngineError::AfterError => Refusal::Left(reason::AFTER_ERROR),
        EngineError::TooManyConnections => Refusal::Left(reason::TOO_MANY_CONNECTIONS),
        EngineError::LeftByChoice => Refusal::Left(reason::CHOSEN),
        EngineError::Unconnected => Refusal::Left(reason::NO_CONNECTION),
        error => Refusal::from(error),
    }
}
