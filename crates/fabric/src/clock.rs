//! What times of failures are measured by.

use std::fmt::Debug;
use std::time::Instant;

/// Tells the time: that of the system, or of a simulation.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Instant;
}

/// The time of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}
