//! Time that counts only while this process runs.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A look that comes later than this after the one before counts as this: the whole machine stood still meanwhile, as an
/// emulated one does that its host halts, and the jobs that are timed with it.
const STEP_MAX: Duration = Duration::from_secs(1);

/// Runs from its making on; who waits looks at it more often than once a second.
#[derive(Debug)]
pub struct Stopwatch {
    counted: Cell<Duration>,
    looked: Cell<Instant>,
}

impl Stopwatch {
    /// One that starts now.
    pub fn start() -> Stopwatch {
        Stopwatch {
            counted: Cell::default(),
            looked: Cell::new(Instant::now()),
        }
    }

    /// Time since the start, but for what passed between two looks beyond a second.
    pub fn elapsed(&self) -> Duration {
        self.elapsed_at(Instant::now())
    }

    fn elapsed_at(&self, now: Instant) -> Duration {
        let step = now.saturating_duration_since(self.looked.replace(now));
        self.counted.set(self.counted.get() + step.min(STEP_MAX));
        self.counted.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_stood_still_gave_no_time() {
        let watch = Stopwatch::start();
        let mut now = watch.looked.get();
        let mut look = |step| {
            now += step;
            watch.elapsed_at(now)
        };
        let tenth = STEP_MAX / 10;
        assert_eq!(look(tenth), tenth);
        assert_eq!(look(tenth), 2 * tenth);
        assert_eq!(look(Duration::from_secs(120)), STEP_MAX + 2 * tenth);
        assert_eq!(look(tenth), STEP_MAX + 3 * tenth);
    }
}
