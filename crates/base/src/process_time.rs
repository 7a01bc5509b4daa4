//! Time that is kept in one word.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Since this process asked first.
pub fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
