//! What is to be sent: control datagrams, repairs, then new fragments as far as credit goes.

use super::{MessageId, Session};
use crate::config::{RAILS_MAX, Time};
use crate::messages::nth_rail;
use crate::round_trip::stamp;
use crate::wire::{Header, Kind, flags};
use std::collections::VecDeque;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To the multicast group.
    All,
    /// To one member, by unicast.
    Member(u32),
}

/// The part of a message that a datagram carries. The driver takes it from the caller's memory or, if the
/// message is eager, from its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// A message of which this member is the source.
    pub message: MessageId,
    /// Where the part starts in the message, in bytes.
    pub offset: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Where to.
    pub to: To,
    /// On which rail.
    pub rail: u8,
    /// Its header, for [`wire::encode`](crate::wire::encode).
    pub header: Header,
    /// What follows the header, if anything.
    pub payload: Option<Payload>,
}

/// When fragments were sent for the first time.
#[derive(Clone, Copy, Debug)]
struct Departure {
    /// All below this one.
    sequence: u64,
    at: Time,
}

#[derive(Debug, Default)]
pub(super) struct Output {
    queue: VecDeque<Send>,
    returned: VecDeque<Send>,
    /// The next fragment of this source: of this message ...
    message: u64,
    /// ... this one.
    fragment: u32,
    departures: VecDeque<Departure>,
    sent: [u16; RAILS_MAX],
    pub heartbeat_at: Option<Time>,
    heartbeats: u32,
    rotation: u32,
}

impl Output {
    /// Whether all fragments of a message have been sent once.
    pub fn has_left(&self, message: u64) -> bool {
        self.message > message
    }

    /// When a fragment of this source was sent first.
    pub fn departed(&self, sequence: u64) -> Option<Time> {
        let index = self
            .departures
            .partition_point(|departure| departure.sequence <= sequence);
        self.departures.get(index).map(|departure| departure.at)
    }

    /// Forgets what all members have.
    pub fn forget(&mut self, stored: u64) {
        while self
            .departures
            .front()
            .is_some_and(|departure| departure.sequence <= stored)
        {
            self.departures.pop_front();
        }
    }
}

impl Session {
    /// A header of this member's.
    pub(super) fn header(&self, kind: Kind, flags: u8) -> Header {
        Header {
            kind,
            flags,
            rail: 0,
            stripe: 0,
            session: self.config.session,
            sender: self.config.me,
            source: self.config.me,
            message: 0,
            sequence: 0,
            bytes: 0,
            fragment: 0,
            count: 0,
            known: self.known,
            timestamp: stamp(self.now),
            echo: 0,
            words: [0; 2],
            sent: self.output.sent,
        }
    }

    /// Queues a datagram without payload; to all means by multicast or, where that fails, along the tree.
    pub(super) fn post(&mut self, to: To, header: Header) {
        self.route(to, header, None, 0);
    }

    /// Queues a datagram on the rail that suits; `turn` is what the rails are taken in turn by.
    pub(super) fn route(&mut self, to: To, header: Header, payload: Option<Payload>, turn: u64) {
        match to {
            To::Member(member) => self.post_to(member, header, payload),
            To::All => match nth_rail(self.paths.usable(), turn) {
                Some(rail) => self.post_on(rail as u8, header, payload),
                None => self.post_along_tree(header, payload),
            },
        }
    }

    /// Queues a multicast on a rail.
    pub(super) fn post_on(&mut self, rail: u8, mut header: Header, payload: Option<Payload>) {
        header.flags |= flags::MULTICAST;
        self.output.queue.push_back(Send {
            to: To::All,
            rail,
            header,
            payload,
        });
    }

    /// Queues a datagram to each child in the tree rooted here; they forward it.
    pub(super) fn post_along_tree(&mut self, mut header: Header, payload: Option<Payload>) {
        header.flags |= flags::RELAY;
        for child in self.tree.children(self.config.me, self.config.me) {
            self.post_to(child, header, payload);
        }
    }

    fn post_to(&mut self, member: u32, header: Header, payload: Option<Payload>) {
        let rail = self.unicast_rail(member, header.has(flags::AGAIN));
        self.output.queue.push_back(Send {
            to: To::Member(member),
            rail,
            header,
            payload,
        });
    }

    /// The rail a member was last heard on; repetitions try the others too.
    pub(super) fn unicast_rail(&mut self, member: u32, again: bool) -> u8 {
        let last = self.members.list[member as usize].rail;
        let up = self.paths.up();
        if again || up >> last & 1 == 0 {
            self.output.rotation = self.output.rotation.wrapping_add(1);
            let turn = u64::from(last) + u64::from(self.output.rotation);
            return nth_rail(up, turn).map_or(last, |rail| rail as u8);
        }
        last
    }

    /// The next datagram to send. Driven until it returns nothing after every other call.
    pub fn next_send(&mut self) -> Option<Send> {
        while let Some(send) = self.output.returned.pop_front() {
            if self.is_wanted(&send) {
                return Some(send);
            }
        }
        let mut send = loop {
            if self.output.queue.is_empty() {
                self.queue_fragment();
            }
            let send = self.output.queue.pop_front()?;
            if self.is_wanted(&send) {
                break send;
            }
        };
        if send.to == To::All {
            let sent = &mut self.output.sent[usize::from(send.rail)];
            *sent = sent.wrapping_add(1);
            if send.payload.is_some() {
                self.told(self.known);
            }
        }
        send.header.rail = send.rail;
        send.header.known = self.known;
        if send.header.source == self.config.me {
            send.header.timestamp = stamp(self.now);
            send.header.sent = self.output.sent;
        }
        self.counters.datagrams_sent += 1;
        let bytes = send.payload.map_or(0, |payload| payload.bytes as u64);
        self.counters.bytes_sent[usize::from(send.rail)] += bytes;
        Some(send)
    }

    /// Whether somebody may lack what a datagram carries. Otherwise its memory may be in use for another
    /// message already.
    fn is_wanted(&self, send: &Send) -> bool {
        send.payload
            .is_none_or(|payload| payload.message.0 > self.known.completed)
    }

    /// Takes back a datagram that the device's queue had no place for: the next one to be given again.
    pub fn unsent(&mut self, send: Send) {
        self.output.returned.push_front(send);
    }

    /// Queues the next fragment of this source if it may be sent.
    fn queue_fragment(&mut self) {
        self.find_mine();
        let number = self.output.message;
        let Some(message) = self.messages.get(number).filter(|message| message.opened) else {
            return;
        };
        let fragment = self.output.fragment;
        let sequence = message.base + u64::from(fragment);
        let ready = self.config.is_eager(message.bytes) || self.known.opened >= number;
        if !ready || sequence >= self.known.stored + u64::from(self.config.window) {
            return;
        }
        let (last, turn) = (fragment + 1 == message.fragments, message.turn(fragment));
        let (header, payload) = self.fragment(number, fragment, 0);
        self.route(To::All, header, payload, turn);
        (self.output.message, self.output.fragment) = if last {
            (number + 1, 0)
        } else {
            (number, fragment + 1)
        };
        let departure = Departure {
            sequence: sequence + 1,
            at: self.now,
        };
        match self.output.departures.back_mut() {
            Some(back) if back.at == self.now => *back = departure,
            _ => self.output.departures.push_back(departure),
        }
        self.output.heartbeats = 0;
        self.output.heartbeat_at = Some(self.now.after(self.round_trip.late()));
    }

    /// Moves on to the message of this source that is to be sent next, or behind the last opened one.
    fn find_mine(&mut self) {
        let me = self.config.me;
        let mut rest = self.messages.range(self.output.message);
        let found = rest.find(|(_, message)| message.opened && message.source == me);
        let number = found.map_or(self.messages.opened + 1, |(number, _)| number);
        if number != self.output.message {
            (self.output.message, self.output.fragment) = (number, 0);
        }
    }

    /// The datagram of a fragment of this source.
    pub(super) fn fragment(
        &self,
        number: u64,
        fragment: u32,
        flags: u8,
    ) -> (Header, Option<Payload>) {
        let mut header = self.header(Kind::Data, flags);
        let message = self
            .messages
            .get(number)
            .expect("a source keeps what not all have");
        header.stripe = self.paths.usable();
        header.message = number;
        header.bytes = message.bytes as u64;
        header.fragment = fragment;
        header.sequence = message.base + u64::from(fragment);
        let offset = fragment as usize * self.config.fragment_bytes;
        let bytes = (message.bytes - offset).min(self.config.fragment_bytes);
        (
            header,
            Some(Payload {
                message: MessageId(number),
                offset,
                bytes,
            }),
        )
    }

    /// Fragments of this source below the result have been sent.
    pub(super) fn sent_through(&self) -> u64 {
        let me = self.config.me;
        let mut rest = self.messages.range(self.output.message);
        match rest.find(|(_, message)| message.opened && message.source == me) {
            Some((number, message)) if number == self.output.message => {
                message.base + u64::from(self.output.fragment)
            }
            Some((_, message)) => message.base,
            None => self.messages.end(),
        }
    }

    /// Whether some of what this source sent is not known to be received, and whether it waits for that.
    fn outstanding(&self) -> (bool, bool) {
        let mut waits = self.members.refused || self.sync.closing.is_some();
        let mut any = false;
        for (number, message) in self.messages.range(self.known.completed + 1) {
            if message.opened && message.source == self.config.me {
                any = true;
                waits |= !self.config.is_eager(message.bytes) || !self.output.has_left(number);
            }
        }
        (any, waits)
    }

    /// Says how far this source has sent, for those that lost the last fragments.
    pub(super) fn heartbeat(&mut self) {
        if self.output.heartbeat_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.output.heartbeat_at = None;
        // Who returned to the program leaves the rest to the receivers' timers.
        let (any, waits) = self.outstanding();
        if !any || (self.output.heartbeats >= 3 && !waits) {
            return;
        }
        self.output.heartbeats += 1;
        let interval = self.round_trip.late_after(self.output.heartbeats);
        self.output.heartbeat_at = Some(self.now.after(interval));
        let mut header = self.header(Kind::Sent, 0);
        header.sequence = self.sent_through();
        let turn = u64::from(self.output.heartbeats);
        self.route(To::All, header, None, turn);
    }
}
