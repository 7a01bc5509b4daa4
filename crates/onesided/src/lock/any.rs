//! One of the algorithms, chosen while running.

use super::{LockError, LockSite, McsLock, Mode, QueueLock, RemoteLock, SEATS, TestAndSetLock};

/// The lock algorithms by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockAlgorithm {
    /// [`TestAndSetLock`].
    TestAndSet,
    /// [`McsLock`].
    Mcs,
    /// [`QueueLock`].
    Queue,
}

impl LockAlgorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::TestAndSet, Self::Mcs, Self::Queue];

    /// Stable name in settings and statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TestAndSet => TestAndSetLock::NAME,
            Self::Mcs => McsLock::NAME,
            Self::Queue => QueueLock::NAME,
        }
    }

    /// What suits so many contenders best that need no thread at the target.
    #[must_use]
    pub const fn for_ranks(ranks: u32) -> Self {
        match ranks <= SEATS {
            true => Self::Queue,
            false => Self::TestAndSet,
        }
    }

    /// The algorithm of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// A contender's part in a lock of any algorithm.
#[derive(Debug)]
pub enum AnyLock {
    /// Compare-and-swap with back-off.
    TestAndSet(TestAndSetLock),
    /// Queue of exclusive holders.
    Mcs(McsLock),
    /// Fair reader-writer queue.
    Queue(QueueLock),
}

impl AnyLock {
    /// A lock not held, with the algorithm's defaults.
    #[must_use]
    pub fn new(algorithm: LockAlgorithm) -> Self {
        match algorithm {
            LockAlgorithm::TestAndSet => Self::TestAndSet(TestAndSetLock::default()),
            LockAlgorithm::Mcs => Self::Mcs(McsLock::default()),
            LockAlgorithm::Queue => Self::Queue(QueueLock::default()),
        }
    }
}

impl RemoteLock for AnyLock {
    fn name(&self) -> &'static str {
        match self {
            Self::TestAndSet(lock) => lock.name(),
            Self::Mcs(lock) => lock.name(),
            Self::Queue(lock) => lock.name(),
        }
    }

    async fn acquire<S: LockSite>(
        &mut self,
        site: &S,
        mode: Mode,
    ) -> Result<(), LockError<S::Error>> {
        match self {
            Self::TestAndSet(lock) => lock.acquire(site, mode).await,
            Self::Mcs(lock) => lock.acquire(site, mode).await,
            Self::Queue(lock) => lock.acquire(site, mode).await,
        }
    }

    async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        match self {
            Self::TestAndSet(lock) => lock.release(site).await,
            Self::Mcs(lock) => lock.release(site).await,
            Self::Queue(lock) => lock.release(site).await,
        }
    }
}
