//! One of the algorithms, chosen while running.

use super::{
    Backoff, LockError, LockSite, McsLock, Mode, QueueLock, RemoteLock, SEATS, ServedLock,
    TestAndSetLock,
};

/// The lock algorithms by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockAlgorithm {
    /// [`TestAndSetLock`].
    TestAndSet,
    /// [`McsLock`].
    Mcs,
    /// [`QueueLock`].
    Queue,
    /// [`ServedLock`] with a dedicated thread.
    Thread,
    /// [`ServedLock`] with a thread that sleeps.
    Event,
}

/// Remote messages of an acquisition with its release, in the mean of all contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Where nobody else wants the lock.
    pub alone: u64,
    /// Under any contention; `None` without a bound.
    pub most: Option<u64>,
}

impl LockAlgorithm {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::TestAndSet,
        Self::Mcs,
        Self::Queue,
        Self::Thread,
        Self::Event,
    ];

    /// Stable name in settings and statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TestAndSet => TestAndSetLock::NAME,
            Self::Mcs => McsLock::NAME,
            Self::Queue => QueueLock::NAME,
            Self::Thread => ServedLock::THREAD,
            Self::Event => ServedLock::EVENT,
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

    /// Remote messages of an acquisition with its release, those of a thread at the target included.
    #[must_use]
    pub const fn messages(self, mode: Mode) -> Messages {
        let (alone, most) = match (self, mode) {
            (Self::TestAndSet | Self::Mcs, _) => (2, None),
            (Self::Queue, Mode::Exclusive) => (2, Some(4)),
            (Self::Queue, Mode::Shared) => (3, Some(4)),
            (Self::Thread | Self::Event, _) => (3, Some(3)),
        };
        Messages { alone, most }
    }

    /// Whether a thread at the target must run an [`Arbiter`](super::Arbiter).
    #[must_use]
    pub const fn is_served(self) -> bool {
        matches!(self, Self::Thread | Self::Event)
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
    /// Kept by a thread at the target.
    Served(ServedLock),
}

impl AnyLock {
    /// A lock not held, with the algorithm's defaults.
    #[must_use]
    pub fn new(algorithm: LockAlgorithm) -> Self {
        Self::with(algorithm, Backoff::default())
    }

    /// A lock not held, which backs off as told if its algorithm does.
    #[must_use]
    pub fn with(algorithm: LockAlgorithm, backoff: Backoff) -> Self {
        match algorithm {
            LockAlgorithm::TestAndSet => Self::TestAndSet(TestAndSetLock::new(backoff)),
            LockAlgorithm::Mcs => Self::Mcs(McsLock::default()),
            LockAlgorithm::Queue => Self::Queue(QueueLock::default()),
            LockAlgorithm::Thread => Self::Served(ServedLock::polled()),
            LockAlgorithm::Event => Self::Served(ServedLock::woken()),
        }
    }

    /// Whether a release begins with an addition to the target's word, so that nobody hears of it before
    /// that took effect.
    #[must_use]
    pub const fn leaves_by_adding(&self) -> bool {
        matches!(self, Self::Queue(_))
    }
}

impl RemoteLock for AnyLock {
    fn name(&self) -> &'static str {
        match self {
            Self::TestAndSet(lock) => lock.name(),
            Self::Mcs(lock) => lock.name(),
            Self::Queue(lock) => lock.name(),
            Self::Served(lock) => lock.name(),
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
            Self::Served(lock) => lock.acquire(site, mode).await,
        }
    }

    async fn acquire_shared<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        match self {
            Self::TestAndSet(lock) => lock.acquire_shared(site).await,
            Self::Mcs(lock) => lock.acquire_shared(site).await,
            Self::Queue(lock) => lock.acquire_shared(site).await,
            Self::Served(lock) => lock.acquire_shared(site).await,
        }
    }

    async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        match self {
            Self::TestAndSet(lock) => lock.release(site).await,
            Self::Mcs(lock) => lock.release(site).await,
            Self::Queue(lock) => lock.release(site).await,
            Self::Served(lock) => lock.release(site).await,
        }
    }
}
