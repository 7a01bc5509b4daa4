//! Executes the schedules of all ranks with vector clocks.

use super::memory::{Access, Clock, LOCAL, Memory, Puts};
use super::{Fault, StepId, Task, VerifyError};
use crate::schedule::{Buffer, Schedule, Slot, Span, Step, slot_limit};
use ferrorail_base::{NodeRank, Rank};

/// What raised a slot.
struct Arrival {
    origin: Rank,
    step: u32,
    /// Port, blocks and index in `puts` of a put; `None` for an announcement.
    put: Option<(u8, u32, u32)>,
    clock: Clock,
    awaited: bool,
}

struct Signal {
    phase: u8,
    clock: Clock,
}

struct Process {
    next: usize,
    clock: Clock,
    arrivals: Vec<Option<Arrival>>,
    signals: Vec<Signal>,
    /// Ranks that have announced, as far as this rank has awaited it.
    permitted: Vec<bool>,
    send: Memory,
    recv: Memory,
    scratch: Memory,
}

/// Whether a step was done.
enum Progress {
    Done,
    Blocked,
}

/// The team in mid-execution.
pub(super) struct Machine<'a> {
    task: &'a Task<'a>,
    schedules: &'a [Schedule],
    processes: Vec<Process>,
    puts: Puts,
    /// Ranks that may be able to go on.
    ready: Vec<Rank>,
}

impl<'a> Machine<'a> {
    pub fn new(task: &'a Task<'a>, schedules: &'a [Schedule]) -> Self {
        let size = task.topology.size();
        let process = |rank| {
            let rank = Rank(rank);
            let recv = (task.semantics.recv)(rank, size).len() as u32;
            let scratch = schedules[rank.index()].scratch_blocks;
            let send = (task.semantics.send)(rank, size);
            Process {
                next: 0,
                clock: vec![0; size as usize],
                arrivals: (0..slot_limit(size)).map(|_| None).collect(),
                signals: Vec::new(),
                permitted: vec![false; size as usize],
                send: Memory::defined(rank, Buffer::Send, send),
                recv: Memory::undefined(rank, Buffer::Recv, recv),
                scratch: Memory::undefined(rank, Buffer::Scratch, scratch),
            }
        };
        Self {
            task,
            schedules,
            processes: (0..size).map(process).collect(),
            puts: Vec::new(),
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
            Step::Announce { to, slot } => self.raise(rank, index, to, slot, None)?,
            Step::Await {
                from,
                port,
                slot,
                blocks,
            } => return self.await_slot(rank, index, from, slot, Some((port, blocks))),
            Step::AwaitAnnouncement { from, slot } => {
                return self.await_slot(rank, index, from, slot, None);
            }
            Step::Copy { from, into } => {
                let access = Access {
                    rank: rank.0,
                    step: index,
                    put: LOCAL,
                };
                self.transfer(rank, &from, rank, &into, access)?;
            }
            Step::NodeSignal { phase } => self.signal(rank, phase),
            Step::NodeAwait { of, phase } => return Ok(self.await_node(rank, Some(of), phase)),
            Step::NodeAwaitAll { phase } => return Ok(self.await_node(rank, None, phase)),
        }
        Ok(Progress::Done)
    }

    /// Moves tokens; the clock is that of `origin`.
    fn transfer(
        &mut self,
        origin: Rank,
        from: &Span,
        target: Rank,
        into: &Span,
        access: Access,
    ) -> Result<(), Fault> {
        let clock = std::mem::take(&mut self.processes[origin.index()].clock);
        let source = self.owner(origin, from.buffer);
        let destination = self.owner(target, into.buffer);
        let mut result = Ok(());
        for offset in 0..from.count {
            let read = self.processes[source.index()].memory(from.buffer).read(
                from.first + offset,
                access,
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
        let arrival = &mut self.processes[target.index()].arrivals[usize::from(slot)];
        if arrival.is_some() {
            return Err(Fault::SlotReused { slot, target });
        }
        *arrival = Some(Arrival {
            origin,
            step,
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
        let Some(arrival) = &mut process.arrivals[usize::from(slot)] else {
            return Ok(Progress::Blocked);
        };
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

    fn signal(&mut self, rank: Rank, phase: u8) {
        let process = &mut self.processes[rank.index()];
        let mut clock = process.clock.clone();
        clock[rank.index()] = process.next as u32 + 1;
        process.signals.push(Signal { phase, clock });
        let topology = self.task.topology;
        for &local in topology.ranks_of(topology.node_of(rank)) {
            if local != rank {
                self.wake(local);
            }
        }
    }

    /// Waits for one local rank, or all. Only the first signal that suffices is known to have
    /// happened.
    fn await_node(&mut self, rank: Rank, of: Option<NodeRank>, phase: u8) -> Progress {
        let topology = self.task.topology;
        let node = topology.ranks_of(topology.node_of(rank));
        let awaited = match of {
            Some(of) => &node[of.index()..=of.index()],
            None => node,
        };
        let mut clock = std::mem::take(&mut self.processes[rank.index()].clock);
        let mut progress = Progress::Done;
        for &local in awaited {
            let signals = &self.processes[local.index()].signals;
            match signals.iter().find(|signal| signal.phase >= phase) {
                Some(signal) => join(&mut clock, &signal.clock),
                None => progress = Progress::Blocked,
            }
        }
        self.processes[rank.index()].clock = clock;
        progress
    }

    fn wake(&mut self, rank: Rank) {
        if self.processes[rank.index()].next < self.schedules[rank.index()].steps.len()
            && self.ready.last() != Some(&rank)
        {
            self.ready.push(rank);
        }
    }

    fn finish(self) -> Result<(), VerifyError> {
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
            for (slot, arrival) in process.arrivals.iter().enumerate() {
                if let Some(arrival) = arrival.as_ref().filter(|arrival| !arrival.awaited) {
                    return Err(VerifyError {
                        rank: arrival.origin,
                        step: Some(arrival.step as usize),
                        kind: Fault::NeverAwaited(slot as Slot),
                    });
                }
            }
        }
        for process in &self.processes {
            let rank = process.recv.rank();
            let expected = (self.task.semantics.recv)(rank, self.task.topology.size());
            process
                .recv
                .compare(&expected)
                .map_err(|kind| VerifyError {
                    rank,
                    step: None,
                    kind,
                })?;
        }
        Ok(())
    }
}

impl Process {
    fn memory(&mut self, buffer: Buffer) -> &mut Memory {
        match buffer {
            Buffer::Send => &mut self.send,
            Buffer::Recv => &mut self.recv,
            Buffer::Scratch | Buffer::Node => &mut self.scratch,
        }
    }
}

fn join(clock: &mut Clock, other: &Clock) {
    for (mine, &theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(theirs);
    }
}
