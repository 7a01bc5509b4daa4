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
//! Modules: `places` (where words and pieces lie), `transfers` (what is known of them), `origin`, `target`. See
//! `docs/design/0011-registration.md`.

mod origin;
mod places;
mod target;
pub(crate) mod transfers;

use super::Run;
use crate::team::state::State;
use ferrorail_base::Rank;
pub(super) use origin::{Outgoing, StagedRequest};

impl Run<'_> {
    /// Ranks of other nodes that this one waits for because of pieces.
    pub(super) fn staging_with(&self, state: &State) -> impl Iterator<Item = Rank> + use<> {
        let to = self.staging.as_ref().map(|outgoing| outgoing.to());
        let from = state.staged.incoming.map(|incoming| incoming.from);
        to.into_iter().chain(from)
    }
}
