//! What a lock algorithm needs of the memory it works on, and the algorithms.

mod any;
mod arbiter;
mod mcs;
mod queue;
mod served;
mod shortcut;
mod test_and_set;
#[cfg(test)]
mod tests;
mod word;

pub use any::{AnyLock, LockAlgorithm, Messages};
pub use arbiter::Arbiter;
pub use word::SEATS;

use core::future::Future;

/// How a lock is wanted or held (`MPI_LOCK_SHARED`, `MPI_LOCK_EXCLUSIVE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Together with other shared holders.
    Shared,
    /// Alone.
    Exclusive,
}

/// How a contender enters a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entrance {
    /// In turn.
    Fair(Mode),
    /// Shared, ahead of those that wait to have it exclusively, for a contender that holds other locks
    /// meanwhile. Two such that queued up fairly could wait for ever, each behind an exclusive contender that
    /// waits for the other to leave.
    Joining,
}

impl Entrance {
    /// How the lock is held then.
    #[must_use]
    pub const fn mode(self) -> Mode {
        match self {
            Self::Fair(mode) => mode,
            Self::Joining => Mode::Shared,
        }
    }
}

/// The words that every contender owns for each lock it may wait for. Peers store to them, the
/// owner alone reads them; both are plain 64-bit accesses, never atomic updates, so
/// that the owner may use the CPU while peers use a network card.
///
/// What is stored in one only rises, and nobody clears it: that is how failover finds out whether a
/// store took effect which nobody acknowledged, and how an old grant is told from a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mailbox {
    /// The lock is handed over here.
    Grant,
    /// MCS: who queued up behind the owner.
    Next,
    /// Queue: the lock is handed over here by that contender, below [`SEATS`].
    GrantBy(u32),
}

impl Mailbox {
    /// Number of mailbox words of one contender and lock that any number of contenders share.
    pub const COMMON: usize = 2;

    /// Position among the contender's words: [`Mailbox::COMMON`], and one for each contender.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Grant => 0,
            Self::Next => 1,
            Self::GrantBy(contender) => Self::COMMON + contender as usize,
        }
    }
}

/// Why the algorithm lets time pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It looks again at a mailbox of its own; no peer is bothered by looking often.
    Mailbox,
    /// It must leave the target alone for so many microseconds at least.
    Backoff(u32),
}

/// A 64-bit word, possibly in another process. Each call is one remote message.
///
/// The effect of a call takes place between its first poll and its completion. Updates of one word
/// by all contenders are atomic towards each other, and what a contender stored before an update
/// completed is seen by whoever reads that update. A future that was polled must be polled to its end, or
/// its site must have another one of the same call take over what it posted.
pub trait RemoteWord {
    /// Why an access failed. The lock cannot be used afterwards.
    type Error;

    /// Writes the word.
    fn store(&self, value: u64) -> impl Future<Output = Result<(), Self::Error>>;

    /// Writes `swap` if the word holds `compare`; the value before.
    fn compare_swap(
        &self,
        compare: u64,
        swap: u64,
    ) -> impl Future<Output = Result<u64, Self::Error>>;

    /// Adds `add`, wrapping; the value before.
    fn fetch_add(&self, add: u64) -> impl Future<Output = Result<u64, Self::Error>>;
}

/// All that one contender sees of one lock.
pub trait LockSite {
    /// Why an access failed.
    type Error;
    /// A word in another process (or reached as if it were).
    type Word<'a>: RemoteWord<Error = Self::Error>
    where
        Self: 'a;

    /// This contender, below [`LockSite::contenders`].
    fn contender(&self) -> u32;

    /// Number of processes that may use the lock.
    fn contenders(&self) -> u32;

    /// The lock word at the target, zero at first.
    fn home(&self) -> Self::Word<'_>;

    /// A mailbox of `contender` for this lock, zero at first.
    fn mailbox(&self, contender: u32, mailbox: Mailbox) -> Self::Word<'_>;

    /// Reads a mailbox of this contender's own, with acquire ordering. Not a message.
    fn own(&self, mailbox: Mailbox) -> u64;

    /// Stores `request` in the word at the target in which this contender asks its
    /// [`Arbiter`]; zero at first, and nobody else writes it. Then makes the arbiter look there if
    /// `wake` and it sleeps. One message.
    fn ask(&self, request: u64, wake: bool) -> impl Future<Output = Result<(), Self::Error>>;

    /// Lets time pass: pending at least once, so that the poller can make progress or sleep.
    ///
    /// # Errors
    /// As an access: e.g. the peer that should hand over is known to be gone.
    fn pause(&self, why: Pause) -> impl Future<Output = Result<(), Self::Error>>;
}

/// Why a lock operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError<E> {
    /// Memory could not be reached; the state of the lock is unknown.
    #[error("the lock's memory cannot be reached: {0}")]
    Access(#[from] E),
    /// The algorithm's word has no room for so many.
    #[error("the {algorithm} lock serves at most {max} contenders, not {contenders}")]
    Contenders {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Number of contenders of the site.
        contenders: u32,
        /// Most it can serve.
        max: u32,
    },
    /// Acquired twice by the same contender.
    #[error("this process already holds the lock")]
    Held,
    /// Released without having been acquired.
    #[error("this process does not hold the lock")]
    NotHeld,
    /// Used after a failure.
    #[error("an access to the lock failed before: whether this process holds it is unknown")]
    Lost,
}

/// Waits until a mailbox of this contender's own has risen to `least`; what it holds then.
async fn await_mailbox<S: LockSite>(
    site: &S,
    mailbox: Mailbox,
    least: u64,
) -> Result<u64, S::Error> {
    loop {
        let value = site.own(mailbox);
        if value >= least {
            return Ok(value);
        }
        site.pause(Pause::Mailbox).await?;
    }
}
