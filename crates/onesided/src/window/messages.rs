//! Remote messages of locks, as windows send them.

use crate::lock::{LockAlgorithm, Messages, Mode};

/// Remote messages of an acquisition of a target's lock, and its release, where all words of it are
/// reached over rails.
#[must_use]
pub const fn lock_messages(algorithm: LockAlgorithm, mode: Mode) -> Messages {
    let own = algorithm.messages(mode);
    match algorithm {
        // Its holders take a second word (see `passive`).
        LockAlgorithm::Mcs => Messages {
            alone: own.alone + LockAlgorithm::TestAndSet.messages(mode).alone,
            most: None,
        },
        _ => own,
    }
}
