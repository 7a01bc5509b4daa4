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

use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::exchange::{Pattern, Role};
use crate::reduction::{alone, fold};
use crate::registry::Request;
use crate::schedule::{Landing, Order, Schedule, Span};

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let group = Group::ranks(request.topology);
    let mut builder = ScheduleBuilder::new(request.topology, request.rank);
    builder.copy(Span::send(0, 1), Span::scratch(0, 1));
    builder.end_round();
    let exchange = Exchange::new(&group, request.ports, 0, 1);
    let result = exchange.run(&mut builder, request.rank.0);
    builder.copy(result, Span::recv(0, 1));
    builder.finish(exchange.end())
}

/// All-reduce among the members of a group.
pub(super) struct Exchange<'a> {
    group: &'a Group<'a>,
    pattern: Pattern,
    ports: u32,
    own: u32,
    first: u32,
}

impl<'a> Exchange<'a> {
    /// A member's vector is block `own` of its memory; arrivals take the blocks from `first`.
    pub fn new(group: &'a Group<'a>, ports: u8, own: u32, first: u32) -> Self {
        Self {
            group,
            pattern: Pattern::new(group.size(), ports),
            ports: u32::from(ports),
            own,
            first,
        }
    }

    /// Rounds of [`run`](Self::run).
    pub fn rounds(&self) -> u32 {
        self.pattern.steps + if self.pattern.has_extras() { 2 } else { 0 }
    }

    fn extras_max(&self) -> u32 {
        self.group.size().div_ceil(self.pattern.cores) - 1
    }

    /// Where the message through `port` of `step` arrives.
    fn arrival(&self, step: u32, port: u8) -> Span {
        let place = self.extras_max() + step * (self.pattern.radix - 1) + u32::from(port);
        self.group.span(self.first + place, 1)
    }

    /// One past the last block in use.
    pub fn end(&self) -> u32 {
        let arrivals = self.extras_max() + self.pattern.steps * (self.pattern.radix - 1);
        self.first + arrivals
    }

    fn wire(&self, step: u32, port: u8) -> Wire {
        Wire::of_round(step + 1, self.ports as u8, port)
    }

    /// Runs all rounds of `me`; returns where its result is.
    pub fn run(&self, builder: &mut ScheduleBuilder<'_>, me: u32) -> Span {
        match self.pattern.role(me) {
            Role::Extra { core, port } => self.run_extra(builder, core, port),
            Role::Core(core) => self.run_core(builder, core),
        }
    }

    fn run_extra(&self, builder: &mut ScheduleBuilder<'_>, core: u32, port: u8) -> Span {
        let core = self.group.rank(self.pattern.member(core));
        let slot = u32::from(port);
        let into = self.group.span(self.first + slot, 1);
        builder.put(
            core,
            Wire { port, slot },
            self.group.span(self.own, 1),
            into,
        );
        builder.end_rounds(1 + self.pattern.steps);
        let result = self.group.span(self.first, 1);
        builder.await_put(core, Wire { port, slot }, 1);
        builder.end_round();
        result
    }

    fn run_core(&self, builder: &mut ScheduleBuilder<'_>, core: u32) -> Span {
        let mut result = self.group.span(self.own, 1);
        let extras = || self.pattern.team(core).skip(1).zip(0u8..);
        if self.pattern.has_extras() {
            for (extra, port) in extras() {
                let slot = u32::from(port);
                builder.await_put(self.group.rank(extra), Wire { port, slot }, 1);
            }
            let arrivals =
                extras().map(|(_, port)| self.group.span(self.first + u32::from(port), 1));
            fold(builder, std::iter::once(result).chain(arrivals), result);
            builder.end_round();
        }
        for step in 0..self.pattern.steps {
            result = self.step(builder, core, step, result);
            builder.end_round();
        }
        if self.pattern.has_extras() {
            for (extra, port) in extras() {
                let slot = u32::from(port);
                let into = self.group.span(self.first, 1);
                builder.put(self.group.rank(extra), Wire { port, slot }, result, into);
            }
            builder.end_round();
        }
        result
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
        let mut operands = vec![(core, own)];
        for message in pattern.step(core, step) {
            let from = self.group.rank(pattern.member(message.from));
            builder.await_put(from, self.wire(step, message.port), 1);
            operands.push((message.from, self.arrival(step, message.port)));
        }
        operands.sort_unstable_by_key(|&(core, _)| core);
        let mut operands = operands.into_iter().map(|(_, span)| span);
        let (left, right) = (operands.next(), operands.next());
        let (left, right) = left.zip(right).expect("a group has two members at least");
        let (result, other, order) = if left == own {
            (right, left, Order::FromFirst)
        } else {
            (left, right, Order::IntoFirst)
        };
        builder.reduce(other, result, order);
        operands.for_each(|span| builder.reduce(span, result, Order::IntoFirst));
        result
    }
}

/// Rounds over `size` members, and the reductions of one that does most.
pub(super) fn counts(size: u32, ports: u8) -> (u64, u64) {
    let pattern = Pattern::new(size, ports);
    let corrections = if pattern.has_extras() { 2 } else { 0 };
    let extras = size.div_ceil(pattern.cores) - 1;
    let reductions = extras + pattern.steps * (pattern.radix - 1);
    (u64::from(pattern.steps + corrections), reductions.into())
}

/// Closed form.
pub fn work(shape: &Shape, _: Landing) -> Work {
    if shape.ranks == 1 {
        return Work::copies(1);
    }
    let (rounds, reductions) = counts(shape.ranks, shape.ports);
    Work {
        rounds,
        port_blocks: rounds,
        node_sharers: shape.node_size,
        ..Work::copies(2 + reductions)
    }
}
