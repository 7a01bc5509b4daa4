//! A lane: the queue pair to one peer on one rail, and the account of what is in flight on it.
//!
//! Operations are numbered from 1 in the order of posting. A completion for number n completes
//! everything up to n, so that one counter says what is complete, and the difference between the
//! two how full the queue is.

use super::completion::Failure;
use super::error::set_up;
use super::handles::MemoryRegion;
use super::queue_pair::{Local, QueuePair};
use super::rail::Rail;
use super::wire::RailAddress;
use super::work_request::{self, Kind, LocalPart, Mode, RemotePart, Request};
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_fabric::FabricError;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A lane signals at least every so-many-th part of its queue.
const SIGNALS_PER_QUEUE: u64 = 4;

/// What a caller wants done.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Write, read or atomic.
    pub kind: Kind,
    /// Source of a write, else destination.
    pub local: LocalPart,
    /// The peer's memory.
    pub remote: RemotePart,
    /// Word to write afterwards, and its value.
    pub notification: Option<(RemotePart, u64)>,
    /// Whether its completion is wanted soon.
    pub tracked: bool,
}

/// A queue pair to one peer.
#[derive(Debug)]
pub struct Lane {
    /// Low half of completions' ids is the operation, high half this.
    id: u32,
    rail: String,
    peer: String,
    // Before `words`, which its requests may still read.
    queue_pair: QueuePair,
    local: Local,
    lid: u16,
    words: Option<Words>,
    queue: Mutex<Queue>,
    completed: AtomicU64,
    connection: OnceLock<RailAddress>,
    failure: OnceLock<String>,
}

/// The posting side, under the lane's lock.
#[derive(Debug)]
struct Queue {
    /// Number of the last operation posted.
    posted: u64,
    /// Number of the last read or atomic.
    last_fetch: u64,
}

/// Registered memory for the values of notifications in flight, on devices without inline data.
#[derive(Debug)]
struct Words {
    // Before `values`, which it covers.
    region: MemoryRegion,
    values: Box<[AtomicU64]>,
}

impl Words {
    fn new(rail: &Rail) -> std::io::Result<Self> {
        let count = rail.limits.lane_operations;
        let values: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let access = ibverbs_sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        let address = values.as_ptr().cast_mut().cast();
        // SAFETY: the values live on the heap for longer than the region.
        let region = unsafe {
            MemoryRegion::register(&rail.domain, address, size_of_val(&*values), access)
        }?;
        Ok(Self { region, values })
    }

    /// Stores the value of operation `number` where the device finds it.
    fn store(&self, number: u64, value: u64) -> LocalPart {
        let word = &self.values[(number % self.values.len() as u64) as usize];
        word.store(value, Ordering::Relaxed);
        LocalPart {
            address: std::ptr::from_ref(word) as u64,
            bytes: 8,
            lkey: self.region.lkey(),
        }
    }
}

impl Lane {
    /// Makes the queue pair, not yet connected.
    pub fn create(rail: &Rail, id: u32, peer: &str) -> Result<Self, FabricError> {
        let object = format!("rail {} to {peer}", rail.info.name);
        let size = rail.queue_pair_size();
        let queue_pair = QueuePair::create(&rail.domain, &rail.completions, size)
            .map_err(set_up("ibv_create_qp", &object))?;
        queue_pair.initialize(rail.local.port, &object)?;
        let words = if queue_pair.inline_bytes() < 8 {
            Some(Words::new(rail).map_err(set_up("ibv_reg_mr", &object))?)
        } else {
            None
        };
        let random = std::hash::RandomState::new().build_hasher().finish();
        Ok(Self {
            id,
            rail: rail.info.name.clone(),
            peer: peer.to_owned(),
            queue_pair,
            local: Local {
                packet_sequence: random as u32 & 0x00ff_ffff,
                ..rail.local
            },
            lid: rail.lid,
            words,
            queue: Mutex::new(Queue {
                posted: 0,
                last_fetch: 0,
            }),
            completed: AtomicU64::new(0),
            connection: OnceLock::new(),
            failure: OnceLock::new(),
        })
    }

    /// What the peer's lane connects to.
    pub fn address(&self, plane: u8) -> RailAddress {
        RailAddress {
            plane,
            ethernet: self.local.ethernet,
            mtu: self.local.mtu,
            reads_in: self.local.reads_in,
            lid: self.lid,
            queue_pair: self.queue_pair.number(),
            packet_sequence: self.local.packet_sequence,
            gid: self.local.source.map_or([0; 16], |source| {
                let raw: ibverbs_sys::ibv_gid = source.gid.into();
                // SAFETY: both views of the union are plain bytes.
                unsafe { raw.raw }
            }),
        }
    }

    /// Connects to the peer's lane. Again with the same address does nothing. Not to be called by
    /// two threads at once.
    pub fn connect(&self, peer: &RailAddress) -> Result<(), FabricError> {
        match self.connection.get() {
            Some(connected) if connected == peer => return Ok(()),
            Some(_) => {
                return Err(FabricError::BadPeerData {
                    what: "second address of one rail",
                });
            }
            None => {}
        }
        if peer.ethernet != self.local.ethernet {
            return Err(FabricError::BadPeerData {
                what: "rail of another link layer",
            });
        }
        let object = format!("rail {} to {}", self.rail, self.peer);
        self.queue_pair.connect(&self.local, peer, &object)?;
        self.connection.get_or_init(|| *peer);
        Ok(())
    }

    fn failed(&self, status: &str) -> FabricError {
        FabricError::Completion {
            rail: self.rail.clone(),
            peer: self.peer.clone(),
            status: status.to_owned(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts `operation`; returns its number.
    ///
    /// # Safety
    /// As for the fabric's methods.
    pub unsafe fn post(&self, rail: &Rail, operation: &Operation) -> Result<u64, FabricError> {
        if self.connection.get().is_none() {
            return Err(self.failed("not connected"));
        }
        let bytes = operation.local.bytes;
        let pieces = bytes.div_ceil(rail.limits.message_bytes).max(1) as u64;
        let room = u64::from(rail.limits.lane_operations);
        if pieces > room {
            return Err(self.failed("message longer than the queue can hold"));
        }
        let mut queue = self.lock();
        if let Some(status) = self.failure.get() {
            return Err(self.failed(status));
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
            unsafe { self.post_piece(rail, &part, number, queue.last_fetch > completed) }?;
            queue.posted = number;
            if operation.kind != Kind::Write {
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
        piece: &Operation,
        number: u64,
        fetching: bool,
    ) -> Result<(), FabricError> {
        let data = Request {
            kind: piece.kind,
            local: piece.local,
            remote: piece.remote,
        };
        let value = piece.notification.map_or(0, |(_, value)| value);
        let mut requests = [data; 2];
        let requests = match piece.notification {
            None => &requests[..1],
            Some((remote, _)) => {
                let local = match &self.words {
                    Some(words) => words.store(number, value),
                    // Inline: the device reads the value during the call.
                    None => LocalPart {
                        address: &raw const value as u64,
                        bytes: 8,
                        lkey: 0,
                    },
                };
                requests[1] = Request {
                    kind: Kind::Write,
                    local,
                    remote,
                };
                &requests[usize::from(piece.local.bytes == 0)..]
            }
        };
        let interval = (u64::from(rail.limits.lane_operations) / SIGNALS_PER_QUEUE).max(1);
        let mode = Mode {
            id: (u64::from(self.id) << 32) | (number & u64::from(u32::MAX)),
            signalled: piece.tracked || number.is_multiple_of(interval) || rail.is_crowded(),
            fenced: fetching && piece.kind != Kind::Read,
            inline_bytes: self.queue_pair.inline_bytes(),
        };
        // SAFETY: the caller vouches for its memory; the words are registered.
        match unsafe { work_request::post(&self.queue_pair, requests, mode) } {
            Ok(()) => Ok(()),
            Err((error, partly)) => {
                let status = format!("ibv_post_send failed: {error}");
                // Work without an account of it is on the queue, or may be: no way on.
                self.failure.get_or_init(|| status.clone());
                tracing::debug!(
                    "rail {} to {}: {status}, partly: {partly}",
                    self.rail,
                    self.peer
                );
                Err(self.failed(&status))
            }
        }
    }

    /// Takes note of a completion, given the low half of its id. Not to be called by two threads
    /// at once.
    ///
    /// # Errors
    /// If it is the lane's first failure.
    pub fn complete(
        &self,
        rail: &Rail,
        low: u32,
        failure: Option<Failure>,
    ) -> Result<(), FabricError> {
        if let Some(failure) = failure {
            if self.failure.get().is_some() {
                return Ok(()); // Work flushed behind the first failure.
            }
            let status = self.failure.get_or_init(|| failure.words());
            return Err(self.failed(status));
        }
        let before = self.completed.load(Ordering::Relaxed);
        let newly = low.wrapping_sub(before as u32);
        self.completed
            .store(before + u64::from(newly), Ordering::Release);
        rail.release(newly);
        Ok(())
    }

    /// Whether operation `number` is complete.
    pub fn is_complete(&self, number: u64) -> Result<bool, FabricError> {
        if self.completed.load(Ordering::Acquire) >= number {
            return Ok(true);
        }
        match self.failure.get() {
            Some(status) => Err(self.failed(status)),
            None => Ok(false),
        }
    }
}
