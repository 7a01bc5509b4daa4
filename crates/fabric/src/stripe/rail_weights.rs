//! What an origin knows about its rails to one peer.

use super::Chunk;
use crate::RAILS_MAX;
use ferrorail_base::RailId;
use std::time::Duration;

/// Weight of a rail of which nothing is known.
const UNKNOWN: u32 = 1 << 10;

/// Largest weight: sums and products of all rails' stay far from overflow.
const WEIGHT_MAX: u32 = 1 << 28;

/// A new sample of a rail's speed counts for a quarter,
const SMOOTHING: i64 = 4;

/// if it is of at least so many bytes, and the less the shorter it is: what is short takes as long
/// as the latency and the scheduler make it, and says little of the speed.
const SAMPLE_BYTES: u64 = 64 << 10;

/// What the rails of one choice gain together, and the chosen one pays.
const STAKE: i64 = 1 << 48;

/// Whose turn it is among the rails, for the undivided messages of an origin to all its peers: k short
/// messages in a row, each to another peer, leave on k rails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RailTurn {
    /// Of the smooth weighted turn: every rail gains its share, the chosen one pays the sum.
    credit: [i64; RAILS_MAX],
    /// Of the last choice: the sum of the weights, and [`STAKE`] divided by it, as to divide takes long.
    total: i64,
    unit: i64,
}

impl RailTurn {
    /// As if so many messages had taken `rails` equal rails: processes that share rails begin at
    /// different ones.
    ///
    /// # Panics
    /// As [`RailWeights::equal`].
    pub fn after(messages: usize, rails: usize) -> Self {
        let mut turn = Self::default();
        let rail_weights = RailWeights::equal(rails);
        for _ in 0..messages % rails {
            rail_weights.next_rail(&mut turn);
        }
        turn
    }

    /// The next of the rails `wanted`, as bits, at least one: as often as `weights` say.
    #[inline]
    fn next(&mut self, wanted: u8, weights: &[u32; RAILS_MAX]) -> RailId {
        let rails = || Bits(wanted);
        let total: i64 = rails().map(|rail| i64::from(weights[rail])).sum();
        if self.total != total {
            // Weights of the rails to different peers have different units.
            (self.total, self.unit) = (total, STAKE / total.max(1));
        }
        let unit = self.unit;
        let (mut best, mut most) = (0, i64::MIN);
        for rail in rails() {
            let credit = self.credit[rail] + i64::from(weights[rail]) * unit;
            self.credit[rail] = credit;
            if credit > most {
                (best, most) = (rail, credit);
            }
        }
        self.credit[best] = most - total * unit;
        RailId(best as u8)
    }
}

/// The numbers of the bits that are set.
struct Bits(u8);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let next = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (next < RAILS_MAX).then_some(next)
    }
}

/// Relative speeds of the rails to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailWeights {
    weights: [u32; RAILS_MAX],
    /// Rails whose speed was measured, as bits.
    measured: u8,
    /// Rails that carry nothing to this peer, as bits.
    excluded: u8,
    /// Rails that carry nothing at present, as bits.
    avoided: u8,
    /// Rails that undivided messages keep to, as bits.
    numa_local: u8,
    rails: u8,
    ticks: u32,
}

impl RailWeights {
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
            measured: 0,
            excluded: 0,
            avoided: 0,
            numa_local: u8::MAX,
            rails: rails as u8,
            ticks: 0,
        }
    }

    /// Without the rails of these bits, for good: they do not reach the peer.
    ///
    /// # Panics
    /// If none is left.
    #[must_use]
    pub fn without(mut self, excluded: u8) -> Self {
        self.excluded |= excluded;
        for rail in 0..self.rail_count() {
            if self.excluded & 1 << rail != 0 {
                self.weights[rail] = 0;
            }
        }
        assert!(
            self.weights.iter().any(|&weight| weight > 0),
            "a rail is left"
        );
        self
    }

    /// With undivided messages keeping to the rails of these bits, as long as one of them carries:
    /// what is short goes where the way from memory to device is short.
    #[must_use]
    pub fn numa_local(mut self, numa_local: u8) -> Self {
        self.numa_local = numa_local;
        self
    }

    /// Rails of these speeds, in any unit; 0 is unknown and counts as the mean of the others.
    ///
    /// # Panics
    /// As [`RailWeights::equal`].
    pub fn weighted(speeds: &[u64]) -> Self {
        let mut rail_weights = Self::equal(speeds.len());
        let known = || speeds.iter().copied().filter(|&speed| speed > 0);
        let Some(most) = known().max() else {
            return rail_weights;
        };
        // The largest speed becomes 2^20: whatever the unit, ratios survive.
        let scale = |speed: u64| (u128::from(speed) << 20).div_ceil(u128::from(most)) as u32;
        let mean =
            known().map(|speed| u64::from(scale(speed))).sum::<u64>() / known().count() as u64;
        for (weight, &speed) in rail_weights.weights.iter_mut().zip(speeds) {
            *weight = match speed {
                0 => mean as u32,
                speed => scale(speed),
            };
        }
        rail_weights
    }

    /// Leaves out, until told otherwise, the rails that a process knows by the numbers `local` and that
    /// are `out_of_use`, as bits of those numbers; none if that were all. One rail alone is not asked for.
    #[inline]
    pub fn avoid(&mut self, local: &[RailId], out_of_use: impl FnOnce() -> u8) {
        if self.rails == 1 {
            return;
        }
        self.avoided = 0;
        let out_of_use = out_of_use();
        if out_of_use != 0 {
            let out = local.iter().map(|rail| out_of_use >> rail.0 & 1);
            self.avoided = (out.enumerate()).fold(0, |all, (rail, out)| all | out << rail);
            if self.avoided != 0 && self.shares().iter().all(|&share| share == 0) {
                self.avoided = 0;
            }
        }
    }

    /// Shares of the rails in a divided message: their weights, unless they are avoided.
    pub(super) fn shares(&self) -> [u32; RAILS_MAX] {
        let mut shares = self.weights;
        for (rail, share) in shares.iter_mut().enumerate() {
            if self.avoided & 1 << rail != 0 {
                *share = 0;
            }
        }
        shares
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

    /// The rail of the next undivided message: NUMA-local rails come in turn, as often as their weights
    /// say, and k messages in a row over k equal ones take all of them.
    #[inline]
    pub fn next_rail(&self, turn: &mut RailTurn) -> RailId {
        self.next_of(turn, self.numa_local & !self.excluded)
    }

    /// [`RailWeights::next_rail`] among all rails.
    #[inline]
    pub(super) fn next_of_all(&self, turn: &mut RailTurn) -> RailId {
        self.next_of(turn, u8::MAX)
    }

    #[inline]
    fn next_of(&self, turn: &mut RailTurn, wanted: u8) -> RailId {
        if self.rails == 1 {
            return RailId(0);
        }
        let all = ((1u16 << self.rails) - 1) as u8 & !self.excluded & !self.avoided;
        let wanted = if wanted & all == 0 { all } else { wanted & all };
        turn.next(wanted, &self.weights)
    }

    /// Takes note that `chunk` took `elapsed` from the posting of its message to its completion, waiting for
    /// others included: what counts is when it ends.
    pub fn observe(&mut self, chunk: Chunk, elapsed: Duration) {
        let (index, bytes) = (chunk.rail.index(), chunk.bytes);
        if index >= self.rail_count() || bytes == 0 || self.excluded & 1 << index != 0 {
            return;
        }
        // Bytes per millisecond: 1 KB/s to 268 GB/s are told apart.
        let speed = u128::from(bytes) * 1_000_000 / elapsed.as_nanos().max(1);
        let speed = speed.clamp(1, u128::from(WEIGHT_MAX)) as u32;
        if self.measured == 0 {
            // Rails nobody has measured yet count as this one: they will be tried.
            for rail in 0..self.rail_count() {
                if self.excluded & 1 << rail == 0 {
                    self.weights[rail] = speed;
                }
            }
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
