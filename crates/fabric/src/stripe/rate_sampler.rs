//! Timing the chunks of divided messages, so that shares can follow completions.

use super::{Chunk, RailWeights};
use crate::{Endpoint, Ticket};
use ferrorail_base::Rank;
use std::time::{Duration, Instant};

/// Chunks timed at once; beyond that they are not timed.
const SAMPLES_MAX: usize = 64;

/// A completion seen after nobody looked for more than this part of the chunk's time tells little: a quarter.
const UNSEEN_SHARE: u32 = 4;

/// A chunk on its way.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
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

    fn is_complete(&self, fabric: &impl Endpoint) -> bool {
        // A failure is found by whoever waits for the chunk; it says nothing of speed.
        fabric.is_complete(self.ticket).unwrap_or(true)
    }
}

/// The chunks being timed.
#[derive(Debug, Default)]
pub struct RateSampler {
    samples: Vec<Sample>,
    /// When somebody last looked for completions.
    looked: Option<Instant>,
}

impl RateSampler {
    /// Starts timing a chunk that was just posted. One that is complete already was moved during
    /// the post, and counts at once: what is posted next or was before must not.
    pub fn start(
        &mut self,
        fabric: &impl Endpoint,
        rail_weights: &mut RailWeights,
        sample: Sample,
    ) {
        if sample.is_complete(fabric) {
            rail_weights.observe(sample.chunk, sample.start.elapsed());
        } else if self.samples.len() < SAMPLES_MAX {
            self.looked = Some(Instant::now());
            self.samples.push(sample);
        }
    }

    /// Tells `observe` of what has completed: the peer, the chunk, and how long it took. Where the program
    /// computed since the last look, when a chunk ended is not known, and it is left out.
    #[inline]
    pub fn read(&mut self, fabric: &impl Endpoint, observe: impl FnMut(Rank, Chunk, Duration)) {
        if !self.samples.is_empty() {
            self.read_some(fabric, observe);
        }
    }

    fn read_some(
        &mut self,
        fabric: &impl Endpoint,
        mut observe: impl FnMut(Rank, Chunk, Duration),
    ) {
        let now = Instant::now();
        let unseen = self
            .looked
            .replace(now)
            .map_or(Duration::ZERO, |looked| now - looked);
        self.samples.retain(|sample| {
            let complete = sample.is_complete(fabric);
            let elapsed = now - sample.of_message;
            if complete && unseen * UNSEEN_SHARE <= elapsed {
                observe(sample.to, sample.chunk, elapsed);
            }
            !complete
        });
    }

    /// Ends the operation: what is still on its way has taken at least until now. Later it would
    /// seem to have taken as long as the program computed.
    #[inline]
    pub fn close(&mut self, mut observe: impl FnMut(Rank, Chunk, Duration)) {
        for sample in self.samples.drain(..) {
            observe(sample.to, sample.chunk, sample.of_message.elapsed());
        }
    }
}
