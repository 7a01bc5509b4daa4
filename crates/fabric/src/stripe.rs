//! Which bytes of a message travel on which rail: a pure function both sides compute alike.
//!
//! Even striping above a threshold, one rail below it, as Qian and Afsahi describe for QsNet II
//! (2008, section 7.1): a striped message is complete when the notification of each of its rails
//! has arrived.

use crate::RAILS_MAX;
use ferrorail_base::RailId;

/// Chunks start at multiples of this many bytes, so that rails do not share cache lines.
pub const ALIGNMENT: u64 = 64;

/// A contiguous part of a message on one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The rail that carries it, which is also the index of its arrival flag.
    pub rail: RailId,
    /// First byte, relative to the message.
    pub offset: u64,
    /// Length in bytes; never 0 in a striped message.
    pub bytes: u64,
}

/// How messages of one team are laid over its rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripePolicy {
    rails: [RailId; RAILS_MAX],
    rail_count: u8,
    threshold_bytes: u64,
}

impl StripePolicy {
    /// Stripes messages of at least `threshold_bytes` evenly over `rails`.
    ///
    /// # Panics
    /// If there is no rail or more than [`RAILS_MAX`].
    pub fn even(rails: &[RailId], threshold_bytes: u64) -> Self {
        assert!(
            !rails.is_empty() && rails.len() <= RAILS_MAX,
            "1 to {RAILS_MAX} rails"
        );
        let mut policy = Self {
            rails: [RailId(0); RAILS_MAX],
            rail_count: rails.len() as u8,
            threshold_bytes: threshold_bytes.max(1),
        };
        policy.rails[..rails.len()].copy_from_slice(rails);
        policy
    }

    /// Rails in use.
    pub fn rails(&self) -> &[RailId] {
        &self.rails[..self.rail_count as usize]
    }

    /// The chunks of a message of `bytes` bytes sent through `port`. Below the threshold it is one
    /// chunk on rail `port mod rails`, which spreads the ports of a multi-port algorithm.
    #[inline]
    pub fn chunks(&self, bytes: u64, port: u8) -> Chunks<'_> {
        let count = u64::from(self.rail_count);
        if count == 1 || bytes < self.threshold_bytes {
            return Chunks {
                policy: self,
                next: port % self.rail_count,
                left: 1,
                offset: 0,
                bytes,
                share: bytes,
            };
        }
        let share = bytes.div_ceil(count).next_multiple_of(ALIGNMENT);
        let left = bytes.div_ceil(share) as u8;
        Chunks {
            policy: self,
            next: 0,
            left,
            offset: 0,
            bytes,
            share,
        }
    }
}

/// Iterator over the [`Chunk`]s of one message.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    policy: &'a StripePolicy,
    next: u8,
    left: u8,
    offset: u64,
    bytes: u64,
    share: u64,
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    #[inline]
    fn next(&mut self) -> Option<Chunk> {
        if self.left == 0 {
            return None;
        }
        let bytes = self.share.min(self.bytes - self.offset);
        let chunk = Chunk {
            rail: self.policy.rails[self.next as usize],
            offset: self.offset,
            bytes,
        };
        self.next += 1;
        self.left -= 1;
        self.offset += bytes;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(rails: u8, threshold: u64) -> StripePolicy {
        StripePolicy::even(&(0..rails).map(RailId).collect::<Vec<_>>(), threshold)
    }

    #[test]
    fn small_messages_take_the_port_s_rail() {
        let policy = policy(2, 1024);
        let chunks: Vec<_> = policy.chunks(1023, 3).collect();
        assert_eq!(
            chunks,
            [Chunk {
                rail: RailId(1),
                offset: 0,
                bytes: 1023
            }]
        );
        assert_eq!(
            policy.chunks(0, 0).count(),
            1,
            "an empty message still notifies"
        );
    }

    #[test]
    fn striped_messages_are_even() {
        let policy = policy(2, 1024);
        let chunks: Vec<_> = policy.chunks(1 << 20, 1).collect();
        assert_eq!(chunks.len(), 2);
        assert_eq!(chunks[0].bytes, chunks[1].bytes);
    }

    proptest! {
        #[test]
        fn chunks_tile_the_message(bytes in 0u64..1 << 40, rails in 1u8..=8, port in 0u8..16,
                                   threshold in 0u64..1 << 20) {
            let policy = policy(rails, threshold);
            let chunks: Vec<_> = policy.chunks(bytes, port).collect();
            let mut offset = 0;
            for (i, chunk) in chunks.iter().enumerate() {
                prop_assert_eq!(chunk.offset, offset);
                prop_assert!(chunk.bytes > 0 || bytes == 0);
                prop_assert!(chunks[..i].iter().all(|c| c.rail != chunk.rail));
                prop_assert_eq!(chunk.offset % ALIGNMENT, 0);
                offset += chunk.bytes;
            }
            prop_assert_eq!(offset, bytes);
            if bytes < threshold { prop_assert_eq!(chunks.len(), 1); }
        }
    }
}
