//! Leaving a session so that nobody is left behind who still needs an answer.
//!
//! The last of two that talk never knows whether its last word arrived. So a member leaves when all below it
//! in the tree have said that they know the end, and its parent has heard the same of it; or when it has said
//! so eight times, or has heard nothing for a long time.

use super::{Session, To};
use crate::config::Time;
use crate::wire::{Header, Kind, flags};

/// A member that does not leave is given up after so many of the longest intervals.
const LINGER: u64 = 16;

/// How often the parent is told.
const FINAL_TRIES: u32 = 8;

/// What was tried so far.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// When the session was closed here.
    closed_at: Time,
    /// When the session first was at its end, or a child was heard later than that.
    since: Option<Time>,
    /// Reminders sent to children.
    reminders: u32,
    final_tries: u32,
}

impl Leaving {
    pub fn begin(&mut self, now: Time) {
        self.closed_at = now;
    }

    pub fn heard_child(&mut self, now: Time) {
        self.since = self.since.map(|_| now);
    }
}

impl Session {
    fn linger(&self) -> u64 {
        self.config.timers.longest.saturating_mul(LINGER)
    }

    /// All is here and nobody needs this member's messages, but nobody says either that all members are done:
    /// the others have left.
    pub(super) fn is_abandoned(&self) -> bool {
        let own = self.messages.watermarks().completed == self.messages.opened;
        let mut unreleased = self.messages.range(self.known.completed + 1);
        let source = unreleased.any(|(_, message)| message.source == self.config.me);
        let heard = self
            .members
            .list
            .iter()
            .filter_map(|member| member.heard_at)
            .max();
        let since = heard.unwrap_or_default().max(self.sync.leaving.closed_at);
        own && !source && self.now.since(since) > self.linger()
    }

    /// Goes on with leaving if all is done.
    pub(super) fn finish(&mut self) {
        if self.sync.closing.is_none() || self.sync.closed {
            return;
        }
        if !self.is_quiescent() {
            self.sync.closed = self.is_abandoned();
            return;
        }
        let since = *self.sync.leaving.since.get_or_insert(self.now);
        let waits = self.sync.children.iter().any(|child| !child.is_final);
        if waits && self.now.since(since) <= self.linger() {
            self.remind_children();
        } else if self.config.me == 0 || self.sync.leaving.final_tries >= FINAL_TRIES {
            self.sync.closed = true;
        } else if self.sync.repeat_at.is_none() || self.sync.leaving.final_tries == 0 {
            self.sync.tries = self.sync.leaving.final_tries;
            self.sync.leaving.final_tries += 1;
            let report = self.subtree();
            self.report(report, flags::FINAL | flags::ANSWER);
        }
    }

    /// Tells children that all is done, should they not have heard; not at first, when they are about to.
    fn remind_children(&mut self) {
        if self.sync.repeat_at.is_some() {
            return;
        }
        let late: Vec<u32> = match self.sync.leaving.reminders {
            0 => Vec::new(),
            _ => self
                .sync
                .children
                .iter()
                .filter(|c| !c.is_final)
                .map(|c| c.member)
                .collect(),
        };
        for member in late {
            let progress = self.header(Kind::Progress, flags::AGAIN);
            self.post(To::Member(member), progress);
        }
        self.sync.leaving.reminders += 1;
        let interval = self.round_trip.late_after(self.sync.leaving.reminders);
        self.sync.repeat_at = Some(self.now.after(interval));
    }

    /// The parent has heard that this subtree is done.
    pub(super) fn on_final(&mut self, header: &Header) {
        let parent = self.tree.parent(0, self.config.me);
        if header.has(flags::FINAL) && parent == Some(header.sender) {
            self.sync.closed = self.sync.closing.is_some() && self.is_quiescent();
        }
    }
}
