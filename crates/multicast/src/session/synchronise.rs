//! Delayed synchronisation (Yu et al., sections 4.3 and 5.1): reports up the tree, the manager's result down.

use super::{Session, To};
use crate::config::{Config, Time};
use crate::tree::Tree;
use crate::watermarks::Watermarks;
use crate::wire::{Header, Kind, flags};

/// How often the manager repeats a result that nobody asks for.
const REPEATS: u32 = 2;

/// To so many sources the result goes by unicast.
const SOURCES_MAX: usize = 2;

/// Who has something to gain from hearing the result at once.
enum Audience {
    All,
    /// Only the sources of what was sent last, without the manager itself.
    Sources(Vec<u32>),
}

#[derive(Debug)]
pub(super) struct Child {
    pub member: u32,
    report: Watermarks,
    pub is_final: bool,
    missed: u64,
}

#[derive(Debug)]
pub(super) struct Synchronisation {
    pub children: Vec<Child>,
    /// What was last reported to the parent or, by the manager, announced.
    reported: Watermarks,
    /// Of the manager: what multicasts have told all members since.
    told: Watermarks,
    pub repeat_at: Option<Time>,
    pub tries: u32,
    /// The last message, once the session is being closed.
    pub closing: Option<u64>,
    pub closed: bool,
    pub leaving: super::closing::Leaving,
    reports: u32,
    /// Of the data that has just come: a report that it sets off tells its source the round trip.
    echo: u32,
    /// Messages between two synchronisations.
    interval: u64,
    /// Fragments between two synchronisations.
    quantum: u64,
}

impl Synchronisation {
    pub fn new(config: &Config, tree: Tree) -> Self {
        let child = |member| Child {
            member,
            report: Watermarks::default(),
            is_final: false,
            missed: 0,
        };
        Self {
            children: tree.children(0, config.me).map(child).collect(),
            reported: Watermarks::default(),
            told: Watermarks::default(),
            repeat_at: None,
            tries: 0,
            closing: None,
            closed: false,
            leaving: super::closing::Leaving::default(),
            reports: 0,
            echo: 0,
            interval: interval(config.channels, tree.levels()),
            quantum: u64::from(config.window / 4).max(1),
        }
    }

    pub fn due(&self) -> Option<Time> {
        self.repeat_at
    }
}

/// Messages between two synchronisations: half the channels, so that the other half is in use meanwhile;
/// a third where reports have a long way up the tree.
fn interval(channels: u32, levels: u32) -> u64 {
    match u64::from(channels) {
        2 => 2,
        channels if levels <= 3 => channels / 2,
        channels => (channels / 3).max(1),
    }
}

/// Whether a multiple of `step` lies in `old + 1 ..= new`. Most counts have not changed, and to divide is slow.
fn passes_multiple(old: u64, new: u64, step: u64) -> bool {
    new > old && new / step > old / step
}

impl Session {
    /// How far this member and all below it in the tree are.
    pub(super) fn subtree(&self) -> Watermarks {
        let children = self.sync.children.iter().map(|child| child.report);
        children.fold(self.messages.watermarks(), Watermarks::least)
    }

    /// Whether all members have something to gain from hearing that a count has risen. The borders are the
    /// same at all members, so that no level of the tree holds back more than the others.
    fn is_due(&self, old: &Watermarks, new: &Watermarks) -> bool {
        passes_multiple(old.completed, new.completed, self.sync.interval)
            || passes_multiple(old.stored, new.stored, self.sync.quantum)
            || self
                .sync
                .closing
                .is_some_and(|last| old.completed < last && last <= new.completed)
            || self.long_between(old.opened, new.opened)
            || self.long_between(old.completed, new.completed)
    }

    /// Whether a message longer than a channel lies in `old + 1 ..= new`.
    fn long_between(&self, old: u64, new: u64) -> bool {
        let long = |message: &crate::messages::Message| !self.config.is_eager(message.bytes);
        let mut between = self
            .messages
            .range(old + 1)
            .take_while(|(number, _)| *number <= new);
        new > old && between.any(|(_, message)| long(message))
    }

    /// Reports progress of this member or its subtree if that is due.
    pub(super) fn synchronise(&mut self) {
        let new = self.subtree();
        let old = self.sync.reported;
        if self.config.me != 0 {
            if self.is_due(&old, &new) {
                self.sync.tries = 0;
                self.report(new, 0);
            } else if self.sync.repeat_at.is_none() && self.is_due(&self.known, &old) {
                self.sync.repeat_at = Some(self.now.after(self.round_trip.late()));
            }
        } else {
            let due = self.is_due(&old, &new);
            let audience = due.then(|| self.audience(&old, &new));
            self.sync.reported = if due { new } else { old };
            if self.known.raise(new) {
                self.release();
            }
            if let Some(audience) = audience {
                self.announce(&audience);
            }
        }
        self.finish();
    }

    /// Reports progress that the data under `header` has made.
    pub(super) fn synchronise_after(&mut self, header: &Header) {
        if self.tree.parent(0, self.config.me) == Some(header.source) {
            self.sync.echo = header.timestamp;
        }
        self.synchronise();
        self.sync.echo = 0;
    }

    /// Sends a report to the parent.
    pub(super) fn report(&mut self, report: Watermarks, flags: u8) {
        let Some(parent) = self.tree.parent(0, self.config.me) else {
            return;
        };
        self.sync.reported.raise(report);
        self.sync.reports = self.sync.reports.wrapping_add(1);
        let measure = self.round_trip.samples < 4 || self.sync.reports.is_multiple_of(16);
        let answer = if measure { flags::ANSWER } else { 0 };
        let mut ack = self.header(Kind::Ack, flags | answer);
        (ack.message, ack.sequence, ack.bytes) = (report.completed, report.stored, report.opened);
        ack.echo = self.sync.echo;
        let below = self.sync.children.iter().map(|child| child.missed);
        ack.words[0] = below.fold(self.members.list[0].missed(), super::asks::most);
        self.counters.acks_sent += 1;
        self.post(To::Member(parent), ack);
        self.sync.repeat_at = Some(self.now.after(self.round_trip.late_after(self.sync.tries)));
    }

    /// Whom the manager's result concerns at once.
    fn audience(&self, old: &Watermarks, new: &Watermarks) -> Audience {
        if self.sync.closing.is_some_and(|last| last <= new.completed) {
            return Audience::All;
        }
        let mut sources = Vec::new();
        for (_, message) in self.messages.range(old.completed + 1) {
            if message.known && message.source != 0 && !sources.contains(&message.source) {
                sources.push(message.source);
            }
        }
        match sources.len() {
            0..=SOURCES_MAX => Audience::Sources(sources),
            _ => Audience::All,
        }
    }

    /// Sends the result to those whom it concerns. The others hear it with the next datagrams of the
    /// sources, or later if none come.
    fn announce(&mut self, audience: &Audience) {
        self.counters.synchronisations += 1;
        self.sync.tries = 0;
        match audience {
            Audience::All => {
                self.announce_to_all(0);
                self.sync.repeat_at = Some(self.now.after(self.round_trip.late_after(1)));
            }
            Audience::Sources(sources) => {
                let progress = self.header(Kind::Progress, 0);
                for &source in sources {
                    self.post(To::Member(source), progress);
                }
                self.sync.repeat_at = Some(self.now.after(self.round_trip.estimate()));
            }
        }
    }

    fn announce_to_all(&mut self, flags: u8) {
        let progress = self.header(Kind::Progress, flags);
        self.post(To::All, progress);
    }

    /// A multicast that went to all members, or came here, said that all members are at `known`.
    pub(super) fn told(&mut self, known: Watermarks) {
        self.sync.told.raise(known);
    }

    /// A child's report.
    pub(super) fn on_ack(&mut self, header: &Header) {
        let Some(child) = self
            .sync
            .children
            .iter_mut()
            .find(|child| child.member == header.sender)
        else {
            return;
        };
        child.report.raise(Watermarks {
            completed: header.message,
            stored: header.sequence,
            opened: header.bytes,
        });
        child.missed = header.words[0];
        child.is_final |= header.has(flags::FINAL);
        self.sync.leaving.heard_child(self.now);
        if self.config.me == 0 && self.config.reliable {
            self.on_missed(header.sender, header.words[0]);
        }
        self.synchronise();
        if header.has(flags::ANSWER) || header.has(flags::AGAIN) {
            let mut progress = self.header(Kind::Progress, header.flags & flags::FINAL);
            progress.echo = header.timestamp;
            self.post(To::Member(header.sender), progress);
        }
    }

    /// Something new is known of all members.
    pub(super) fn on_progress(&mut self) {
        self.counters.synchronisations += 1;
        self.release();
        if self.config.me != 0 && !self.is_due(&self.known, &self.sync.reported) {
            (self.sync.repeat_at, self.sync.tries) = (None, 0);
        }
        self.finish();
    }

    /// Forgets what all members have.
    fn release(&mut self) {
        self.messages.release(self.known.completed);
        self.repairs.forget(self.known.stored);
        self.output.forget(self.known.stored);
    }

    /// Repeats what the others do not seem to have heard.
    pub(super) fn repeat_reports(&mut self) {
        if self.sync.repeat_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.sync.repeat_at = None;
        self.sync.tries += 1;
        if self.sync.closing.is_some() && (self.is_quiescent() || self.is_abandoned()) {
            self.finish();
        } else if self.config.me == 0 {
            if self.sync.tries <= REPEATS && !self.sync.told.covers(&self.sync.reported) {
                self.counters.repeats += 1;
                self.announce_to_all(flags::AGAIN);
                let interval = self.round_trip.late_after(self.sync.tries + 1);
                self.sync.repeat_at = Some(self.now.after(interval));
            }
        } else if self.is_due(&self.known, &self.sync.reported) {
            self.counters.repeats += 1;
            let report = self.subtree();
            self.report(report, flags::AGAIN);
        }
    }
}
