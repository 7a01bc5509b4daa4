//! Timing the chunks of divided messages, so that shares can follow completions.

use crate::team::Link;
use ferrorail_base::Rank;
use ferrorail_fabric::stripe::{Chunk, RailWeights};
use ferrorail_fabric::{Fabric, Ticket};
use std::time::Instant;

/// Chunks timed at once; beyond that they are not timed.
const SAMPLES_MAX: usize = 64;

/// A chunk on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    to: Rank,
    chunk: Chunk,
    ticket: Ticket,
    /// When the first chunk of the message was posted: chunks should end together, not take the
    /// same time.
    of_message: Instant,
    start: Instant,
}

impl Sample {
    /// A chunk posted to `to` from `start` on, of a message that was begun at `of_message`.
    pub fn new(
        to: Rank,
        chunk: Chunk,
        ticket: Ticket,
        (of_message, start): (Instant, Instant),
    ) -> Self {
        Self {
            to,
            chunk,
            ticket,
            of_message,
            start,
        }
    }

    fn tell(&self, rail_weights: &mut RailWeights, since: Instant) {
        let elapsed = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        rail_weights.observe(self.chunk.rail, self.chunk.bytes, elapsed);
    }

    fn is_complete(&self, fabric: &impl Fabric) -> bool {
        // A failure is found by whoever waits for the chunk; it says nothing of speed.
        fabric.is_complete(self.ticket).unwrap_or(true)
    }
}

/// The chunks being timed.
#[derive(Debug, Default)]
pub(crate) struct RateSampler {
    samples: Vec<Sample>,
}

impl RateSampler {
    /// Starts timing a chunk that was just posted. One that is complete already was moved during
    /// the post, and is told at once: what is posted next or was before must not count.
    pub fn start(&mut self, fabric: &impl Fabric, rail_weights: &mut RailWeights, sample: Sample) {
        if sample.is_complete(fabric) {
            sample.tell(rail_weights, sample.start);
        } else if self.samples.len() < SAMPLES_MAX {
            self.samples.push(sample);
        }
    }

    /// Tells the rail weights what has completed.
    #[inline]
    pub fn read(&mut self, fabric: &impl Fabric, links: &mut [Option<Link>]) {
        self.samples.retain(|sample| {
            let complete = sample.is_complete(fabric);
            if complete && let Some(link) = &mut links[sample.to.index()] {
                sample.tell(&mut link.rail_weights, sample.of_message);
            }
            !complete
        });
    }

    /// Ends the operation: what is still on its way has taken at least until now. Later it would
    /// seem to have taken as long as the program computed.
    #[inline]
    pub fn close(&mut self, links: &mut [Option<Link>]) {
        for sample in self.samples.drain(..) {
            if let Some(link) = &mut links[sample.to.index()] {
                sample.tell(&mut link.rail_weights, sample.of_message);
            }
        }
    }
}
