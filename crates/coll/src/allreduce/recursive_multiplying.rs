//! Recursive multiplying: recursive doubling with radix k+1 on partial results.
//!
//! The roles are those of the Standard Exchange: cores, and extras that hand their vector to the
//! core before them and take the result from it. Five ranks, one port; `a-b` is the reduction of
//! those ranks:
//!
//! ```text
//! correction  4 > 3
//! step 1      0 <> 1: 0 | 1          2 <> 3: 2 | 3-4
//! step 2      0 <> 2: 0-1 | 2-4      1 <> 3: 0-1 | 2-4
//! correction  3 > 4: 0-4
//! ```
//!
//! A group combines left to right by digit, so everyone computes the same expression.
//!
//! * Rounds: log_{k+1} N with N a power of k+1, else ⌊log_{k+1} N⌋ + 2. Messages per rank: k per
//!   round, whole vectors. Any number of ranks.
//! * Cost: rounds × (α + l β), and k reductions per round.

use crate::algorithm::Request;
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::exchange::{Pattern, Role};
use crate::reduction::{Slice, fold_like};
use crate::schedule::{Buffer, Protocol, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let group = Group::ranks(request.topology);
    let mut builder = request.builder();
    builder.copy(Span::send(0, 1), Span::scratch(0, 1));
    builder.end_round();
    let exchange = Exchange::new(&group, request.ports, Slice::whole(Buffer::Scratch), 1);
    let result = exchange.run(&mut builder, request.rank.0);
    builder.copy(result, Span::recv(0, 1));
    builder.finish(exchange.end())
}

/// All-reduce of some parts of their vectors among the members of a group.
pub(super) struct Exchange<'a> {
    group: &'a Group<'a>,
    pub pattern: Pattern,
    ports: u8,
    slice: Slice,
    first: u32,
}

impl<'a> Exchange<'a> {
    /// A member's vector is the first of its memory; arrivals take the places of those from `first`.
    pub fn new(group: &'a Group<'a>, ports: u8, slice: Slice, first: u32) -> Self {
        Self {
            group,
            pattern: Pattern::new(group.size(), ports),
            ports,
            slice,
            first,
        }
    }

    /// Where what comes from an extra, or to it, arrives.
    fn correction(&self, port: u8) -> Span {
        self.slice.vector(self.first + u32::from(port))
    }

    /// Where the message through `port` of `step` arrives.
    fn arrival(&self, step: u32, port: u8) -> Span {
        let place = self.pattern.extras_max() + step * (self.pattern.radix - 1) + u32::from(port);
        self.slice.vector(self.first + place)
    }

    /// One past the last vector in use.
    pub fn end(&self) -> u32 {
        self.first + self.pattern.arrivals()
    }

    fn wire(&self, step: u32, port: u8) -> Wire {
        Wire::of_round(step + 1, self.ports, port)
    }

    /// Runs all rounds of `me`; returns where its result is.
    pub fn run(&self, builder: &mut ScheduleBuilder<'_>, me: u32) -> Span {
        match self.pattern.role(me) {
            Role::Extra { core, port } => self.run_extra(builder, core, port),
            Role::Core(core) => self.run_core(builder, core),
        }
        self.result(me)
    }

    /// Where the result of `member` is in its memory.
    pub fn result(&self, member: u32) -> Span {
        match self.pattern.role(member) {
            Role::Extra { .. } => self.correction(0),
            Role::Core(core) => (0..self.pattern.steps).fold(self.slice.vector(0), |own, step| {
                let operands = self.operands(core, step, own);
                // Own memory is being read by the puts.
                operands[usize::from(operands[0] == own)]
            }),
        }
    }

    fn run_extra(&self, builder: &mut ScheduleBuilder<'_>, core: u32, port: u8) {
        let core = self.group.rank(self.pattern.member(core));
        let slot = u32::from(port);
        let into = self.correction(port);
        builder.put(core, Wire { port, slot }, self.slice.vector(0), into);
        builder.end_rounds(1 + self.pattern.steps);
        builder.await_put(core, Wire { port, slot }, into.count);
        builder.end_round();
    }

    fn run_core(&self, builder: &mut ScheduleBuilder<'_>, core: u32) {
        let mut result = self.slice.vector(0);
        let extras = || self.pattern.team(core).skip(1).zip(0u8..);
        if self.pattern.has_extras() {
            for (extra, port) in extras() {
                let slot = u32::from(port);
                builder.await_put(self.group.rank(extra), Wire { port, slot }, result.count);
            }
            let arrivals = extras().map(|(_, port)| self.correction(port));
            let operands = std::iter::once(result).chain(arrivals);
            fold_like(builder, self.slice.like(), operands, result);
            builder.end_round();
        }
        for step in 0..self.pattern.steps {
            result = self.step(builder, core, step, result);
            builder.end_round();
        }
        if self.pattern.has_extras() {
            for (extra, port) in extras() {
                let slot = u32::from(port);
                let into = self.correction(0);
                builder.put(self.group.rank(extra), Wire { port, slot }, result, into);
            }
            builder.end_round();
        }
    }

    /// The vectors that `core` combines in `step`, in order, of which `own` is one.
    fn operands(&self, core: u32, step: u32, own: Span) -> Vec<Span> {
        let arrivals = self.pattern.step(core, step);
        let mut operands: Vec<(u32, Span)> = arrivals
            .map(|message| (message.from, self.arrival(step, message.port)))
            .chain([(core, own)])
            .collect();
        operands.sort_unstable_by_key(|&(core, _)| core);
        operands.into_iter().map(|(_, span)| span).collect()
    }

    /// Exchanges `own` in the group of `step`. Own memory is being read by the puts, so the result
    /// takes an arrival's place.
    fn step(&self, builder: &mut ScheduleBuilder<'_>, core: u32, step: u32, own: Span) -> Span {
        let pattern = &self.pattern;
        for message in pattern.step(core, step) {
            let to = self.group.rank(pattern.member(message.to));
            let into = self.arrival(step, message.port);
            builder.put(to, self.wire(step, message.port), own, into);
        }
        for message in pattern.step(core, step) {
            let from = self.group.rank(pattern.member(message.from));
            builder.await_put(from, self.wire(step, message.port), own.count);
        }
        let operands = self.operands(core, step, own);
        let result = operands[usize::from(operands[0] == own)];
        fold_like(builder, self.slice.like(), operands, result);
        result
    }
}

/// Closed form.
pub fn work(shape: &Shape, _: Protocol) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let pattern = Pattern::new(shape.ranks, shape.ports);
    Work {
        rounds: pattern.rounds().into(),
        port_blocks: pattern.rounds().into(),
        ..Work::flat(shape, 2 + u64::from(pattern.arrivals()))
    }
}
