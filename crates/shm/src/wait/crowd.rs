//! Whether other programs use the cores of a job that has one for each of its ranks.
//!
//! A rank that yields there loses its core until such a program has used up its time slice, milliseconds in each wait,
//! and the ranks that wait for it do the same.

use ferrorail_base::process_time::now;
use ferrorail_base::sync::{AtomicU32, AtomicU64, Ordering, yield_now};
use std::time::Duration;

/// A yield that takes so long gave the core to a program that used it. A rank that waits gives it back much earlier.
const LONG: Duration = Duration::from_micros(500);

/// How long that is remembered: one time slice in so long is lost to find out again.
const MEMORY: Duration = Duration::from_millis(100);

/// Polls in any case.
const SPINS_MIN: u32 = 64;

/// What yields have shown, and waits since then.
pub(super) struct Crowd {
    /// Until when the cores count as used by others; microseconds.
    until: AtomicU64,
    /// Polls of the next wait before it sleeps: fewer after waits that polled in vain, since what they waited for may have
    /// needed this core.
    spins: AtomicU32,
}

/// Of this process.
pub(super) static CROWD: Crowd = Crowd::new();

impl Crowd {
    const fn new() -> Self {
        Self {
            until: AtomicU64::new(0),
            spins: AtomicU32::new(u32::MAX),
        }
    }

    /// Whether others use the cores.
    pub fn is_here(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0 && self.is_here_at(now())
    }

    fn is_here_at(&self, now: Duration) -> bool {
        now < Duration::from_micros(self.until.load(Ordering::Relaxed))
    }

    /// Polls of a wait that begins, of at most so many. The next has more, unless this one says that it was in vain.
    pub fn spins(&self, most: u32) -> u32 {
        let spins = self.spins.load(Ordering::Relaxed).min(most);
        self.spins.store(2 * spins, Ordering::Relaxed);
        spins
    }

    /// So many polls were in vain.
    pub fn spun_in_vain(&self, spins: u32) {
        let fewer = (spins / 4).max(SPINS_MIN);
        self.spins.store(fewer, Ordering::Relaxed);
    }

    /// Lets another process have the core, and takes note of how long it does.
    pub fn give_way(&self) {
        let before = now();
        yield_now();
        let after = now();
        self.note(after - before, after);
    }

    /// A yield that ended `now` took so long.
    pub fn note(&self, took: Duration, now: Duration) {
        let until = match took >= LONG {
            true => (now + MEMORY).as_micros() as u64,
            false => 0,
        };
        self.until.store(until, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_in_vain_become_fewer() {
        let crowd = Crowd::new();
        assert_eq!(crowd.spins(1000), 1000);
        crowd.spun_in_vain(1000);
        assert_eq!(crowd.spins(1000), 250);
        assert_eq!(crowd.spins(1000), 500);
        assert_eq!(crowd.spins(1000), 1000);
        crowd.spun_in_vain(1);
        assert_eq!(crowd.spins(1000), SPINS_MIN);
    }

    #[test]
    fn a_long_yield_is_remembered_for_a_while_or_until_a_short_one() {
        let (crowd, now) = (Crowd::new(), Duration::from_secs(5));
        assert!(!crowd.is_here_at(now));
        crowd.note(LONG, now);
        assert!(crowd.is_here_at(now));
        assert!(!crowd.is_here_at(now + MEMORY));
        crowd.note(LONG / 2, now);
        assert!(!crowd.is_here_at(now));
    }
}
