//! The time that all processes of a host share.

use nix::time::{ClockId, clock_gettime};

/// In nanoseconds.
#[inline]
pub fn host_time_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
