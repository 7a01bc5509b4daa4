//! The algorithms by name, and a contender's part in a lock of any of them.

use super::mcs::McsLock;
use super::queue::QueueLock;
use super::served::ServedLock;
use super::test_and_set::TestAndSetLock;
use super::word::mcs;
use super::{Entrance, LockError, LockSite, Mode, SEATS};
use ferrorail_base::config::LockBackoff;
use serde::{Deserialize, Serialize};

/// The lock algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LockAlgorithm {
    /// Compare-and-swap until it succeeds, with exponential back-off: two messages without contention, unfair.
    TestAndSet,
    /// A queue of exclusive holders, also of those that asked for shared; the swap is emulated by
    /// compare-and-swap.
    Mcs,
    /// A fair reader-writer queue for up to [`SEATS`] contenders: at most four messages under any contention,
    /// by fetch-and-add alone.
    Queue,
    /// Kept by a thread of the target that polls: fair, reader-writer.
    Thread,
    /// The same by a thread that sleeps, and that requests wake.
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
            Self::TestAndSet => "test_and_set",
            Self::Mcs => "mcs",
            Self::Queue => "queue",
            Self::Thread => "thread",
            Self::Event => "event",
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

    /// Most contenders of a lock.
    const fn contenders_max(self) -> u32 {
        match self {
            Self::Mcs => mcs::CONTENDERS,
            Self::Queue => SEATS,
            Self::TestAndSet | Self::Thread | Self::Event => u32::MAX,
        }
    }

    /// The algorithm of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// One contender's part in one lock: what the algorithm remembers.
///
/// The value must be used with the same site always, as long as there is the lock, and all contenders
/// with the same algorithm.
#[derive(Debug)]
pub struct AnyLock {
    algorithm: LockAlgorithm,
    /// How it is held, if it is.
    held: Option<Mode>,
    /// Whether an access failed, so that nobody knows.
    lost: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    TestAndSet(TestAndSetLock),
    Mcs(McsLock),
    Queue(QueueLock),
    Served(ServedLock),
}

impl AnyLock {
    /// A lock not held, which backs off as told if its algorithm does.
    #[must_use]
    pub fn new(algorithm: LockAlgorithm, backoff: Option<LockBackoff>) -> Self {
        Self {
            algorithm,
            held: None,
            lost: false,
            state: match algorithm {
                LockAlgorithm::TestAndSet => State::TestAndSet(TestAndSetLock::new(backoff)),
                LockAlgorithm::Mcs => State::Mcs(McsLock::default()),
                LockAlgorithm::Queue => State::Queue(QueueLock::default()),
                LockAlgorithm::Thread => State::Served(ServedLock::new(false)),
                LockAlgorithm::Event => State::Served(ServedLock::new(true)),
            },
        }
    }

    /// Acquires the lock. The future must not be dropped once polled, or others wait for ever. Nothing of
    /// `self` changes before its first access to the site is complete: a site may post that, and have the
    /// future of a later call with the same arguments await it.
    ///
    /// # Errors
    /// [`LockError`].
    pub async fn acquire<S: LockSite>(
        &mut self,
        site: &S,
        entrance: Entrance,
    ) -> Result<(), LockError<S::Error>> {
        if self.lost {
            return Err(LockError::Lost);
        }
        if self.held.is_some() {
            return Err(LockError::Held);
        }
        let (contenders, max) = (site.contenders(), self.algorithm.contenders_max());
        if contenders > max {
            return Err(LockError::Contenders {
                algorithm: self.algorithm.name(),
                contenders,
                max,
            });
        }
        match &mut self.state {
            State::TestAndSet(lock) => lock.acquire(site, entrance.mode()).await?,
            State::Mcs(lock) => lock.acquire(site).await?,
            State::Queue(lock) => lock.acquire(site, entrance).await?,
            State::Served(lock) => lock.acquire(site, entrance).await?,
        }
        self.held = Some(entrance.mode());
        Ok(())
    }

    /// Takes over what [`LockAlgorithm::try_enter`] got.
    pub fn adopt(&mut self, mode: Mode) {
        let alone = self.algorithm.alone(0, mode);
        debug_assert!(alone.is_some(), "the algorithm has no shortcut");
        self.held = Some(mode);
    }

    /// Releases what [`AnyLock::acquire`] got. On completion the target and the next holder know.
    ///
    /// # Errors
    /// [`LockError`].
    pub async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        if self.lost {
            return Err(LockError::Lost);
        }
        let mode = self.held.take().ok_or(LockError::NotHeld)?;
        match &mut self.state {
            State::TestAndSet(lock) => lock.release(site, mode).await?,
            State::Mcs(lock) => lock.release(site).await?,
            State::Queue(lock) => lock.release(site, mode).await?,
            State::Served(lock) => lock.release(site).await?,
        }
        Ok(())
    }

    /// Says that acquiring or releasing failed on the way. Had it taken effect all the same, doing it again would change what the
    /// word says of others: from now on both fail before they touch it.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// Whether nobody knows what this contender has of the lock.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> LockAlgorithm {
        self.algorithm
    }
}
