//! A lane: the queue pair to one peer on one rail, and the account of what is in flight on it.
//!
//! Operations are numbered from 1 in the order of posting. A completion for number n completes
//! everything up to n, so that one counter says what is complete, and the difference between the
//! two how full the queue is. How they are posted is in `post`.

mod post;

use super::completion::{CompletionId, Failure};
use super::local_side::LocalSide;
use super::queue_pair::Local;
use super::rail::Rail;
use super::wire::RailAddress;
use crate::breakages::BreakageCell;
use ferrorail_base::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use ferrorail_fabric::{Breakage, FabricError, LaneId, LaneState};
use post::Rest;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// A queue pair to one peer.
#[derive(Debug)]
pub struct Lane {
    id: LaneId,
    rail: String,
    peer: String,
    local: Local,
    queue: Mutex<Queue>,
    completed: AtomicU64,
    /// Copy of the queue's, for completions.
    generation: AtomicU32,
    breakage: BreakageCell,
}

/// The posting side, under the lane's lock.
#[derive(Debug)]
struct Queue {
    /// `None` while the lane is ended.
    local_side: Option<LocalSide>,
    /// Which generation of the lane this is; completions of earlier ones mean nothing.
    generation: u8,
    /// Where the peer is, once connected; kept for the next generation.
    connection: Option<RailAddress>,
    /// Number of the last operation posted.
    posted: u64,
    /// Number of the last read or atomic.
    last_fetch: u64,
    /// What of the last operation there was no room for yet.
    rest: Option<Rest>,
    /// First and last pieces of operations of several, unless they are known to be complete.
    long: VecDeque<RangeInclusive<u64>>,
}

impl Queue {
    /// Number of the operation that piece `number` is of: its last piece's.
    fn operation_of(&self, number: u64) -> u64 {
        let mut long = self.long.iter();
        long.find(|pieces| pieces.contains(&number))
            .map_or(number, |pieces| *pieces.end())
    }
}

impl Lane {
    /// A lane without a queue pair, for [`Lane::renew`] to make.
    pub fn new(rail: &Rail, id: LaneId, peer: &str) -> Self {
        Self {
            id,
            rail: rail.info.name.clone(),
            peer: peer.to_owned(),
            local: rail.local,
            queue: Mutex::new(Queue {
                local_side: None,
                generation: 0,
                connection: None,
                posted: 0,
                last_fetch: 0,
                rest: None,
                long: VecDeque::new(),
            }),
            completed: AtomicU64::new(0),
            generation: AtomicU32::new(0),
            breakage: BreakageCell::default(),
        }
    }

    fn object(&self) -> String {
        format!("rail {} to {}", self.rail, self.peer)
    }

    /// What the peer's lane connects to.
    pub fn address(&self, rail: &Rail) -> RailAddress {
        let queue = self.queue.lock();
        let local_side = queue.local_side.as_ref();
        RailAddress {
            queue_pair: local_side.map_or(0, |local_side| local_side.queue_pair.number()),
            packet_sequence: local_side.map_or(0, |local_side| local_side.packet_sequence),
            ..rail.own_address()
        }
    }

    /// Connects to the peer's lane. Again with the same address does nothing. Not to be called by
    /// two threads at once.
    pub fn connect(&self, peer: &RailAddress) -> Result<(), FabricError> {
        let mut queue = self.queue.lock();
        // In a later generation the lanes have exchanged newer addresses than the caller has.
        match &queue.connection {
            Some(connected) if connected == peer || queue.generation > 0 => return Ok(()),
            Some(_) => {
                return Err(FabricError::BadPeerData {
                    what: "second address of one rail",
                });
            }
            None => {}
        }
        let Some(local_side) = &mut queue.local_side else {
            return Err(self.error());
        };
        if peer.queue_pair == 0 {
            return Err(self.down("the peer could not make its end"));
        }
        local_side.connect(&self.local, peer, &self.object())?;
        queue.connection = Some(*peer);
        Ok(())
    }

    /// Leaves a lane that could not be connected to `peer`, because of `status`, as one that has ended:
    /// its next generation may connect.
    pub fn leave(&self, rail: &Rail, peer: &RailAddress, status: String) {
        self.fail(status, None);
        self.queue.lock().connection = Some(*peer);
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
    pub fn error(&self) -> FabricError {
        match self.breakage.get() {
            Some(broken) => broken.error(self.id, &self.rail),
            None => self.down("ended"),
        }
    }

    /// Records the lane's first failure; false if it had failed before. `refused`: the operation, if
    /// another rail would do no better.
    #[cold]
    pub fn fail(&self, status: String, refused: Option<u64>) -> bool {
        self.breakage.set(Breakage {
            status,
            refused,
            peer: self.peer.clone(),
        })
    }

    #[inline]
    pub fn has_failed(&self) -> bool {
        self.breakage.is_broken()
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
        if id.generation != self.generation.load(Ordering::Relaxed) as u8 {
            return Ok(());
        }
        let before = self.completed.load(Ordering::Relaxed);
        let newly = id.low.wrapping_sub(before as u32);
        if let Some(failure) = failure {
            let refused = (!failure.is_of_path())
                .then(|| self.queue.lock().operation_of(before + u64::from(newly)));
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

    /// Memory that it takes here: its side of the connection, and the account. `None` while ended.
    pub fn bytes(&self) -> Option<u64> {
        let queue = self.queue.lock();
        Some(queue.local_side.as_ref()?.bytes() + size_of::<Self>() as u64)
    }

    /// Number of the last operation known to be complete.
    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// How it is at present.
    #[inline]
    pub fn state(&self) -> LaneState {
        LaneState {
            completed: self.completed(),
            breakage: self.breakage.get(),
        }
    }

    /// Ends the queue pair: the device is then done with everything posted to it, and answers the peer's
    /// requests no more.
    pub fn end(&self, rail: &Rail) {
        let _polling = rail.polling.lock();
        self.fail("ended".to_owned(), None);
        let mut queue = self.queue.lock();
        if let Some(local_side) = queue.local_side.take() {
            // Where the device refuses, destroying it does the same and takes longer.
            if local_side.queue_pair.reset().is_ok() {
                rail.retired.push(Box::new(local_side));
            }
            rail.release((queue.posted - self.completed()) as u32);
            if let Some(rest) = queue.rest.take() {
                queue.posted = rest.last;
                rail.unfinished.fetch_sub(1, Ordering::Relaxed);
            }
            queue.long.clear();
            queue.generation = queue.generation.wrapping_add(1);
            self.generation
                .store(u32::from(queue.generation), Ordering::Relaxed);
        }
    }

    /// Makes a queue pair, in place of an ended one if there was one; its number and first packet sequence number.
    pub fn renew(&self, rail: &Rail) -> Result<u64, FabricError> {
        let local_side = LocalSide::create(rail, &self.object())?;
        let _polling = rail.polling.lock();
        let mut queue = self.queue.lock();
        let token =
            u64::from(local_side.queue_pair.number()) << 24 | u64::from(local_side.packet_sequence);
        queue.local_side = Some(local_side);
        self.completed.store(queue.posted, Ordering::Release);
        Ok(token)
    }

    /// Connects the new queue pair to the peer's, given what its `renew` returned.
    pub fn reconnect(&self, token: u64) -> Result<(), FabricError> {
        let mut queue = self.queue.lock();
        let queue = &mut *queue;
        let (Some(local_side), Some(connection)) = (&mut queue.local_side, &mut queue.connection)
        else {
            return Err(self.refused("not connected"));
        };
        connection.queue_pair = (token >> 24) as u32 & 0x00ff_ffff;
        connection.packet_sequence = token as u32 & 0x00ff_ffff;
        local_side.connect(&self.local, connection, &self.object())?;
        // Under the lock, so that a failure in between is not forgotten.
        self.breakage.clear();
        Ok(())
    }
}
