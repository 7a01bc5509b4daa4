//! One step for a lock whose word this process's CPU can reach, as long as nobody need be told.
//!
//! The algorithms go step by step, as a remote word demands. Where a compare-and-swap costs no
//! message, a lock that nobody waits for is got, and given back, by one: it makes of the word what
//! the algorithm's steps would. If somebody waits the algorithm itself goes on from there.

use super::word::{QueueWord, test_and_set};
use super::{LockAlgorithm, Mode};
use ferrorail_base::sync::{AtomicU64, Ordering};

/// How often a word that changes is looked at again before the algorithm takes over.
const ATTEMPTS: u32 = 2;

impl LockAlgorithm {
    /// The word once `contender` holds the lock too, if it can have it now.
    #[inline]
    const fn entered(self, word: u64, contender: u32, mode: Mode) -> Option<u64> {
        match (self, mode) {
            (Self::TestAndSet, Mode::Exclusive) if word == test_and_set::FREE => {
                Some(test_and_set::EXCLUSIVE)
            }
            (Self::TestAndSet, Mode::Shared) if word & test_and_set::EXCLUSIVE == 0 => {
                Some(word + test_and_set::SHARED)
            }
            (Self::Queue, Mode::Exclusive) if word == 0 => Some(QueueWord::writer(contender)),
            (Self::Queue, Mode::Shared) if QueueWord(word).is_idle() => {
                Some(word + QueueWord::HOLDER)
            }
            _ => None,
        }
    }

    /// The word of a lock that `contender` alone holds, if one step from the free one leads there.
    #[inline]
    pub const fn alone(self, contender: u32, mode: Mode) -> Option<u64> {
        self.entered(0, contender, mode)
    }

    /// The word once `contender`, which holds the lock, does so no more, if it need wake nobody.
    #[inline]
    const fn left(self, word: u64, contender: u32, mode: Mode) -> Option<u64> {
        match (self, mode) {
            (Self::TestAndSet, Mode::Exclusive) => Some(word - test_and_set::EXCLUSIVE),
            (Self::TestAndSet, Mode::Shared) => Some(word - test_and_set::SHARED),
            (Self::Queue, Mode::Exclusive) if word == QueueWord::writer(contender) => Some(0),
            (Self::Queue, Mode::Shared)
                if QueueWord(word).holders() > 1 || QueueWord(word).woken().is_none() =>
            {
                Some(word - QueueWord::HOLDER)
            }
            _ => None,
        }
    }

    /// Whether `contender` got the lock in one step. The contender's [`AnyLock`](super::AnyLock) does not know:
    /// the lock is returned by [`LockAlgorithm::try_leave`], or after
    /// [`AnyLock::adopt`](super::AnyLock::adopt).
    #[inline]
    pub fn try_enter(self, word: &AtomicU64, contender: u32, mode: Mode) -> bool {
        try_change(word, 0, |seen| self.entered(seen, contender, mode))
    }

    /// Whether `contender` returned, in one step, what [`LockAlgorithm::try_enter`] got.
    #[inline]
    pub fn try_leave(self, word: &AtomicU64, contender: u32, mode: Mode) -> bool {
        let Some(alone) = self.alone(contender, mode) else {
            return false;
        };
        try_change(word, alone, |seen| self.left(seen, contender, mode))
    }
}

/// Makes of a word, which is thought to be `seen`, what `change` says.
#[inline]
fn try_change(word: &AtomicU64, mut seen: u64, change: impl Fn(u64) -> Option<u64>) -> bool {
    for _ in 0..ATTEMPTS {
        let Some(next) = change(seen) else {
            return false;
        };
        match word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(found) => seen = found,
        }
    }
    false
}
