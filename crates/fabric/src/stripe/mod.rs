//! Which bytes of a message travel on which rail: decided by the origin alone.
//!
//! Striping above a threshold, one rail below it, as Qian and Afsahi describe for QsNet II (2008,
//! section 7.1). The target needs no knowledge of the split: the i-th chunk of a message raises the
//! i-th flag of its slot, on whatever rail it travelled, and every flag says how many there are
//! ([`flag_value`]). So weights may differ between origin and target and change from one message to
//! the next, and a chunk may be sent again over another rail.
//!
//! [`Planner`] is what a team fixes, [`RailWeights`] what an origin knows about its rails to one peer;
//! [`Planner::plan`] is pure but for the [`RailTurn`] of small messages. An origin has one for all peers: in a
//! round of a k-port algorithm each port's message goes to another peer, and port i is to drive a rail that
//! no other port of the round does.

mod rail_weights;
mod rate_sampler;

pub use rail_weights::{RailTurn, RailWeights};
pub use rate_sampler::{RateSampler, Sample};

use crate::RAILS_MAX;
use ferrorail_base::RailId;

/// Chunks start at multiples of this many bytes, so that rails do not share cache lines.
pub const ALIGNMENT: u64 = 64;

/// Least stripe that a planner accepts: with less, alignment could leave a chunk empty.
const STRIPE_MIN: u64 = 2 * ALIGNMENT;

/// A rail that carries nothing is tried again with every so many-th message.
const TRIAL_INTERVAL: u32 = 16;

/// Share of the fastest rail that a tried one has at least: a 32nd.
const TRIAL_SHIFT: u32 = 5;

/// A contiguous part of a message on one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The rail that carries it.
    pub rail: RailId,
    /// First byte, relative to the message.
    pub offset: u64,
    /// Length in bytes; never 0 in a striped message.
    pub bytes: u64,
}

const NO_CHUNK: Chunk = Chunk {
    rail: RailId(0),
    offset: 0,
    bytes: 0,
};

/// The value of the flags of a message of operation `op` that travels as `chunks` chunks. Values
/// rise with operations.
#[inline]
pub const fn flag_value(op: u64, chunks: u8) -> u64 {
    op << 8 | chunks as u64
}

/// Inverse of [`flag_value`].
#[inline]
pub const fn flag_parts(value: u64) -> (u64, u8) {
    (value >> 8, value as u8)
}

/// How large messages are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The same to each rail.
    Even,
    /// By the bandwidths that the rails' descriptions state, which the weights started with.
    Nominal,
    /// By speeds measured before, which the weights started with.
    Weighted,
    /// By weights that follow completions, so that all chunks of a message end together.
    Adaptive,
    /// Not at all: messages of every size take the rails in turn.
    RoundRobin,
}

/// How messages of one team are laid over its rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planner {
    policy: Policy,
    threshold_bytes: u64,
    stripe_bytes_min: u64,
}

impl Planner {
    /// Divides messages of at least `threshold_bytes` by `policy`, into chunks of at least
    /// `stripe_bytes_min` less what alignment takes away.
    pub fn new(policy: Policy, threshold_bytes: u64, stripe_bytes_min: u64) -> Self {
        Self {
            policy,
            threshold_bytes: threshold_bytes.max(1),
            stripe_bytes_min: stripe_bytes_min.max(STRIPE_MIN),
        }
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether the chunks of a message divided so are timed, for a [`RateSampler`].
    #[inline]
    pub fn times(&self, stripes: &Stripes) -> bool {
        stripes.count() > 1 && self.policy == Policy::Adaptive
    }

    /// Whether a message of `bytes` bytes may be divided.
    #[inline]
    pub fn divides(&self, bytes: u64) -> bool {
        bytes >= self.threshold_bytes
            && bytes >= 2 * self.stripe_bytes_min
            && self.policy != Policy::RoundRobin
    }

    /// The chunks of a message of `bytes` bytes. One that is not divided is one chunk, on the rail
    /// whose turn it is.
    #[inline]
    pub fn plan(&self, turn: &mut RailTurn, rail_weights: &mut RailWeights, bytes: u64) -> Stripes {
        if rail_weights.rail_count() > 1 && self.divides(bytes) {
            let stripes = self.divide(rail_weights, bytes);
            if stripes.count > 1 {
                return stripes;
            }
        }
        Stripes::whole(self.next_rail(turn, rail_weights), bytes)
    }

    /// The rail of a message that is not divided, whatever its length.
    #[inline]
    pub fn next_rail(&self, turn: &mut RailTurn, rail_weights: &RailWeights) -> RailId {
        match self.policy {
            Policy::RoundRobin => rail_weights.next_of_all(turn),
            _ => rail_weights.next_rail(turn),
        }
    }

    fn divide(&self, rail_weights: &mut RailWeights, bytes: u64) -> Stripes {
        let mut shares = rail_weights.shares();
        let shares = &mut shares[..rail_weights.rail_count()];
        match self.policy {
            Policy::Even | Policy::RoundRobin => {
                for share in &mut *shares {
                    *share = u32::from(*share > 0);
                }
            }
            Policy::Adaptive if rail_weights.tick().is_multiple_of(TRIAL_INTERVAL) => {
                let least = shares.iter().max().map_or(0, |most| most >> TRIAL_SHIFT);
                for share in shares.iter_mut().filter(|share| **share > 0) {
                    *share = (*share).max(least);
                }
            }
            Policy::Adaptive | Policy::Weighted | Policy::Nominal => {}
        }
        self.drop_light(shares, bytes);
        cut(shares, bytes)
    }

    /// Takes rails away, the lightest first, until every other's share is worth a message.
    fn drop_light(&self, shares: &mut [u32], bytes: u64) {
        loop {
            let total: u64 = shares.iter().map(|&share| u64::from(share)).sum();
            let used = shares.iter_mut().filter(|share| **share > 0);
            let Some(lightest) = used.min_by_key(|share| **share) else {
                return;
            };
            let share = u128::from(bytes) * u128::from(*lightest) / u128::from(total);
            if share >= u128::from(self.stripe_bytes_min) || u64::from(*lightest) == total {
                return;
            }
            *lightest = 0;
        }
    }
}

/// Divides `bytes` in proportion to `shares`, at aligned boundaries.
fn cut(shares: &[u32], bytes: u64) -> Stripes {
    let total: u64 = shares.iter().map(|&share| u64::from(share)).sum();
    let last = shares.iter().rposition(|&share| share > 0).unwrap_or(0);
    let mut stripes = Stripes::none();
    let (mut before, mut offset) = (0u64, 0u64);
    for (rail, &share) in shares.iter().enumerate().take(last + 1) {
        before += u64::from(share);
        let end = if rail == last {
            bytes
        } else {
            // Rounded up, so that an even split leaves the remainder to the last.
            let exact = (u128::from(bytes) * u128::from(before)).div_ceil(u128::from(total));
            (exact as u64).next_multiple_of(ALIGNMENT).min(bytes)
        };
        if end > offset {
            stripes.push(Chunk {
                rail: RailId(rail as u8),
                offset,
                bytes: end - offset,
            });
            offset = end;
        }
    }
    stripes
}

/// The chunks of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    chunks: [Chunk; RAILS_MAX],
    count: u8,
}

impl Stripes {
    fn none() -> Self {
        Self {
            chunks: [NO_CHUNK; RAILS_MAX],
            count: 0,
        }
    }

    /// One chunk.
    #[inline]
    pub fn whole(rail: RailId, bytes: u64) -> Self {
        let mut stripes = Self::none();
        stripes.push(Chunk {
            rail,
            offset: 0,
            bytes,
        });
        stripes
    }

    #[inline]
    fn push(&mut self, chunk: Chunk) {
        self.chunks[usize::from(self.count)] = chunk;
        self.count += 1;
    }

    /// The chunks in order; at least one.
    #[inline]
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks[..usize::from(self.count)]
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> u8 {
        self.count
    }
}

#[cfg(test)]
mod tests;
