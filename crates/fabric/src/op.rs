//! What may be posted on a lane: one definition for those who post it, for the journal that repeats it and
//! for the transports that carry it out. They differ in the form of its memory.

use crate::{FabricError, LaneId, LocalRegion, RemoteRegion, Transport};
use ferrorail_base::{PeerId, RailId};
use std::convert::Infallible;

/// A part of a [`LocalRegion`].
#[derive(Clone, Copy, Debug)]
pub struct LocalSlice<'a> {
    /// The registered memory.
    pub region: &'a LocalRegion,
    /// First byte, relative to the region.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// A part of a [`RemoteRegion`].
#[derive(Clone, Copy, Debug)]
pub struct RemoteSlice<'a> {
    /// The peer's memory.
    pub region: &'a RemoteRegion,
    /// First byte, relative to the region.
    pub offset: usize,
}

/// The word that tells the target a put has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Notification<R> {
    /// Eight-byte-aligned word in the target's memory.
    pub word: R,
    /// Value to store there.
    pub value: u64,
}

/// Whether the caller will ask for the completion of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// Nobody will; the fabric may save the completion.
    Silent,
    /// [`crate::Endpoint::is_complete`] will be called with the ticket.
    Tracked,
}

/// Names a posted operation: the `sequence`-th on its (peer, rail), from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The target.
    pub peer: PeerId,
    /// The rail it was posted on.
    pub rail: RailId,
    /// Position in the order of posting.
    pub sequence: u64,
}

impl Ticket {
    /// What it was posted on.
    pub fn lane(&self) -> LaneId {
        LaneId {
            peer: self.peer,
            rail: self.rail,
        }
    }

    /// Whether it is complete on `transport` itself.
    ///
    /// # Errors
    /// [`FabricError::Completion`] or [`FabricError::LaneDown`] if it, or one before it on that rail, failed.
    pub fn outcome(&self, transport: &dyn Transport) -> Result<bool, FabricError> {
        let outcome = transport.lane(self.lane()).outcome(self.sequence);
        outcome.map_err(|broken| {
            let rail = transport.attributes().rails.get(self.rail.index());
            broken.error(self.lane(), rail.map_or("", |rail| &rail.name))
        })
    }
}

/// An operation on local memory `L` and remote memory `R`.
#[derive(Clone, Copy, Debug)]
pub struct Operation<L, R> {
    /// What it does.
    pub kind: Kind<R>,
    /// Source of a put, destination of everything else.
    pub local: L,
    /// The other end.
    pub remote: R,
}

/// An operation as it is posted.
pub type Op<'a> = Operation<LocalSlice<'a>, RemoteSlice<'a>>;

/// What an operation does. Words of the target have the form `R`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<R> {
    /// Writes local memory to remote memory. On rails that do not keep the order of puts
    /// (`FERRORAIL_WRITE_ORDER`) it may be seen before what was posted before it.
    Put,
    /// A put that is seen after all that was posted before it on its lane, on any rail. It proves nothing:
    /// the memory that it writes may be written by others as well.
    Ordered,
    /// A put that ends with its own notification: its last word holds this value and only ever rises at the
    /// target, so that it tells whether the put has arrived. Nothing is promised about the order in which
    /// the bytes do. It ends at a multiple of eight bytes.
    Eager(u64),
    /// A put, which may be empty, then a store of the value to the word, in that order at the target.
    Notify(R, u64),
    /// That, and a thread of the peer wakes that sleeps on its wake-up events, which it must have and have
    /// armed. The wake-up is a hint, which may be lost.
    Wake(R, u64),
    /// Reads remote memory into local memory.
    Get,
    /// Adds to a 64-bit word, whose old value lands in local memory.
    FetchAdd {
        /// What is added.
        add: u64,
        /// An operation on the same peer and rail behind which it takes effect, though that need not be
        /// complete. Rails that take over from each other keep no order between them:
        /// [`crate::FabricError::WouldBlock`] if it cannot be promised. Wait for `behind` then.
        behind: Option<Ticket>,
    },
    /// Stores `swap` in a 64-bit word if it holds `compare`; its old value lands in local memory.
    CompareSwap {
        /// What the word must hold.
        compare: u64,
        /// What it holds then.
        swap: u64,
    },
}

impl<R> Kind<R> {
    /// Whether nothing comes back.
    #[inline]
    pub const fn is_put(&self) -> bool {
        matches!(
            self,
            Self::Put | Self::Ordered | Self::Eager(_) | Self::Notify(..) | Self::Wake(..)
        )
    }

    /// Whether its effect must not happen twice.
    #[inline]
    pub const fn is_atomic(&self) -> bool {
        matches!(self, Self::FetchAdd { .. } | Self::CompareSwap { .. })
    }

    /// The word that is stored to behind the data, and its value.
    #[inline]
    pub const fn notification(&self) -> Option<(&R, u64)> {
        match self {
            Self::Notify(word, value) | Self::Wake(word, value) => Some((word, *value)),
            _ => None,
        }
    }
}

impl<L, R> Operation<L, R> {
    /// The same operation on `local` and on what `remote` makes of so many bytes of remote memory: `bytes` of
    /// them, and those of its notification.
    ///
    /// # Errors
    /// The first of `remote`.
    #[inline]
    pub fn try_map<'s, M, S, E>(
        &'s self,
        local: M,
        bytes: usize,
        remote: impl Fn(&'s R, usize) -> Result<S, E>,
    ) -> Result<Operation<M, S>, E> {
        let word = |word| remote(word, size_of::<u64>());
        Ok(Operation {
            kind: match &self.kind {
                Kind::Put => Kind::Put,
                Kind::Ordered => Kind::Ordered,
                Kind::Eager(value) => Kind::Eager(*value),
                Kind::Notify(at, value) => Kind::Notify(word(at)?, *value),
                Kind::Wake(at, value) => Kind::Wake(word(at)?, *value),
                Kind::Get => Kind::Get,
                &Kind::FetchAdd { add, behind } => Kind::FetchAdd { add, behind },
                &Kind::CompareSwap { compare, swap } => Kind::CompareSwap { compare, swap },
            },
            local,
            remote: remote(&self.remote, bytes)?,
        })
    }

    /// [`Operation::try_map`] without errors.
    #[inline]
    pub fn map<'s, M, S>(
        &'s self,
        local: M,
        bytes: usize,
        remote: impl Fn(&'s R, usize) -> S,
    ) -> Operation<M, S> {
        let Ok(op) = self.try_map(local, bytes, |part, bytes| {
            Ok::<_, Infallible>(remote(part, bytes))
        });
        op
    }

    const fn new(kind: Kind<R>, local: L, remote: R) -> Self {
        Self {
            kind,
            local,
            remote,
        }
    }

    /// [`Kind::Put`].
    pub const fn put(from: L, to: R) -> Self {
        Self::new(Kind::Put, from, to)
    }

    /// [`Kind::Ordered`].
    pub const fn ordered(from: L, to: R) -> Self {
        Self::new(Kind::Ordered, from, to)
    }

    /// [`Kind::Eager`].
    pub const fn eager(from: L, to: R, trailing_flag: u64) -> Self {
        Self::new(Kind::Eager(trailing_flag), from, to)
    }

    /// [`Kind::Notify`].
    pub fn notify(from: L, to: R, tell: Notification<R>) -> Self {
        Self::new(Kind::Notify(tell.word, tell.value), from, to)
    }

    /// [`Kind::Wake`].
    pub fn wake(from: L, to: R, tell: Notification<R>) -> Self {
        Self::new(Kind::Wake(tell.word, tell.value), from, to)
    }

    /// [`Kind::Get`].
    pub const fn get(from: R, into: L) -> Self {
        Self::new(Kind::Get, into, from)
    }

    /// [`Kind::FetchAdd`].
    pub const fn fetch_add(at: R, add: u64, into: L, behind: Option<Ticket>) -> Self {
        Self::new(Kind::FetchAdd { add, behind }, into, at)
    }

    /// [`Kind::CompareSwap`].
    pub const fn compare_swap(at: R, compare: u64, swap: u64, into: L) -> Self {
        Self::new(Kind::CompareSwap { compare, swap }, into, at)
    }
}
