//! Proves the schedules of a team right, without running them.
//!
//! [`verify`] executes the schedules of all ranks on tokens instead of bytes. Which put wakes which
//! await is fixed by the slots, and which signal wakes which wait by the phases; so the order
//! "happens before" is the same in every interleaving, and one execution with vector clocks stands
//! for all of them. It checks that
//!
//! * no rank waits for ever, and every arrival is awaited;
//! * an access never meets one that may be going on: a put reads its source and writes its
//!   destination from its being posted until its target's await, a copy at once, as is the reading
//!   of a put within a node;
//! * nothing undefined is read, nothing outside the buffers is touched, `Send` is not written;
//! * both ends agree about origin, port and length; slots are unique and below the limit;
//! * node phases rise and stay in range; rounds and scratch are declared right on all ranks;
//! * puts keep to the rules of the protocol, RTRs included;
//! * every leader of another node awaits each multicast, in its order and with its length; where it lands
//!   nothing is read or written from its being sent until then, as of a put;
//! * all this holds in place too, where `Send` is a part of `Recv` or the other way round;
//! * reductions combine each contribution once, of one part, in rank order where that is asked for,
//!   and with the same bracketing on all ranks where those must have the same bits;
//! * whoever ends a synchronising collective knows that every rank has entered it;
//! * at the end `Recv` holds on every rank what the collective defines.

use crate::schedule::{Buffer, Protocol, Schedule, Slot, Step};
use crate::semantics::{Content, Instance, Semantics};
use ferrorail_base::{NodeRank, Rank, Topology};
use std::fmt;

mod clock;
mod machine;
mod memory;
mod outcome;
mod shape;
#[cfg(test)]
mod tests;
mod value;

/// A schedule is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct VerifyError {
    /// Whose schedule.
    pub rank: Rank,
    /// Index of the step, where one is to blame.
    pub step: Option<usize>,
    /// What is wrong.
    pub kind: Fault,
}

impl VerifyError {
    fn at(rank: Rank, step: impl Into<Option<usize>>, kind: Fault) -> Self {
        let step = step.into();
        Self { rank, step, kind }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        if let Some(step) = self.step {
            write!(f, ", step {step}")?;
        }
        write!(f, ": {}", self.kind)
    }
}

/// A block of a rank's memory. `Node` appears as its leader's `Scratch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Owner.
    pub rank: Rank,
    /// Memory.
    pub buffer: Buffer,
    /// Block.
    pub block: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{}] of rank {}", self.buffer, self.block, self.rank)
    }
}

/// A step of some rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepId {
    /// Rank.
    pub rank: Rank,
    /// Index of the step.
    pub step: usize,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} of rank {}", self.step, self.rank)
    }
}

/// What can be wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The number of schedules is not the number of ranks.
    #[error("{0} schedules for a team of another size")]
    ScheduleCount(usize),
    /// `round_ends` falls, ends elsewhere than the steps, or differs in length between ranks.
    #[error("rounds do not divide the steps as on the other ranks")]
    Rounds,
    /// `scratch_blocks` is not what the spans of all ranks need.
    #[error("declares {declared} blocks of scratch where the team needs {needed}")]
    ScratchBlocks {
        /// `scratch_blocks`.
        declared: u32,
        /// Largest end of a span.
        needed: u32,
    },
    /// A span has no blocks.
    #[error("a span of no blocks")]
    EmptySpan,
    /// A span leaves its buffer.
    #[error("a span ends outside of its {0:?}")]
    OutOfBounds(Buffer),
    /// Source and destination differ in length.
    #[error("{from} blocks into {into}")]
    Lengths {
        /// Blocks of the source.
        from: u32,
        /// Blocks of the destination.
        into: u32,
    },
    /// An operand of a reduction overlaps the result and is not the same.
    #[error("reduces what its result in {0:?} overlaps")]
    Overlap(Buffer),
    /// `Send` is the user's and is only read.
    #[error("writes Send")]
    WritesSend,
    /// The peer is this rank itself, or none of the team.
    #[error("rank {0} is no peer")]
    Peer(Rank),
    /// The port is not below k.
    #[error("port {0} is not below k")]
    Port(u8),
    /// The slot is not below [`Task::slots`].
    #[error("slot {0} is not below the limit of the team")]
    SlotLimit(Slot),
    /// A second arrival raises a slot of the target.
    #[error("slot {slot} of rank {target} is raised twice")]
    SlotReused {
        /// Slot.
        slot: Slot,
        /// Whose.
        target: Rank,
    },
    /// What arrived is not what the step awaits.
    #[error("slot {slot} is raised by {found}, which is not what is awaited")]
    Mismatch {
        /// Slot.
        slot: Slot,
        /// The step that raised it.
        found: StepId,
    },
    /// Only leaders of nodes have multicasts.
    #[error("rank {0} is no leader, and leaders alone send and receive multicasts")]
    NotLeader(Rank),
    /// A leader has no step for this multicast, or one for another length.
    #[error("no step of rank {0} awaits this multicast with its length")]
    NotReceived(Rank),
    /// Leaders number all multicasts of a schedule at the first step that names one, when what they send
    /// themselves must be ready.
    #[error("sends a multicast after it has awaited one")]
    MulticastOrder,
    /// No step awaits this arrival.
    #[error("slot {0} of the target is raised but never awaited")]
    NeverAwaited(Slot),
    /// A node phase that is 0, above the limit, or does not rise.
    #[error("node phase {0} does not rise within its range")]
    Phase(u8),
    /// There is no such local rank.
    #[error("the node has no local rank {0}")]
    LocalRank(NodeRank),
    /// A put whose buffers the protocol excludes.
    #[error("a put of {0:?} is against the protocol")]
    Protocol(Buffer),
    /// RTRs belong to [`Protocol::Rendezvous`].
    #[error("sends an RTR although puts land in scratch")]
    RtrForEager,
    /// A second RTR to one rank: the first permits all puts, and its room may serve for something else by then.
    #[error("sends a second RTR to rank {0}")]
    RtrTwice(Rank),
    /// A put into the `Recv` of a rank whose RTR was not awaited.
    #[error("puts into Recv of rank {0} without its permission")]
    NotPermitted(Rank),
    /// A read of memory that holds nothing.
    #[error("reads {0}, which is undefined")]
    Undefined(Place),
    /// A read of memory that may still be written.
    #[error("reads {place} while {writer} may be writing it")]
    ReadInFlight {
        /// Block.
        place: Place,
        /// The write.
        writer: StepId,
    },
    /// Two writes without order.
    #[error("writes {place} while {writer} may be writing it")]
    WriteWhileWritten {
        /// Block.
        place: Place,
        /// The other write.
        writer: StepId,
    },
    /// A write of memory that may still be read.
    #[error("writes {place} while {reader} may be reading it")]
    WriteWhileRead {
        /// Block.
        place: Place,
        /// The read.
        reader: StepId,
    },
    /// Operands that already share a contribution.
    #[error("reduces the contribution of rank {0} twice")]
    ReducedTwice(Rank),
    /// Operands of different parts, or something that is no contribution.
    #[error("reduces part {left} with part {right}")]
    ReducedParts {
        /// Part of the left operand.
        left: u32,
        /// Part of the right one.
        right: u32,
    },
    /// A copy or reduction of a cut vector whose length no user buffer gives, or that changes parts.
    #[error("moves parts of a cut vector without saying which")]
    Cut,
    /// A reduction ends with other contributions, or in another order.
    #[error("Recv[{block}] ends with contributions {found:?} instead of {expected:?}")]
    Contributions {
        /// Block of `Recv`.
        block: u32,
        /// Ranks found there, in order of reduction.
        found: Vec<u32>,
        /// Ranks of the collective's definition.
        expected: std::ops::Range<u32>,
    },
    /// A block that must have the same bits everywhere was computed otherwise than on rank 0.
    #[error("Recv[{0}] is bracketed otherwise than on rank 0")]
    Bracketing(u32),
    /// The collective is synchronising, but this rank ends without knowing that one has entered.
    #[error("ends without knowing that rank {0} has entered")]
    NotSynchronised(Rank),
    /// The step waits for something that never comes.
    #[error("waits for ever: {0:?}")]
    Deadlock(Step),
    /// `Recv` is not as it should be in the end.
    #[error("Recv[{block}] ends with {found:?} instead of block {expected}")]
    Result {
        /// Block of `Recv`.
        block: u32,
        /// Token found there.
        found: Option<u32>,
        /// Token of the collective's definition.
        expected: u32,
    },
}

/// What to verify against.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Node map.
    pub topology: &'a Topology,
    /// k.
    pub ports: u8,
    /// Protocol the schedules were built for.
    pub protocol: Protocol,
    /// Root the schedules were built for.
    pub root: Rank,
    /// Arrival slots of a rank, at most [`slot_limit`](crate::schedule::slot_limit).
    pub slots: u32,
    /// Meaning of the collective.
    pub semantics: Semantics,
    /// Parts of the vector.
    pub parts: u32,
    /// Whether reductions must keep rank order.
    pub rank_order: bool,
    /// Whether `Send` and `Recv` overlap (`MPI_IN_PLACE`). Copies of a block onto itself are then
    /// skipped, as the executor does.
    pub in_place: bool,
}

impl Task<'_> {
    fn instance(&self, rank: Rank) -> Instance {
        Instance {
            rank,
            size: self.topology.size(),
            root: self.root,
            parts: self.parts,
        }
    }
}

/// What the buffers of one rank hold at the beginning and in the end.
struct Meaning {
    send: Vec<u32>,
    start: Vec<u32>,
    recv: Vec<Content>,
}

impl Meaning {
    fn of(task: &Task<'_>, rank: Rank) -> Self {
        let instance = task.instance(rank);
        Self {
            send: (task.semantics.send)(&instance),
            start: (task.semantics.start)(&instance),
            recv: (task.semantics.recv)(&instance),
        }
    }
}

/// Verifies the schedules of all ranks, in rank order. See the module documentation.
///
/// # Errors
/// The first fault found, with the rank and step to blame.
pub fn verify(task: &Task<'_>, schedules: &[Schedule]) -> Result<(), VerifyError> {
    let ranks = (0..task.topology.size()).map(Rank);
    let meanings: Vec<Meaning> = ranks.map(|rank| Meaning::of(task, rank)).collect();
    shape::check(task, &meanings, schedules)?;
    machine::Machine::new(task, &meanings, schedules).run()
}
