//! Writes a [`Schedule`] step by step.
//!
//! Sender and receiver build their schedules apart and must name the same arrival slot. So a slot
//! is never allotted by counting; an algorithm derives it from what both sides know, mostly
//! `round * k + port` ([`Wire::of_round`]). Slots below [`rtr_base`] belong to puts, the rest
//! to RTRs; a permission for a put carries the number of that put at its origin. Where
//! nothing is announced puts may have them all ([`ScheduleBuilder::without_rtr`]).
//!
//! [`Slot`] numbers them for teams of up to 32 751 ranks; a schedule that needs a higher one panics.
//!
//! Node phases are counted in lockstep: all ranks of a node call the same `node_*` helpers in the
//! same order, whatever else they do between them.

use crate::schedule::{Buffer, PHASE_MAX, Schedule, Slot, Span, Step, rtr_base, slot_limit};
use ferrorail_base::{NodeRank, Rank, Topology};

/// What names a message at both of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Port at the origin, below k.
    pub port: u8,
    /// Arrival slot at the target, below [`rtr_base`], not used twice there.
    pub slot: u32,
}

impl Wire {
    /// For algorithms in which a rank receives at most one message per round and port.
    pub const fn of_round(round: u32, ports: u8, port: u8) -> Self {
        Self {
            port,
            slot: round * ports as u32 + port as u32,
        }
    }

    /// For those of Direct: as [`of_round`](Self::of_round) of the round and port that it has for members `distance`
    /// apart.
    pub const fn at_distance(distance: u32, ports: u8) -> Self {
        Self {
            port: ((distance - 1) % ports as u32) as u8,
            slot: distance - 1,
        }
    }
}

/// A schedule in the making. See the module documentation.
#[derive(Debug)]
pub struct ScheduleBuilder<'a> {
    topology: &'a Topology,
    rank: Rank,
    steps: Vec<Step>,
    round_ends: Vec<u32>,
    phase: u8,
    /// Slots from here on are not for puts.
    put_slots: u32,
    /// Port of the rank that algorithms call 0.
    first_port: u8,
    own_rails: bool,
}

impl<'a> ScheduleBuilder<'a> {
    /// An empty schedule of `rank`.
    pub fn new(topology: &'a Topology, rank: Rank) -> Self {
        Self {
            topology,
            rank,
            steps: Vec::new(),
            round_ends: Vec::new(),
            phase: 0,
            put_slots: rtr_base(topology.size()),
            first_port: 0,
            own_rails: false,
        }
    }

    /// From now on port 0 of puts and awaits is port `first`: this rank is one of several leaders.
    /// With `own_rails` puts keep to their port's rail.
    pub fn drive_ports_from(&mut self, first: u8, own_rails: bool) {
        self.first_port = first;
        self.own_rails = own_rails;
    }

    /// Gives the slots of RTRs to puts. All ranks of an operation must do so.
    pub fn without_rtr(mut self) -> Self {
        self.put_slots = slot_limit(self.topology.size());
        self
    }

    /// Ends the present round. All ranks must end the same number of rounds.
    pub fn end_round(&mut self) {
        self.round_ends.push(self.steps.len() as u32);
    }

    /// Ends `count` rounds of which this rank has no more steps.
    pub fn end_rounds(&mut self, count: u32) {
        (0..count).for_each(|_| self.end_round());
    }

    /// Ends the last round and hands out the schedule.
    ///
    /// `scratch_blocks` is what the algorithm needs at every rank.
    pub fn finish(mut self, scratch_blocks: u32) -> Schedule {
        self.end_round();
        Schedule {
            steps: self.steps,
            round_ends: self.round_ends,
            scratch_blocks,
            own_rails: self.own_rails,
        }
    }

    /// Copies `from` to `into`; grows the copy just before, within the round, where both continue
    /// it. Nothing for no blocks.
    pub fn copy(&mut self, from: Span, into: Span) {
        assert_eq!(from.count, into.count, "a copy has one length");
        if from.count == 0 {
            return;
        }
        let round_start = self.round_ends.last().copied().unwrap_or(0) as usize;
        if self.steps.len() > round_start
            && let Some(Step::Copy {
                from: last_from,
                into: last_into,
            }) = self.steps.last_mut()
            && continues(last_from, &from)
            && continues(last_into, &into)
        {
            last_from.count += from.count;
            last_into.count += into.count;
            return;
        }
        self.steps.push(Step::Copy { from, into });
    }

    /// Copies the blocks of all ranks but `left_out` from `from` to `into`, where they have the same places.
    pub fn copy_all_but(&mut self, left_out: u32, from: Buffer, into: Buffer) {
        let rest = self.topology.size() - left_out - 1;
        for (first, count) in [(0, left_out), (left_out + 1, rest)] {
            self.copy(Span::new(from, first, count), Span::new(into, first, count));
        }
    }

    /// Reduces `left` with `right` into `into`, which may be one of them. Nothing for no blocks.
    pub fn reduce(&mut self, left: Span, right: Span, into: Span) {
        self.reduce_like(None, left, right, into);
    }

    /// As [`reduce`](Self::reduce), in scratch, of blocks as long as those of `Send` from `like`.
    pub fn reduce_like(&mut self, like: Option<u32>, left: Span, right: Span, into: Span) {
        let counts = [left.count, right.count];
        assert_eq!(counts, [into.count; 2], "a reduction has one length");
        if into.count > 0 {
            self.steps.push(Step::Reduce {
                left,
                right,
                into,
                like,
            });
        }
    }

    /// Tells `to` that this rank has come here: a put of nothing.
    pub fn notify(&mut self, to: Rank, wire: Wire) {
        self.put(to, wire, Span::scratch(0, 0), Span::scratch(0, 0));
    }

    /// Puts `from` into `into` at `to`.
    pub fn put(&mut self, to: Rank, wire: Wire, from: Span, into: Span) {
        debug_assert_ne!(to, self.rank, "a put has a peer");
        debug_assert_eq!(from.count, into.count, "a put has one length");
        let (port, slot) = self.port_and_slot(wire);
        self.steps.push(Step::Put {
            to,
            port,
            slot,
            from,
            into,
        });
    }

    /// Puts `from`, which is user memory, into scratch at `to`: straight to a rank of this node,
    /// which shares memory; from `staged`, a copy in scratch, by rail.
    pub fn put_staged(&mut self, to: Rank, wire: Wire, from: Span, staged: Span, into: Span) {
        if self.topology.same_node(to, self.rank) {
            self.put(to, wire, from, into);
        } else {
            self.copy(from, staged);
            self.put(to, wire, staged, into);
        }
    }

    /// Puts `total`, scratch that is not read here any more, into scratch at `to`. Where that is a rank of this node, and the
    /// step before a reduction into `total`, it reduces straight into `into`.
    pub fn put_total(&mut self, to: Rank, wire: Wire, total: Span, into: Span) {
        match self.steps.last() {
            Some(&Step::Reduce {
                left,
                right,
                into: reduced,
                like,
            }) if reduced == total && self.topology.same_node(to, self.rank) => {
                debug_assert_eq!(total.count, into.count, "a put has one length");
                self.steps.pop();
                // The reduction belongs to the put's round then.
                let steps = self.steps.len() as u32;
                self.round_ends
                    .iter_mut()
                    .for_each(|end| *end = steps.min(*end));
                let (port, slot) = self.port_and_slot(wire);
                self.steps.push(Step::PutReduced {
                    to,
                    port,
                    slot,
                    left,
                    right,
                    into,
                    like,
                });
            }
            _ => self.put(to, wire, total, into),
        }
    }

    /// The port of a put and its arrival flag.
    fn port_and_slot(&self, wire: Wire) -> (u8, Slot) {
        (self.first_port + wire.port, self.put_slot(wire.slot))
    }

    /// Waits for a put of `blocks` from `from`.
    pub fn await_put(&mut self, from: Rank, wire: Wire, blocks: u32) {
        let (port, slot) = self.port_and_slot(wire);
        self.steps.push(Step::Await {
            from,
            port,
            slot,
            blocks,
        });
    }

    /// Sends `from` to the leaders of all other nodes.
    pub fn multicast(&mut self, from: Span) {
        self.steps.push(Step::Multicast { from });
    }

    /// Waits for the next multicast of `from`.
    pub fn await_multicast(&mut self, from: Rank, into: Span) {
        self.steps.push(Step::AwaitMulticast { from, into });
    }

    /// Permits the put number `put` of `to` (its own numbering, below [`rtr_base`]).
    pub fn send_rtr(&mut self, to: Rank, put: u32) {
        let slot = self.rtr_slot(put);
        self.steps.push(Step::SendRtr { to, slot });
    }

    /// Waits until `from` permits this rank's put number `put`.
    pub fn await_rtr(&mut self, from: Rank, put: u32) {
        let slot = self.rtr_slot(put);
        self.steps.push(Step::AwaitRtr { from, slot });
    }

    /// Shared-memory gather: copies this rank's block to its place `at` in `Node` and says so.
    /// [`node_await_gather`](Self::node_await_gather) waits for the others.
    pub fn node_gather(&mut self, at: u32) {
        self.copy(Span::send(0, 1), Span::node(at, 1));
        self.node_arrive();
    }

    /// Waits until local rank `of` has signalled the present phase.
    pub fn node_await(&mut self, of: NodeRank) {
        if of != self.topology.node_rank_of(self.rank) {
            let phase = self.phase;
            self.steps.push(Step::NodeAwait { of, phase });
        }
    }

    /// Waits until all local ranks have signalled the present phase.
    pub fn node_await_gather(&mut self) {
        if self.node_size() > 1 {
            self.steps.push(Step::NodeAwaitAll { phase: self.phase });
        }
    }

    /// Says that this rank has come here. [`node_await_gather`](Self::node_await_gather) waits for
    /// the others.
    pub fn node_arrive(&mut self) {
        self.next_phase();
        self.signal();
    }

    /// The first `speakers` local ranks say that they have come here; [`node_await`](Self::node_await)
    /// waits for one of them.
    pub fn node_say(&mut self, speakers: u32) {
        self.node_say_if(self.topology.node_rank_of(self.rank).0 < speakers);
    }

    /// Those ranks of the node that `say` so say that they have come here.
    pub fn node_say_if(&mut self, say: bool) {
        self.next_phase();
        if say {
            self.signal();
        }
    }

    /// As [`node_broadcast`](Self::node_broadcast), from local rank `by`.
    pub fn node_release(&mut self, by: NodeRank) {
        self.node_say_if(self.topology.node_rank_of(self.rank) == by);
        self.node_await(by);
    }

    /// As [`node_broadcast`](Self::node_broadcast), but only local rank `to` waits.
    pub fn node_hand_over(&mut self, to: NodeRank) {
        self.next_phase();
        let me = self.topology.node_rank_of(self.rank);
        if to != NodeRank(0) && me == NodeRank(0) {
            self.signal();
        } else if me == to {
            self.node_await(NodeRank(0));
        }
    }

    /// Shared-memory broadcast: the leader says that what it has received so far lies in `Node`;
    /// the others wait for that. Copies out of `Node` follow.
    pub fn node_broadcast(&mut self) {
        self.node_release(NodeRank(0));
    }

    /// Waits until all local ranks have come here.
    pub fn node_barrier(&mut self) {
        self.next_phase();
        self.signal();
        self.node_await_gather();
    }

    /// Ranks of this rank's node.
    pub fn node_size(&self) -> usize {
        self.topology
            .ranks_of(self.topology.node_of(self.rank))
            .len()
    }

    fn next_phase(&mut self) {
        assert!(self.phase < PHASE_MAX, "phases of one operation ran out");
        self.phase += 1;
    }

    fn signal(&mut self) {
        if self.node_size() > 1 {
            self.steps.push(Step::NodeSignal { phase: self.phase });
        }
    }

    fn put_slot(&self, slot: u32) -> Slot {
        assert!(slot < self.put_slots, "slots of puts");
        slot
    }

    fn rtr_slot(&self, put: u32) -> Slot {
        let base = rtr_base(self.topology.size());
        assert!(put < base, "slots of RTRs");
        debug_assert_eq!(self.put_slots, base, "the schedule announces");
        base + put
    }
}

fn continues(last: &Span, next: &Span) -> bool {
    last.buffer == next.buffer && last.first + last.count == next.first
}

#[cfg(test)]
mod tests;
