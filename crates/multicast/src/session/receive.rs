//! Datagrams that come.

use super::{Failure, MessageId, Session, To};
use crate::config::Time;
use crate::wire::{Header, Kind, flags};

/// A fragment to be stored before the next call to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// The message.
    pub message: MessageId,
    /// Where the payload belongs in the message, in bytes.
    pub offset: usize,
    /// Length of the payload in bytes.
    pub bytes: usize,
    /// The message is not opened here yet: into the memory of its channel, else into the caller's.
    pub early: bool,
}

/// A datagram to be passed on as it came, under this header and with the same payload, while the driver
/// still has it. What the device's queue has no place for is dropped, and asked for like any other loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The header under which it goes on.
    pub header: Header,
    /// The members it goes to, and the rail for each.
    pub to: Vec<(u32, u8)>,
}

/// What the driver does with a datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Stores the payload.
    pub store: Option<Store>,
    /// Passes the datagram on along the source's tree.
    pub forward: Option<Forward>,
}

impl Session {
    /// Takes a datagram that [`wire::open`](crate::wire::open) accepted, which came on `rail`.
    pub fn receive(&mut self, header: &Header, rail: u8, now: Time) -> Received {
        self.advance_clock(now);
        let me = self.config.me;
        let known_members = header.sender.max(header.source) < self.config.members;
        if header.session != self.config.session || !known_members || rail >= self.config.rails {
            self.counters.ignored += 1;
            return Received::default();
        }
        if header.sender == me || header.source == me {
            return Received::default();
        }
        self.counters.datagrams_received += 1;
        self.listen(header, rail);
        if self.known.raise(header.known) {
            self.on_progress();
        }
        if header.has(flags::MULTICAST) {
            self.told(header.known);
        }
        let mut received = Received::default();
        let mut fresh = true;
        match header.kind {
            Kind::Data => (received.store, fresh) = self.on_data(header, rail),
            Kind::Ack => self.on_ack(header),
            Kind::Progress => self.on_final(header),
            Kind::Nack => self.on_nack(header),
            Kind::Sent => self.on_sent(header),
            Kind::Probe => self.on_probe(header),
            Kind::Heard => self.on_heard(header),
            Kind::Query => self.on_query(header),
            Kind::Alive => {}
            Kind::GaveUp => self.on_gave_up(header.source),
        }
        // What told it may have been lost.
        if self.failure.is_some() && header.kind != Kind::GaveUp {
            self.say_gave_up(To::Member(header.source));
        }
        if header.has(flags::RELAY) && (fresh || header.has(flags::AGAIN)) {
            received.forward = self.forward(header);
        }
        received
    }

    /// A datagram that came on a rail failed its checksum.
    pub fn damaged(&mut self, rail: u8, now: Time) {
        self.advance_clock(now);
        self.counters.damaged += 1;
        if self.config.reliable && rail < self.config.rails {
            self.ask_for_damaged(rail);
        }
    }

    /// Notes who was heard, on which rail, and how long an answer took.
    fn listen(&mut self, header: &Header, rail: u8) {
        let now = self.now;
        let multicast = header.has(flags::MULTICAST) && !header.has(flags::RELAY);
        for member in [header.sender, header.source] {
            self.members.list[member as usize].heard_at = Some(now);
        }
        self.members.list[header.sender as usize].rail = rail;
        let source = &mut self.members.list[header.source as usize];
        source.count(header, multicast.then_some(rail));
        if header.echo != 0 {
            self.round_trip.sample(header.echo, now);
        }
    }

    /// Whom a relayed datagram is passed on to.
    fn forward(&mut self, header: &Header) -> Option<Forward> {
        let children = self.tree.children(header.source, self.config.me);
        let again = header.has(flags::AGAIN);
        let to: Vec<_> = children
            .map(|child| (child, self.unicast_rail(child, again)))
            .collect();
        let header = Header {
            sender: self.config.me,
            echo: 0,
            ..*header
        };
        self.counters.forwarded += to.len() as u64;
        (!to.is_empty()).then_some(Forward { header, to })
    }

    /// A fragment: where it goes, and whether it was missing.
    fn on_data(&mut self, header: &Header, rail: u8) -> (Option<Store>, bool) {
        let own = self.messages.watermarks();
        let number = header.message;
        if number <= own.completed || number < self.messages.first() {
            self.counters.duplicates += 1;
            self.judge_repair(header, false);
            return (None, false);
        }
        if !self.fits(header) {
            return (None, false);
        }
        let late = self.round_trip.late();
        let (config, now) = (&self.config, self.now);
        let message = self.messages.reach(number);
        if !message.known {
            message.known = true;
            message.source = header.source;
            message.bytes = header.bytes as usize;
            message.fragments = config.fragments(message.bytes);
            message.base = header.sequence - u64::from(header.fragment);
        }
        message.stripe = header.stripe;
        let fresh = message.insert(header.fragment);
        let early = !message.opened;
        if fresh {
            message.tries = 0;
            message.ask_at = (message.opened && !message.is_complete()).then(|| now.after(late));
        }
        let offset = header.fragment as usize * config.fragment_bytes;
        let bytes = (message.bytes - offset).min(config.fragment_bytes);
        if fresh {
            self.counters.bytes_received += bytes as u64;
            self.messages.advance();
        } else {
            self.counters.duplicates += 1;
        }
        self.judge_repair(header, fresh);
        self.note_sequence(header, rail);
        if fresh {
            self.synchronise_after(header);
        }
        let store = Store {
            message: MessageId(number),
            offset,
            bytes,
            early,
        };
        (fresh.then_some(store), fresh)
    }

    /// Whether this member asked for a fragment in time: what is sent again to it alone, it has asked for.
    fn judge_repair(&mut self, header: &Header, fresh: bool) {
        if header.has(flags::AGAIN) && !header.has(flags::MULTICAST) && !header.has(flags::RELAY) {
            match fresh {
                true => self.round_trip.asked_in_time(),
                false => self.round_trip.asked_too_early(),
            }
        }
    }

    /// Whether a fragment is one of a message that may be under way, as it is known here.
    fn fits(&mut self, header: &Header) -> bool {
        let opened = self.messages.opened >= header.message;
        let (config, own) = (&self.config, self.messages.watermarks());
        let base = header.sequence.checked_sub(header.fragment.into());
        let Ok(bytes) = usize::try_from(header.bytes) else {
            return false;
        };
        let possible = base.is_some()
            && header.fragment < config.fragments(bytes)
            && header.message <= own.completed + u64::from(config.channels)
            && (opened || config.is_eager(bytes));
        let agrees = self.messages.get(header.message).is_none_or(|message| {
            !message.known
                || (message.source, message.bytes, Some(message.base))
                    == (header.source, bytes, base)
        });
        if opened && !agrees {
            let (message, member) = (header.message, header.source);
            self.fail(Failure::Mismatch { message, member });
        }
        if !possible || !agrees {
            self.counters.ignored += 1;
        }
        possible && agrees
    }

    /// Notes that a source has come to a fragment on a rail, so that what lies before it is lost.
    fn note_sequence(&mut self, header: &Header, rail: u8) {
        if !self.config.reliable || header.has(flags::AGAIN) {
            return;
        }
        let source = &mut self.members.list[header.source as usize];
        let through = header.sequence + 1;
        if header.stripe == 0 {
            let through = source.seen[usize::from(rail)].max(through);
            source.seen.fill(through);
        } else {
            let seen = &mut source.seen[usize::from(rail)];
            *seen = through.max(*seen);
        }
        // Only then may others be missing that this datagram shows to be lost.
        let own = self.messages.watermarks();
        let rails = header.stripe.count_ones().max(1);
        let first = header.fragment < rails;
        let before = !first && {
            let message = self.messages.get(header.message);
            message.is_some_and(|message| !message.has(header.fragment - rails))
        };
        if before || (first && own.stored < header.sequence - u64::from(header.fragment)) {
            self.find_gaps(header.source);
        }
    }
}
