//! Remote messages of locks, as windows send them.

use crate::lock::{LockAlgorithm, Messages, Mode};
use ferrorail_base::config::LockRequest;

/// Remote messages of an acquisition of a target's lock, and its release, where all words of it are
/// reached over rails.
#[must_use]
pub const fn lock_messages(algorithm: LockAlgorithm, mode: Mode, request: LockRequest) -> Messages {
    let own = algorithm.messages(mode);
    match (algorithm, mode, request) {
        // One step in and one out if nobody is there; else a message in vain before (see `early`).
        (LockAlgorithm::Queue, Mode::Shared, LockRequest::Early) => Messages {
            alone: 2,
            most: match own.most {
                Some(most) => Some(most + 1),
                None => None,
            },
        },
        // Its holders take a second word (see `passive`).
        (LockAlgorithm::Mcs, ..) => Messages {
            alone: own.alone + LockAlgorithm::TestAndSet.messages(mode).alone,
            most: None,
        },
        _ => own,
    }
}
