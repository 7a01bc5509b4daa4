//! What is around the calls of a cell: their buffers, when ranks arrive, whether a barrier follows.

use ferrorail_base::random::SplitMix64;
use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// Longest that a rank comes late on purpose.
const LATE_MAX: Duration = Duration::from_millis(1);

/// Which buffers calls use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reuse {
    /// Others in each call, round and round through more memory than the caches hold.
    Rotating,
    /// The same in each call, as IMB does by default.
    Warm,
    /// As rotating, and each rank writes what it sends before the call, as programs do.
    Dirty,
}

/// When ranks begin a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrival {
    /// As soon as they have finished the one before.
    Even,
    /// After a pause of up to the time of one of the host's calls, another for each rank and call.
    Random,
}

/// How a cell is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Which buffers.
    pub reuse: Reuse,
    /// When ranks arrive.
    pub arrival: Arrival,
    /// Whether the host's barrier follows each call.
    pub barrier: bool,
}

impl Mode {
    /// The usual one.
    pub const PLAIN: Self = Self {
        reuse: Reuse::Rotating,
        arrival: Arrival::Even,
        barrier: false,
    };

    /// What distinguishes it in the names of rows; nothing for [`Mode::PLAIN`].
    pub fn suffix(&self) -> String {
        let reuse = match self.reuse {
            Reuse::Rotating => "",
            Reuse::Warm => "+warm",
            Reuse::Dirty => "+dirty",
        };
        let arrival = match self.arrival {
            Arrival::Even => "",
            Arrival::Random => "+random",
        };
        let barrier = if self.barrier { "+barrier" } else { "" };
        format!("{reuse}{arrival}{barrier}")
    }

    /// Whether ranks do something before each call, which its time leaves out.
    pub fn prepares(&self) -> bool {
        self.reuse == Reuse::Dirty || self.arrival == Arrival::Random
    }

    /// Each combination.
    pub fn all(reuses: &[Reuse], arrivals: &[Arrival], barriers: &[bool]) -> Vec<Self> {
        let mut modes = Vec::new();
        for &barrier in barriers {
            for &arrival in arrivals {
                modes.extend(reuses.iter().map(|&reuse| Self {
                    reuse,
                    arrival,
                    barrier,
                }));
            }
        }
        modes
    }
}

/// The word that chooses `value`.
pub fn word(value: impl clap::ValueEnum) -> Option<String> {
    let chosen = value.to_possible_value()?;
    Some(chosen.get_name().to_owned())
}

/// How long `rank` pauses before its call number `call`: evenly spread from nothing to `call_us`, which is
/// what one takes; the same for every implementation.
pub fn pause(rank: usize, call: usize, call_us: f64) -> Duration {
    let bits = SplitMix64((rank as u64) << 32 | call as u64).draw();
    let part = (bits >> 11) as f64 / (1u64 << 53) as f64;
    Duration::from_secs_f64(call_us.clamp(0.0, 1e6) * 1e-6)
        .min(LATE_MAX)
        .mul_f64(part)
}

/// Computes for so long.
pub fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_has_a_name_of_its_own() {
        let modes = Mode::all(
            &[Reuse::Rotating, Reuse::Warm, Reuse::Dirty],
            &[Arrival::Even, Arrival::Random],
            &[false, true],
        );
        let names: std::collections::BTreeSet<String> = modes.iter().map(Mode::suffix).collect();
        assert_eq!((modes.len(), names.len()), (12, 12));
        assert_eq!(modes[0], Mode::PLAIN);
        assert_eq!(
            (Mode::PLAIN.suffix(), modes[11].suffix()),
            (String::new(), "+dirty+random+barrier".into())
        );
    }

    #[test]
    fn pauses_are_spread_over_the_time_of_a_call() {
        let pauses: Vec<Duration> = (0..1000).map(|call| pause(3, call, 100.0)).collect();
        let below = |us| {
            pauses
                .iter()
                .filter(|pause| **pause < Duration::from_micros(us))
                .count()
        };
        assert_eq!(below(101), 1000);
        assert!((400..600).contains(&below(50)), "{}", below(50));
        assert_ne!(pause(3, 7, 100.0), pause(4, 7, 100.0));
        assert!((0..100).all(|call| pause(0, call, 1e9) <= LATE_MAX));
    }
}
