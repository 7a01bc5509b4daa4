//! The protocol's end at the leader of a node: datagrams in and out, and where messages lie.

use super::memory::Memory;
use super::{MulticastRow, Waker, trial};
use crate::{Context, EngineError};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicBool, Mutex, Ordering};
use ferrorail_fabric::MulticastError;
use ferrorail_fabric::multicast::{self, Group, Payload};
use ferrorail_multicast::wire::{self, WireError};
use ferrorail_multicast::{
    Config, Counters, Forward, MessageId, OpenError, Send, Session, Time, To,
};
use std::sync::Arc;
use std::time::Instant;

/// Datagrams taken from a rail before the others have their turn. Each says how many its source has sent on
/// every rail, so that those which wait on another one look lost until they are taken.
const POLL_MAX: usize = 4;

/// Turns of all rails in one look, so that sending has its turn as well.
const TURNS_MAX: usize = 64;

/// At the next look, whenever that is.
const NOW: Time = Time(0);

/// No time.
const NEVER: Time = Time(u64::MAX);

/// A leader's membership in the multicasts of its team.
pub(crate) struct Leader {
    pub(super) inner: Mutex<Inner>,
    context: Arc<Context>,
    /// Where the protocol's time begins.
    start: Instant,
    busy: AtomicBool,
    /// The program's threads have looked since the service last asked.
    attended: AtomicBool,
    waker: Waker,
}

pub(super) struct Inner {
    session: Session,
    /// By rail of the session.
    pub groups: Vec<Box<dyn Group>>,
    memory: Memory,
    /// When the session has something to do, unless a datagram comes earlier.
    pub due: Time,
    /// Why nothing more can be sent or received.
    failed: Option<MulticastError>,
    /// What the statistics know already.
    counted: Counters,
}

impl Leader {
    /// Takes part in `config`'s session through `groups`, one a rail.
    ///
    /// # Errors
    /// If the settings do not fit each other.
    pub fn new(
        context: &Arc<Context>,
        config: Config,
        groups: Vec<Box<dyn Group>>,
        waker: Waker,
    ) -> Result<Self, EngineError> {
        let memory = Memory::new(&config);
        let session =
            Session::new(config).map_err(|error| EngineError::Selection(error.to_string()))?;
        context.stats().multicast.lock().communicators += 1;
        Ok(Self {
            inner: Mutex::new(Inner {
                session,
                groups,
                memory,
                due: NOW,
                failed: None,
                counted: Counters::default(),
            }),
            context: Arc::clone(context),
            start: Instant::now(),
            busy: AtomicBool::new(false),
            attended: AtomicBool::new(false),
            waker,
        })
    }

    pub(super) fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }

    /// Opens the next message of the session, which all leaders do in the same order: the leader of node `source`
    /// sends it, and it is, or is to be, in `memory`. `None` if this one is its source and has no channel for it yet.
    ///
    /// # Errors
    /// If multicast failed for good.
    ///
    /// # Safety
    /// The memory stays valid, and nobody else writes it, until the message is [settled](Self::settle).
    pub unsafe fn open(
        &self,
        source: u32,
        memory: MemoryRange,
    ) -> Result<Option<MessageId>, EngineError> {
        let now = self.now();
        let mut inner = self.inner.lock();
        inner.check()?;
        if !inner.session.may_open(source) {
            // What says that a channel is free may have come.
            inner.drive(now);
        }
        let opened = match inner.session.open(source, memory.bytes, now) {
            Ok(opened) => opened,
            Err(OpenError::Busy) => return Ok(None),
            Err(OpenError::Failed(_)) => {
                inner.check()?;
                return Ok(None);
            }
        };
        let Inner {
            session,
            memory: of_messages,
            ..
        } = &mut *inner;
        // SAFETY: the caller's contract.
        unsafe { of_messages.place(session.config(), opened, source, memory) };
        self.busy.store(true, Ordering::Release);
        self.attend();
        inner.due = NOW;
        inner.drive(now);
        drop(inner);
        self.waker.wake();
        Ok(Some(opened.id))
    }

    /// Whether this leader has `message`, or has sent it and needs its memory no more; receives what has come
    /// and sends what is due otherwise.
    ///
    /// # Errors
    /// If multicast failed for good.
    pub fn try_settle(&self, message: MessageId) -> Result<bool, EngineError> {
        let mut inner = self.inner.lock();
        if inner.is_settled(message)? {
            return Ok(true);
        }
        self.attend();
        self.drive_locked(&mut inner);
        inner.is_settled(message)
    }

    /// Uses the memory of `message` no more. What is not settled is lost to this leader.
    pub fn settle(&self, message: MessageId) {
        self.inner.lock().memory.forget(message);
    }

    /// Receives what has come and sends what is due, unless somebody else does; whether anything moved.
    pub fn drive(&self) -> bool {
        let Some(mut inner) = self.inner.try_lock() else {
            return false;
        };
        self.attend();
        self.drive_locked(&mut inner)
    }

    /// As [`Leader::drive`], for the service: leaves it to the program's threads if they look anyway. Whether
    /// they do, and whether anything moved.
    pub fn serve(&self) -> (bool, bool) {
        if self.attended.swap(false, Ordering::Relaxed) {
            return (true, false);
        }
        match self.inner.try_lock() {
            Some(mut inner) => (false, self.drive_locked(&mut inner)),
            None => (true, false),
        }
    }

    fn attend(&self) {
        // Most looks find it set.
        if !self.attended.load(Ordering::Relaxed) {
            self.attended.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn drive_locked(&self, inner: &mut Inner) -> bool {
        let moved = inner.drive(self.now());
        let busy = !inner.session.is_quiescent();
        self.busy.store(busy, Ordering::Release);
        moved
    }

    /// Whether a message may not have reached everybody yet, as far as the last look showed.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// No message is opened any more: sees to it that all have reached everybody.
    pub fn close(&self) {
        let now = self.now();
        let mut inner = self.inner.lock();
        inner.session.close(now);
        inner.due = NOW;
        inner.drive(now);
        self.count(&mut inner);
    }

    /// Whether no other leader needs this one any more, or multicast has failed.
    pub fn is_done(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.drive(self.now());
        self.count(&mut inner);
        inner.session.is_closed() || inner.check().is_err()
    }

    /// Tells the statistics what has happened since the last time.
    pub fn tell_statistics(&self) {
        self.count(&mut self.inner.lock());
    }

    fn count(&self, inner: &mut Inner) {
        let now = *inner.session.counters();
        if now != inner.counted {
            let row = MulticastRow::since(&inner.counted, &now);
            self.context.stats().multicast.lock().add(&row);
            inner.counted = now;
        }
    }
}

impl Inner {
    fn is_settled(&self, message: MessageId) -> Result<bool, EngineError> {
        let settled = self.session.status(message).is_done();
        if !settled {
            self.check()?;
        }
        Ok(settled)
    }

    /// Why nothing more will come.
    fn check(&self) -> Result<(), EngineError> {
        let reason = match (&self.failed, self.session.failure()) {
            (None, None) => return Ok(()),
            (Some(failed), _) => failed.to_string(),
            (None, Some(failure)) => failure.to_string(),
        };
        Err(EngineError::Multicast { reason })
    }

    fn drive(&mut self, now: Time) -> bool {
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
