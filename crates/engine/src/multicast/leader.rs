//! The protocol's end at the leader of a node.

use super::protocol::Protocol;
use super::{MulticastRow, Waker};
use crate::{Context, EngineError};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicBool, Mutex, Ordering};
use ferrorail_fabric::Group;
use ferrorail_multicast::{Config, MessageId, Time};
use std::sync::Arc;
use std::time::Instant;

/// A leader's membership in the multicasts of its team.
pub(crate) struct Leader {
    pub(super) protocol: Mutex<Protocol>,
    context: Arc<Context>,
    /// Where the protocol's time begins.
    start: Instant,
    busy: AtomicBool,
    /// The program's threads have looked since the service last asked.
    attended: AtomicBool,
    waker: Waker,
}

impl Leader {
    /// Takes part in `config`'s session, whose members are the `leaders`, through `groups`, one a rail.
    ///
    /// # Errors
    /// If the settings do not fit each other.
    pub fn new(
        context: &Arc<Context>,
        config: Config,
        groups: Vec<Box<dyn Group>>,
        leaders: Vec<Rank>,
        waker: Waker,
    ) -> Result<Self, EngineError> {
        let protocol = Protocol::new(config, groups, leaders)?;
        context.stats().multicast.lock().communicators += 1;
        Ok(Self {
            protocol: Mutex::new(protocol),
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
        let mut protocol = self.protocol.lock();
        // SAFETY: the caller's contract.
        let Some(message) = (unsafe { protocol.open(source, memory, now) })? else {
            return Ok(None);
        };
        self.busy.store(true, Ordering::Release);
        self.attend();
        protocol.drive_now(now);
        drop(protocol);
        self.waker.wake();
        Ok(Some(message))
    }

    /// Whether this leader has `message`, or has sent it and needs its memory no more; receives what has come
    /// and sends what is due otherwise.
    ///
    /// # Errors
    /// If multicast failed for good.
    pub fn try_settle(&self, message: MessageId) -> Result<bool, EngineError> {
        let mut protocol = self.protocol.lock();
        if protocol.is_settled(message)? {
            return Ok(true);
        }
        self.attend();
        self.drive_locked(&mut protocol);
        protocol.is_settled(message)
    }

    /// Uses the memory of `message` no more. What is not settled is lost to this leader.
    pub fn settle(&self, message: MessageId) {
        self.protocol.lock().memory.forget(message);
    }

    /// Receives what has come and sends what is due, unless somebody else does; whether anything moved.
    pub fn drive(&self) -> bool {
        let Some(mut protocol) = self.protocol.try_lock() else {
            return false;
        };
        self.attend();
        self.drive_locked(&mut protocol)
    }

    /// As [`Leader::drive`], for the service: leaves it to the program's threads if they look anyway. Whether
    /// they do, and whether anything moved.
    pub fn serve(&self) -> (bool, bool) {
        if self.attended.swap(false, Ordering::Relaxed) {
            return (true, false);
        }
        match self.protocol.try_lock() {
            Some(mut protocol) => (false, self.drive_locked(&mut protocol)),
            None => (true, false),
        }
    }

    fn attend(&self) {
        // Most looks find it set.
        if !self.attended.load(Ordering::Relaxed) {
            self.attended.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn drive_locked(&self, protocol: &mut Protocol) -> bool {
        let moved = protocol.drive(self.now());
        let busy = !protocol.session.is_quiescent();
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
        let mut protocol = self.protocol.lock();
        protocol.session.close(now);
        protocol.drive_now(now);
        self.count(&mut protocol);
    }

    /// This rank takes part in nothing more after an error: the other leaders are told, who may wait for it.
    pub fn give_up(&self) {
        let now = self.now();
        let mut protocol = self.protocol.lock();
        protocol.session.give_up(now);
        protocol.drive_now(now);
    }

    /// Whether no other leader needs this one any more, or multicast has failed.
    pub fn is_done(&self) -> bool {
        let mut protocol = self.protocol.lock();
        protocol.drive(self.now());
        self.count(&mut protocol);
        protocol.session.is_closed() || protocol.check().is_err()
    }

    /// Tells the statistics what has happened since the last time.
    pub fn tell_statistics(&self) {
        self.count(&mut self.protocol.lock());
    }

    fn count(&self, protocol: &mut Protocol) {
        let now = *protocol.session.counters();
        if now != protocol.counted {
            let row = MulticastRow::since(&protocol.counted, &now);
            self.context.stats().multicast.lock().add(&row);
            protocol.counted = now;
        }
    }
}
