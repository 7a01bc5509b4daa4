//! What an execution must have come to.

use super::machine::Machine;
use super::{Fault, Place, VerifyError};
use crate::registry::Content;
use crate::schedule::{Buffer, Span};
use ferrorail_base::Rank;

impl Machine<'_> {
    /// Every schedule at its end, every arrival awaited, every result right.
    pub fn finish(mut self) -> Result<(), VerifyError> {
        self.check_ended()?;
        self.check_multicasts()?;
        for rank in (0..self.processes.len() as u32).map(Rank) {
            let blame = |kind| VerifyError {
                rank,
                step: None,
                kind,
            };
            self.check_result(rank).map_err(blame)?;
            if self.task.semantics.synchronising {
                self.check_synchronised(rank).map_err(blame)?;
            }
        }
        Ok(())
    }

    fn check_ended(&self) -> Result<(), VerifyError> {
        for (process, schedule) in self.processes.iter().zip(self.schedules) {
            if let Some(step) = schedule.steps.get(process.next) {
                return Err(VerifyError {
                    rank: process.recv.rank(),
                    step: Some(process.next),
                    kind: Fault::Deadlock(*step),
                });
            }
        }
        for process in &self.processes {
            if let Some(arrival) = process.arrivals.iter().find(|a| !a.awaited) {
                return Err(VerifyError {
                    rank: arrival.origin,
                    step: Some(arrival.step as usize),
                    kind: Fault::NeverAwaited(arrival.slot),
                });
            }
        }
        Ok(())
    }

    fn check_result(&mut self, rank: Rank) -> Result<(), Fault> {
        let expected = (self.task.semantics.recv)(&self.task.instance(rank));
        for (block, expected) in (0..).zip(expected) {
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

    fn result(&mut self, rank: Rank, block: u32) -> Option<u32> {
        let span = self.in_place(rank, &Span::recv(block, 1));
        let memory = self.processes[rank.index()].memory(span.buffer);
        memory.token(span.first)
    }

    fn check_reduced(
        &self,
        block: u32,
        token: u32,
        part: u32,
        expected: std::ops::Range<u32>,
    ) -> Result<(), Fault> {
        let (found_part, found) = self.values.contents(token);
        let mut ranks = found.clone();
        if !self.task.rank_order {
            ranks.sort_unstable();
        }
        if found_part == part && ranks.into_iter().eq(expected.clone()) {
            return Ok(());
        }
        Err(Fault::Contributions {
            block,
            found,
            expected,
        })
    }

    /// A rank has entered once any of its steps happened before.
    fn check_synchronised(&self, rank: Rank) -> Result<(), Fault> {
        let clock = &self.processes[rank.index()].clock;
        let unknown = (0..clock.len()).find(|&r| r != rank.index() && clock[r] == 0);
        unknown.map_or(Ok(()), |r| Err(Fault::NotSynchronised(Rank(r as u32))))
    }
}
