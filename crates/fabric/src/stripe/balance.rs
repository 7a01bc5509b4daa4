//! What an origin knows about its rails to one peer.

use crate::RAILS_MAX;
use ferrorail_base::RailId;

/// Weight of a rail of which nothing is known.
const UNKNOWN: u32 = 1 << 10;

/// Largest weight: sums and products of all rails' stay far from overflow.
const WEIGHT_MAX: u32 = 1 << 28;

/// A new sample of a rail's speed counts for a quarter,
const SMOOTHING: i64 = 4;

/// if it is of at least so many bytes, and the less the shorter it is: what is short takes as long
/// as the latency and the scheduler make it, and says little of the speed.
const SAMPLE_BYTES: u64 = 64 << 10;

/// Relative speeds of the rails to one peer, and whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    weights: [u32; RAILS_MAX],
    /// Of the smooth weighted turn: every rail gains its weight, the chosen one pays the sum.
    credit: [i64; RAILS_MAX],
    /// Rails whose speed was measured, as bits.
    measured: u8,
    rails: u8,
    ticks: u32,
}

impl Balance {
    /// Rails 0 to `rails` - 1, equal to each other.
    ///
    /// # Panics
    /// If there is no rail or more than [`RAILS_MAX`].
    pub fn equal(rails: usize) -> Self {
        assert!((1..=RAILS_MAX).contains(&rails), "1 to {RAILS_MAX} rails");
        let mut weights = [0; RAILS_MAX];
        weights[..rails].fill(UNKNOWN);
        Self {
            weights,
            credit: [0; RAILS_MAX],
            measured: 0,
            rails: rails as u8,
            ticks: 0,
        }
    }

    /// Rails of these speeds, in any unit; 0 is unknown and counts as the mean of the others.
    ///
    /// # Panics
    /// As [`Balance::equal`].
    pub fn weighted(speeds: &[u64]) -> Self {
        let mut balance = Self::equal(speeds.len());
        let known = || speeds.iter().copied().filter(|&speed| speed > 0);
        let Some(most) = known().max() else {
            return balance;
        };
        // The largest speed becomes 2^20: whatever the unit, ratios survive.
        let scale = |speed: u64| (u128::from(speed) << 20).div_ceil(u128::from(most)) as u32;
        let mean =
            known().map(|speed| u64::from(scale(speed))).sum::<u64>() / known().count() as u64;
        for (weight, &speed) in balance.weights.iter_mut().zip(speeds) {
            *weight = match speed {
                0 => mean as u32,
                speed => scale(speed),
            };
        }
        balance
    }

    /// Number of rails.
    #[inline]
    pub fn rail_count(&self) -> usize {
        usize::from(self.rails)
    }

    /// Weights by rail; 0 beyond the last.
    #[inline]
    pub fn weights(&self) -> &[u32; RAILS_MAX] {
        &self.weights
    }

    /// Counts a divided message.
    pub(super) fn tick(&mut self) -> u32 {
        self.ticks = self.ticks.wrapping_add(1);
        self.ticks
    }

    /// The rail of the next undivided message: rails come in turn, as often as their weights say,
    /// and k messages in a row over k equal rails take all of them.
    #[inline]
    pub fn next_rail(&mut self) -> RailId {
        if self.rails == 1 {
            return RailId(0);
        }
        let (mut best, mut total) = (0, 0);
        for rail in 0..self.rail_count() {
            let weight = i64::from(self.weights[rail]);
            self.credit[rail] += weight;
            total += weight;
            if self.credit[rail] > self.credit[best] {
                best = rail;
            }
        }
        self.credit[best] -= total;
        RailId(best as u8)
    }

    /// Takes note that a chunk of `bytes` bytes on `rail` took `nanoseconds` from the posting of its
    /// message to its completion, waiting for others included: what counts is when it ends.
    pub fn observe(&mut self, rail: RailId, bytes: u64, nanoseconds: u64) {
        let index = rail.index();
        if index >= self.rail_count() || bytes == 0 {
            return;
        }
        // Bytes per millisecond: 1 KB/s to 268 GB/s are told apart.
        let speed = u128::from(bytes) * 1_000_000 / u128::from(nanoseconds.max(1));
        let speed = speed.clamp(1, u128::from(WEIGHT_MAX)) as u32;
        if self.measured == 0 {
            // Rails nobody has measured yet count as this one: they will be tried.
            self.weights[..usize::from(self.rails)].fill(speed);
            self.credit = [0; RAILS_MAX];
        }
        let bit = 1 << index;
        self.weights[index] = if self.measured & bit == 0 {
            speed
        } else {
            let weight = i64::from(self.weights[index]);
            let difference = i64::from(speed) - weight;
            let counts = bytes.min(SAMPLE_BYTES) as i64;
            let change = difference * counts / (SMOOTHING * SAMPLE_BYTES as i64);
            (weight + change).clamp(1, i64::from(WEIGHT_MAX)) as u32
        };
        self.measured |= bit;
    }
}
