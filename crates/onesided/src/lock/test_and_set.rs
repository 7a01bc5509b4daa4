//! Compare-and-swap on the lock word until it succeeds (thesis, section 4.3.1).

use super::word::test_and_set::{EXCLUSIVE, FREE, SHARED};
use super::{LockSite, Mode, Pause, RemoteWord};
use ferrorail_base::random::SplitMix64;

/// How long to leave the target alone after a failed attempt, in microseconds: at random between half the
/// limit and the limit, which doubles from `first` up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// First limit; 0 retries at once for ever.
    pub first: u32,
    /// Largest limit.
    pub max: u32,
}

impl Backoff {
    /// Retry at once: the algorithm as first published, kept for comparison.
    pub const NONE: Self = Self { first: 0, max: 0 };
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: 2, max: 64 }
    }
}

/// Test-and-set lock: two messages without contention, unfair, any number of contenders.
#[derive(Debug)]
pub(super) struct TestAndSetLock {
    backoff: Backoff,
    /// How it is held, while it is.
    mode: Mode,
    random: u64,
}

impl TestAndSetLock {
    /// A lock that backs off as told.
    pub const fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            mode: Mode::Shared,
            random: 0,
        }
    }

    /// Takes over a lock that was got without it.
    pub fn adopt(&mut self, mode: Mode) {
        self.mode = mode;
    }

    async fn back_off<S: LockSite>(&mut self, site: &S, limit: &mut u32) -> Result<(), S::Error> {
        // A different sequence for every contender, or they would collide again.
        let mut random = SplitMix64(self.random ^ u64::from(site.contender()));
        let half = limit.div_ceil(2);
        let units = half + (random.draw() >> 33) as u32 % (*limit - half + 1);
        self.random = random.0;
        *limit = limit.saturating_mul(2).min(self.backoff.max);
        site.pause(Pause::Backoff(units)).await
    }

    pub async fn acquire<S: LockSite>(&mut self, site: &S, mode: Mode) -> Result<(), S::Error> {
        let home = site.home();
        let mut limit = self.backoff.first;
        let mut expected = FREE;
        loop {
            let swap = match mode {
                Mode::Exclusive => EXCLUSIVE,
                Mode::Shared => expected + SHARED,
            };
            let found = home.compare_swap(expected, swap).await?;
            if found == expected {
                self.mode = mode;
                return Ok(());
            }
            if mode == Mode::Shared && found & EXCLUSIVE == 0 {
                // Another shared holder came or went: the next attempt can succeed at once.
                expected = found;
                continue;
            }
            expected = FREE;
            if limit > 0 {
                self.back_off(site, &mut limit).await?;
            }
        }
    }

    pub async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), S::Error> {
        let unit = match self.mode {
            Mode::Exclusive => EXCLUSIVE,
            Mode::Shared => SHARED,
        };
        site.home().fetch_add(unit.wrapping_neg()).await?;
        Ok(())
    }
}
