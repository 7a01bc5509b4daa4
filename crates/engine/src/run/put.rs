//! Putting: through shared memory inside the node, over rails between nodes.

use super::Run;
use super::message::{Message, link_to};
use super::ready_to_receive::REFUSED;
use super::staged::StagedRequest;
use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::team::link::Link;
use crate::team::map::TeamRails;
use crate::team::state::State;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Buffer, Slot, Span};
use ferrorail_fabric::stripe::{Sample, Stripes, flag_value};
use ferrorail_fabric::{LocalSlice, Notification, Op, RemoteRegion, RemoteSlice, Tracking};
use ferrorail_shm::Cma;
use std::time::Instant;

/// A put under way: its chunks, of which the first `posted` are posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    stripes: Stripes,
    pub is_eager: bool,
    posted: u8,
    /// When the first chunk was posted, if they are timed.
    begun: Option<Instant>,
}

impl<'a> Run<'a> {
    /// Puts to a rank of this node.
    pub(super) fn put_node(
        &mut self,
        state: &mut State,
        to: Rank,
        slot: Slot,
        from: Span,
        into: Span,
    ) -> Result<Option<Blocked>, EngineError> {
        let source = self.source(to, from);
        if into.buffer == Buffer::Recv {
            let region = rtr(state, to);
            let offset = self.protocol_offset(into);
            self.check_capacity(&region, offset, source.bytes, to)?;
            let address = region.address + offset as u64;
            let tag = self.sent_tag(to, from);
            if self.offer(state, (to, slot, tag), source, address) {
                return Ok(None);
            }
            let process = Cma::of(self.map.processes[to.index()]);
            // SAFETY: the peer announced this memory for this operation and waits for our flag.
            unsafe { process.write(source, address) }
                .map_err(|source| EngineError::CrossMemory { rank: to, source })?;
        } else {
            let room = self.spans.at_peer(self.owner(to, into), into);
            let dest = room.slice(0, source.bytes);
            // SAFETY: both lie in the segment or in this rank's buffers, and the verified schedule
            // orders this write with every other access.
            unsafe { self.spans.copy_in(source, dest) }
        }
        self.raise_node(to, slot, flag_value(self.sent_tag(to, from), 1));
        Ok(None)
    }

    /// Reduces into the scratch of a rank of this node.
    pub(super) fn put_reduced(
        &self,
        (to, slot): (Rank, Slot),
        spans: [Span; 3],
        like: Option<u32>,
    ) -> Result<Option<Blocked>, EngineError> {
        let [.., into] = spans;
        let owner = self.owner(to, into);
        self.spans.reduce(spans, like, Some(owner))?;
        self.raise_node(to, slot, flag_value(self.sent_tag(to, into), 1));
        Ok(None)
    }

    /// Who has the scratch in which `into` of `to`, a rank of this node, lies.
    fn owner(&self, to: Rank, into: Span) -> NodeRank {
        match into.buffer {
            Buffer::Node => self.neighbours.leader_of(to),
            _ => self.map.topology.node_rank_of(to),
        }
    }

    /// Whether the announced memory is as large as arguments that agree make it.
    fn check_capacity(
        &self,
        region: &RemoteRegion,
        offset: usize,
        bytes: usize,
        to: Rank,
    ) -> Result<(), EngineError> {
        let end = (offset + bytes) as u64;
        let fits = match self.spans.user().pairs {
            true => end == region.bytes,
            false => end <= region.bytes,
        };
        (fits || bytes == 0)
            .then_some(())
            .ok_or(EngineError::Mismatch { rank: Some(to) })
    }

    /// Raises the arrival flag of a message to a rank of this node to `value`.
    pub(super) fn raise_node(&self, to: Rank, slot: Slot, value: u64) {
        let segment = self.map.segment();
        let to = self.map.topology.node_rank_of(to);
        segment.arrival(to, self.channel, slot, 0).raise(value);
        segment.doorbell().ring();
    }

    /// Puts to a rank of another node.
    pub(super) fn put_rails(
        &mut self,
        state: &mut State,
        to: Rank,
        port: u8,
        slot: Slot,
        from: Span,
        into: Span,
    ) -> Result<Option<Blocked>, EngineError> {
        let rails = self.rails();
        let segment = link_to(&mut state.links, to).segment;
        let message = Message {
            source: rails.region(),
            from: self.source(to, from),
            dest: &segment,
            offset: 0,
            to,
            slot,
            tag: self.sent_tag(to, from),
            is_eager: false,
            into_user: false,
            rail: self.own_rail(port),
        };
        if into.buffer == Buffer::Recv {
            return self.put_user(state, message, from, into);
        }
        let (layout, local) = self.map.layout_of(to);
        let owner = match into.buffer {
            Buffer::Node => NodeRank(0),
            _ => local,
        };
        let offset = layout.scratch(owner, self.channel) + self.spans.bytes(into.first);
        if let Some(eager_message) = self.eager_message(message, offset) {
            self.sending = post(self, rails, state, &eager_message)?;
            return Ok(self.sending.map(|_| Blocked::Rail));
        }
        let message = Message { offset, ..message };
        self.sending = self.send(rails, state, &message, from.count > 0)?;
        Ok(self.sending.map(|_| Blocked::Rail))
    }

    /// Puts from user memory to that of a rank of another node, in place of `message` from and to scratch; in pieces
    /// through that if either could not be registered.
    fn put_user(
        &mut self,
        state: &mut State,
        message: Message<'_>,
        from: Span,
        into: Span,
    ) -> Result<Option<Blocked>, EngineError> {
        let Message {
            to,
            slot,
            tag,
            from: payload,
            ..
        } = message;
        let region = rtr(state, to);
        let offset = self.protocol_offset(into);
        self.check_capacity(&region, offset, payload.bytes, to)?;
        let rails = self.rails();
        let source = match from.buffer {
            Buffer::Send => self.send.block(from.first),
            Buffer::Recv => self.receive.block(from.first),
            Buffer::Scratch | Buffer::Node => Some(rails.region()),
        };
        let message = match source {
            Some(source) if region.address != REFUSED => Message {
                source,
                dest: &region,
                offset,
                into_user: true,
                ..message
            },
            _ if payload.bytes > 0 => {
                let from = payload;
                let request = StagedRequest {
                    to,
                    slot,
                    tag,
                    from,
                    offset,
                };
                return self.staged(state, request);
            }
            _ => Message {
                from: rails.region().range.slice(0, 0),
                ..message
            },
        };
        self.sending = self.send(rails, state, &message, from.count > 0)?;
        Ok(self.sending.map(|_| Blocked::Rail))
    }

    /// Sends `message` over rails, checked if it has bytes and checks are on. What is returned is
    /// left to post.
    pub(super) fn send(
        &self,
        rails: &TeamRails,
        state: &mut State,
        message: &Message<'_>,
        has_bytes: bool,
    ) -> Result<Option<Sending>, EngineError> {
        if has_bytes && self.map.settings.reliable {
            self.send_checked(rails, state, message)?;
            return Ok(None);
        }
        post(self, rails, state, message)
    }

    /// What the flag of a message to `to` holds.
    fn sent_tag(&self, to: Rank, from: Span) -> u64 {
        self.message_tag(self.spans.sent(to, from.count).unwrap_or(0))
    }

    /// What a put to `to` reads: as much as the message is long.
    fn source(&self, to: Rank, from: Span) -> MemoryRange {
        let source = self.spans.range(from);
        let bytes = self.spans.sent(to, from.count).unwrap_or(0);
        // A part may be shorter than its room in scratch.
        source.slice(0, bytes.min(source.bytes))
    }

    /// Where in the announced memory a put lands.
    fn protocol_offset(&self, into: Span) -> usize {
        if self.spans.user().pairs {
            0
        } else {
            self.spans.bytes(into.first)
        }
    }

    pub(super) fn rails(&self) -> &'a TeamRails {
        self.map
            .rails
            .as_ref()
            .expect("other nodes are reached by rails")
    }
}

fn rtr(state: &State, to: Rank) -> RemoteRegion {
    let rtr = state.rtr[to.index()].as_ref();
    rtr.expect("verified: puts into user memory follow an RTR")
        .region
}

impl Run<'_> {
    /// What tells the target that chunk `index` of `count` has arrived.
    fn arrival<'l>(
        &self,
        link: &'l Link,
        message: &Message<'_>,
        index: u8,
        count: u8,
    ) -> Notification<RemoteSlice<'l>> {
        let (layout, to) = self.map.layout_of(message.to);
        Notification {
            word: link.at(layout.arrival(to, self.channel, message.slot, index)),
            value: flag_value(message.tag, count),
        }
    }
}

/// Posts the chunks of `message` from where `run.sending` left it. What is returned is left to post:
/// a queue was full. A checked operation ends with nothing on its way, so that it awaits all of them.
fn post(
    run: &Run<'_>,
    rails: &TeamRails,
    state: &mut State,
    message: &Message<'_>,
) -> Result<Option<Sending>, EngineError> {
    let base = message.from.address - message.source.range.address;
    let link = link_to(&mut state.links, message.to);
    let sending = run.sending.unwrap_or_else(|| Sending {
        stripes: message.stripes(rails, &mut state.rail_turn, link),
        is_eager: message.is_eager,
        posted: 0,
        begun: None,
    });
    let Sending {
        stripes, posted, ..
    } = sending;
    let timed = rails.planner.times(&stripes);
    let awaited = message.into_user || run.map.settings.reliable;
    let tracking = match awaited || timed {
        true => Tracking::Tracked,
        false => Tracking::Silent,
    };
    let mut begun = sending.begun;
    for index in posted..stripes.count() {
        let chunk = stripes.chunks()[usize::from(index)];
        let from = LocalSlice {
            region: message.source,
            offset: base + chunk.offset as usize,
            bytes: chunk.bytes as usize,
        };
        let to = RemoteSlice {
            region: message.dest,
            offset: message.offset + chunk.offset as usize,
        };
        let start = timed.then(Instant::now);
        begun = begun.or(start);
        let op = match message.is_eager {
            true => Op::eager(from, to, flag_value(message.tag, 1)),
            false => Op::notify(from, to, run.arrival(link, message, index, stripes.count())),
        };
        // SAFETY: the source is this team's segment or the registered receive buffer, unchanged
        // until every rank of the operation is done; the target registered what it described.
        let Some(ticket) = (unsafe { rails.post(link, chunk.rail, &op, tracking) })? else {
            return Ok(Some(Sending {
                posted: index,
                begun,
                ..sending
            }));
        };
        if awaited {
            state.tickets.push(ticket);
        }
        if let (Some(begun), Some(start)) = (begun, start) {
            let sample = Sample::new(message.to, chunk, ticket, (begun, start));
            state
                .sampler
                .start(&*rails.fabric, &mut link.rail_weights, sample);
        }
    }
    Ok(None)
}
