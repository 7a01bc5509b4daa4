//! Store and forward: blocks known by a key move together, packed, from round to round.
//!
//! A rank holds one block per key 0..N, at first the N blocks of `Send`. A message carries the
//! blocks of some keys, packed in scratch; what arrives takes the keys that the receiver expects,
//! in the same order. No area of scratch is used twice, so nobody waits to re-use one. All ranks
//! send messages of the same lengths, which is what places the areas alike everywhere.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::pattern::{after, before};
use crate::schedule::{Schedule, Span};
use ferrorail_base::Rank;

/// One message out and one in.
pub(super) struct Message {
    pub port: u8,
    pub to: u32,
    pub from: u32,
    /// Keys whose blocks go.
    pub out: Vec<u32>,
    /// Keys that what arrives has, as many.
    pub into: Vec<u32>,
}

/// One message out and one in, alike on all ranks: keys say how far their blocks have to go.
pub(super) struct Hop {
    pub port: u8,
    pub distance: u32,
    pub keys: Vec<u32>,
}

/// The whole operation of a rank whose key j is the block for the rank j further on.
pub(super) fn by_distance(
    request: &Request<'_>,
    rounds: impl Iterator<Item = Vec<Hop>>,
) -> Schedule {
    let (size, me) = (request.topology.size(), request.rank.0);
    let mut relay = Relay::new(request, |key| after(me, key, size));
    for hops in rounds {
        let message = |hop: Hop| Message {
            port: hop.port,
            to: after(me, hop.distance, size),
            from: before(me, hop.distance, size),
            out: hop.keys.clone(),
            into: hop.keys,
        };
        let messages: Vec<_> = hops.into_iter().map(message).collect();
        relay.round(&messages);
    }
    relay.finish(0, |key| before(me, key, size))
}

pub(super) struct Relay<'a> {
    builder: ScheduleBuilder<'a>,
    ports: u8,
    /// Where the block of each key is.
    at: Vec<Span>,
    round: u32,
    /// Scratch used so far.
    used: u32,
}

impl<'a> Relay<'a> {
    /// Key x is at first block `start(x)` of `Send`.
    pub fn new(request: &Request<'a>, start: impl Fn(u32) -> u32) -> Self {
        let size = request.topology.size();
        let mut builder = request.builder();
        builder.end_round();
        Self {
            builder,
            ports: request.ports,
            at: (0..size).map(|key| Span::send(start(key), 1)).collect(),
            round: 0,
            used: 0,
        }
    }

    /// Sends and receives; an outgoing area and an incoming one per message.
    pub fn round(&mut self, messages: &[Message]) {
        let first = self.used;
        for message in messages {
            let length = message.out.len() as u32;
            for (place, &key) in (self.used..).zip(&message.out) {
                self.builder
                    .copy(self.at[key as usize], Span::scratch(place, 1));
            }
            self.builder.put(
                Rank(message.to),
                Wire::of_round(self.round, self.ports, message.port),
                Span::scratch(self.used, length),
                Span::scratch(self.used + length, length),
            );
            self.used += 2 * length;
        }
        let mut area = first;
        for message in messages {
            let length = message.into.len() as u32;
            let wire = Wire::of_round(self.round, self.ports, message.port);
            self.builder.await_put(Rank(message.from), wire, length);
            for (place, &key) in (area + length..).zip(&message.into) {
                self.at[key as usize] = Span::scratch(place, 1);
            }
            area += 2 * length;
        }
        self.builder.end_round();
        self.round += 1;
    }

    /// The block of key x ends as block `end(x)` of `Recv`. `first` is stored before the others:
    /// the key that never left `Send`.
    pub fn finish(mut self, first: u32, end: impl Fn(u32) -> u32) -> Schedule {
        let size = self.at.len() as u32;
        for key in (first..size).chain(0..first) {
            self.builder
                .copy(self.at[key as usize], Span::recv(end(key), 1));
        }
        self.builder.finish(self.used)
    }
}
