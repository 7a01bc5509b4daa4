//! The measured round trip, time-stamps and jitter.

use crate::config::{Time, Timers};
use ferrorail_base::random::SplitMix64;

/// The clock on the wire: units of 64 ns that wrap after 4.5 minutes; 0 stands for none.
pub(crate) fn stamp(now: Time) -> u32 {
    ((now.0 >> 6) as u32).max(1)
}

/// Jacobson's estimator. A member answers only when its process polls, so samples may be far too long:
/// each counts for four times the present estimate at most, and of the first ones a much shorter one
/// replaces it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    smoothed: u64,
    deviation: u64,
    pub samples: u64,
    /// What bounds are multiplied by: more after requests for what came by itself.
    caution: u64,
    timers: Timers,
}

/// So many samples may each replace the estimate, which is a guess before them.
const FIRST_SAMPLES: u64 = 8;

/// Largest factor of caution.
const CAUTION_MAX: u64 = 16;

impl RoundTrip {
    pub fn new(timers: Timers) -> Self {
        let smoothed = timers.initial_round_trip;
        Self {
            smoothed,
            deviation: smoothed / 2,
            samples: 0,
            caution: 1,
            timers,
        }
    }

    /// The answer to a datagram with time-stamp `echo` came at `now`.
    pub fn sample(&mut self, echo: u32, now: Time) {
        let nanoseconds = (u64::from(stamp(now).wrapping_sub(echo)) << 6).max(64);
        self.samples += 1;
        let first = self.samples <= FIRST_SAMPLES && nanoseconds < self.smoothed / 4;
        if first || (self.samples == 1 && nanoseconds < self.smoothed) {
            (self.smoothed, self.deviation) = (nanoseconds, nanoseconds / 2);
            return;
        }
        let sample = nanoseconds.min(4 * self.smoothed);
        self.deviation = (3 * self.deviation + self.smoothed.abs_diff(sample)) / 4;
        self.smoothed = ((7 * self.smoothed + sample) / 8).max(64);
    }

    /// A repair came to what was here already: its request was too early, as where processes wait for a
    /// processor. A network that doubles datagrams makes requests late as well, which costs time and
    /// nothing else.
    pub fn asked_too_early(&mut self) {
        self.caution = (2 * self.caution).min(CAUTION_MAX);
    }

    /// A repair brought what was missing.
    pub fn asked_in_time(&mut self) {
        self.caution = (self.caution - 1).max(1);
    }

    /// The estimate in nanoseconds.
    pub fn estimate(&self) -> u64 {
        self.smoothed
    }

    /// After this many nanoseconds an answer is late.
    pub fn late(&self) -> u64 {
        let late = self.smoothed.saturating_add(4 * self.deviation);
        let late = late.saturating_mul(self.caution);
        late.clamp(self.timers.shortest, self.timers.longest)
    }

    /// When attempt `tries` (from 0) is late: twice as long each time, within the bounds.
    pub fn late_after(&self, tries: u32) -> u64 {
        let factor = 1u64.checked_shl(tries.min(40)).unwrap_or(u64::MAX);
        self.late().saturating_mul(factor).min(self.timers.longest)
    }
}

/// A small generator of jitter.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(pub SplitMix64);

impl Jitter {
    /// A number below `bound`, 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.draw()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds after which time-stamps begin again.
    const WRAP: u64 = 1 << 38;

    #[test]
    fn a_round_trip_across_the_wrap_of_time_stamps_is_as_long_as_any() {
        for sent in [1 << 20, WRAP - 4096, 3 * WRAP - 4096] {
            let mut round_trip = RoundTrip::new(Timers::default());
            for _ in 0..2 * FIRST_SAMPLES {
                round_trip.sample(stamp(Time(sent)), Time(sent + 8192));
            }
            assert_eq!(round_trip.estimate(), 8192, "sent at {sent}");
        }
    }
}
