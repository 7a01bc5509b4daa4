//! What is wrong with a step or a schedule on its own.

use super::{Fault, Meaning, Task, VerifyError};
use crate::schedule::{Buffer, PHASE_MAX, Protocol, Schedule, Slot, Span, Step};
use ferrorail_base::{NodeRank, Rank};

/// Checks every schedule by itself, and that they agree about rounds and scratch.
pub(super) fn check(
    task: &Task<'_>,
    meanings: &[Meaning],
    schedules: &[Schedule],
) -> Result<(), VerifyError> {
    let size = task.topology.size();
    if schedules.len() != size as usize {
        let kind = Fault::ScheduleCount(schedules.len());
        return Err(VerifyError::at(Rank(0), None, kind));
    }
    let mut needed = 0;
    for (rank, schedule) in (0..).map(Rank).zip(schedules) {
        let rounds = &schedule.round_ends;
        let rise = rounds.windows(2).all(|pair| pair[0] <= pair[1]);
        let whole = rounds.last().copied().unwrap_or(0) as usize == schedule.steps.len();
        if !rise || !whole || rounds.len() != schedules[0].round_ends.len() {
            return Err(VerifyError::at(rank, None, Fault::Rounds));
        }
        let checker = Checker::new(task, meanings, rank);
        let (mut phase, mut has_awaited) = (0, false);
        let mut announced = vec![false; size as usize];
        for (index, step) in schedule.steps.iter().enumerate() {
            let fault = |kind| VerifyError::at(rank, index, kind);
            checker.step(step, &mut phase).map_err(fault)?;
            if let Step::SendRtr { to, .. } = *step
                && std::mem::replace(&mut announced[to.index()], true)
            {
                return Err(fault(Fault::RtrTwice(to)));
            }
            has_awaited |= matches!(step, Step::AwaitMulticast { .. });
            if has_awaited && matches!(step, Step::Multicast { .. }) {
                return Err(fault(Fault::MulticastOrder));
            }
            needed = needed.max(scratch_end(step));
        }
    }
    for (rank, schedule) in (0..).map(Rank).zip(schedules) {
        let declared = schedule.scratch_blocks;
        let fault = Fault::ScratchBlocks { declared, needed };
        ensure(declared == needed, fault).map_err(|kind| VerifyError::at(rank, None, kind))?;
    }
    Ok(())
}

/// `fault`, unless all is well.
fn ensure(well: bool, fault: Fault) -> Result<(), Fault> {
    if well { Ok(()) } else { Err(fault) }
}

/// One past the last block of scratch that `step` names.
fn scratch_end(step: &Step) -> u32 {
    let end = |span: &Span| match is_scratch(span) {
        true => span.first + span.count,
        false => 0,
    };
    match step {
        Step::Put { from, into, .. } | Step::Copy { from, into } => end(from).max(end(into)),
        Step::Reduce {
            left, right, into, ..
        }
        | Step::PutReduced {
            left, right, into, ..
        } => end(left).max(end(right)).max(end(into)),
        Step::Multicast { from: span } | Step::AwaitMulticast { into: span, .. } => end(span),
        _ => 0,
    }
}

struct Checker<'a> {
    task: &'a Task<'a>,
    meanings: &'a [Meaning],
    rank: Rank,
    size: u32,
    local_ranks: u32,
}

impl<'a> Checker<'a> {
    fn new(task: &'a Task<'a>, meanings: &'a [Meaning], rank: Rank) -> Self {
        let topology = task.topology;
        Self {
            task,
            meanings,
            rank,
            size: topology.size(),
            local_ranks: topology.ranks_of(topology.node_of(rank)).len() as u32,
        }
    }

    fn step(&self, step: &Step, phase: &mut u8) -> Result<(), Fault> {
        match *step {
            Step::Put {
                to,
                port,
                slot,
                from,
                into,
            } => {
                self.message(to, port, slot)?;
                self.protocol(to, &from, &into)?;
                self.put_spans(to, &from, &into)
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
                self.message(to, port, slot)?;
                let is_near = self.task.topology.same_node(to, self.rank);
                ensure(is_near && is_scratch(&into), Fault::Protocol(into.buffer))?;
                self.reduction(&left, &right, &into, like)
            }
            Step::Await {
                from, port, slot, ..
            } => self.message(from, port, slot),
            Step::SendRtr { to: peer, slot } | Step::AwaitRtr { from: peer, slot } => {
                self.peer(peer)?;
                self.slot(slot)?;
                ensure(
                    self.task.protocol == Protocol::Rendezvous,
                    Fault::RtrForEager,
                )
            }
            Step::Multicast { from } => self.multicast(self.rank, &from),
            Step::AwaitMulticast { from, into } => {
                self.peer(from)?;
                ensure(into.buffer != Buffer::Send, Fault::WritesSend)?;
                self.multicast(from, &into)
            }
            Step::Copy { from, into } => {
                self.spans(&from, &into)?;
                self.local(&[from, into], false)
            }
            Step::Reduce {
                left,
                right,
                into,
                like,
            } => self.reduction(&left, &right, &into, like),
            Step::NodeSignal { phase: next } => {
                let rises = std::mem::replace(phase, next) < next;
                ensure(rises && next <= PHASE_MAX, Fault::Phase(next))
            }
            Step::NodeAwait { of, phase } => {
                self.node_rank(of)?;
                phase_in_range(phase)
            }
            Step::NodeAwaitAll { phase } => phase_in_range(phase),
        }
    }

    fn message(&self, peer: Rank, port: u8, slot: Slot) -> Result<(), Fault> {
        self.peer(peer)?;
        self.port(port)?;
        self.slot(slot)
    }

    fn peer(&self, peer: Rank) -> Result<(), Fault> {
        ensure(peer != self.rank && peer.0 < self.size, Fault::Peer(peer))
    }

    fn port(&self, port: u8) -> Result<(), Fault> {
        ensure(port < self.task.ports, Fault::Port(port))
    }

    fn slot(&self, slot: Slot) -> Result<(), Fault> {
        ensure(slot < self.task.slots, Fault::SlotLimit(slot))
    }

    fn node_rank(&self, of: NodeRank) -> Result<(), Fault> {
        ensure(of.0 < self.local_ranks, Fault::LocalRank(of))
    }

    /// `span` of this rank holds, or is to hold, a multicast of `origin`.
    fn multicast(&self, origin: Rank, span: &Span) -> Result<(), Fault> {
        let topology = self.task.topology;
        for rank in [self.rank, origin] {
            let leads = topology.leader_of(topology.node_of(rank)) == rank;
            ensure(leads, Fault::NotLeader(rank))?;
        }
        self.bounds(span)?;
        let zero_copy = self.task.protocol == Protocol::Rendezvous;
        ensure(
            !(zero_copy && is_scratch(span)),
            Fault::Protocol(span.buffer),
        )
    }

    /// A put of nothing is a notification.
    fn put_spans(&self, to: Rank, from: &Span, into: &Span) -> Result<(), Fault> {
        if (from.count, into.count) == (0, 0) {
            return Ok(());
        }
        lengths(from, into)?;
        self.bounds(from)?;
        match into.buffer {
            Buffer::Recv => self.bounds_at(to, into),
            _ => self.bounds(into),
        }
    }

    fn spans(&self, from: &Span, into: &Span) -> Result<(), Fault> {
        lengths(from, into)?;
        self.bounds(from)?;
        self.bounds(into)
    }

    fn reduction(
        &self,
        left: &Span,
        right: &Span,
        into: &Span,
        like: Option<u32>,
    ) -> Result<(), Fault> {
        self.spans(left, into)?;
        self.spans(right, into)?;
        if let Some(first) = like {
            self.bounds(&Span::send(first, into.count))?;
        }
        self.local(&[*left, *right, *into], like.is_some())
    }

    /// What a step without a peer may name: of a cut vector the same parts of user memory, which say how long
    /// they are where the step itself does not.
    fn local(&self, spans: &[Span], says_length: bool) -> Result<(), Fault> {
        let user = spans.iter().filter(|span| !is_scratch(span));
        let mut user = user.map(|span| span.first);
        let is_known = match user.next() {
            None => says_length,
            Some(first) => user.all(|other| other == first),
        };
        ensure(self.task.parts == 1 || is_known, Fault::Cut)
    }

    fn bounds(&self, span: &Span) -> Result<(), Fault> {
        self.bounds_at(self.rank, span)
    }

    /// Scratch is as long as it is declared to be, which is compared in the end.
    fn bounds_at(&self, rank: Rank, span: &Span) -> Result<(), Fault> {
        ensure(span.count > 0, Fault::EmptySpan)?;
        let limit = match span.buffer {
            Buffer::Send => self.meanings[rank.index()].send.len() as u32,
            Buffer::Recv => self.meanings[rank.index()].recv.len() as u32,
            Buffer::Scratch | Buffer::Node => u32::MAX,
        };
        let end = span.first.checked_add(span.count);
        let inside = end.is_some_and(|end| end <= limit);
        ensure(inside, Fault::OutOfBounds(span.buffer))
    }

    fn protocol(&self, to: Rank, from: &Span, into: &Span) -> Result<(), Fault> {
        // What a rank of this node gets is copied there by this rank itself.
        let copied = self.task.topology.same_node(to, self.rank);
        let (from_allowed, into_allowed) = match self.task.protocol {
            Protocol::Eager => (is_scratch(from) || copied, is_scratch(into)),
            Protocol::Rendezvous => (true, !is_scratch(into)),
        };
        match (into.buffer, from_allowed, into_allowed) {
            (Buffer::Send, ..) => Err(Fault::WritesSend),
            (_, false, _) => Err(Fault::Protocol(from.buffer)),
            (_, _, false) => Err(Fault::Protocol(into.buffer)),
            _ => Ok(()),
        }
    }
}

fn lengths(from: &Span, into: &Span) -> Result<(), Fault> {
    let (from, to) = (from.count, into.count);
    ensure(from == to, Fault::Lengths { from, into: to })?;
    ensure(into.buffer != Buffer::Send, Fault::WritesSend)
}

fn is_scratch(span: &Span) -> bool {
    matches!(span.buffer, Buffer::Scratch | Buffer::Node)
}

fn phase_in_range(phase: u8) -> Result<(), Fault> {
    ensure((1..=PHASE_MAX).contains(&phase), Fault::Phase(phase))
}
