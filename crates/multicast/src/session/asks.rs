//! A receiver's side of repair: what is missing, when it is asked for, and combining requests of others.

use super::{Session, To};
use crate::config::{RAILS_MAX, Time};
use crate::messages::Message;
use crate::wire::{Header, Kind, flags};

/// Fragments that one request covers.
const BITS: u64 = 128;

/// A request of other members on its way to a source.
#[derive(Clone, Debug)]
struct Pending {
    target: u32,
    base: u64,
    words: [u64; 2],
    missed: u64,
    count: u16,
    /// The member that lacks them, if it is one.
    origin: u32,
    gap: u8,
    timestamp: u32,
    /// When it goes on, or when it went.
    at: Time,
    gone: bool,
    /// How often it went without a sign of the source.
    forwards: u32,
}

/// Requests that pass through this member.
#[derive(Debug, Default)]
pub(super) struct Combined(Vec<Pending>);

impl Combined {
    pub fn due(&self) -> Option<Time> {
        self.0
            .iter()
            .filter(|pending| !pending.gone)
            .map(|pending| pending.at)
            .min()
    }
}

/// Whether its source is known to have sent a fragment that has not come.
fn is_lost(message: &Message, fragment: u32, seen: &[u64; RAILS_MAX]) -> bool {
    let sequence = message.base + u64::from(fragment);
    seen[message.rail_of(fragment).unwrap_or(0)] > sequence
}

impl Session {
    /// A random delay that keeps members from asking at once: none for up to four.
    pub(super) fn nack_jitter(&mut self) -> u64 {
        let doublings = u64::from(self.config.members.saturating_sub(1).max(1).ilog2());
        let spread = self.round_trip.estimate() / 4 * doublings.saturating_sub(1);
        self.jitter.below(spread)
    }

    /// A message was opened that this member is to receive: from now on it may be late.
    pub(super) fn expect(&mut self, number: u64) {
        if !self.config.reliable {
            return;
        }
        let jitter = self.nack_jitter();
        let late = self.round_trip.late();
        let all = ((1u16 << self.config.rails) - 1) as u8;
        let (config, now) = (&self.config, self.now);
        let Some(message) = self.messages.get_mut(number) else {
            return;
        };
        if !message.any_here() {
            message.stripe = all;
        }
        if message.is_complete() {
            return;
        }
        let seen = &self.members.list[message.source as usize].seen;
        let lost = is_lost(message, message.first_missing(), seen);
        // Sources of longer messages start only when all members have opened them.
        let time_limit = if config.is_eager(message.bytes) {
            late
        } else {
            4 * late
        };
        message.ask_at = Some(now.after(jitter + if lost { 0 } else { time_limit }));
    }

    /// Fragments of a source are lost: they are asked for at once, but for the jitter.
    pub(super) fn find_gaps(&mut self, source: u32) {
        let jitter = self.nack_jitter();
        let at = self.now.after(jitter);
        let seen = &self.members.list[source as usize].seen;
        for (_, message) in self.messages.incomplete_mut() {
            let open = message.known && message.source == source && !message.is_complete();
            if open && message.tries == 0 && is_lost(message, message.first_missing(), seen) {
                message.ask_at = Some(message.ask_at.map_or(at, |due| due.min(at)));
            }
        }
        if jitter == 0 {
            self.ask_what_is_due();
        }
    }

    /// Something came damaged on a rail: likely the next fragment expected there.
    pub(super) fn ask_for_damaged(&mut self, rail: u8) {
        let now = self.now;
        let jitter = self.nack_jitter();
        let found = self.messages.incomplete_mut().find_map(|(_, message)| {
            let waits = message.opened && !message.is_complete() && message.tries == 0;
            let fragment = message.first_missing();
            let here = message.rail_of(fragment) == Some(usize::from(rail));
            (waits && here && (message.any_here() || message.fragments == 1)).then_some(message)
        });
        let Some(message) = found else { return };
        message.ask_at = Some(now.after(jitter));
        // Only the one: what follows it is likely to be on its way.
        let through = message.base + u64::from(message.first_missing()) + 1;
        let seen = &mut self.members.list[message.source as usize].seen[usize::from(rail)];
        *seen = through.max(*seen);
        self.ask_what_is_due();
    }

    /// A source says how far it has sent.
    pub(super) fn on_sent(&mut self, header: &Header) {
        if !self.config.reliable {
            return;
        }
        for seen in &mut self.members.list[header.source as usize].seen {
            *seen = header.sequence.max(*seen);
        }
        self.find_gaps(header.source);
    }

    pub(super) fn asks_due(&self) -> Option<Time> {
        self.messages
            .incomplete()
            .filter_map(|(_, message)| message.ask_at)
            .min()
    }

    /// Sends the requests that are due, one for each source and run of fragments.
    pub(super) fn ask_what_is_due(&mut self) {
        if self.asks_due().is_none_or(|at| at > self.now) {
            return;
        }
        self.defer_to_silence();
        let (now, limit) = (self.now, self.known.stored + u64::from(self.config.window));
        let mut asked: Vec<Header> = Vec::new();
        let template = self.header(Kind::Nack, 0);
        let direct = self.config.members <= self.config.direct_nacks_up_to;
        let mut tries = 0;
        for (_, message) in self.messages.incomplete_mut() {
            if message.ask_at.is_none_or(|at| at > now) {
                continue;
            }
            let member = &self.members.list[message.source as usize];
            let gap = is_lost(message, message.first_missing(), &member.seen);
            for fragment in message.first_missing()..message.fragments {
                let sequence = message.base + u64::from(fragment);
                if sequence >= limit {
                    break;
                }
                if message.has(fragment) || (gap && !is_lost(message, fragment, &member.seen)) {
                    continue;
                }
                let start = sequence & !63;
                let fits = |nack: &&mut Header| {
                    nack.fragment == message.source
                        && (nack.sequence..nack.sequence + BITS).contains(&sequence)
                };
                let nack = match asked.iter_mut().find(fits) {
                    Some(nack) => nack,
                    None => {
                        let gap = if gap { flags::GAP } else { 0 };
                        asked.push(Header {
                            flags: gap,
                            sequence: start,
                            bytes: member.missed(),
                            fragment: message.source,
                            count: 1,
                            ..template
                        });
                        asked.last_mut().expect("just pushed")
                    }
                };
                let bit = sequence - nack.sequence;
                nack.words[(bit / 64) as usize] |= 1 << (bit % 64);
            }
            tries = tries.max(message.tries);
            message.ask_at = Some(now.after(self.round_trip.late_after(message.tries + 1)));
            message.tries += 1;
        }
        for mut nack in asked {
            nack.flags |= if tries > 0 { flags::AGAIN } else { 0 };
            let parent = self.tree.parent(nack.fragment, self.config.me);
            // A member in between may be the one that fails.
            let to = if direct || tries % 4 == 3 {
                nack.fragment
            } else {
                parent.unwrap_or(nack.fragment)
            };
            self.counters.nacks_sent += 1;
            self.post(To::Member(to), nack);
        }
    }

    /// A source that has not answered yet is asked for further messages together with those asked for before,
    /// so that no more reaches it while its process does not poll.
    fn defer_to_silence(&mut self) {
        let now = self.now;
        let mut silent: Vec<(u32, Time, u32)> = Vec::new();
        for (_, message) in self.messages.incomplete() {
            let at = message.ask_at.filter(|&at| message.tries > 1 && at > now);
            if let Some(at) = at {
                silent.push((message.source, at, message.tries));
            }
        }
        for (_, message) in self.messages.incomplete_mut() {
            let seen = &self.members.list[message.source as usize].seen;
            let due = message.ask_at.is_some_and(|at| at <= now);
            if !due || is_lost(message, message.first_missing(), seen) {
                continue;
            }
            if let Some(&(_, at, tries)) =
                silent.iter().find(|(source, ..)| *source == message.source)
            {
                (message.ask_at, message.tries) = (Some(at), tries.max(message.tries));
            }
        }
    }

    /// A request for fragments of another source: it goes on after a while, together with others.
    pub(super) fn combine(&mut self, header: &Header) {
        let hold = self.round_trip.estimate() / 4;
        let (target, base) = (header.fragment, header.sequence);
        let now = self.now;
        let trip = self.round_trip;
        self.combined.0.retain(|pending| {
            !pending.gone || now.since(pending.at) < 2 * trip.late_after(pending.forwards + 1)
        });
        let same = |pending: &&mut Pending| (pending.target, pending.base) == (target, base);
        if let Some(pending) = self.combined.0.iter_mut().find(same) {
            let new = (0..2).any(|word| header.words[word] & !pending.words[word] != 0);
            let heard = self.members.list[target as usize].heard_at;
            if heard.is_some_and(|at| at > pending.at) {
                pending.forwards = 0;
            }
            // The source of a request that went on is as silent for all below this member.
            let pause = self.round_trip.late_after(pending.forwards) / 2;
            if pending.gone && !new && now.since(pending.at) < pause {
                return;
            }
            if pending.gone {
                (pending.gone, pending.words, pending.count) = (false, [0; 2], 0);
                pending.at = now.after(hold);
            }
            for (word, more) in pending.words.iter_mut().zip(header.words) {
                *word |= more;
            }
            pending.count = pending.count.saturating_add(header.count);
            pending.missed = most(pending.missed, header.bytes);
            pending.gap |= header.flags & flags::GAP;
            return;
        }
        self.combined.0.push(Pending {
            target,
            base,
            words: header.words,
            missed: header.bytes,
            count: header.count,
            origin: header.source,
            gap: header.flags & flags::GAP,
            timestamp: header.timestamp,
            at: now.after(hold),
            gone: false,
            forwards: 0,
        });
    }

    /// Sends on the combined requests that are due.
    pub(super) fn forward_asks(&mut self) {
        for index in 0..self.combined.0.len() {
            let pending = &mut self.combined.0[index];
            if pending.gone || pending.at > self.now {
                continue;
            }
            (pending.gone, pending.at) = (true, self.now);
            pending.forwards += 1;
            let pending = pending.clone();
            let Some(parent) = self.tree.parent(pending.target, self.config.me) else {
                continue;
            };
            let mut nack = self.header(Kind::Nack, pending.gap);
            // Of one member it stays that member's request, which the source answers.
            (nack.source, nack.timestamp) = (pending.origin, pending.timestamp);
            (nack.sequence, nack.words) = (pending.base, pending.words);
            (nack.fragment, nack.count, nack.bytes) =
                (pending.target, pending.count, pending.missed);
            self.counters.nacks_sent += 1;
            self.post(To::Member(parent), nack);
        }
    }
}

/// The larger of each of eight bytes.
pub(super) fn most(one: u64, other: u64) -> u64 {
    let (one, other) = (one.to_le_bytes(), other.to_le_bytes());
    u64::from_le_bytes(std::array::from_fn(|index| one[index].max(other[index])))
}
