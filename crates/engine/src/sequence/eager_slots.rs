//! Which eager slots an operation's is among.

use ferrorail_coll::Collective;
use ferrorail_shm::{EAGER_SLOTS, EXCHANGE_SLOTS};

/// The eager slots among which an operation's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EagerSlots {
    /// Of operations that do not depend on every rank: the first ones.
    Streams,
    /// The first of those, of operations that depend on each rank that has a block: all ranks seldom are far apart.
    Vectors,
    /// Of those that do, all others.
    Exchanges,
}

impl EagerSlots {
    /// Those of `collective`.
    #[inline(always)]
    pub const fn of(collective: Collective) -> Self {
        match collective {
            Collective::Alltoallv => Self::Vectors,
            _ if collective.synchronising() => Self::Exchanges,
            _ => Self::Streams,
        }
    }

    /// The one that comes `later` operations after `slot`, if all use these.
    #[inline(always)]
    pub const fn ahead_of(self, slot: u32, later: u32) -> u32 {
        match self {
            Self::Streams => (slot + later) % EAGER_SLOTS,
            Self::Vectors => (slot + later) % VECTOR_SLOTS,
            Self::Exchanges => EAGER_SLOTS + (slot - EAGER_SLOTS + later) % EXCHANGE_SLOTS,
        }
    }
}

/// How many slots [`EagerSlots::Vectors`] are. A rank looks every half of them whether the others have finished.
pub(super) const VECTOR_SLOTS: u32 = EAGER_SLOTS / 4;
