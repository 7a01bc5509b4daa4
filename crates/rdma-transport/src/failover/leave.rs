//! How the two sides agree to leave a lane that one of them suspects.
//!
//! A suspected lane may be alive, so neither side may give an atomic on it up, which could not be done again, and
//! the two must not leave different lanes of two, each of which one side found dead. Therefore only the initiator
//! proposes, and only the responder ends:
//!
//! ```text
//! responder   suspects a lane: asks for it               leave ->
//! initiator   asked, or suspects it itself; no atomic of its own is in flight there, and another lane is open:
//!             posts nothing more there, and proposes     <- leave
//! responder   posts nothing more there either; once no atomic of its own is in flight, and another lane is open
//!             that it does not suspect: ends its side    down ->
//! initiator   ends its side, as of any lane that its peer has ended
//! ```
//!
//! Each of the two looks at all lanes of the pair under one lock: one that is open stays. A request is taken back
//! when the lane delivers again, a proposal only when no other lane is left.

use super::Failover;
use super::control_message::{ControlMessage, Kind};
use super::detector::Event;
use super::pair::{Pair, Recovery, Role};
use ferrorail_base::sync::Ordering;

impl Failover {
    /// The lane of `rail`, which is in use, is suspected because of `reason`. Whether it was left, or will be when
    /// the peer agrees.
    pub(super) fn leave(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        reason: &str,
    ) -> bool {
        if pair.open() & !(1 << rail) == 0 {
            return false;
        }
        match pair.role {
            Role::Initiator => self.propose(pair, recovery, rail),
            Role::Responder => {
                if self.has_atomic(pair, rail) {
                    return false;
                }
                let completed = self.completed(self.lane(pair, rail));
                recovery.tickets[rail].requested = Some(completed);
                let number = recovery.lanes[rail].number;
                self.send(pair, recovery, rail, ControlMessage::leave(number));
                // It may not agree, and is asked again if the lane is suspected for as long again.
                false
            }
            Role::Both => {
                self.close(pair, rail);
                let is_left = !self.has_atomic(pair, rail);
                match is_left {
                    true => self.mark_down_locked(pair, recovery, rail, reason),
                    false => self.open(pair, rail),
                }
                is_left
            }
        }
    }

    /// One step of an agreement about the lane of `rail`, which is in use; `asked` if the peer says `leave`.
    pub(super) fn agree(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, asked: bool) {
        let others = pair.open() & !(1 << rail);
        match pair.role {
            Role::Initiator => {
                if pair.is_closed(rail) && others == 0 {
                    self.open(pair, rail);
                    self.tell_detector(pair, recovery, Event::Kept(rail));
                    self.say(pair, recovery, rail, Kind::Up);
                } else if asked && !pair.is_closed(rail) && others != 0 {
                    self.propose(pair, recovery, rail);
                }
            }
            Role::Responder => {
                let trusted = |rail: &usize| recovery.tickets[*rail].requested.is_none();
                let rails = (0..self.rails().len()).filter(|rail| others & 1 << rail != 0);
                if !asked || !rails.into_iter().any(|rail| trusted(&rail)) {
                    self.open(pair, rail);
                    self.withdraw(pair, recovery, rail);
                    return;
                }
                self.close(pair, rail);
                if !self.has_atomic(pair, rail) {
                    let status = "it delivers nothing, or its port is down; the two sides leave it";
                    self.mark_down_locked(pair, recovery, rail, status);
                }
            }
            Role::Both => {}
        }
    }

    /// Closes the lane of `rail` and proposes to leave it, unless an atomic is in flight there.
    fn propose(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) -> bool {
        self.close(pair, rail);
        if self.has_atomic(pair, rail) {
            self.open(pair, rail);
            return false;
        }
        let number = recovery.lanes[rail].number;
        self.send(pair, recovery, rail, ControlMessage::leave(number));
        true
    }

    /// Takes a request back whose lane delivers.
    fn withdraw(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        let Some(then) = recovery.tickets[rail].requested else {
            return;
        };
        let is_down = self.down.load(Ordering::Relaxed) & 1 << rail != 0;
        if !is_down && self.completed(self.lane(pair, rail)) > then {
            recovery.tickets[rail].requested = None;
            self.say(pair, recovery, rail, Kind::Up);
        }
    }

    /// Whether an atomic is in flight on the lane of `rail`: once it is closed, no more follow.
    fn has_atomic(&self, pair: &Pair, rail: usize) -> bool {
        // Whoever posts holds the journal.
        let mut journal = pair.journals[rail].lock();
        journal.forget(self.completed(self.lane(pair, rail)));
        journal.has_atomic()
    }

    /// Has posts take other lanes than that of `rail`.
    fn close(&self, pair: &Pair, rail: usize) {
        if pair.closed.fetch_or(1 << rail, Ordering::AcqRel) & 1 << rail == 0 {
            self.attention.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Undoes [`Failover::close`].
    pub(super) fn open(&self, pair: &Pair, rail: usize) {
        if pair.closed.fetch_and(!(1 << rail), Ordering::AcqRel) & 1 << rail != 0 {
            self.attention.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
