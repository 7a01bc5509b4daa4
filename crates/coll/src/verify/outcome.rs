//! What an execution must have come to.

use super::machine::Machine;
use super::{Fault, Meaning, Place, VerifyError};
use crate::schedule::{Buffer, Span};
use crate::semantics::Content;
use ferrorail_base::Rank;

impl Machine<'_> {
    /// Every schedule at its end, every arrival awaited, every result right.
    pub fn finish(self) -> Result<(), VerifyError> {
        self.check_ended()?;
        self.check_multicasts()?;
        for (rank, meaning) in (0..).map(Rank).zip(self.meanings) {
            let blame = |kind| VerifyError::at(rank, None, kind);
            self.check_result(rank, meaning).map_err(blame)?;
            if self.task.semantics.synchronising {
                self.check_synchronised(rank).map_err(blame)?;
            }
        }
        Ok(())
    }

    fn check_ended(&self) -> Result<(), VerifyError> {
        for (process, schedule) in self.processes.iter().zip(self.schedules) {
            if let Some(step) = schedule.steps.get(process.next) {
                let kind = Fault::Deadlock(*step);
                return Err(VerifyError::at(process.recv.rank(), process.next, kind));
            }
        }
        let left = self.arrivals.iter().filter(|arrival| !arrival.awaited);
        left.min_by_key(|arrival| arrival.target)
            .map_or(Ok(()), |arrival| {
                let kind = Fault::NeverAwaited(arrival.slot);
                Err(VerifyError::at(arrival.origin, arrival.step as usize, kind))
            })
    }

    fn check_result(&self, rank: Rank, meaning: &Meaning) -> Result<(), Fault> {
        for (block, &expected) in (0..).zip(&meaning.recv) {
            let found = self.result(rank, block);
            match expected {
                Content::Token(expected) if found == Some(expected) => {}
                Content::Token(expected) => {
                    return Err(Fault::Result {
                        block,
                        found,
                        expected,
                    });
                }
                Content::Reduced { part, first, end } => {
                    let place = Place {
                        rank,
                        buffer: Buffer::Recv,
                        block,
                    };
                    let token = found.ok_or(Fault::Undefined(place))?;
                    self.check_reduced(block, token, part, first..end)?;
                }
            }
            if self.task.semantics.uniform && found != self.result(Rank(0), block) {
                return Err(Fault::Bracketing(block));
            }
        }
        Ok(())
    }

    fn result(&self, rank: Rank, block: u32) -> Option<u32> {
        let span = self.in_place(rank, &Span::recv(block, 1));
        let region = self.region(rank, span.buffer);
        self.memory.token(region, span.first)
    }

    fn check_reduced(
        &self,
        block: u32,
        token: u32,
        part: u32,
        expected: std::ops::Range<u32>,
    ) -> Result<(), Fault> {
        if self.values.is(token, part, &expected, self.task.rank_order) {
            return Ok(());
        }
        Err(Fault::Contributions {
            block,
            found: self.values.contributions(token),
            expected,
        })
    }

    /// A rank has entered once any of its steps happened before.
    fn check_synchronised(&self, rank: Rank) -> Result<(), Fault> {
        let clock = self.clocks.of(rank);
        let unknown = (0..clock.len()).find(|&r| r != rank.index() && clock[r] == 0);
        unknown.map_or(Ok(()), |r| Err(Fault::NotSynchronised(Rank(r as u32))))
    }
}
