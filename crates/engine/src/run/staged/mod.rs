//! The way around user memory that cannot be registered.
//!
//! A put into user memory needs both ends registered with every rail. Where a limit refuses one of
//! them, the message of that pair goes in pieces through scratch that is registered already, and
//! nobody else is concerned: the other pairs of the operation put as ever. A receiver that was
//! refused says so in its RTR; an origin that was refused need not tell anybody.
//!
//! ```text
//! origin                                target
//!   ask: credit n          ──────────▶
//!                        ◀──────────   granted g            the area is yours
//!   piece: header, bytes ──────────▶   copies them out
//!                        ◀──────────   granted h > g        or damaged g: ask again
//!   last piece           ──────────▶   copies, raises the message's own flag
//!                        ◀──────────   taken h
//! ```
//!
//! A target has one area and grants it to one origin at a time, a piece each, in turn. It numbers
//! its grants; answers and the flags of pieces hold that number, so that the words which prove what
//! has arrived only rise, whoever raises them. A target serves whenever its run
//! advances, whatever step it waits in, since its peers may wait for it in a circle; an origin
//! stays in its put until the message is taken. Whoever is asked is in the same operation: it has
//! announced its buffer, and stays until the message that it awaits has come.
//!
//! With `FERRORAIL_RELIABLE` a piece carries a sum, and is sent again over another rail.
//!
//! Modules: `places` (where words and pieces lie), `origin`, `target`. See
//! `docs/design/0011-registration.md`.

mod origin;
mod places;
mod target;

use super::Run;
use crate::team::State;
use ferrorail_base::Rank;
pub(super) use origin::{Outgoing, StagedRequest};
use target::Incoming;

/// Times that a piece is sent before the operation fails.
const ATTEMPTS_MAX: u8 = 8;

/// What a target answers about a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The area is free for a piece; the one before has been taken.
    Granted = 1,
    /// The message has been taken, and this was its last piece.
    Taken = 2,
    /// The piece was damaged.
    Damaged = 3,
}

impl Answer {
    /// The word that says so. Words of a pair rise.
    const fn about(self, grant: u64) -> u64 {
        grant << 2 | self as u64
    }

    /// The grant that `word` tells of, if it tells of one.
    const fn granted(word: u64) -> Option<u64> {
        match word & 3 == Self::Granted as u64 {
            true => Some(word >> 2),
            false => None,
        }
    }
}

/// Pieces of a team, as both their origin and their target.
#[derive(Debug, Default)]
pub(crate) struct StagedTransfers {
    /// By rank: the last credit that this rank asked it for, or is taken to have.
    asked: Vec<u64>,
    /// Doorbells that this rank rang.
    rings: u64,
    /// By rank: the last credit that it asked this rank for, as far as known.
    wanted: Vec<u64>,
    /// By rank: the last of them that is over.
    served: Vec<u64>,
    /// How often the area has been granted.
    grants: u64,
    /// By rank: how often its present piece has come damaged.
    damaged: Vec<u8>,
    /// The doorbell as it was last seen.
    doorbell: u64,
    /// Whether some credit may be waiting.
    waiting: bool,
    /// Who has the credit.
    incoming: Option<Incoming>,
    /// Rank that was served last.
    last: u32,
    /// Pieces that came or went: who waits for them sees that they move.
    moved: u64,
}

impl StagedTransfers {
    /// Whether nobody is being served, and nobody waits for it.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.incoming.is_none() && !self.waiting
    }

    /// Rises with every piece.
    #[inline]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Has the next look at the doorbell find it rung.
    pub fn look_again(&mut self) {
        self.doorbell = u64::MAX;
    }

    /// Room for what is known of each of `size` ranks.
    fn resize_to(&mut self, size: u32) {
        for credits in [&mut self.asked, &mut self.wanted, &mut self.served] {
            credits.resize(size as usize, 0);
        }
        self.damaged.resize(size as usize, 0);
    }
}

impl Run<'_> {
    /// Ranks of other nodes that this one waits for because of pieces.
    pub(super) fn staging_with(&self, state: &State) -> impl Iterator<Item = Rank> + use<> {
        let to = self.staging.as_ref().map(|outgoing| outgoing.to());
        let from = state.staged.incoming.as_ref().map(Incoming::from);
        to.into_iter().chain(from)
    }
}
