//! Moving data over rails: short data through slots, longer data straight from and to the caller's
//! buffer, registered (`kept`) and divided over rails by the planner, or, where registering is
//! refused, through slots in pieces.

use super::layout::STAGING_BYTES;
use super::outstanding::{After, Buffer, Outstanding};
use super::rails::Direction;
use super::{Window, WindowError, WindowRails};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::stripe::{Sample, Stripes};
use ferrorail_fabric::{
    Endpoint, FabricError, LocalSlice, RAILS_MAX, RemoteRegion, RemoteSlice, Ticket,
};
use std::time::Instant;

/// A message straight from or to a buffer of the caller's, as far as it is posted.
struct Direct {
    target: Rank,
    direction: Direction,
    here: MemoryRange,
    /// How that is registered, until all is posted.
    buffer: Option<Buffer>,
    /// How it is divided, once its first chunk is posted.
    stripes: Option<Stripes>,
    posted: usize,
    tickets: [Option<Ticket>; RAILS_MAX],
    /// When its first chunk was posted, if its chunks are timed.
    begun: Option<Instant>,
}

impl<F: Endpoint> Window<F> {
    /// Starts moving `here` to or from the bytes at `offset` of `region` at `target`.
    ///
    /// # Safety
    /// `here` is valid until nothing is under way to `target`; the target registered the bytes.
    pub(super) unsafe fn move_by_rail(
        &self,
        target: Rank,
        direction: Direction,
        here: MemoryRange,
        region: &RemoteRegion,
        offset: usize,
    ) -> Result<(), WindowError> {
        let there = RemoteSlice { region, offset };
        if here.bytes <= STAGING_BYTES {
            // SAFETY: the caller's contract.
            return self.on_rails(target, |rails| unsafe {
                rails.transfer(target, direction, here, there)
            });
        }
        // SAFETY: the caller's contract.
        match unsafe { self.buffer(here) } {
            Ok(buffer) => {
                let mut message = Direct {
                    target,
                    direction,
                    here,
                    buffer: Some(buffer),
                    stripes: None,
                    posted: 0,
                    tickets: [None; RAILS_MAX],
                    begun: None,
                };
                // SAFETY: the caller's contract.
                let outcome = self.on_rails(target, |rails| unsafe {
                    rails.transfer_directly(&mut message, there)
                });
                if let Some(buffer) = message.buffer {
                    // Not all could be posted: the buffer is given back once what was is complete.
                    let mut outstanding = self.rails().outstanding();
                    outstanding.begin_all(target, message.tickets, After::GiveBack(buffer));
                }
                outcome
            }
            Err(error @ FabricError::RegisterMemory { .. }) => {
                self.process_context.refused(&error, here.bytes as u64);
                // SAFETY: the caller's contract.
                unsafe { self.move_in_pieces(target, direction, here, there) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// # Safety
    /// As [`Window::move_by_rail`].
    unsafe fn move_in_pieces(
        &self,
        target: Rank,
        direction: Direction,
        here: MemoryRange,
        there: RemoteSlice<'_>,
    ) -> Result<(), WindowError> {
        for at in (0..here.bytes).step_by(STAGING_BYTES) {
            let piece = here.slice(at, STAGING_BYTES.min(here.bytes - at));
            let offset = there.offset + at;
            let there = RemoteSlice { offset, ..there };
            // SAFETY: the caller's contract, for a part.
            self.on_rails(target, |rails| unsafe {
                rails.transfer(target, direction, piece, there)
            })?;
        }
        Ok(())
    }
}

impl<F: Endpoint> WindowRails<F> {
    /// Posts what is not posted yet of a message to or from `there`; `None` if no rail is free for the next
    /// chunk. Once all is posted the buffer's registration is given back when that is complete.
    ///
    /// # Safety
    /// As [`WindowRails::transfer`], for the message's buffer.
    unsafe fn transfer_directly(
        &self,
        message: &mut Direct,
        there: RemoteSlice<'_>,
    ) -> Result<Option<()>, WindowError> {
        let Some(buffer) = &message.buffer else {
            return Ok(Some(()));
        };
        let region = buffer.region(self);
        let first = message.here.address - region.range.address;
        let mut outstanding = self.outstanding();
        let bytes = message.here.bytes as u64;
        let stripes = match message.stripes {
            Some(stripes) => stripes,
            None => self.plan(&mut outstanding, message.target, bytes),
        };
        let timed = self.times(&stripes);
        for &chunk in &stripes.chunks()[message.posted..] {
            let here = LocalSlice {
                region,
                offset: first + chunk.offset as usize,
                bytes: chunk.bytes as usize,
            };
            let offset = there.offset + chunk.offset as usize;
            let there = RemoteSlice { offset, ..there };
            let rail = self.local_rail(chunk.rail);
            let start = timed.then(Instant::now);
            message.begun = message.begun.or(start);
            let op = message.direction.op(here, there);
            // SAFETY: the caller's contract, for a part.
            let Some(ticket) = (unsafe { self.post(message.target, rail, &op) })? else {
                return Ok(None);
            };
            message.stripes = Some(stripes);
            message.tickets[message.posted] = Some(ticket);
            message.posted += 1;
            if let (Some(begun), Some(start)) = (message.begun, start) {
                let sample = Sample::new(message.target, chunk, ticket, (begun, start));
                let Outstanding {
                    sampler,
                    weights_by_rank,
                    ..
                } = &mut *outstanding;
                let rail_weights = &mut weights_by_rank[message.target.index()];
                sampler.start(&**self.fabric(), rail_weights, sample);
            }
        }
        if let Some(buffer) = message.buffer.take() {
            outstanding.begin_all(message.target, message.tickets, After::GiveBack(buffer));
        }
        Ok(Some(()))
    }
}

#[cfg(test)]
pub(super) mod tests;
