//! Posting: an operation becomes as many pieces as the device takes bytes at a time. Those that there is
//! no room for follow when earlier ones have completed, before anything else is posted on the lane.

use super::super::completion::CompletionId;
use super::super::order::{Landing, Requests};
use super::super::rail::Rail;
use super::super::request::Request;
use super::super::work_request::{self, Mode, Operation};
use super::{Lane, Queue};
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{FabricError, Kind};

/// A lane signals at least every so-many-th part of its queue.
const SIGNALS_PER_QUEUE: u64 = 4;

/// What of an operation is not posted yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    operation: Operation,
    /// Number of its last piece, which is the operation's.
    pub last: u64,
}

impl Lane {
    /// Posts `operation`; returns its number.
    ///
    /// # Safety
    /// As for the fabric's methods.
    pub unsafe fn post(&self, rail: &Rail, operation: &Operation) -> Result<u64, FabricError> {
        let bytes = operation.request.local.bytes;
        let pieces = bytes.div_ceil(rail.limits.message_bytes).max(1) as u64;
        let mut queue = self.queue.lock();
        if self.has_failed() {
            return Err(self.error());
        }
        if !queue
            .local_side
            .as_ref()
            .is_some_and(|local_side| local_side.connected)
        {
            return Err(self.refused("not connected"));
        }
        if operation.lacks_key() {
            // Others may have keys for their rails.
            self.fail("the memory is not registered with it".to_owned(), None);
            return Err(self.error());
        }
        if queue.rest.is_some() {
            return Err(FabricError::WouldBlock);
        }
        let before = queue.posted;
        // SAFETY: the caller's promise.
        let left = match unsafe { self.post_pieces(rail, &mut queue, *operation) } {
            Ok(_) if queue.posted == before => return Err(FabricError::WouldBlock),
            Ok(left) => left,
            Err(error) if queue.posted == before => return Err(error),
            // Part of it may be on its way: it is accounted for with all that the lane owes.
            Err(_) => Some(*operation),
        };
        let last = before + pieces;
        if pieces > 1 {
            let completed = self.completed();
            queue.long.retain(|pieces| *pieces.end() > completed);
            queue.long.push_back(before + 1..=last);
        }
        if let Some(operation) = left {
            queue.rest = Some(Rest { operation, last });
            rail.unfinished.fetch_add(1, Ordering::Relaxed);
        }
        rail.count(bytes);
        Ok(last)
    }

    /// Posts more of an operation that there was no room for.
    ///
    /// # Errors
    /// If that breaks the lane.
    pub fn go_on(&self, rail: &Rail) -> Result<(), FabricError> {
        // Who posts finds no room either, and who connects, which may take a second, has no rest.
        let Some(mut queue) = self.queue.try_lock() else {
            return Ok(());
        };
        if self.has_failed() {
            return Ok(());
        }
        let Some(Rest { operation, last }) = queue.rest else {
            return Ok(());
        };
        // SAFETY: it is not complete, so whoever posted it keeps its memory.
        match unsafe { self.post_pieces(rail, &mut queue, operation) }? {
            Some(operation) => queue.rest = Some(Rest { operation, last }),
            None => {
                queue.rest = None;
                rail.unfinished.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Posts as much of `operation` as there is room for; what is left.
    ///
    /// # Safety
    /// As for [`Lane::post`].
    unsafe fn post_pieces(
        &self,
        rail: &Rail,
        queue: &mut Queue,
        mut operation: Operation,
    ) -> Result<Option<Operation>, FabricError> {
        let room = u64::from(rail.limits.lane_operations);
        let completed = self.completed();
        loop {
            if queue.posted - completed >= room || !rail.reserve() {
                return Ok(Some(operation));
            }
            let (piece, left) = operation.cut(rail.limits.message_bytes);
            let fetching = queue.last_fetch > completed;
            // SAFETY: the caller's promise covers every piece.
            let posted = unsafe { self.post_piece(rail, queue, &piece, fetching) };
            match posted {
                Ok(()) => queue.posted += 1,
                Err((error, partly)) => {
                    // What may be on the queue keeps its room until the lane ends.
                    queue.posted += u64::from(partly);
                    rail.release(u32::from(!partly));
                    return Err(error);
                }
            }
            if !piece.request.kind.is_put() {
                queue.last_fetch = queue.posted;
            }
            match left {
                Some(left) => operation = left,
                None => return Ok(None),
            }
        }
    }

    /// Posts what fits one work request and its notification; if that fails, whether part of it may be
    /// posted all the same. `fetching`: a read or an atomic is in
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
    ) -> Result<(), (FabricError, bool)> {
        let number = queue.posted + 1;
        let Some(local_side) = &queue.local_side else {
            return Err((self.refused("not connected"), false));
        };
        let Request { kind, local, .. } = piece.request;
        let notification = kind.notification();
        let value = notification.map_or(0, |(_, value)| value);
        let word = match notification {
            Some(_) => local_side.word(number, &value),
            None => local,
        };
        let landing = rail.landing.as_ref().map(Landing::word);
        let requests = Requests::of(&piece.request, word, landing);
        let interval = (u64::from(rail.limits.lane_operations) / SIGNALS_PER_QUEUE).max(1);
        let mode = Mode {
            id: CompletionId {
                peer: self.id.peer,
                generation: queue.generation,
                low: number as u32,
            }
            .pack(),
            signalled: piece.tracked || number.is_multiple_of(interval) || rail.is_crowded(),
            fenced: fetching && !matches!(kind, Kind::Get),
            inline_bytes: local_side.queue_pair.inline_bytes(),
        };
        // SAFETY: the caller vouches for its memory; the words are registered.
        match unsafe { work_request::post(&local_side.queue_pair, &requests, mode) } {
            Ok(()) => Ok(()),
            Err((error, partly)) => {
                let status = format!("ibv_post_send failed: {error}");
                tracing::debug!("{}: {status}, partly: {partly}", self.object());
                self.fail(status, None);
                Err((self.error(), partly))
            }
        }
    }
}
