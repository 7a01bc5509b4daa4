//! A lane: the queue pair to one peer on one rail, and the account of what is in flight on it.
//!
//! Operations are numbered from 1 in the order of posting. A completion for number n completes
//! everything up to n, so that one counter says what is complete, and the difference between the
//! two how full the queue is.

use super::completion::{CompletionId, Failure};
use super::end::End;
use super::queue_pair::Local;
use super::rail::Rail;
use super::wire::RailAddress;
use super::work_request::{self, Kind, LocalPart, Mode, Operation, RemotePart, Request};
use ferrorail_base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use ferrorail_fabric::{Breakage, FabricError, LaneId};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lane signals at least every so-many-th part of its queue.
const SIGNALS_PER_QUEUE: u64 = 4;

/// A queue pair to one peer.
#[derive(Debug)]
pub struct Lane {
    id: LaneId,
    rail: String,
    peer: String,
    local: Local,
    lid: u16,
    queue: Mutex<Queue>,
    completed: AtomicU64,
    /// Copy of the queue's, for completions.
    life: AtomicU32,
    /// Whether there is a `failure`.
    failed: AtomicBool,
    failure: Mutex<Option<Breakage>>,
}

/// The posting side, under the lane's lock.
#[derive(Debug)]
struct Queue {
    /// `None` while the lane is ended.
    end: Option<End>,
    /// Which life of the lane this is; completions of earlier ones mean nothing.
    life: u8,
    /// Where the peer is, once connected; kept for the next life.
    connection: Option<RailAddress>,
    /// Number of the last operation posted.
    posted: u64,
    /// Number of the last read or atomic.
    last_fetch: u64,
}

impl Lane {
    /// A lane without a queue pair, for [`Lane::renew`] to make.
    pub fn new(rail: &Rail, id: LaneId, peer: &str) -> Self {
        Self {
            id,
            rail: rail.info.name.clone(),
            peer: peer.to_owned(),
            local: rail.local,
            lid: rail.lid,
            queue: Mutex::new(Queue {
                end: None,
                life: 0,
                connection: None,
                posted: 0,
                last_fetch: 0,
            }),
            completed: AtomicU64::new(0),
            life: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    fn object(&self) -> String {
        format!("rail {} to {}", self.rail, self.peer)
    }

    /// What the peer's lane connects to.
    pub fn address(&self, plane: u8) -> RailAddress {
        let queue = self.lock();
        let end = queue.end.as_ref();
        RailAddress {
            plane,
            mtu: self.local.mtu,
            reads_in: self.local.reads_in,
            lid: self.lid,
            queue_pair: end.map_or(0, |end| end.queue_pair.number()),
            packet_sequence: end.map_or(0, |end| end.packet_sequence),
            end: self.local.here.end,
        }
    }

    /// Connects to the peer's lane. Again with the same address does nothing. Not to be called by
    /// two threads at once.
    pub fn connect(&self, peer: &RailAddress) -> Result<(), FabricError> {
        let mut queue = self.lock();
        // In a later life the lanes have exchanged newer addresses than the caller has.
        match &queue.connection {
            Some(connected) if connected == peer || queue.life > 0 => return Ok(()),
            Some(_) => {
                return Err(FabricError::BadPeerData {
                    what: "second address of one rail",
                });
            }
            None => {}
        }
        let Some(end) = &mut queue.end else {
            return Err(self.error());
        };
        if peer.queue_pair == 0 {
            return Err(self.down("the peer could not make its end"));
        }
        end.connect(self.local, peer, &self.object())?;
        queue.connection = Some(*peer);
        Ok(())
    }

    /// Leaves a lane that could not be connected to `peer`, because of `status`, as one that has ended:
    /// its next life may connect.
    pub fn leave(&self, rail: &Rail, peer: &RailAddress, status: String) {
        self.fail(status, None);
        self.lock().connection = Some(*peer);
        self.end(rail);
    }

    /// Refuses an operation that could never be carried out.
    fn refused(&self, status: &str) -> FabricError {
        FabricError::Completion {
            rail: self.rail.clone(),
            peer: self.peer.clone(),
            status: status.to_owned(),
        }
    }

    /// The error of what another rail may do better.
    #[cold]
    fn down(&self, status: &str) -> FabricError {
        FabricError::LaneDown {
            lane: self.id,
            rail: self.rail.clone(),
            peer: self.peer.clone(),
            status: status.to_owned(),
        }
    }

    /// The error of everything asked of a lane that has failed.
    #[cold]
    fn error(&self) -> FabricError {
        match self.breakage() {
            Some(broken) if broken.refused.is_some() => self.refused(&broken.status),
            broken => self.down(broken.as_ref().map_or("ended", |broken| &broken.status)),
        }
    }

    /// What broke it, or that it was ended.
    pub fn breakage(&self) -> Option<Breakage> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }

    /// Records the lane's first failure; false if it had failed before. `refused`: the operation, if
    /// another rail would do no better.
    #[cold]
    pub fn fail(&self, status: String, refused: Option<u64>) -> bool {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let first = failure.is_none();
        failure.get_or_insert(Breakage { status, refused });
        self.failed.store(true, Ordering::Release);
        first
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts `operation`; returns its number.
    ///
    /// # Safety
    /// As for the fabric's methods.
    pub unsafe fn post(&self, rail: &Rail, operation: &Operation) -> Result<u64, FabricError> {
        let bytes = operation.local.bytes;
        let pieces = bytes.div_ceil(rail.limits.message_bytes).max(1) as u64;
        let room = u64::from(rail.limits.lane_operations);
        if pieces > room {
            return Err(self.refused("message longer than the queue can hold"));
        }
        let mut queue = self.lock();
        if self.has_failed() {
            return Err(self.error());
        }
        if !queue.end.as_ref().is_some_and(|end| end.connected) {
            return Err(self.refused("not connected"));
        }
        if operation.lacks_key() {
            return Err(self.down("the memory is not registered with it"));
        }
        let completed = self.completed.load(Ordering::Acquire);
        if queue.posted - completed + pieces > room || !rail.reserve(pieces as u32) {
            return Err(FabricError::WouldBlock);
        }
        for piece in 0..pieces {
            let offset = piece as usize * rail.limits.message_bytes;
            let last = piece + 1 == pieces;
            let part = Operation {
                local: LocalPart {
                    address: operation.local.address + offset as u64,
                    bytes: (bytes - offset).min(rail.limits.message_bytes),
                    ..operation.local
                },
                remote: RemotePart {
                    address: operation.remote.address + offset as u64,
                    ..operation.remote
                },
                notification: operation.notification.filter(|_| last),
                tracked: operation.tracked && last,
                ..*operation
            };
            let number = queue.posted + 1;
            // SAFETY: the caller's promise covers every part.
            let posted =
                unsafe { self.post_piece(rail, &queue, &part, queue.last_fetch > completed) };
            // Also where that failed: it may be on the queue, and keeps its room until the lane ends.
            queue.posted = number;
            if let Err(error) = posted {
                rail.release((pieces - piece - 1) as u32);
                return Err(error);
            }
            if !operation.kind.is_write() {
                queue.last_fetch = number;
            }
        }
        rail.count(bytes);
        Ok(queue.posted)
    }

    /// Posts what fits one work request and its notification. `fetching`: a read or an atomic is in
    /// flight. Only those may be overtaken by what follows them (InfiniBand specification, volume 1,
    /// table 79), so that everything but another read then waits at the device.
    ///
    /// # Safety
    /// As for [`Lane::post`].
    unsafe fn post_piece(
        &self,
        rail: &Rail,
        queue: &Queue,
        piece: &Operation,
        fetching: bool,
    ) -> Result<(), FabricError> {
        let number = queue.posted + 1;
        let Some(end) = &queue.end else {
            return Err(self.refused("not connected"));
        };
        let data = Request {
            // Only the notification wakes.
            kind: match piece.kind {
                Kind::WriteAndWake => Kind::Write,
                kind => kind,
            },
            local: piece.local,
            remote: piece.remote,
        };
        let value = piece.notification.map_or(0, |(_, value)| value);
        let mut requests = [data; 2];
        let requests = match piece.notification {
            None => &requests[..1],
            Some((remote, _)) => {
                requests[1] = Request {
                    kind: piece.kind,
                    local: end.word(number, &value),
                    remote,
                };
                &requests[usize::from(piece.local.bytes == 0)..]
            }
        };
        let interval = (u64::from(rail.limits.lane_operations) / SIGNALS_PER_QUEUE).max(1);
        let mode = Mode {
            id: CompletionId {
                peer: self.id.peer,
                life: queue.life,
                low: number as u32,
            }
            .pack(),
            signalled: piece.tracked || number.is_multiple_of(interval) || rail.is_crowded(),
            fenced: fetching && piece.kind != Kind::Read,
            inline_bytes: end.queue_pair.inline_bytes(),
        };
        // SAFETY: the caller vouches for its memory; the words are registered.
        match unsafe { work_request::post(&end.queue_pair, requests, mode) } {
            Ok(()) => Ok(()),
            Err((error, partly)) => {
                let status = format!("ibv_post_send failed: {error}");
                // Work without an account of it is on the queue, or may be: no way on.
                tracing::debug!("{}: {status}, partly: {partly}", self.object());
                self.fail(status, None);
                Err(self.error())
            }
        }
    }

    /// Takes note of a completion. Only for the holder of the rail's `polling`.
    ///
    /// # Errors
    /// If it is the lane's first failure.
    pub fn complete(
        &self,
        rail: &Rail,
        id: CompletionId,
        failure: Option<Failure>,
    ) -> Result<(), FabricError> {
        if id.life != self.life.load(Ordering::Relaxed) as u8 {
            return Ok(());
        }
        let before = self.completed.load(Ordering::Relaxed);
        let newly = id.low.wrapping_sub(before as u32);
        if let Some(failure) = failure {
            let refused = (!failure.is_of_path()).then_some(before + u64::from(newly));
            return match self.fail(failure.words(), refused) {
                true => Err(self.error()),
                false => Ok(()), // Work flushed behind the first failure.
            };
        }
        self.completed
            .store(before + u64::from(newly), Ordering::Release);
        rail.release(newly);
        Ok(())
    }

    /// Memory that it takes here: its end, and the account. `None` while ended.
    pub fn bytes(&self) -> Option<u64> {
        let queue = self.lock();
        Some(queue.end.as_ref()?.bytes() + size_of::<Self>() as u64)
    }

    /// Number of the last operation known to be complete.
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Destroys the queue pair: the device is then done with everything posted to it, and answers
    /// the peer's requests no more.
    pub fn end(&self, rail: &Rail) {
        let _polling = rail.polling.lock().unwrap_or_else(PoisonError::into_inner);
        self.fail("ended".to_owned(), None);
        let mut queue = self.lock();
        if queue.end.take().is_some() {
            rail.release((queue.posted - self.completed()) as u32);
            queue.life = queue.life.wrapping_add(1);
            self.life.store(u32::from(queue.life), Ordering::Relaxed);
        }
    }

    /// Makes a queue pair, in place of an ended one if there was one; its number and first packet sequence number.
    pub fn renew(&self, rail: &Rail) -> Result<u64, FabricError> {
        let _polling = rail.polling.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue = self.lock();
        let end = End::create(rail, &self.object())?;
        let token = u64::from(end.queue_pair.number()) << 24 | u64::from(end.packet_sequence);
        queue.end = Some(end);
        self.completed.store(queue.posted, Ordering::Release);
        Ok(token)
    }

    /// Connects the new queue pair to the peer's, given what its `renew` returned.
    pub fn resume(&self, token: u64) -> Result<(), FabricError> {
        let mut queue = self.lock();
        let queue = &mut *queue;
        let (Some(end), Some(connection)) = (&mut queue.end, &mut queue.connection) else {
            return Err(self.refused("not connected"));
        };
        connection.queue_pair = (token >> 24) as u32 & 0x00ff_ffff;
        connection.packet_sequence = token as u32 & 0x00ff_ffff;
        end.connect(self.local, connection, &self.object())?;
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.failed.store(false, Ordering::Release);
        Ok(())
    }

    /// Whether operation `number` is complete.
    pub fn is_complete(&self, number: u64) -> Result<bool, FabricError> {
        if self.completed.load(Ordering::Acquire) >= number {
            return Ok(true);
        }
        match self.has_failed() {
            true => Err(self.error()),
            false => Ok(false),
        }
    }
}
