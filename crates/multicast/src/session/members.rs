//! The other members: when and on which rail they were heard, and who does not answer.

use super::{Failure, Session, To};
use crate::config::{Config, RAILS_MAX, Time};
use crate::wire::{Header, Kind, flags};

/// What is known of one member.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub heard_at: Option<Time>,
    /// The rail its last datagram came on, which is the one to answer on.
    pub rail: u8,
    /// Its fragments that came for the first time: one beyond the last, by rail.
    pub seen: [u64; RAILS_MAX],
    /// Its last multicast datagram heard, by rail, in its own count.
    heard: [u16; RAILS_MAX],
    /// How many multicast datagrams it says that it has sent.
    claimed: [u16; RAILS_MAX],
}

impl Member {
    /// Takes note of its count of multicast datagrams, and of one that was heard on `rail`.
    pub fn count(&mut self, header: &Header, multicast_on: Option<u8>) {
        for (claimed, sent) in self.claimed.iter_mut().zip(header.sent) {
            if sent.wrapping_sub(*claimed) < 1 << 15 {
                *claimed = sent;
            }
        }
        if let Some(rail) = multicast_on.map(usize::from) {
            let sent = header.sent[rail];
            if sent.wrapping_sub(self.heard[rail]) < 1 << 15 {
                self.heard[rail] = sent;
            }
        }
    }

    /// How many of its last multicasts in a row were missed, 8 bits a rail.
    pub fn missed(&self) -> u64 {
        (0..RAILS_MAX).fold(0, |word, rail| {
            let missed = self.claimed[rail].wrapping_sub(self.heard[rail]).min(255);
            word | u64::from(missed) << (8 * rail)
        })
    }
}

#[derive(Debug)]
pub(super) struct Members {
    pub list: Vec<Member>,
    /// The source was told to wait for a channel.
    pub refused: bool,
    /// What this member waited for at the last look, how far everything was, and since when.
    blocked: Option<(To, [u64; 3], Time)>,
    measured: bool,
    query_at: Option<Time>,
    query_next: u32,
    gone: Option<Gone>,
}

/// A member that gave up.
#[derive(Clone, Copy, Debug)]
struct Gone {
    member: u32,
    /// While this member waits for something: how far everything is, and since when.
    blocked: Option<([u64; 3], Time)>,
}

/// So many of the longest intervals without progress end the wait for others once a member gave up. What was sent
/// before that still comes.
const GONE_WAIT: u64 = 2;

impl Members {
    pub fn new(config: &Config) -> Self {
        Self {
            list: vec![Member::default(); config.members as usize],
            refused: false,
            blocked: None,
            measured: false,
            query_at: None,
            query_next: 0,
            gone: None,
        }
    }

    pub fn due(&self) -> Option<Time> {
        self.query_at
    }
}

impl Session {
    /// Asks a neighbour in the tree for the round trip, once.
    pub(super) fn measure(&mut self) {
        if std::mem::replace(&mut self.members.measured, true) {
            return;
        }
        let neighbour = self.tree.parent(0, self.config.me);
        if let Some(to) = neighbour.or_else(|| self.tree.children(0, self.config.me).next()) {
            let query = self.header(Kind::Query, flags::ANSWER);
            self.post(To::Member(to), query);
        }
    }

    pub(super) fn on_query(&mut self, header: &Header) {
        let mut alive = self.header(Kind::Alive, 0);
        alive.echo = header.timestamp;
        self.post(To::Member(header.sender), alive);
    }

    /// This member had an error elsewhere: the others are told, who may wait for it.
    pub fn give_up(&mut self, now: Time) {
        self.advance_clock(now);
        let member = self.config.me;
        self.fail(Failure::GaveUp { member });
    }

    /// The session cannot go on, nor can the others' without this member.
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() {
            self.failure = Some(failure);
            self.say_gave_up(To::All);
        }
    }

    pub(super) fn say_gave_up(&mut self, to: To) {
        let gave_up = self.header(Kind::GaveUp, 0);
        self.post(to, gave_up);
    }

    pub(super) fn on_gave_up(&mut self, member: u32) {
        let blocked = None;
        self.members.gone.get_or_insert(Gone { member, blocked });
    }

    fn gone_wait(&self) -> u64 {
        self.config.timers.longest.saturating_mul(GONE_WAIT)
    }

    /// When the wait for others ends, if a member gave up.
    pub(super) fn gone_due(&self) -> Option<Time> {
        let gone = self.members.gone.filter(|_| self.failure.is_none())?;
        let since = gone.blocked.map_or(self.now, |(_, since)| since);
        self.awaited().map(|_| since.after(self.gone_wait()))
    }

    /// Fails where this member waits, and nothing comes any more as another one gave up.
    pub(super) fn watch_gone(&mut self) {
        let Some(mut gone) = self.members.gone.filter(|_| self.failure.is_none()) else {
            return;
        };
        let progress = self.progress();
        let (before, waits) = (gone.blocked, self.awaited().is_some());
        gone.blocked = waits.then_some(match before {
            Some((same, since)) if same == progress => (same, since),
            _ => (progress, self.now),
        });
        self.members.gone = Some(gone);
        let late = |(_, since): ([u64; 3], Time)| self.now.since(since) >= self.gone_wait();
        if gone.blocked.is_some_and(late) {
            self.fail(Failure::GaveUp {
                member: gone.member,
            });
        }
    }

    /// How far everything is. As long as that changes, nobody is to blame.
    fn progress(&self) -> [u64; 3] {
        let own = self.messages.watermarks();
        [own.stored, self.known.stored, self.known.completed]
    }

    /// Whom this member cannot go on without: one source, or any other member.
    fn awaited(&self) -> Option<To> {
        let lacks = |message: &crate::messages::Message| message.opened && !message.is_complete();
        if let Some((_, message)) = self.messages.incomplete().find(|(_, m)| lacks(m)) {
            return Some(To::Member(message.source));
        }
        let mine = |message: &crate::messages::Message| {
            message.opened
                && message.source == self.config.me
                && !self.config.is_eager(message.bytes)
        };
        let sending = self
            .messages
            .range(self.known.completed + 1)
            .any(|(_, m)| mine(m));
        let closing = self.sync.closing.is_some() && !self.is_quiescent();
        (self.members.refused || sending || closing).then_some(To::All)
    }

    /// Finds members that are waited for and do not answer.
    pub(super) fn watch_members(&mut self) {
        let Some(timeout) = self.config.timers.peer_timeout else {
            return;
        };
        if self.failure.is_some() || self.members.query_at.is_some_and(|at| at > self.now) {
            return;
        }
        let timeout = timeout.get();
        let interval = (timeout / 4 / u64::from(self.config.members)).max(1);
        self.members.query_at = Some(self.now.after(interval));
        let Some(awaited) = self.awaited() else {
            self.members.blocked = None;
            return;
        };
        let progress = self.progress();
        let since = match self.members.blocked {
            Some((to, before, since)) if (to, before) == (awaited, progress) => since,
            _ => self.now,
        };
        self.members.blocked = Some((awaited, progress, since));
        let next = (self.members.query_next + 1) % self.config.members;
        self.members.query_next = next;
        let member = match awaited {
            To::Member(source) => source,
            To::All => next,
        };
        if member == self.config.me {
            return;
        }
        let heard = self.members.list[member as usize]
            .heard_at
            .unwrap_or_default()
            .max(since);
        let silent = self.now.since(heard);
        if silent > timeout {
            self.fail(Failure::Unresponsive { member });
        } else if silent > timeout / 4 {
            let query = self.header(Kind::Query, flags::ANSWER);
            self.post(To::Member(member), query);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watermarks::Watermarks;

    /// A datagram of one whose multicasts so far are `sent`, on rail 0.
    fn header(sent: u16) -> Header {
        Header {
            kind: Kind::Data,
            flags: flags::MULTICAST,
            rail: 0,
            stripe: 1,
            session: 1,
            sender: 1,
            source: 1,
            message: 1,
            sequence: 0,
            bytes: 0,
            fragment: 0,
            count: 0,
            known: Watermarks::default(),
            timestamp: 1,
            echo: 0,
            words: [0; 2],
            sent: std::array::from_fn(|rail| if rail == 0 { sent } else { 0 }),
        }
    }

    #[test]
    fn missed_multicasts_are_counted_across_the_wrap_of_their_numbers() {
        let mut member = Member::default();
        for sent in (1..=u16::MAX).step_by(1 << 12).chain([u16::MAX, 0, 1]) {
            member.count(&header(sent), Some(0));
            assert_eq!(member.missed(), 0, "multicast {sent} was heard");
        }
        // Three that only an answer by unicast tells of.
        member.count(&header(4), None);
        assert_eq!(member.missed(), 3);
        // Older ones come late, from before the wrap: they are no news.
        member.count(&header(u16::MAX), Some(0));
        assert_eq!(member.missed(), 3);
        member.count(&header(4), Some(0));
        assert_eq!(member.missed(), 0);
    }
}
