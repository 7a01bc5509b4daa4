//! Standard Exchange all-gather: recursive doubling with radix k+1.
//!
//! Nine ranks, two ports need two exchange steps: within (0 1 2) (3 4 5) (6 7 8), then within
//! (0 3 6) (1 4 7) (2 5 8). Five ranks, one port: four cores 0, 1, 2, 3 (rank 4 is an extra of
//! core 3, whose blocks always travel with its core's):
//!
//! ```text
//! correction  4 > 3: 4
//! step 1      0 <> 1: 0 | 1            2 <> 3: 2 | 3 4
//! step 2      0 <> 2: 0 1 | 2 3 4      1 <> 3: 0 1 | 2 3 4
//! correction  3 > 4: 0 1 2 3 4
//! ```
//!
//! * With N = (k+1)^m: m rounds, volume (N-1)/k per port; cost m α + (N-1)/k l β, equation (3).
//! * Otherwise, P = (k+1)^m the largest power below N: m + 2 rounds, volume
//!   1 + Σ ⌈N (k+1)^i / P⌉ (i < m) + N. The paper's equation (4) counts (k+1) m startups for the
//!   corrections within each step and leaves out their bytes; ours takes fewer startups as soon as
//!   k m > 2 and pays one full-length put for it.
//! * N <= k: one round with N-1 ports, as radix N.
//! * Messages per rank: at most k (m+1) + k. Any number of ranks. Spans keep absolute positions,
//!   so a message is one put in both landings.

use super::{SEND, alone, copy_own, work_of_copies};
use crate::builder::{ScheduleBuilder, Wire};
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::exchange::{Pattern, Role};
use crate::registry::Request;
use crate::schedule::{Buffer, Landing, Schedule, Span};
use ferrorail_base::Rank;
use std::ops::Range;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = alone(request) {
        return schedule;
    }
    let size = request.topology.size();
    let pattern = Pattern::new(size, request.ports);
    let mut exchange = Exchange {
        builder: ScheduleBuilder::new(request.topology, request.rank),
        pattern,
        ports: u32::from(request.ports),
        role: pattern.role(request.rank.0),
        me: request.rank.0,
        buffer: match request.landing {
            Landing::Scratch => Buffer::Scratch,
            Landing::Recv => Buffer::Recv,
        },
    };
    match request.landing {
        Landing::Scratch => {
            let own = exchange.span(exchange.me..exchange.me + 1);
            exchange.builder.copy(SEND, own);
        }
        Landing::Recv => {
            exchange.announce();
            copy_own(&mut exchange.builder, request.rank);
        }
    }
    exchange.builder.end_round();
    exchange.run();
    let mut builder = exchange.builder;
    match request.landing {
        Landing::Scratch => {
            Group::ranks(request.topology).copy_members_out(&mut builder, 0, size);
            builder.finish(size)
        }
        Landing::Recv => builder.finish(0),
    }
}

struct Exchange<'a> {
    builder: ScheduleBuilder<'a>,
    pattern: Pattern,
    ports: u32,
    role: Role,
    me: u32,
    buffer: Buffer,
}

/// An extra and its core talk on wires below `ports`, in either direction.
fn correction_wire(port: u8) -> Wire {
    Wire {
        port,
        slot: u32::from(port),
    }
}

impl Exchange<'_> {
    fn span(&self, blocks: Range<u32>) -> Span {
        Span::new(self.buffer, blocks.start, blocks.end - blocks.start)
    }

    fn step_wire(&self, step: u32, port: u8) -> Wire {
        Wire {
            port,
            slot: self.ports + step * self.ports + u32::from(port),
        }
    }

    /// Puts that a rank posts are numbered like the slots they raise.
    fn put(&mut self, to: u32, wire: Wire, blocks: Range<u32>) {
        let span = self.span(blocks);
        if self.buffer == Buffer::Recv {
            self.builder.await_announcement(Rank(to), wire.slot);
        }
        self.builder.put(Rank(to), wire, span, span);
    }

    fn await_put(&mut self, from: u32, wire: Wire, blocks: Range<u32>) {
        self.builder
            .await_put(Rank(from), wire, blocks.end - blocks.start);
    }

    /// The extras of `core` with their ports.
    fn extras(&self, core: u32) -> impl Iterator<Item = (u32, u8)> + use<> {
        self.pattern.team(core).skip(1).zip(0..)
    }

    fn announce(&mut self) {
        let pattern = self.pattern;
        match self.role {
            Role::Extra { core, port } => {
                let core = Rank(pattern.member(core));
                self.builder.announce(core, correction_wire(port).slot);
            }
            Role::Core(core) => {
                for (extra, port) in self.extras(core) {
                    self.builder
                        .announce(Rank(extra), correction_wire(port).slot);
                }
                for step in 0..pattern.steps {
                    for message in pattern.step(core, step) {
                        let wire = self.step_wire(step, message.port);
                        let from = Rank(pattern.member(message.from));
                        self.builder.announce(from, wire.slot);
                    }
                }
            }
        }
    }

    fn run(&mut self) {
        let pattern = self.pattern;
        if pattern.has_extras() {
            self.collect();
            self.builder.end_round();
        }
        for step in 0..pattern.steps {
            if let Role::Core(core) = self.role {
                self.step(core, step);
            }
            self.builder.end_round();
        }
        if pattern.has_extras() {
            self.distribute();
            self.builder.end_round();
        }
    }

    fn collect(&mut self) {
        match self.role {
            Role::Extra { core, port } => {
                let core = self.pattern.member(core);
                self.put(core, correction_wire(port), self.me..self.me + 1);
            }
            Role::Core(core) => {
                for (extra, port) in self.extras(core) {
                    self.await_put(extra, correction_wire(port), extra..extra + 1);
                }
            }
        }
    }

    fn step(&mut self, core: u32, step: u32) {
        let pattern = self.pattern;
        let held = pattern.held(core, step);
        for message in pattern.step(core, step) {
            let wire = self.step_wire(step, message.port);
            self.put(pattern.member(message.to), wire, held.clone());
        }
        for message in pattern.step(core, step) {
            let wire = self.step_wire(step, message.port);
            let theirs = pattern.held(message.from, step);
            self.await_put(pattern.member(message.from), wire, theirs);
        }
    }

    fn distribute(&mut self) {
        let everything = self.pattern.held(0, self.pattern.steps);
        match self.role {
            Role::Extra { core, port } => {
                let core = self.pattern.member(core);
                self.await_put(core, correction_wire(port), everything);
            }
            Role::Core(core) => {
                for (extra, port) in self.extras(core) {
                    self.put(extra, correction_wire(port), everything.clone());
                }
            }
        }
    }
}

/// Closed form: equation (3), and what stands here for (4).
pub fn work(shape: &Shape, landing: Landing) -> Work {
    let size = u64::from(shape.ranks);
    let pattern = Pattern::new(shape.ranks, shape.ports);
    let radix = u64::from(pattern.radix);
    let steps: u64 = (0..pattern.steps)
        .map(|step| (size * radix.pow(step)).div_ceil(u64::from(pattern.cores)))
        .sum();
    let (rounds, corrections) = if pattern.has_extras() {
        (pattern.steps + 2, 1 + size)
    } else {
        (pattern.steps, 0)
    };
    Work {
        rounds: u64::from(rounds),
        port_blocks: steps + corrections,
        node_sharers: shape.node_size,
        ..work_of_copies(shape, landing)
    }
}
