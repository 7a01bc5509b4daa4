//! A session at one member: what drives it and what it keeps.

mod asks;
mod closing;
mod members;
mod output;
mod paths;
mod receive;
mod repairs;
mod synchronise;

use crate::config::{Config, ConfigError, Time};
use crate::counters::Counters;
use crate::messages::Messages;
use crate::round_trip::{Jitter, RoundTrip};
use crate::tree::Tree;
use crate::watermarks::Watermarks;
use ferrorail_base::random::SplitMix64;
use thiserror::Error;

pub use output::{Payload, Send, To};
pub use receive::{Forward, Received, Store};

/// Number of a message in its session, from 1 on. All members number alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// A message that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub id: MessageId,
    /// At a receiver: fragments lie in the message's channel already. The driver copies the whole message
    /// from there into the caller's memory now, before it gives the session further datagrams; what is
    /// still missing is stored over it.
    pub early: bool,
}

/// Why a message was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// This member is the source and no channel is free. Drive the session and try again.
    #[error("no broadcast channel is free")]
    Busy,
    /// The session has failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// How far a message is at this member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A receiver lacks fragments.
    Receiving,
    /// A receiver has the whole message.
    Received,
    /// The source's memory is still needed: an eager message has not left for the first time, or not all
    /// members have a longer one.
    Sending,
    /// An eager message has left its source, which keeps it in its channel only.
    Sent,
    /// Every member has the message.
    Acknowledged,
}

impl Status {
    /// Whether the caller's memory is no longer needed, so that a blocking broadcast returns.
    #[must_use]
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Received | Self::Sent | Self::Acknowledged)
    }
}

/// Why a session cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// A member that is waited for was silent for [`Timers::peer_timeout`](crate::Timers::peer_timeout).
    #[error("member {member} does not answer")]
    Unresponsive {
        /// The member.
        member: u32,
    },
    /// Members disagree on a message's source or length.
    #[error(
        "member {member} sent message {message} with another source or length than expected here"
    )]
    Mismatch {
        /// Number of the message.
        message: u64,
        /// The member whose datagram or call disagreed.
        member: u32,
    },
    /// A member, perhaps this one, had an error and takes part in nothing more.
    #[error("member {member} gave up after an error")]
    GaveUp {
        /// The member.
        member: u32,
    },
}

/// A session at one member. See the [crate] for the protocol and for how it is driven.
#[derive(Debug)]
pub struct Session {
    config: Config,
    tree: Tree,
    now: Time,
    counters: Counters,
    failure: Option<Failure>,
    messages: Messages,
    /// How far all members are, as known here.
    known: Watermarks,
    round_trip: RoundTrip,
    jitter: Jitter,
    members: members::Members,
    sync: synchronise::Synchronisation,
    output: output::Output,
    repairs: repairs::Repairs,
    combined: asks::Combined,
    paths: paths::Paths,
}

impl Session {
    /// A session in which nothing was opened yet.
    ///
    /// # Errors
    ///
    /// Names the setting that is out of its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let tree = Tree {
            members: config.members,
            arity: config.arity,
        };
        let session = Self {
            tree,
            now: Time(0),
            counters: Counters::default(),
            failure: None,
            messages: Messages::new(&config),
            known: Watermarks::default(),
            round_trip: RoundTrip::new(config.timers),
            jitter: Jitter(SplitMix64(config.seed)),
            members: members::Members::new(&config),
            sync: synchronise::Synchronisation::new(&config, tree),
            output: output::Output::default(),
            repairs: repairs::Repairs::default(),
            combined: asks::Combined::default(),
            paths: paths::Paths::new(&config),
            config,
        };
        Ok(session)
    }

    /// What the session was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens the next message of the session, of `bytes` from `source`. Receivers may always open. A source
    /// copies an eager message ([`Config::is_eager`]) into its [channel](Config::channel) at once, before the
    /// next call of [`Session::next_send`].
    ///
    /// # Errors
    ///
    /// [`OpenError::Busy`] at a source if the message C before is not known to be received by all; or the
    /// session has failed.
    pub fn open(&mut self, source: u32, bytes: usize, now: Time) -> Result<Opened, OpenError> {
        self.advance_clock(now);
        if let Some(failure) = self.failure {
            return Err(failure.into());
        }
        let mine = source == self.config.me;
        if !self.may_open(source) {
            self.members.refused = true;
            return Err(OpenError::Busy);
        }
        let fragments = self.config.fragments(bytes);
        let next = self.messages.opened + 1;
        let early = self
            .messages
            .get(next)
            .is_some_and(|message| message.any_here());
        let Some(number) = self.messages.open(source, bytes, fragments, mine) else {
            let failure = Failure::Mismatch {
                message: next,
                member: source,
            };
            self.fail(failure);
            return Err(failure.into());
        };
        if mine {
            self.members.refused = false;
            self.counters.messages_sent += 1;
        } else {
            self.expect(number);
        }
        self.synchronise();
        Ok(Opened {
            id: MessageId(number),
            early,
        })
    }

    /// Whether [`Session::open`] succeeds now for a message of `source`.
    #[must_use]
    pub fn may_open(&self, source: u32) -> bool {
        let next = self.messages.opened + 1;
        self.failure.is_none()
            && (source != self.config.me
                || next <= self.known.completed + u64::from(self.config.channels))
    }

    /// How far a message that was opened is.
    #[must_use]
    pub fn status(&self, id: MessageId) -> Status {
        let Some(message) = self
            .messages
            .get(id.0)
            .filter(|_| id.0 > self.known.completed)
        else {
            return Status::Acknowledged;
        };
        if message.source != self.config.me {
            return if message.is_complete() {
                Status::Received
            } else {
                Status::Receiving
            };
        }
        if self.config.is_eager(message.bytes) && self.output.has_left(id.0) {
            Status::Sent
        } else {
            Status::Sending
        }
    }

    /// Does what is due at `now`. Cheap before [`Session::next_deadline`].
    pub fn tick(&mut self, now: Time) {
        self.advance_clock(now);
        if self.is_closed() {
            return;
        }
        self.measure();
        self.repeat_reports();
        if self.config.reliable {
            self.ask_what_is_due();
            self.forward_asks();
            self.flush_repairs();
            self.heartbeat();
            self.probe();
        }
        self.watch_members();
        self.watch_gone();
    }

    /// When [`Session::tick`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if self.is_closed() {
            return None;
        }
        let reliable = [
            self.asks_due(),
            self.combined.due(),
            self.repairs.due(),
            self.output.heartbeat_at,
            self.paths.due(),
        ];
        let reliable = reliable
            .into_iter()
            .flatten()
            .filter(|_| self.config.reliable);
        reliable
            .chain(self.sync.due())
            .chain(self.members.due())
            .chain(self.gone_due())
            .min()
    }

    /// Whether every message that was opened here is known to be received by all.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        self.known.completed >= self.messages.opened
    }

    /// No further message will be opened: drives a last synchronisation. All members close after the same
    /// message.
    pub fn close(&mut self, now: Time) {
        self.advance_clock(now);
        self.sync.closing.get_or_insert(self.messages.opened);
        self.sync.leaving.begin(self.now);
        self.synchronise();
    }

    /// After [`Session::close`]: no member needs this one any more, as far as can be known.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sync.closed
    }

    /// Why the session cannot go on, if so.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The measured round trip in nanoseconds.
    #[must_use]
    pub fn round_trip(&self) -> u64 {
        self.round_trip.estimate()
    }

    /// Messages whose state is kept: those not known to be received by all. At most two rounds of channels and
    /// what a receiver has opened ahead.
    #[must_use]
    pub fn held(&self) -> usize {
        (self.messages.last() + 1 - self.messages.first()) as usize
    }

    /// How far all members are, as far as it is known here.
    #[must_use]
    pub fn known(&self) -> Watermarks {
        self.known
    }

    fn advance_clock(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}
