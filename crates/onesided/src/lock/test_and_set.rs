//! Compare-and-swap on the lock word until it succeeds (thesis, section 4.3.1).

use super::word::test_and_set::{EXCLUSIVE, FREE, SHARED};
use super::{LockSite, Mode, Pause, RemoteWord};
use ferrorail_base::config::LockBackoff;
use ferrorail_base::random::SplitMix64;

/// Test-and-set lock: two messages without contention, unfair, any number of contenders.
#[derive(Debug)]
pub(super) struct TestAndSetLock {
    /// How long to leave the target alone after a failed attempt: at random between half the limit and the limit,
    /// which doubles. `None` tries again at once: the algorithm as first published, kept for comparison.
    backoff: Option<LockBackoff>,
    random: u64,
}

impl TestAndSetLock {
    /// A lock that backs off as told.
    pub const fn new(backoff: Option<LockBackoff>) -> Self {
        Self { backoff, random: 0 }
    }

    /// Leaves the target alone within a limit of microseconds; the next one.
    async fn back_off<S: LockSite>(
        &mut self,
        site: &S,
        limit: u32,
        max: u32,
    ) -> Result<u32, S::Error> {
        // A different sequence for every contender, or they would collide again.
        let mut random = SplitMix64(self.random ^ u64::from(site.contender()));
        let half = limit.div_ceil(2);
        let units = half + (random.draw() >> 33) as u32 % (limit - half + 1);
        self.random = random.0;
        site.pause(Pause::Backoff(units)).await?;
        Ok(limit.saturating_mul(2).min(max))
    }

    pub async fn acquire<S: LockSite>(&mut self, site: &S, mode: Mode) -> Result<(), S::Error> {
        let home = site.home();
        let mut backoff = self.backoff;
        let mut expected = FREE;
        loop {
            let swap = match mode {
                Mode::Exclusive => EXCLUSIVE,
                Mode::Shared => expected + SHARED,
            };
            let found = home.compare_swap(expected, swap).await?;
            if found == expected {
                return Ok(());
            }
            if mode == Mode::Shared && found & EXCLUSIVE == 0 {
                // Another shared holder came or went: the next attempt can succeed at once.
                expected = found;
                continue;
            }
            expected = FREE;
            if let Some(LockBackoff { first_us, max_us }) = &mut backoff {
                *first_us = self.back_off(site, *first_us, *max_us).await?;
            }
        }
    }

    pub async fn release<S: LockSite>(&self, site: &S, mode: Mode) -> Result<(), S::Error> {
        let unit = match mode {
            Mode::Exclusive => EXCLUSIVE,
            Mode::Shared => SHARED,
        };
        site.home().fetch_add(unit.wrapping_neg()).await?;
        Ok(())
    }
}
