//! A source's side of repair: what was asked for, and whom it is sent to again.

use super::{Session, To};
use crate::config::Time;
use crate::wire::{Header, Kind, flags};
use std::collections::BTreeMap;

/// A fragment that was asked for.
#[derive(Clone, Copy, Debug)]
struct Repair {
    /// Members that lack it, as far as they have asked in this round; `one` is the first of them.
    lacking: u32,
    one: u32,
    /// When it was last sent again, and whether to all.
    last: Option<(Time, bool)>,
    attempts: u32,
}

/// What is to be sent again, by number of the fragment in the session.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    asked: BTreeMap<u64, Repair>,
    at: Option<Time>,
    /// When all members were last told that a message is not there yet.
    told_at: Option<Time>,
}

impl Repairs {
    pub fn due(&self) -> Option<Time> {
        self.at
    }

    /// Forgets what all members have.
    pub fn forget(&mut self, stored: u64) {
        if self
            .asked
            .first_key_value()
            .is_some_and(|(&first, _)| first < stored)
        {
            self.asked = self.asked.split_off(&stored);
        }
    }
}

impl Session {
    /// A request for fragments.
    pub(super) fn on_nack(&mut self, header: &Header) {
        if !self.config.reliable || header.fragment >= self.config.members {
            return;
        }
        self.counters.nacks_received += 1;
        if header.fragment != self.config.me {
            self.combine(header);
            return;
        }
        self.on_missed(header.sender, header.bytes);
        let through = self.sent_through();
        let mut any = false;
        for bit in 0..128 {
            if header.words[bit / 64] >> (bit % 64) & 1 == 0 {
                continue;
            }
            let sequence = header.sequence + bit as u64;
            let holder = self.messages.holder(sequence);
            let mine = holder.is_some_and(|(_, message)| message.source == self.config.me);
            if sequence < through && mine {
                any = true;
                self.add_repair(sequence, header);
            }
        }
        if !any {
            self.tell_not_yet(header, through);
        } else if self.repairs.at.is_some_and(|at| at <= self.now) {
            self.flush_repairs();
        }
    }

    fn add_repair(&mut self, sequence: u64, header: &Header) {
        let (now, trip) = (self.now, self.round_trip.estimate());
        let departed = self.output.departed(sequence);
        // What left less than a round trip ago may not have had the time to arrive.
        let on_its_way = departed.is_some_and(|at| now.since(at) < trip / 4 * 3);
        if on_its_way && !header.has(flags::GAP) {
            return;
        }
        let count = u32::from(header.count.max(1));
        let fresh = Repair {
            lacking: 0,
            one: header.source,
            last: None,
            attempts: 0,
        };
        let repair = self.repairs.asked.entry(sequence).or_insert(fresh);
        let crossed = repair.last.is_some_and(|(at, all)| {
            now.since(at) < trip / 2 && (all || repair.one == header.source)
        });
        if crossed {
            return;
        }
        match repair.lacking {
            0 => (repair.lacking, repair.one) = (count, header.source),
            _ if repair.one != header.source => repair.lacking += count,
            _ => {}
        }
        // With one receiver there is nobody else to wait for.
        let hold = if self.config.members > 2 { trip / 8 } else { 0 };
        let at = now.after(hold);
        self.repairs.at = Some(self.repairs.at.map_or(at, |due| due.min(at)));
    }

    /// Says that nothing of what was asked for has been sent yet.
    fn tell_not_yet(&mut self, header: &Header, through: u64) {
        let mut sent = self.header(Kind::Sent, 0);
        sent.sequence = through;
        if header.count > 1 {
            let pause = self.round_trip.late();
            if self
                .repairs
                .told_at
                .is_none_or(|at| self.now.since(at) >= pause)
            {
                self.repairs.told_at = Some(self.now);
                self.post(To::All, sent);
            }
        } else {
            sent.echo = header.timestamp;
            self.post(To::Member(header.source), sent);
        }
    }

    /// Sends again what has been held long enough.
    pub(super) fn flush_repairs(&mut self) {
        if self.repairs.at.is_none_or(|at| at > self.now) {
            return;
        }
        self.repairs.at = None;
        let mut asked = std::mem::take(&mut self.repairs.asked);
        for (&sequence, repair) in asked.iter_mut().filter(|(_, repair)| repair.lacking > 0) {
            let all = repair.lacking >= self.config.multicast_repairs_from;
            let holder = self.messages.holder(sequence);
            let Some((number, base)) = holder.map(|(number, message)| (number, message.base))
            else {
                continue;
            };
            let fragment = (sequence - base) as u32;
            let (header, payload) = self.fragment(number, fragment, flags::AGAIN);
            if !all {
                self.counters.unicast_retransmissions += 1;
                self.route(To::Member(repair.one), header, payload, 0);
            } else if repair.attempts < 3 {
                self.counters.multicast_retransmissions += 1;
                let turn = number + u64::from(fragment + repair.attempts) + 1;
                self.route(To::All, header, payload, turn);
            } else {
                // Multicast has failed for this one again and again.
                self.counters.unicast_retransmissions += 1;
                self.post_along_tree(header, payload);
            }
            repair.last = Some((self.now, all));
            repair.attempts += 1;
            repair.lacking = 0;
        }
        self.repairs.asked = asked;
    }
}
