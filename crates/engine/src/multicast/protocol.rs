//! One end of the protocol: datagrams in and out, what devices say of their ports, and where messages lie.

use super::memory::Memory;
use super::trial;
use crate::EngineError;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::MulticastError;
use ferrorail_fabric::multicast::{self, Group, Payload};
use ferrorail_multicast::wire::{self, WireError};
use ferrorail_multicast::{
    Config, Counters, Failure, Forward, MessageId, OpenError, Send, Session, Time, To,
};

/// Datagrams taken from a rail before the others have their turn. Each says how many its source has sent on
/// every rail, so that those which wait on another one look lost until they are taken.
const POLL_MAX: usize = 4;

/// Turns of all rails in one look, so that sending has its turn as well.
const TURNS_MAX: usize = 64;

/// At the next look, whenever that is.
const NOW: Time = Time(0);

/// No time.
const NEVER: Time = Time(u64::MAX);

pub(super) struct Protocol {
    pub session: Session,
    /// By rail of the session.
    pub groups: Vec<Box<dyn Group>>,
    pub memory: Memory,
    /// When the session has something to do, unless a datagram comes earlier.
    pub due: Time,
    /// Rails whose devices have failed, a bit each.
    lost: u8,
    /// Why nothing more can be sent or received.
    failed: Option<MulticastError>,
    /// The ranks whose ends of the protocol the members are.
    leaders: Vec<Rank>,
    /// What the statistics know already.
    pub counted: Counters,
}

impl Protocol {
    /// Takes part in `config`'s session, whose members are the `leaders`, through `groups`, one a rail.
    ///
    /// # Errors
    /// If the settings do not fit each other.
    pub fn new(
        config: Config,
        groups: Vec<Box<dyn Group>>,
        leaders: Vec<Rank>,
    ) -> Result<Self, EngineError> {
        let memory = Memory::new(&config);
        let session =
            Session::new(config).map_err(|error| EngineError::Internal(error.to_string()))?;
        Ok(Self {
            session,
            groups,
            memory,
            due: NOW,
            lost: 0,
            failed: None,
            leaders,
            counted: Counters::default(),
        })
    }

    /// Opens the next message of the session. `None` if this end is its source and has no channel for it yet.
    ///
    /// # Errors
    /// If multicast failed for good.
    ///
    /// # Safety
    /// The memory stays valid, and nobody else writes it, until the message is forgotten.
    pub unsafe fn open(
        &mut self,
        source: u32,
        memory: MemoryRange,
        now: Time,
    ) -> Result<Option<MessageId>, EngineError> {
        self.check()?;
        if !self.session.may_open(source) {
            // What says that a channel is free may have come.
            self.drive(now);
        }
        let opened = match self.session.open(source, memory.bytes, now) {
            Ok(opened) => opened,
            Err(OpenError::Busy) => return Ok(None),
            Err(OpenError::Failed(_)) => {
                self.check()?;
                return Ok(None);
            }
        };
        let config = self.session.config();
        // SAFETY: the caller's contract.
        unsafe { self.memory.place(config, opened, source, memory) };
        Ok(Some(opened.id))
    }

    /// Drives it now, whenever it is due.
    pub fn drive_now(&mut self, now: Time) -> bool {
        self.due = NOW;
        self.drive(now)
    }

    pub fn is_settled(&self, message: MessageId) -> Result<bool, EngineError> {
        let settled = self.session.status(message).is_done();
        if !settled {
            self.check()?;
        }
        Ok(settled)
    }

    /// Why nothing more will come.
    pub fn check(&self) -> Result<(), EngineError> {
        let reason = match (&self.failed, self.session.failure()) {
            (None, None) => return Ok(()),
            (Some(failed), _) => failed.to_string(),
            (None, Some(Failure::Mismatch { .. })) => {
                return Err(EngineError::Mismatch { rank: None });
            }
            (None, Some(Failure::GaveUp { member })) => {
                let rank = self.leaders[member as usize];
                return Err(EngineError::PeerGaveUp { rank });
            }
            (None, Some(failure)) => failure.to_string(),
        };
        Err(EngineError::Multicast { reason })
    }

    pub fn drive(&mut self, now: Time) -> bool {
        if self.failed.is_some() {
            return false;
        }
        match self.try_drive(now) {
            Ok(moved) => moved,
            Err(error) => {
                tracing::warn!("{error}");
                self.failed = Some(error);
                false
            }
        }
    }

    fn try_drive(&mut self, now: Time) -> Result<bool, MulticastError> {
        let mut moved = false;
        for _ in 0..TURNS_MAX {
            let mut any = false;
            for rail in 0..self.groups.len() {
                any |= !self.is_lost(rail) && self.receive(rail, now)?;
            }
            moved |= any;
            if !any {
                break;
            }
        }
        // Who waits looks many times for each datagram that comes.
        if !moved && now < self.due {
            return Ok(false);
        }
        self.heed_devices(now);
        self.session.tick(now);
        self.due = NOW;
        while let Some(send) = self.session.next_send() {
            match self.send(&send) {
                Ok(()) => moved = true,
                Err(MulticastError::WouldBlock) => {
                    self.session.unsent(send);
                    return Ok(moved);
                }
                Err(error) => return Err(error),
            }
        }
        self.due = self.session.next_deadline().unwrap_or(NEVER);
        Ok(moved)
    }

    fn is_lost(&self, rail: usize) -> bool {
        self.lost >> rail & 1 != 0
    }

    /// Leaves a rail whose device failed, unless it is the last: what was on its way there is asked for and comes on
    /// the others.
    #[cold]
    fn lose(&mut self, rail: usize, error: MulticastError) -> Result<(), MulticastError> {
        let lost = self.lost | 1 << rail;
        let is_last = lost.count_ones() as usize == self.groups.len();
        let is_device = matches!(error, MulticastError::Device { .. });
        if is_last || !is_device || !self.session.config().reliable {
            return Err(error);
        }
        tracing::warn!("{error}; other rails take over");
        self.lost = lost;
        self.session.rail_down(rail as u8, NOW);
        self.due = NOW;
        Ok(())
    }

    /// Groups on rails whose devices work.
    pub fn working_groups(&mut self) -> impl Iterator<Item = &mut Box<dyn Group>> {
        let lost = self.lost;
        let rails = self.groups.iter_mut().enumerate();
        rails.filter_map(move |(rail, group)| (lost >> rail & 1 == 0).then_some(group))
    }

    /// Has the session leave rails whose ports are down, and come back to those that are up again.
    fn heed_devices(&mut self, now: Time) {
        for (rail, group) in self.groups.iter().enumerate() {
            match self.is_lost(rail) || group.is_port_down() {
                true => self.session.rail_down(rail as u8, now),
                false => self.session.rail_up(rail as u8, now),
            }
        }
    }

    /// Takes what has come on `rail`; whether that was anything.
    fn receive(&mut self, rail: usize, now: Time) -> Result<bool, MulticastError> {
        let Self {
            session,
            groups,
            memory,
            ..
        } = self;
        let checksum = session.config().checksum;
        let mut forwards = Vec::new();
        let mut each = |datagram: &[u8]| match wire::open(datagram, checksum) {
            _ if trial::is_hello(datagram) => {}
            Ok((header, payload)) => {
                let received = session.receive(&header, rail as u8, now);
                if let Some(store) = received.store {
                    memory.store(session.config(), &store, header.bytes, payload);
                }
                if let Some(forward) = received.forward {
                    forwards.push((forward, payload.to_vec()));
                }
            }
            Err(WireError::Damaged) => session.damaged(rail as u8, now),
            // Another group's, whose address is the same.
            Err(WireError::Foreign) => {}
        };
        let polled = groups[rail].poll(POLL_MAX, &mut each);
        for (forward, payload) in forwards {
            self.forward(&forward, &payload)?;
        }
        match polled {
            Ok(count) => Ok(count > 0),
            Err(error) => self.lose(rail, error).map(|()| false),
        }
    }

    /// Passes a datagram on. What the device has no room for is asked for by those who lack it.
    fn forward(&mut self, forward: &Forward, payload: &[u8]) -> Result<(), MulticastError> {
        for &(member, rail) in &forward.to {
            match self.post(To::Member(member), rail, &forward.header, payload) {
                Ok(()) | Err(MulticastError::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send(&mut self, send: &Send) -> Result<(), MulticastError> {
        let Some(payload) = &send.payload else {
            return self.post(send.to, send.rail, &send.header, &[]);
        };
        let channel = self.session.config().channel(payload.message);
        let Some(range) = self.memory.of(payload.message, channel) else {
            // Its caller has given the message up after an error.
            return Ok(());
        };
        let part = range.slice(payload.offset, payload.bytes);
        let bytes = match part.bytes {
            0 => &[][..],
            // SAFETY: the message lies in its channel, or in memory that `open`'s caller vouches for and
            // that nobody writes before it is settled.
            bytes => unsafe { std::slice::from_raw_parts(part.as_ptr(), bytes) },
        };
        self.post(send.to, send.rail, &send.header, bytes)
    }

    /// Sends a datagram, which a rail that is lost loses like any other.
    fn post(
        &mut self,
        to: To,
        rail: u8,
        header: &wire::Header,
        payload: &[u8],
    ) -> Result<(), MulticastError> {
        let index = usize::from(rail);
        if self.is_lost(index) {
            return Ok(());
        }
        let wire = wire::encode(header, payload, self.session.config().checksum);
        let to = match to {
            To::All => multicast::To::All,
            To::Member(member) => multicast::To::Member(member),
        };
        let group = &mut self.groups[index];
        let send = |group: &mut Box<dyn Group>| {
            // SAFETY: the payload is copied before the call returns.
            unsafe { group.send(to, &wire, Payload::Copied(payload)) }
        };
        let sent = match send(group) {
            // Not `done => return done`: reading the result as a whole would wait until the stores of the
            // datagram, which came before, have left the processor.
            Ok(()) => return Ok(()),
            Err(MulticastError::WouldBlock) => group.pending_sends().and_then(|_| send(group)),
            Err(error) => Err(error),
        };
        match sent {
            Err(MulticastError::WouldBlock) => Err(MulticastError::WouldBlock),
            Err(error) => self.lose(index, error),
            Ok(()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
