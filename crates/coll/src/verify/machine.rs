//! Executes the schedules of all ranks with vector clocks; `outcome` judges where they end.

use super::memory::{Access, Clock, LOCAL, Memory, Puts, join};
use super::multicast::Multicasts;
use super::signal::Signal;
use super::value::Values;
use super::{Fault, StepId, Task, VerifyError};
use crate::registry::Overlap;
use crate::schedule::{Buffer, Order, Schedule, Slot, Span, Step, slot_limit};
use ferrorail_base::Rank;

/// What raised a slot.
pub(super) struct Arrival {
    pub(super) origin: Rank,
    pub(super) step: u32,
    pub(super) slot: Slot,
    /// Port, blocks and index in `puts` of a put; `None` for an RTR.
    put: Option<(u8, u32, u32)>,
    clock: Clock,
    pub(super) awaited: bool,
}

/// A slot not raised yet.
const NOTHING: u32 = u32::MAX;

pub(super) struct Process {
    pub(super) next: usize,
    pub(super) clock: Clock,
    /// For each slot the index of what raised it, or [`NOTHING`].
    slots: Vec<u32>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) signals: Vec<Signal>,
    /// Ranks that have announced, as far as this rank has awaited it.
    permitted: Vec<bool>,
    send: Memory,
    pub(super) recv: Memory,
    scratch: Memory,
}

/// Whether a step was done.
pub(super) enum Progress {
    Done,
    Blocked,
}

/// The team in mid-execution.
pub(super) struct Machine<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) schedules: &'a [Schedule],
    /// How the buffers of each rank lie.
    overlaps: Vec<Overlap>,
    pub(super) values: Values,
    pub(super) processes: Vec<Process>,
    pub(super) puts: Puts,
    pub(super) multicasts: Multicasts,
    /// Ranks that may be able to go on.
    ready: Vec<Rank>,
}

impl<'a> Machine<'a> {
    pub fn new(task: &'a Task<'a>, schedules: &'a [Schedule]) -> Self {
        let size = task.topology.size();
        let overlap = |rank| match task.in_place {
            true => (task.semantics.in_place)(&task.instance(Rank(rank))),
            false => Overlap::Apart,
        };
        let overlaps: Vec<Overlap> = (0..size).map(overlap).collect();
        let process = |rank| {
            let rank = Rank(rank);
            let instance = task.instance(rank);
            let blocks = (task.semantics.recv)(&instance).len() as u32;
            let mut recv = Memory::undefined(rank, Buffer::Recv, blocks);
            recv.define(0, &(task.semantics.start)(&instance));
            let scratch = schedules[rank.index()].scratch_blocks;
            let send = (task.semantics.send)(&instance);
            if let Overlap::SendInRecv(first) = overlaps[rank.index()] {
                recv.define(first, &send);
            }
            Process {
                next: 0,
                clock: vec![0; size as usize],
                slots: vec![NOTHING; slot_limit(size) as usize],
                arrivals: Vec::new(),
                signals: Vec::new(),
                permitted: vec![false; size as usize],
                send: Memory::defined(rank, Buffer::Send, &send),
                recv,
                scratch: Memory::undefined(rank, Buffer::Scratch, scratch),
            }
        };
        Self {
            task,
            schedules,
            processes: (0..size).map(process).collect(),
            overlaps,
            values: Values::new(size),
            puts: Vec::new(),
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
            let blame = |kind| VerifyError {
                rank,
                step: Some(index),
                kind,
            };
            match self.step(rank, index as u32, step).map_err(blame)? {
                Progress::Blocked => break,
                Progress::Done => {
                    let process = &mut self.processes[rank.index()];
                    process.next += 1;
                    process.clock[rank.index()] = process.next as u32;
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
                    && !self.processes[rank.index()].permitted[to.index()]
                {
                    return Err(Fault::NotPermitted(to));
                }
                let put = self.puts.len() as u32;
                self.puts.push(None);
                let access = Access {
                    rank: rank.0,
                    step: index,
                    put,
                };
                self.transfer(rank, &from, to, &into, access)?;
                self.raise(rank, index, to, slot, Some((port, from.count, put)))?;
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
                let access = Access {
                    rank: rank.0,
                    step: index,
                    put: LOCAL,
                };
                self.transfer(rank, &from, rank, &into, access)?;
            }
            Step::Reduce {
                from,
                into,
                order,
                like,
            } => self.reduce(rank, index, [&from, &into], order, like)?,
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
        let clock = std::mem::take(&mut self.processes[origin.index()].clock);
        let source = self.owner(origin, from.buffer);
        let destination = self.owner(target, into.buffer);
        // Within a node the origin itself copies.
        let reading = match self.task.topology.same_node(origin, target) {
            true => Access {
                put: LOCAL,
                ..access
            },
            false => access,
        };
        let mut result = Ok(());
        for offset in 0..from.count {
            let read = self.processes[source.index()].memory(from.buffer).read(
                from.first + offset,
                reading,
                &clock,
                &self.puts,
            );
            result = read.and_then(|token| {
                self.processes[destination.index()]
                    .memory(into.buffer)
                    .write(into.first + offset, token, access, &clock, &self.puts)
            });
            if result.is_err() {
                break;
            }
        }
        self.processes[origin.index()].clock = clock;
        result
    }

    fn reduce(
        &mut self,
        rank: Rank,
        step: u32,
        [from, into]: [&Span; 2],
        order: Order,
        like: Option<u32>,
    ) -> Result<(), Fault> {
        let (from, into) = (self.in_place(rank, from), self.in_place(rank, into));
        let (source, destination) = (self.owner(rank, from.buffer), self.owner(rank, into.buffer));
        let access = Access {
            rank: rank.0,
            step,
            put: LOCAL,
        };
        let clock = self.processes[rank.index()].clock.clone();
        for offset in 0..from.count {
            let (from_block, into_block) = (from.first + offset, into.first + offset);
            let from = self.processes[source.index()]
                .memory(from.buffer)
                .read(from_block, access, &clock, &self.puts)?;
            let memory = self.processes[destination.index()].memory(into.buffer);
            let old = memory.look(into_block, &clock, &self.puts)?;
            let token = match order {
                Order::FromFirst => self.values.combine(from, old)?,
                Order::IntoFirst => self.values.combine(old, from)?,
            };
            memory.write(into_block, token, access, &clock, &self.puts)?;
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

    /// Whose memory `buffer` of `rank` is.
    fn owner(&self, rank: Rank, buffer: Buffer) -> Rank {
        match buffer {
            Buffer::Node => self
                .task
                .topology
                .leader_of(self.task.topology.node_of(rank)),
            _ => rank,
        }
    }

    fn raise(
        &mut self,
        origin: Rank,
        step: u32,
        target: Rank,
        slot: Slot,
        put: Option<(u8, u32, u32)>,
    ) -> Result<(), Fault> {
        let mut clock = self.processes[origin.index()].clock.clone();
        clock[origin.index()] = step + 1;
        let process = &mut self.processes[target.index()];
        let raised = &mut process.slots[slot as usize];
        if *raised != NOTHING {
            return Err(Fault::SlotReused { slot, target });
        }
        *raised = process.arrivals.len() as u32;
        process.arrivals.push(Arrival {
            origin,
            step,
            slot,
            put,
            clock,
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
        let process = &mut self.processes[rank.index()];
        let raised = process.slots[slot as usize];
        if raised == NOTHING {
            return Ok(Progress::Blocked);
        }
        let arrival = &mut process.arrivals[raised as usize];
        let expected = arrival.put.map(|(port, blocks, _)| (port, blocks));
        if arrival.origin != from || expected != put || arrival.awaited {
            let found = StepId {
                rank: arrival.origin,
                step: arrival.step as usize,
            };
            return Err(Fault::Mismatch { slot, found });
        }
        arrival.awaited = true;
        join(&mut process.clock, &arrival.clock);
        match arrival.put {
            Some((_, _, put)) => self.puts[put as usize] = Some((rank.0, index)),
            None => process.permitted[from.index()] = true,
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

impl Process {
    pub(super) fn memory(&mut self, buffer: Buffer) -> &mut Memory {
        match buffer {
            Buffer::Send => &mut self.send,
            Buffer::Recv => &mut self.recv,
            Buffer::Scratch | Buffer::Node => &mut self.scratch,
        }
    }
}
