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
                any |= self.receive(rail, now)?;
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

    /// Has the session leave rails whose ports are down, and come back to those that are up again.
    fn heed_devices(&mut self, now: Time) {
        for (rail, group) in self.groups.iter().enumerate() {
            match group.is_port_down() {
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
        let count = groups[rail].poll(POLL_MAX, &mut each)?;
        for (forward, payload) in forwards {
            self.forward(&forward, &payload)?;
        }
        Ok(count > 0)
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

    fn post(
        &mut self,
        to: To,
        rail: u8,
        header: &wire::Header,
        payload: &[u8],
    ) -> Result<(), MulticastError> {
        let wire = wire::encode(header, payload, self.session.config().checksum);
        let to = match to {
            To::All => multicast::To::All,
            To::Member(member) => multicast::To::Member(member),
        };
        let group = &mut self.groups[usize::from(rail)];
        let mut send = || {
            // SAFETY: the payload is copied before the call returns.
            unsafe { group.send(to, &wire, Payload::Copied(payload)) }
        };
        match send() {
            // Not `done => return done`: reading the result as a whole would wait until the stores of the
            // datagram, which came before, have left the processor.
            Ok(()) => return Ok(()),
            Err(MulticastError::WouldBlock) => {}
            Err(error) => return Err(error),
        }
        self.groups[usize::from(rail)].pending_sends()?;
        let group = &mut self.groups[usize::from(rail)];
        // SAFETY: as above.
        unsafe { group.send(to, &wire, Payload::Copied(payload)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::sync::Mutex;
    use ferrorail_fabric::multicast::DatagramLimits;
    use std::sync::Arc;

    /// A rail: whether its port is down, and datagrams with a payload sent on it.
    type Rail = Arc<Mutex<(bool, usize)>>;

    struct Seat(Rail);

    impl Group for Seat {
        fn limits(&self) -> DatagramLimits {
            DatagramLimits {
                bytes: 4096,
                depth: 64,
                sends: 64,
            }
        }

        fn address(&self) -> Vec<u8> {
            Vec::new()
        }

        fn set_members(&mut self, _: u32, _: &[Vec<u8>]) -> Result<(), MulticastError> {
            Ok(())
        }

        unsafe fn send(
            &mut self,
            _: multicast::To,
            _: &[u8],
            payload: Payload<'_>,
        ) -> Result<(), MulticastError> {
            if let Payload::Copied([_, ..]) = payload {
                self.0.lock().1 += 1;
            }
            Ok(())
        }

        fn pending_sends(&mut self) -> Result<usize, MulticastError> {
            Ok(0)
        }

        fn poll(&mut self, _: usize, _: &mut dyn FnMut(&[u8])) -> Result<usize, MulticastError> {
            Ok(0)
        }

        fn is_port_down(&self) -> bool {
            self.0.lock().0
        }
    }

    #[test]
    fn a_rail_whose_port_is_down_carries_no_multicast() {
        let rails: [Rail; 2] = Default::default();
        let seats = rails
            .iter()
            .map(|rail| Box::new(Seat(Arc::clone(rail))) as Box<dyn Group>);
        let config = Config {
            rails: 2,
            ..Config::new(1, 2, 0)
        };
        let mut protocol = Protocol::new(config, seats.collect(), vec![Rank(0), Rank(1)]).unwrap();
        let mut memory = [0; 64];
        let mut sent = |now| {
            for rail in &rails {
                rail.lock().1 = 0;
            }
            for time in [now, now + 1] {
                let memory = MemoryRange::new(memory.as_mut_ptr(), memory.len());
                // SAFETY: it outlives the protocol.
                unsafe { protocol.open(0, memory, Time(time)) }
                    .unwrap()
                    .unwrap();
                protocol.drive_now(Time(time));
            }
            rails.each_ref().map(|rail| rail.lock().1)
        };
        assert_eq!(sent(1_000), [1, 1]);
        rails[0].lock().0 = true;
        assert_eq!(sent(2_000), [0, 2]);
        rails[0].lock().0 = false;
        // Until a probe shows that all hear it again.
        assert_eq!(sent(3_000), [0, 2]);
    }
}
