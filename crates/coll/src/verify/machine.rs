//! Executes the schedules of all ranks with vector clocks; `outcome` judges where they end.

use super::clock::{Clocks, Told};
use super::memory::{Access, Known, LOCAL, Memory, Puts, Region};
use super::value::Values;
use super::{Fault, Meaning, StepId, Task, VerifyError};
use crate::schedule::{Buffer, Schedule, Slot, Span, Step};
use crate::semantics::Overlap;
use ferrorail_base::Rank;
use multicast::Multicasts;
use signal::Signal;

mod multicast;
mod signal;

/// What raised a slot.
pub(super) struct Arrival {
    pub(super) target: Rank,
    pub(super) origin: Rank,
    pub(super) step: u32,
    pub(super) slot: Slot,
    /// Port, blocks and index in `puts` of a put; `None` for an RTR.
    put: Option<(u8, u32, u32)>,
    told: Told,
    pub(super) awaited: bool,
}

/// A slot not raised yet.
const NOTHING: u32 = u32::MAX;

pub(super) struct Process {
    pub(super) next: usize,
    signals: Vec<Signal>,
    send: Region,
    pub(super) recv: Region,
    scratch: Region,
}

/// Whether a step was done.
pub(super) enum Progress {
    Done,
    Blocked,
}

/// The team in mid-execution.
pub(super) struct Machine<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) meanings: &'a [Meaning],
    pub(super) schedules: &'a [Schedule],
    /// How the buffers of each rank lie.
    overlaps: Vec<Overlap>,
    pub(super) values: Values,
    pub(super) memory: Memory,
    pub(super) clocks: Clocks,
    pub(super) processes: Vec<Process>,
    /// For each slot of each rank the index of what raised it, or [`NOTHING`].
    slots: Vec<u32>,
    pub(super) arrivals: Vec<Arrival>,
    /// For each rank, the ranks that have announced as far as it has awaited that.
    permitted: Vec<bool>,
    pub(super) puts: Puts,
    multicasts: Multicasts,
    /// Ranks that may be able to go on.
    ready: Vec<Rank>,
}

impl<'a> Machine<'a> {
    pub fn new(task: &'a Task<'a>, meanings: &'a [Meaning], schedules: &'a [Schedule]) -> Self {
        let size = task.topology.size();
        let overlap = |rank| match task.in_place {
            true => (task.semantics.in_place)(&task.instance(Rank(rank))),
            false => Overlap::Apart,
        };
        let overlaps: Vec<Overlap> = (0..size).map(overlap).collect();
        let mut memory = Memory::default();
        let mut process = |rank| {
            let rank = Rank(rank);
            let Meaning { send, start, recv } = &meanings[rank.index()];
            let recv = memory.add(rank, Buffer::Recv, recv.len() as u32);
            memory.define(recv, 0, start);
            if let Overlap::SendInRecv(first) = overlaps[rank.index()] {
                memory.define(recv, first, send);
            }
            let blocks = send.len() as u32;
            let of_send = memory.add(rank, Buffer::Send, blocks);
            memory.define(of_send, 0, send);
            let scratch = schedules[rank.index()].scratch_blocks;
            Process {
                next: 0,
                signals: Vec::new(),
                send: of_send,
                recv,
                scratch: memory.add(rank, Buffer::Scratch, scratch),
            }
        };
        Self {
            task,
            meanings,
            schedules,
            processes: (0..size).map(&mut process).collect(),
            overlaps,
            values: Values::new(size),
            memory,
            clocks: Clocks::new(size as usize),
            slots: vec![NOTHING; (size * task.slots) as usize],
            arrivals: Vec::new(),
            permitted: vec![false; (size * size) as usize],
            puts: Puts::default(),
            multicasts: Multicasts::of(schedules),
            ready: (0..size).rev().map(Rank).collect(),
        }
    }

    pub fn run(mut self) -> Result<(), VerifyError> {
        while let Some(rank) = self.ready.pop() {
            self.advance(rank)?;
        }
        self.finish()
    }

    /// Runs `rank` until it waits or ends.
    fn advance(&mut self, rank: Rank) -> Result<(), VerifyError> {
        let steps = &self.schedules[rank.index()].steps;
        while let Some(step) = steps.get(self.processes[rank.index()].next) {
            let index = self.processes[rank.index()].next;
            let blame = |kind| VerifyError::at(rank, index, kind);
            match self.step(rank, index as u32, step).map_err(blame)? {
                Progress::Blocked => break,
                Progress::Done => {
                    let process = &mut self.processes[rank.index()];
                    process.next += 1;
                    self.clocks.advance(rank, process.next as u32);
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, rank: Rank, index: u32, step: &Step) -> Result<Progress, Fault> {
        match *step {
            Step::Put {
                to,
                port,
                slot,
                from,
                into,
            } => {
                if into.buffer == Buffer::Recv
                    && into.count > 0
                    && !self.permitted[self.pair(rank, to)]
                {
                    return Err(Fault::NotPermitted(to));
                }
                let put = self.puts.begin();
                let access = Access::new(rank, index, put);
                self.transfer(rank, &from, to, &into, access)?;
                self.raise(rank, index, to, slot, Some((port, from.count, put)))?;
            }
            Step::PutReduced {
                to,
                port,
                slot,
                left,
                right,
                into,
                like,
            } => {
                let put = self.puts.begin();
                let access = Access::new(rank, index, put);
                self.reduce([&left, &right], (to, &into), like, access)?;
                self.raise(rank, index, to, slot, Some((port, into.count, put)))?;
            }
            Step::SendRtr { to, slot } => self.raise(rank, index, to, slot, None)?,
            Step::Await {
                from,
                port,
                slot,
                blocks,
            } => return self.await_slot(rank, index, from, slot, Some((port, blocks))),
            Step::AwaitRtr { from, slot } => {
                return self.await_slot(rank, index, from, slot, None);
            }
            Step::Multicast { from } => self.multicast(rank, index, &from)?,
            Step::AwaitMulticast { from, .. } => {
                return Ok(self.await_multicast(rank, index, from));
            }
            Step::Copy { from, into } => {
                if self.in_place(rank, &from) == self.in_place(rank, &into) {
                    return Ok(Progress::Done);
                }
                let access = Access::new(rank, index, LOCAL);
                self.transfer(rank, &from, rank, &into, access)?;
            }
            Step::Reduce {
                left,
                right,
                into,
                like,
            } => {
                let access = Access::new(rank, index, LOCAL);
                self.reduce([&left, &right], (rank, &into), like, access)?;
            }
            Step::NodeSignal { phase } => self.signal(rank, phase),
            Step::NodeAwait { of, phase } => return Ok(self.await_node(rank, Some(of), phase)),
            Step::NodeAwaitAll { phase } => return Ok(self.await_node(rank, None, phase)),
        }
        Ok(Progress::Done)
    }

    /// Moves tokens; the clock is that of `origin`.
    pub(super) fn transfer(
        &mut self,
        origin: Rank,
        from: &Span,
        target: Rank,
        into: &Span,
        access: Access,
    ) -> Result<(), Fault> {
        let (from, into) = (&self.in_place(origin, from), &self.in_place(target, into));
        let source = self.region(origin, from.buffer);
        let destination = self.region(target, into.buffer);
        // Within a node the origin itself copies.
        let reading = match self.task.topology.same_node(origin, target) {
            true => Access {
                put: LOCAL,
                ..access
            },
            false => access,
        };
        let known = Known {
            clock: self.clocks.of(origin),
            puts: &self.puts,
        };
        for offset in 0..from.count {
            let (from_block, into_block) = (from.first + offset, into.first + offset);
            let token = self.memory.read(source, from_block, reading, &known)?;
            self.memory
                .write(destination, into_block, token, access, &known)?;
        }
        Ok(())
    }

    /// Combines tokens of the rank that has `access` into memory of `target`.
    fn reduce(
        &mut self,
        operands: [&Span; 2],
        (target, into): (Rank, &Span),
        like: Option<u32>,
        access: Access,
    ) -> Result<(), Fault> {
        let rank = Rank(access.rank);
        let into = self.in_place(target, into);
        let destination = self.region(target, into.buffer);
        let sources = operands.map(|span| {
            let span = self.in_place(rank, span);
            (self.region(rank, span.buffer), span.first)
        });
        for (source, first) in sources {
            let apart = source.cell(first).abs_diff(destination.cell(into.first));
            if (1..into.count as usize).contains(&apart) {
                return Err(Fault::Overlap(into.buffer));
            }
        }
        let reading = Access {
            put: LOCAL,
            ..access
        };
        let known = Known {
            clock: self.clocks.of(rank),
            puts: &self.puts,
        };
        for offset in 0..into.count {
            let into_block = into.first + offset;
            let [left, right] = sources.map(|(source, first)| {
                let block = first + offset;
                match source.cell(block) == destination.cell(into_block) {
                    true => self.memory.look(destination, into_block, &known),
                    false => self.memory.read(source, block, reading, &known),
                }
            });
            let token = self.values.combine(left?, right?)?;
            self.memory
                .write(destination, into_block, token, access, &known)?;
            if like.is_some_and(|first| self.values.part(token) != first + offset) {
                return Err(Fault::Cut);
            }
        }
        Ok(())
    }

    /// `span`, or the part of the other buffer that stands for it where the operation is in place.
    pub(super) fn in_place(&self, rank: Rank, span: &Span) -> Span {
        match (self.overlaps[rank.index()], span.buffer) {
            (Overlap::SendInRecv(first), Buffer::Send) => {
                Span::recv(first + span.first, span.count)
            }
            (Overlap::RecvInSend(first), Buffer::Recv) => {
                Span::send(first + span.first, span.count)
            }
            _ => *span,
        }
    }

    /// The memory that `rank` calls `buffer`.
    pub(super) fn region(&self, rank: Rank, buffer: Buffer) -> Region {
        let process = &self.processes[rank.index()];
        match buffer {
            Buffer::Send => process.send,
            Buffer::Recv => process.recv,
            Buffer::Scratch => process.scratch,
            Buffer::Node => {
                let topology = self.task.topology;
                let leader = topology.leader_of(topology.node_of(rank));
                self.processes[leader.index()].scratch
            }
        }
    }

    /// Index in `slots`.
    fn slot(&self, rank: Rank, slot: Slot) -> usize {
        rank.index() * self.task.slots as usize + slot as usize
    }

    /// Index in `permitted`.
    fn pair(&self, rank: Rank, other: Rank) -> usize {
        rank.index() * self.processes.len() + other.index()
    }

    fn raise(
        &mut self,
        origin: Rank,
        step: u32,
        target: Rank,
        slot: Slot,
        put: Option<(u8, u32, u32)>,
    ) -> Result<(), Fault> {
        let index = self.slot(target, slot);
        let raised = &mut self.slots[index];
        if *raised != NOTHING {
            return Err(Fault::SlotReused { slot, target });
        }
        *raised = self.arrivals.len() as u32;
        self.arrivals.push(Arrival {
            target,
            origin,
            step,
            slot,
            put,
            told: self.clocks.tell(origin, step + 1),
            awaited: false,
        });
        self.wake(target);
        Ok(())
    }

    fn await_slot(
        &mut self,
        rank: Rank,
        index: u32,
        from: Rank,
        slot: Slot,
        put: Option<(u8, u32)>,
    ) -> Result<Progress, Fault> {
        let raised = self.slots[self.slot(rank, slot)];
        if raised == NOTHING {
            return Ok(Progress::Blocked);
        }
        let pair = self.pair(rank, from);
        let arrival = &mut self.arrivals[raised as usize];
        let expected = arrival.put.map(|(port, blocks, _)| (port, blocks));
        if arrival.origin != from || expected != put || arrival.awaited {
            let found = StepId {
                rank: arrival.origin,
                step: arrival.step as usize,
            };
            return Err(Fault::Mismatch { slot, found });
        }
        arrival.awaited = true;
        self.clocks.join(rank, arrival.told);
        match arrival.put {
            Some((_, _, put)) => self.puts.end(put, rank, index),
            None => self.permitted[pair] = true,
        }
        Ok(Progress::Done)
    }

    pub(super) fn wake(&mut self, rank: Rank) {
        if self.processes[rank.index()].next < self.schedules[rank.index()].steps.len()
            && self.ready.last() != Some(&rank)
        {
            self.ready.push(rank);
        }
    }
}
