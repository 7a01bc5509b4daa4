//! Accumulating by the target's service thread (thesis, section 3.3.2): operands go there, the old values
//! come back if they are wanted, and the result is not moved at all.

use super::Job;
use crate::window::layout;
use crate::window::request::Request;
use crate::window::serve::Service;
use crate::window::shape::Cutter;
use crate::window::target::Memory;
use crate::window::waiting::Waiting;
use crate::window::{Window, WindowError, count};
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::Endpoint;

impl<F: Endpoint> Window<F> {
    /// Whether `job` is one that the target's service thread does: memory on another node, elements without
    /// a gap there, enough of them, an operation that any process can compute.
    pub(super) fn is_for_service(&self, job: &Job<'_>) -> bool {
        let service = self.service.as_ref();
        let Some(least) = service.and_then(|service| service.plan.accumulate_from) else {
            return false;
        };
        let memory = self.targets[job.target.index()].memory;
        matches!(memory, Memory::Rails { .. })
            && job.there.single().is_some()
            && job.there.bytes() >= least
            && job.update.code().is_some()
    }

    /// Has the target's service thread do `job`, as many elements at a time as a room has place for.
    ///
    /// # Safety
    /// As [`Window::accumulate`].
    pub(super) unsafe fn ask_service(&self, job: &Job<'_>) -> Result<(), WindowError> {
        let (Some(service), Some(there), Some(code)) =
            (&self.service, job.there.single(), job.update.code())
        else {
            let reason = "no service thread was agreed on".into();
            return Err(WindowError::Internal(reason));
        };
        let most = service.plan.operand_bytes / job.element_bytes * job.element_bytes;
        let mut origin = job.origin.map(|side| (side, Cutter::new(side.shape)));
        let mut result = job.result.map(|side| (side, Cutter::new(side.shape)));
        let mut asked = self.claim(&service.asked, job.target)?;
        let operands = self.operands(service);
        let mut done = 0;
        while done < there.bytes {
            let bytes = most.min(there.bytes - done);
            if let Some((side, cutter)) = &mut origin {
                // SAFETY: the room is this operation's, and has place; the side is the caller's.
                unsafe { side.copy(cutter, operands.as_ptr(), bytes, false) };
            }
            let request = Request {
                offset: (job.base + there.offset + done as isize) as u64,
                bytes: bytes as u64,
                code,
                element_bytes: job.element_bytes as u32,
                wants_old: result.is_some(),
            };
            asked[job.target.index()] += 1;
            let number = asked[job.target.index()];
            self.send_request(service, job.target, number, &request, origin.is_some())?;
            if let Some((side, cutter)) = &mut result {
                // SAFETY: the service thread has put the old values there; the side is the caller's.
                unsafe { side.copy(cutter, operands.as_ptr(), bytes, true) };
            }
            done += bytes;
        }
        count(&self.counters.handled);
        Ok(())
    }

    /// Sends a request whose operands are in place, and waits for the answer.
    fn send_request(
        &self,
        service: &Service,
        target: Rank,
        number: u64,
        request: &Request,
        with_operands: bool,
    ) -> Result<(), WindowError> {
        let doing = "waiting for a service thread to accumulate";
        let ticket = self.on_rails(target, |rails| {
            self.post_request(rails, service, target, number, request, with_operands)
        })?;
        let fabric = self.rails().fabric();
        // The operands must have left, and arrived before anybody is woken for them.
        self.wait_until(doing, Waiting::Rail(target), || {
            Ok(fabric.is_complete(ticket)?)
        })?;
        if !self.wants_polling() {
            self.wake_service(target);
        }
        let answer = self.own_word(layout::answer(self.size(), target.0));
        let mut found = 0;
        self.wait_until(doing, Waiting::Rail(target), || {
            found = answer.load(Ordering::Acquire);
            Ok(found >> 1 == number)
        })?;
        match found & 1 {
            0 => Ok(()),
            _ => Err(WindowError::Operation(
                "the target's service thread refused the request".into(),
            )),
        }
    }
}
