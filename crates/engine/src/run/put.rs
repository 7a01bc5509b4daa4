//! Putting: through shared memory inside the node, over rails between nodes.

use super::message::Message;
use super::meter::Sample;
use super::span::copy_in;
use super::{Blocked, Run};
use crate::EngineError;
use crate::team::map::TeamRails;
use crate::team::{Link, State};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_coll::{Buffer, Slot, Span};
use ferrorail_fabric::stripe::{Policy, Stripes, flag_value};
use ferrorail_fabric::{
    Fabric, FabricError, LocalSlice, Notification, RemoteRegion, RemoteSlice, Tracking,
};
use std::time::Instant;

/// A put under way: its chunks, of which the first `posted` are posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    stripes: Stripes,
    posted: u8,
    /// When the first chunk was posted, if they are timed.
    begun: Option<Instant>,
}

impl<'a> Run<'a> {
    /// Puts to a rank of this node.
    pub(super) fn put_node(
        &self,
        state: &State,
        to: Rank,
        slot: Slot,
        from: Span,
        into: Span,
    ) -> Result<Option<Blocked>, EngineError> {
        let source = self.source(to, from);
        if self.is_landing(into.buffer) {
            let region = announced(state, to);
            let offset = self.landing_offset(into);
            self.check_room(&region, offset, source.bytes, to)?;
            let address = region.address + offset as u64;
            let pid = self.map.processes[to.index()].pid;
            // SAFETY: the peer announced this memory for this operation and waits for our flag.
            unsafe { ferrorail_shm::cma_write(pid, source, address) }
                .map_err(|source| EngineError::CrossMemory { rank: to, source })?;
        } else {
            let base = self
                .map
                .scratch_offset(to, into.buffer == Buffer::Node, self.channel);
            let segment = self.map.segment().segment().range();
            let dest = segment.slice(base + self.spans.bytes(into.first), source.bytes);
            // SAFETY: both lie in the segment or in this rank's buffers, and the verified schedule
            // orders this write with every other access.
            unsafe { source.copy_to(dest) }
        }
        self.raise_node(to, slot, self.sent_mark(to, from));
        Ok(None)
    }

    /// Whether the announced memory is as large as arguments that agree make it.
    fn check_room(
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

    fn raise_node(&self, to: Rank, slot: Slot, mark: u64) {
        let segment = self.map.segment();
        let to = self.map.topology.node_rank_of(to);
        segment
            .arrival(to, self.channel, slot, 0)
            .store(flag_value(mark, 1), Ordering::Release);
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
        let segment = link(state, to).segment;
        let zero_copy = self.is_landing(into.buffer);
        let region;
        let (source, dest, offset) = if zero_copy {
            region = announced(state, to);
            let source = match from.buffer {
                Buffer::Send => &self.send,
                _ => &self.receive,
            };
            let refused = EngineError::BufferRefused {
                rank: self.map.rank,
            };
            let source = source.block(from.first).ok_or(refused)?;
            let offset = self.landing_offset(into);
            self.check_room(&region, offset, self.source(to, from).bytes, to)?;
            (source, &region, offset)
        } else {
            let base = self
                .map
                .scratch_offset(to, into.buffer == Buffer::Node, self.channel);
            (
                rails.region(),
                &segment,
                base + self.spans.bytes(into.first),
            )
        };
        let payload = self.source(to, from);
        if !zero_copy && let Some(letter) = self.letter(&segment, to, (port, slot), payload, offset)
        {
            self.sending = post(self, rails, state, &letter)?;
            return Ok(self.sending.map(|_| Blocked::Rail));
        }
        let message = Message {
            source,
            from: payload,
            dest,
            offset,
            to,
            slot,
            mark: self.sent_mark(to, from),
            is_letter: false,
            into_user: zero_copy,
            rail: self.own_rail(port),
        };
        self.sending = self.send(rails, state, &message, from.count > 0)?;
        Ok(self.sending.map(|_| Blocked::Rail))
    }

    /// Tells `to` where this rank's receive buffer is.
    pub(super) fn announce(
        &mut self,
        state: &mut State,
        to: Rank,
        slot: Slot,
    ) -> Result<Option<Blocked>, EngineError> {
        let offset = self.map.announcement_offset(to, self.channel, slot);
        if self.map.topology.same_node(to, self.map.rank) {
            let cell = self
                .map
                .segment()
                .segment()
                .range()
                .slice(offset, RemoteRegion::WIRE_BYTES);
            copy_in(&self.announcement(to).to_wire(), cell);
            self.raise_node(to, slot, self.op);
            return Ok(None);
        }
        let rails = self.rails();
        let segment = link(state, to).segment;
        // Own scratch is unused when puts land in user memory; it is the registered source. A cell
        // for each peer: what they are told may differ, and rails may read it late.
        let staging = self.map.segment().scratch(self.map.node_rank, self.channel);
        let staging = staging.slice(CELL_BYTES * to.index(), RemoteRegion::WIRE_BYTES);
        copy_in(&self.announcement(to).to_wire(), staging);
        let message = Message {
            source: rails.region(),
            from: staging,
            dest: &segment,
            offset,
            to,
            slot,
            mark: self.op,
            is_letter: false,
            into_user: false,
            rail: None,
        };
        self.sending = self.send(rails, state, &message, true)?;
        Ok(self.sending.map(|_| Blocked::Rail))
    }

    /// Sends `message` over rails, checked if it has bytes and checks are on. What is returned is
    /// left to post.
    fn send(
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
    fn sent_mark(&self, to: Rank, from: Span) -> u64 {
        self.message_mark(self.spans.sent(to, from.count).unwrap_or(0))
    }

    /// What a put to `to` reads: as much as the message is long.
    fn source(&self, to: Rank, from: Span) -> MemoryRange {
        let source = self.spans.range(from);
        let bytes = self.spans.sent(to, from.count).unwrap_or(0);
        // A part may be shorter than its room in scratch.
        source.slice(0, bytes.min(source.bytes))
    }

    /// Where in the announced memory a put lands.
    fn landing_offset(&self, into: Span) -> usize {
        if self.spans.user().pairs {
            0
        } else {
            self.spans.bytes(into.first)
        }
    }

    /// Where `to` may put: all of this rank's result, or the block that is for `to` if every pair
    /// has one.
    pub(super) fn announced_memory(&self, to: Rank) -> MemoryRange {
        let user = self.spans.user();
        match user.pairs {
            true => user.recv.block_of(to.0),
            false => user.recv.whole(),
        }
    }

    /// How `to` is told of that. Address 0 says that it could not be registered.
    fn announcement(&self, to: Rank) -> RemoteRegion {
        let user = self.spans.user();
        let memory = self.announced_memory(to);
        let region = RemoteRegion {
            address: memory.address as u64,
            bytes: memory.bytes as u64,
            ..NO_KEYS
        };
        if self.map.rails.is_none() || self.map.topology.same_node(to, self.map.rank) {
            return region;
        }
        let single = user.recv.count() == 1;
        match self.receive.block(if single { 0 } else { to.0 }) {
            Some(registered) => RemoteRegion {
                rkeys: registered.rkeys,
                ..region
            },
            None => NO_KEYS,
        }
    }

    pub(super) fn rails(&self) -> &'a TeamRails {
        self.map
            .rails
            .as_ref()
            .expect("other nodes are reached by rails")
    }
}

/// Room for an announcement in scratch, which holds as many per rank twice over.
const CELL_BYTES: usize = 64;
const _: () = assert!(RemoteRegion::WIRE_BYTES <= CELL_BYTES);

const NO_KEYS: RemoteRegion = RemoteRegion {
    address: 0,
    bytes: 0,
    rkeys: [0; ferrorail_fabric::RAILS_MAX],
    mapping: 0,
};

fn link(state: &mut State, to: Rank) -> &mut Link {
    state.links[to.index()]
        .as_mut()
        .expect("a plan's peers are connected before it runs")
}

fn announced(state: &State, to: Rank) -> RemoteRegion {
    state.announced[to.index()].expect("verified: puts into user memory follow an announcement")
}

impl Run<'_> {
    /// What tells the target that chunk `index` of `count` has arrived.
    fn arrival<'l>(
        &self,
        link: &'l Link,
        message: &Message<'_>,
        index: u8,
        count: u8,
    ) -> Notification<'l> {
        let offset = self
            .map
            .arrival_offset(message.to, self.channel, message.slot, index);
        Notification {
            word: RemoteSlice {
                region: &link.segment,
                offset,
            },
            value: flag_value(message.mark, count),
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
    let link = state.links[message.to.index()]
        .as_mut()
        .expect("a plan's peers are connected before it runs");
    let sending = run.sending.unwrap_or_else(|| Sending {
        stripes: message.stripes(rails, &mut link.balance),
        posted: 0,
        begun: None,
    });
    let Sending {
        stripes, posted, ..
    } = sending;
    let timed = stripes.count() > 1 && rails.planner.policy() == Policy::Adaptive;
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
        let rail = rails.local(chunk.rail);
        let flag = (!message.is_letter).then(|| run.arrival(link, message, index, stripes.count()));
        // SAFETY: the source is this team's segment or the registered receive buffer, unchanged
        // until every rank of the operation is done; the target registered what it described.
        let outcome = unsafe {
            let fabric = &rails.fabric;
            match flag {
                None => fabric.put(link.peer, rail, from, to, tracking),
                Some(flag) => fabric.put_notify(link.peer, rail, from, to, flag, tracking),
            }
        };
        let ticket = match outcome {
            Ok(ticket) => ticket,
            Err(FabricError::WouldBlock) => {
                return Ok(Some(Sending {
                    posted: index,
                    begun,
                    ..sending
                }));
            }
            Err(error) => return Err(error.into()),
        };
        if awaited {
            state.tickets.push(ticket);
        }
        if let (Some(begun), Some(start)) = (begun, start) {
            let sample = Sample::new(message.to, chunk, ticket, (begun, start));
            state.meter.start(&*rails.fabric, &mut link.balance, sample);
        }
    }
    Ok(None)
}
