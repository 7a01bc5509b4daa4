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
    pub plan: ServicePlan,
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
    /// Whether there was anything in this turn.
    busy: bool,
    failed: bool,
}

impl Service {
    pub fn new(ranks: u32, lock: LockAlgorithm, accumulate: AnyLock, plan: ServicePlan) -> Self {
        Self {
            plan,
            asked: Claim::new(vec![0; ranks as usize]),
            served: Claim::new(Served {
                arbiter: lock.is_served().then(|| Arbiter::new(ranks)),
                answered: vec![0; ranks as usize],
                accumulate,
                answering: None,
                busy: false,
                failed: false,
            }),
        }
    }

    /// Offset of the `index`-th of this rank's operand buffers.
    fn operand_buffer(&self, index: u32) -> usize {
        self.plan.operand_buffers + self.buffer_bytes() * index as usize
    }

    fn buffer_bytes(&self) -> usize {
        operand_buffer_bytes(self.plan.operand_bytes)
    }
}

const STOPPED: WindowError =
    WindowError::Synchronisation("the service thread was stopped at its work");

impl<F: Endpoint> Window<F> {
    /// Whether its service thread must look all the time, because nobody wakes it.
    #[must_use]
    pub fn wants_polling(&self) -> bool {
        self.service.is_some() && self.lock == LockAlgorithm::Thread
    }

    /// Whether service threads of this window accumulate.
    pub(super) fn accumulates_by_service(&self) -> bool {
        let service = self.service.as_ref();
        service.is_some_and(|service| service.plan.accumulate_from.is_some())
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
        let listens = |service: &Service| service.plan.listeners.get(target.index()) == Some(&true);
        !self.wants_polling() && self.service.as_ref().is_some_and(listens)
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
        if let Some(Some(waker)) = service.plan.wakers.get(target.index()) {
            waker.ring();
        }
    }

    /// Serves what others ask of this rank. Whether there was anything. Called by the service thread only, which
    /// gives up if it is to be `stopped`.
    pub(super) fn serve(&self, stopped: &dyn Fn() -> bool) -> bool {
        let Some(service) = &self.service else {
            return false;
        };
        let Some(mut served) = service.served.take() else {
            return false;
        };
        let served = &mut *served;
        let worker = Worker {
            window: self,
            service,
            stopped,
        };
        served.busy = false;
        let outcome = worker
            .keep_lock(served)
            .and_then(|()| worker.accumulate_all(served));
        if let Err(error) = outcome
            && !std::mem::replace(&mut served.failed, true)
        {
            // Whoever asked notices that its peer does not answer.
            tracing::warn!("the service thread of a window failed: {error}");
        }
        served.busy
    }

    /// Where the operands of this rank's requests lie.
    pub(super) fn operands(&self, service: &Service) -> MemoryRange {
        let at = service.operand_buffer(self.size()) + OPERAND_HEADER;
        self.segment.range().slice(at, service.plan.operand_bytes)
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
        let operands = match with_operands {
            true => request.bytes as usize,
            false => 0,
        };
        let message = Message {
            from: buffer,
            bytes: OPERAND_HEADER + operands,
            to: service.buffer_bytes() * self.rank.index(),
            word: layout::accumulate_request(self.size(), self.rank.0),
            value: number,
            wake: self.wakes_by_rail(target),
        };
        rails.send(target, &message)
    }
}

/// The service thread at work on a window.
struct Worker<'w, F: Endpoint> {
    window: &'w Window<F>,
    service: &'w Service,
    /// Whether the thread shall end.
    stopped: &'w dyn Fn() -> bool,
}

impl<F: Endpoint> Worker<'_, F> {
    fn keep_lock(&self, served: &mut Served) -> Result<(), WindowError> {
        let window = self.window;
        let Some(arbiter) = &mut served.arbiter else {
            return Ok(());
        };
        for origin in 0..window.size() {
            let word = window.own_word(layout::lock_request(window.size(), origin));
            if arbiter.observe(origin, word.load(Ordering::Acquire)) {
                served.busy = true;
                count(&window.counters.served);
            }
        }
        let mailbox = PeerWord::LockMailbox(Mailbox::Grant.index());
        let offset = layout::peer(window.rank.0, mailbox);
        while let Some((origin, value)) = arbiter.grant() {
            let origin = Rank(origin);
            if !window.tell_mapped(origin, offset, value) {
                count(&window.counters.lock_messages);
                self.insist(|rails| rails.notify(origin, offset, value))?;
            }
        }
        Ok(())
    }

    fn accumulate_all(&self, served: &mut Served) -> Result<(), WindowError> {
        let window = self.window;
        if self.service.plan.accumulate_from.is_none() {
            return Ok(());
        }
        let site = window.service_site();
        let mut locked = false;
        let mut outcome = Ok(());
        for origin in 0..window.size() {
            let word = window.own_word(layout::accumulate_request(window.size(), origin));
            let number = word.load(Ordering::Acquire);
            if number == served.answered[origin as usize] {
                continue;
            }
            if !std::mem::replace(&mut locked, true) {
                let exclusively = Entrance::Fair(Mode::Exclusive);
                self.complete(served.accumulate.acquire(&site, exclusively))
                    .inspect_err(|_| served.accumulate.lose())?;
            }
            served.busy = true;
            count(&window.counters.served);
            served.answered[origin as usize] = number;
            outcome = outcome.and(self.accumulate(served, Rank(origin), number));
        }
        if locked {
            self.complete(served.accumulate.release(&site))
                .inspect_err(|_| served.accumulate.lose())?;
        }
        outcome
    }

    /// Does what lies in the room of `origin`, and answers.
    fn accumulate(
        &self,
        served: &mut Served,
        origin: Rank,
        number: u64,
    ) -> Result<(), WindowError> {
        let (window, service) = (self.window, self.service);
        let segment = &window.segment;
        let buffer = service.operand_buffer(origin.0);
        let word = |index: usize| segment.word(buffer + 8 * index).load(Ordering::Relaxed);
        let request = Request::from_words([0, 1, 2, 3].map(word));
        let own = &window.targets[window.rank.index()];
        let update = request.check(own.bytes, service.plan.operand_bytes);
        let (Some(update), Memory::Mapped(base)) = (update, own.memory) else {
            return self.answer(served, origin, 0, 0, number << 1 | 1);
        };
        let bytes = request.bytes as usize;
        let there = (base as *mut u8).wrapping_add(request.offset as usize);
        let answers = service.operand_buffer(window.size() + 1) + OPERAND_HEADER;
        let slice = |offset: usize| segment.range().slice(offset, bytes).as_ptr();
        let (mut old, mut sent) = (ptr::null_mut(), 0);
        if request.wants_old {
            self.await_answer(served)?;
            (old, sent) = (slice(answers), bytes);
        }
        let (operands, element_bytes) = (
            slice(buffer + OPERAND_HEADER),
            request.element_bytes as usize,
        );
        // SAFETY: inside this rank's memory, as checked, the room for answers, which is the service thread's,
        // and the origin's, which it leaves alone until it is answered; the accumulate lock keeps other
        // accumulating operations away.
        let updated = unsafe { update.in_place(there, operands, old, bytes, element_bytes) };
        // The origin waits for an answer whatever that is.
        match updated {
            Ok(()) => self.answer(served, origin, answers, sent, number << 1),
            Err(error) => self
                .answer(served, origin, 0, 0, number << 1 | 1)
                .and(Err(error)),
        }
    }

    /// Sends `value` to `origin`, after `bytes` bytes at `from` for its room.
    fn answer(
        &self,
        served: &mut Served,
        origin: Rank,
        from: usize,
        bytes: usize,
        value: u64,
    ) -> Result<(), WindowError> {
        let window = self.window;
        let message = Message {
            from,
            bytes,
            to: self.service.buffer_bytes() * window.targets.len() + OPERAND_HEADER,
            word: layout::answer(window.size(), window.rank.0),
            value,
            wake: false,
        };
        self.await_answer(served)?;
        let ticket = self.insist(|rails| rails.send(origin, &message))?;
        served.answering = Some(ticket);
        Ok(())
    }

    /// Waits until the room for answers is free.
    fn await_answer(&self, served: &mut Served) -> Result<(), WindowError> {
        let Some(ticket) = served.answering.take() else {
            return Ok(());
        };
        self.insist(|rails| Ok(rails.fabric().is_complete(ticket)?.then_some(())))
    }

    /// Runs `post` until it has something. The host MPI is not driven: this is not its thread.
    fn insist<R>(
        &self,
        mut post: impl FnMut(&WindowRails<F>) -> Result<Option<R>, WindowError>,
    ) -> Result<R, WindowError> {
        assert_unlocked();
        let rails = self.window.rails();
        loop {
            if let Some(done) = post(rails)? {
                return Ok(done);
            }
            rails.progress()?;
            if (self.stopped)() {
                return Err(STOPPED);
            }
            yield_now();
        }
    }

    /// Runs a lock's future to its end, as [`Worker::insist`] does.
    fn complete<E>(&self, future: impl Future<Output = Result<(), E>>) -> Result<(), WindowError>
    where
        WindowError: From<E>,
    {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        self.insist(|_| match future.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => Ok(Some(outcome?)),
            Poll::Pending => Ok(None),
        })
    }
}
