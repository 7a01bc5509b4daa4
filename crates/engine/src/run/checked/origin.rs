//! The origin's side: sends messages with records of their sums, and again what is answered to be damaged.

use super::record::{FLAG_BYTES, Record, damaged_in, record_bytes, record_flag, sum_of};
use super::unacknowledged::Sent;
use super::{ATTEMPTS_MAX, low_byte};
use crate::EngineError;
use crate::run::Run;
use crate::run::message::{Message, link_to};
use crate::run::span::copy_in;
use crate::tag::number;
use crate::team::map::{Map, TeamRails};
use crate::team::state::State;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::stripe::flag_value;
use ferrorail_fabric::{
    LocalRegion, LocalSlice, Notification, Op, RAILS_MAX, RemoteSlice, Tracking,
};

impl Run<'_> {
    /// Sends `message` with a record of its sums.
    pub(in crate::run) fn send_checked(
        &self,
        rails: &TeamRails,
        state: &mut State,
        message: &Message<'_>,
    ) -> Result<(), EngineError> {
        let layout = self.map.segment().layout();
        let index = state
            .unacknowledged
            .next(self.op, layout.geometry().slots)?;
        let link = link_to(&mut state.links, message.to);
        let stripes = message.stripes(rails, &mut state.rail_turn, link);
        let mut record = Record::new(message.offset as u64, message.into_user);
        for chunk in stripes.chunks() {
            let part = message
                .from
                .slice(chunk.offset as usize, chunk.bytes as usize);
            record.add(chunk.offset + chunk.bytes, sum_of(part));
        }
        let wire = record.complete(message.tag);
        let cell = layout.own_check(self.map.node_rank, self.channel, index);
        let segment = self.map.segment().segment().range();
        copy_in(wire, segment.slice(cell, wire.len()));
        let mut sent = Sent {
            to: message.to,
            slot: message.slot,
            channel: self.channel,
            tag: message.tag,
            index,
            source: LocalRegion {
                range: message.from,
                lkeys: message.source.lkeys,
                rkeys: message.source.rkeys,
                backing: None,
                handle: 0,
                description: Vec::new(),
            },
            dest: *message.dest,
            offset: message.offset,
            stripes,
            awaited: message.into_user,
            rails: [RailId(0); RAILS_MAX],
            attempt: 0,
            owed: ((1u16 << stripes.count()) - 1) as u8,
            record_owed: true,
        };
        sent.post(self.map, rails, state)?;
        state.unacknowledged.open.push(sent);
        Ok(())
    }

    /// Counts something to `to` that `rail` damaged.
    pub(in crate::run) fn note_damage(&self, rail: RailId, to: Rank) {
        note_damage(self.map, self.rails(), rail, to);
    }

    /// Reads the acknowledgements that have come, and sends again what they call damaged.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] when a chunk has been sent too often.
    pub(in crate::run) fn read_acks(&self, state: &mut State) -> Result<(), EngineError> {
        let Some(rails) = &self.map.rails else {
            return Ok(());
        };
        let mut open = std::mem::take(&mut state.unacknowledged.open);
        let mut outcome = Ok(());
        open.retain_mut(|sent| {
            if outcome.is_err() {
                return true;
            }
            let ack = self
                .map
                .segment()
                .ack(self.map.node_rank, sent.channel, sent.index);
            let ack = ack.load(Ordering::Acquire);
            match damaged_in(ack, number(sent.tag), sent.attempt) {
                Some(0) => return false,
                Some(damaged) => outcome = sent.was_damaged(self.map, rails, damaged),
                None => {}
            }
            if outcome.is_ok() && (sent.owed != 0 || sent.record_owed) {
                outcome = sent.post(self.map, rails, state);
            }
            true
        });
        state.unacknowledged.open = open;
        outcome
    }
}

impl Sent {
    /// The rail that carries chunk `index` at the present attempt: another each time.
    fn rail(&self, rails: &TeamRails, index: usize) -> RailId {
        let first = self.stripes.chunks()[index].rail.index();
        RailId(((first + usize::from(self.attempt)) % rails.local.len()) as u8)
    }

    /// Notes that the chunks `damaged` arrived damaged, and that they are to be sent again.
    fn was_damaged(
        &mut self,
        map: &Map,
        rails: &TeamRails,
        damaged: u8,
    ) -> Result<(), EngineError> {
        let chunks = usize::from(self.stripes.count());
        for index in (0..chunks).filter(|index| damaged & 1 << index != 0) {
            note_damage(map, rails, self.rails[index], self.to);
        }
        self.attempt += 1;
        if self.attempt == ATTEMPTS_MAX {
            return Err(super::damaged(map.rank, self.to));
        }
        self.owed = damaged & ((1u16 << chunks) - 1) as u8;
        self.record_owed = true;
        Ok(())
    }

    /// Posts what is owed, as far as queues have room.
    fn post(&mut self, map: &Map, rails: &TeamRails, state: &mut State) -> Result<(), EngineError> {
        let link = &*link_to(&mut state.links, self.to);
        let tracking = match self.awaited {
            true => Tracking::Tracked,
            false => Tracking::Silent,
        };
        let put = |rail, from, to, word, value, tracking| {
            let word = link.at(word);
            let op = Op::notify(from, to, Notification { word, value });
            // SAFETY: the source is unchanged until the acknowledgement, and registered until the ticket
            // is complete; the target registered what it described or announced.
            unsafe { rails.post(link, rail, &op, tracking) }
        };
        let (theirs, local) = map.layout_of(self.to);
        let count = self.stripes.count();
        let low = low_byte(count, self.attempt);
        for (index, chunk) in self.stripes.chunks().iter().enumerate() {
            if self.owed & 1 << index == 0 {
                continue;
            }
            let from = LocalSlice {
                region: &self.source,
                offset: chunk.offset as usize,
                bytes: chunk.bytes as usize,
            };
            let to = RemoteSlice {
                region: &self.dest,
                offset: self.offset + chunk.offset as usize,
            };
            let flag = theirs.arrival(local, self.channel, self.slot, index as u8);
            let value = flag_value(self.tag, low);
            let rail = self.rail(rails, index);
            let Some(ticket) = put(rail, from, to, flag, value, tracking)? else {
                return Ok(());
            };
            if self.awaited {
                state.tickets.push(ticket);
            }
            // Not always the one it was posted to: that may have failed.
            self.rails[index] = ticket.rail;
            self.owed &= !(1 << index);
        }
        let own = map.segment().layout();
        let from = own.own_check(map.node_rank, self.channel, self.index);
        let from = rails.slice(from, record_bytes(count));
        let cell = theirs.check(local, self.channel, self.slot);
        let to = link.at(cell + FLAG_BYTES);
        let value = record_flag(number(self.tag), self.attempt, self.index);
        let rail = self.rail(rails, 0);
        if put(rail, from, to, cell, value, Tracking::Silent)?.is_some() {
            self.record_owed = false;
            map.context.stats().checked.add(1);
        }
        Ok(())
    }
}

/// Counts a chunk to `to` that `rail` damaged, and says so once.
fn note_damage(map: &Map, rails: &TeamRails, rail: RailId, to: Rank) {
    let attributes = rails.fabric.attributes();
    let rail = &attributes.rails[rail.index()].name;
    map.context.stats().damaged(attributes.name, rail);
    map.context.warn_once([format!(
        "rail {rail} to rank {to} damages data; it is sent again, and counted in the statistics"
    )]);
}
