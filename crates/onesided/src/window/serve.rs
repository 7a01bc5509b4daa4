//! What a thread of the target does for others, in windows that want it: it keeps the lock, and
//! accumulates. Requests are words that one origin writes each, so that nobody competes for a place
//! in a queue, and that say all by their last value, so that nothing depends on when they are seen.

use super::layout::{self, OPERAND_HEADER, PeerWord, operand_buffer_bytes};
use super::rails::WindowRails;
use super::request::{Message, Request};
use super::target::Memory;
use super::{Window, WindowError, count};
use crate::lock::{AnyLock, Arbiter, Entrance, LockAlgorithm, Mailbox, Mode};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Claim, Ordering, assert_unlocked, fence, yield_now};
use ferrorail_fabric::{Endpoint, Ticket};
use ferrorail_shm::WakePipeWriter;
use std::future::Future;
use std::pin::pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

/// What a window leaves to service threads.
pub struct ServicePlan {
    /// Bytes from which on a rank of another node has the target's service thread accumulate; `None` leaves
    /// it to origins.
    pub accumulate_from: Option<usize>,
    /// Operands that a service thread takes at a time, as the layout says.
    pub operand_bytes: usize,
    /// Offset of this rank's operand buffers in the segment.
    pub operand_buffers: usize,
    /// Who rings for the service threads of which ranks.
    pub wakers: Vec<Option<WakePipeWriter>>,
    /// Which ranks' service threads listen to wake-up events of the rails.
    pub listeners: Vec<bool>,
}

/// What a window has for its service thread and for asking others'.
pub(super) struct Service {
    pub accumulate_from: Option<usize>,
    pub operand_bytes: usize,
    /// Whether service threads sleep.
    pub wakes: bool,
    operand_buffers: usize,
    wakers: Vec<Option<WakePipeWriter>>,
    listeners: Vec<bool>,
    /// Number of the last request to each rank; claimed while the room to send from is in use.
    pub asked: Claim<Vec<u64>>,
    /// The service thread's own.
    served: Claim<Served>,
}

/// The service thread's state.
struct Served {
    /// Of the lock, if that is the service thread's.
    arbiter: Option<Arbiter>,
    /// The last request of each origin that was served.
    answered: Vec<u64>,
    accumulate: AnyLock,
    /// The last answer: it may still leave the room that answers are sent from.
    answering: Option<Ticket>,
    failed: bool,
}

impl Service {
    pub fn new(ranks: u32, lock: LockAlgorithm, accumulate: AnyLock, plan: ServicePlan) -> Self {
        Self {
            accumulate_from: plan.accumulate_from,
            operand_bytes: plan.operand_bytes,
            wakes: lock != LockAlgorithm::Thread,
            operand_buffers: plan.operand_buffers,
            wakers: plan.wakers,
            listeners: plan.listeners,
            asked: Claim::new(vec![0; ranks as usize]),
            served: Claim::new(Served {
                arbiter: lock.is_served().then(|| Arbiter::new(ranks)),
                answered: vec![0; ranks as usize],
                accumulate,
                answering: None,
                failed: false,
            }),
        }
    }

    /// Offset of the `index`-th of this rank's operand buffers.
    fn operand_buffer(&self, index: u32) -> usize {
        self.operand_buffers + operand_buffer_bytes(self.operand_bytes) * index as usize
    }
}

/// What a service thread asks of its thread: whether it shall end.
type Stopped<'a> = &'a dyn Fn() -> bool;

const STOPPED: WindowError =
    WindowError::Synchronisation("the service thread was stopped at its work");

impl<F: Endpoint> Window<F> {
    /// Whether a service thread must serve this window.
    #[must_use]
    pub fn needs_service(&self) -> bool {
        self.service.is_some()
    }

    /// Whether it must look all the time, because nobody wakes it.
    #[must_use]
    pub fn wants_polling(&self) -> bool {
        self.service.as_ref().is_some_and(|service| !service.wakes)
    }

    /// Whether service threads of this window accumulate.
    pub(super) fn accumulates_by_service(&self) -> bool {
        let service = self.service.as_ref();
        service.is_some_and(|service| service.accumulate_from.is_some())
    }

    /// The accumulate lock's algorithm.
    pub(super) fn accumulate_algorithm(&self) -> LockAlgorithm {
        LockAlgorithm::for_ranks(self.size() + u32::from(self.accumulates_by_service()))
    }

    /// Says whether this rank's service thread is about to sleep. It must look once more after that.
    pub(super) fn set_asleep(&self, asleep: bool) {
        let word = self.own_word(layout::asleep(self.size()));
        word.store(asleep.into(), Ordering::Relaxed);
        // Against `wake_service`: one of the two sees what the other stored.
        fence(Ordering::SeqCst);
    }

    /// Whether what goes to `target` over rails is to wake its service thread.
    pub(super) fn wakes_by_rail(&self, target: Rank) -> bool {
        let listens = |service: &Service| {
            service.wakes && service.listeners.get(target.index()) == Some(&true)
        };
        self.service.as_ref().is_some_and(listens)
    }

    /// Wakes the service thread of `target` if it sleeps, for what was stored there before.
    pub(super) fn wake_service(&self, target: Rank) {
        let Some(service) = &self.service else { return };
        if let Some(control) = self.targets[target.index()].control {
            fence(Ordering::SeqCst);
            let asleep = self.segment.word(control + layout::asleep(self.size()));
            if asleep.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
        if let Some(waker) = service.wakers.get(target.index()).and_then(Option::as_ref) {
            waker.ring();
        }
    }

    /// Serves what others ask of this rank. Whether there was anything. Called by the service thread only.
    pub(super) fn serve(&self, stopped: Stopped<'_>) -> bool {
        let Some(service) = &self.service else {
            return false;
        };
        let Some(mut served) = service.served.take() else {
            return false;
        };
        let mut busy = false;
        let outcome = self
            .serve_lock(&mut served, &mut busy, stopped)
            .and_then(|()| self.serve_accumulates(service, &mut served, &mut busy, stopped));
        if let Err(error) = outcome
            && !std::mem::replace(&mut served.failed, true)
        {
            // Whoever asked notices that its peer does not answer.
            tracing::warn!("the service thread of a window failed: {error}");
        }
        busy
    }

    fn serve_lock(
        &self,
        served: &mut Served,
        busy: &mut bool,
        stopped: Stopped<'_>,
    ) -> Result<(), WindowError> {
        let Some(arbiter) = &mut served.arbiter else {
            return Ok(());
        };
        for origin in 0..self.size() {
            let word = self.own_word(layout::lock_request(self.size(), origin));
            if arbiter.observe(origin, word.load(Ordering::Acquire)) {
                *busy = true;
                count(&self.counters.served);
            }
        }
        let mailbox = PeerWord::LockMailbox(Mailbox::Grant.index());
        let offset = layout::peer(self.rank.0, mailbox);
        while let Some((origin, value)) = arbiter.grant() {
            let origin = Rank(origin);
            if !self.tell_mapped(origin, offset, value) {
                count(&self.counters.lock_messages);
                self.insist(stopped, |rails| rails.notify(origin, offset, value))?;
            }
        }
        Ok(())
    }

    fn serve_accumulates(
        &self,
        service: &Service,
        served: &mut Served,
        busy: &mut bool,
        stopped: Stopped<'_>,
    ) -> Result<(), WindowError> {
        if service.accumulate_from.is_none() {
            return Ok(());
        }
        let site = self.service_site();
        let mut locked = false;
        let mut outcome = Ok(());
        for origin in 0..self.size() {
            let word = self.own_word(layout::accumulate_request(self.size(), origin));
            let number = word.load(Ordering::Acquire);
            if number == served.answered[origin as usize] {
                continue;
            }
            if !std::mem::replace(&mut locked, true) {
                let exclusively = Entrance::Fair(Mode::Exclusive);
                let acquired = served.accumulate.acquire(&site, exclusively);
                self.complete_here(stopped, acquired)?;
            }
            *busy = true;
            count(&self.counters.served);
            served.answered[origin as usize] = number;
            let answered = self.serve_accumulate(service, served, Rank(origin), number, stopped);
            outcome = outcome.and(answered);
        }
        if locked {
            self.complete_here(stopped, served.accumulate.release(&site))?;
        }
        outcome
    }

    /// Does what lies in the room of `origin`, and answers.
    fn serve_accumulate(
        &self,
        service: &Service,
        served: &mut Served,
        origin: Rank,
        number: u64,
        stopped: Stopped<'_>,
    ) -> Result<(), WindowError> {
        let buffer = service.operand_buffer(origin.0);
        let word = |index: usize| {
            self.segment
                .word(buffer + 8 * index)
                .load(Ordering::Relaxed)
        };
        let request = Request::from_words([0, 1, 2, 3].map(word));
        let own = &self.targets[self.rank.index()];
        let (update, base) = match (request.check(own.bytes, service.operand_bytes), own.memory) {
            (Some(update), Memory::Mapped(base)) => (update, base),
            _ => return self.answer(served, origin, 0, 0, number << 1 | 1, stopped),
        };
        let bytes = request.bytes as usize;
        let there = (base as *mut u8).wrapping_add(request.offset as usize);
        let answers = service.operand_buffer(self.size() + 1) + OPERAND_HEADER;
        let slice = |offset: usize| self.segment.range().slice(offset, bytes).as_ptr();
        let (mut old, mut sent) = (ptr::null_mut(), 0);
        if request.wants_old {
            self.await_answer(served, stopped)?;
            (old, sent) = (slice(answers), bytes);
        }
        let (operands, element_bytes) = (
            slice(buffer + OPERAND_HEADER),
            request.element_bytes as usize,
        );
        // SAFETY: inside this rank's memory, as checked, the room for answers, which is the service thread's,
        // and the origin's, which it leaves alone until it is answered; the accumulate lock keeps other
        // accumulating operations away.
        unsafe { update.in_place(there, operands, old, bytes, element_bytes)? };
        self.answer(served, origin, answers, sent, number << 1, stopped)
    }

    /// Sends `value` to `origin`, after `bytes` bytes at `from` for its room.
    fn answer(
        &self,
        served: &mut Served,
        origin: Rank,
        from: usize,
        bytes: usize,
        value: u64,
        stopped: Stopped<'_>,
    ) -> Result<(), WindowError> {
        let Some(service) = &self.service else {
            return Ok(());
        };
        let to =
            operand_buffer_bytes(service.operand_bytes) * self.size() as usize + OPERAND_HEADER;
        let message = Message {
            from,
            bytes,
            to,
            word: layout::answer(self.size(), self.rank.0),
            value,
            wake: false,
        };
        self.await_answer(served, stopped)?;
        let ticket = self.insist(stopped, |rails| rails.send(origin, &message))?;
        served.answering = Some(ticket);
        Ok(())
    }

    /// Waits until the room for answers is free.
    fn await_answer(&self, served: &mut Served, stopped: Stopped<'_>) -> Result<(), WindowError> {
        let Some(ticket) = served.answering.take() else {
            return Ok(());
        };
        self.insist(stopped, |rails| {
            Ok(rails.fabric().is_complete(ticket)?.then_some(()))
        })
    }

    /// Where the operands of this rank's requests lie.
    pub(super) fn operands(&self, service: &Service) -> MemoryRange {
        let at = service.operand_buffer(self.size()) + OPERAND_HEADER;
        self.segment.range().slice(at, service.operand_bytes)
    }

    /// Posts a request to the service thread of `target`, with the operands that are in place.
    pub(super) fn post_request(
        &self,
        rails: &WindowRails<F>,
        service: &Service,
        target: Rank,
        number: u64,
        request: &Request,
        with_operands: bool,
    ) -> Result<Option<Ticket>, WindowError> {
        let buffer = service.operand_buffer(self.size());
        for (index, word) in request.words().into_iter().enumerate() {
            self.segment
                .word(buffer + 8 * index)
                .store(word, Ordering::Relaxed);
        }
        let operands = if with_operands {
            request.bytes as usize
        } else {
            0
        };
        let message = Message {
            from: buffer,
            bytes: OPERAND_HEADER + operands,
            to: operand_buffer_bytes(service.operand_bytes) * self.rank.index(),
            word: layout::accumulate_request(self.size(), self.rank.0),
            value: number,
            wake: self.wakes_by_rail(target),
        };
        rails.send(target, &message)
    }

    /// Stores a word of `to`'s control block if `to` is of this node.
    fn tell_mapped(&self, to: Rank, offset: usize, value: u64) -> bool {
        let Some(control) = self.targets[to.index()].control else {
            return false;
        };
        let word = self.segment.word(control + offset);
        word.store(value, Ordering::Release);
        self.doorbell().ring();
        true
    }

    /// Runs `post` until it has something. The host MPI is not driven: this is not its thread.
    fn insist<R>(
        &self,
        stopped: Stopped<'_>,
        mut post: impl FnMut(&WindowRails<F>) -> Result<Option<R>, WindowError>,
    ) -> Result<R, WindowError> {
        assert_unlocked();
        let rails = self.rails();
        loop {
            if let Some(done) = post(rails)? {
                return Ok(done);
            }
            rails.progress()?;
            if stopped() {
                return Err(STOPPED);
            }
            yield_now();
        }
    }

    /// Runs a lock's future to its end, as [`Window::insist`] does.
    fn complete_here<E>(
        &self,
        stopped: Stopped<'_>,
        future: impl Future<Output = Result<(), E>>,
    ) -> Result<(), WindowError>
    where
        WindowError: From<E>,
    {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        self.insist(stopped, |_| match future.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => Ok(Some(outcome?)),
            Poll::Pending => Ok(None),
        })
    }
}
