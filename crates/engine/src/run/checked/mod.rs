//! Messages over rails that are checked end to end (`FERRORAIL_RELIABLE`).
//!
//! A checked message travels as chunks, like any other, and a record with the CRC32C of each
//! chunk, in a cell of its own beside the arrival flags. The target sums up what has landed before
//! its schedule goes on, and answers with an acknowledgement: one bit for each damaged chunk. Those are sent
//! again, each over the next rail, until none is left or [`ATTEMPTS_MAX`] is reached. The origin
//! keeps its memory as it was until the acknowledgement, so an operation ends only when all its messages
//! have arrived undamaged. See `docs/design/0015-checked-messages.md`.
//!
//! Modules: `record` (what travels), `unacknowledged` (what the origin keeps), `origin`, `verify` (the target).

mod origin;
mod record;
pub(crate) mod unacknowledged;
mod verify;

pub(crate) use record::cell_bytes;
pub(super) use record::sum_on;
pub(super) use verify::Checking;

use crate::EngineError;
use ferrorail_base::Rank;

/// Times that a chunk, or a staged piece, is sent before the operation fails.
pub(super) const ATTEMPTS_MAX: u8 = 8;

/// What was sent from `from` to `to` was damaged each time.
pub(super) const fn damaged(from: Rank, to: Rank) -> EngineError {
    EngineError::Damaged {
        from,
        to,
        attempts: ATTEMPTS_MAX,
    }
}

/// Bits of a flag's low byte that hold the number of chunks; the others hold the attempt.
const COUNT_BITS: u32 = 4;
const _: () = assert!(ferrorail_fabric::RAILS_MAX < 1 << COUNT_BITS && ATTEMPTS_MAX <= 16);

/// The low byte of the arrival flags of a message of `count` chunks.
const fn low_byte(count: u8, attempt: u8) -> u8 {
    attempt << COUNT_BITS | count
}

/// The low byte of the flag of a message that came in pieces, which were checked one by one: a
/// number of chunks that no message has.
const STAGED: u8 = (1 << COUNT_BITS) - 1;
const _: () = assert!(ferrorail_fabric::RAILS_MAX < STAGED as usize);

/// What the target of a message that came in pieces puts into its flag's low byte.
pub(super) const fn staged_flag(checked: bool) -> u8 {
    if checked { STAGED } else { 1 }
}

/// Number of chunks, and attempt, in a flag's low byte.
const fn parts_of(low: u8) -> (u8, u8) {
    (low & ((1 << COUNT_BITS) - 1), low >> COUNT_BITS)
}
