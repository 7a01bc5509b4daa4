//! Tree gather: the k-port spanning binomial tree, messages k+1 times as long at each level.
//!
//! Five ranks, root 3, one port; `p>q: blocks`:
//!
//! ```text
//! round 1   1>0: 1        2>3: 2
//! round 2   0>3: 0 1
//! round 3   4>3: 4
//! ```
//!
//! Subtrees are runs of consecutive ranks whatever the root is, so no block is moved twice.
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages: N-1; at most k received per rank and round.
//! * Volume per port: with N a power of k+1, (N-1)/k for every root: equation (1),
//!   ⌈log_{k+1} N⌉ α + (N-1)/k l β. Else Σ min((k+1)^i, N - (k+1)^i) for root 0, and at most
//!   Σ (k+1)^i for others.

use super::direct::scratch_blocks;
use crate::algorithm::Request;
use crate::cost::{Shape, Work};
use crate::group::Group;
use crate::pattern::levels;
use crate::pattern::rooted::volume;
use crate::schedule::{Buffer, Protocol, Schedule, Span};
use crate::tree::Branch;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    if let Some(schedule) = request.alone() {
        return schedule;
    }
    let (me, root) = (request.rank.0, request.root.0);
    let group = Group::ranks(request.topology);
    let mut builder = request.builder();
    if me != root {
        group.gather(&mut builder, me);
    }
    builder.end_round();
    if me == root {
        builder.copy(Span::send(0, 1), Span::recv(me, 1));
    }
    Branch::new(&group, root, me, request.ports).gather(&mut builder);
    if me == root {
        builder.copy_all_but(root, Buffer::Scratch, Buffer::Recv);
    }
    builder.finish(scratch_blocks(request))
}

/// Closed form: equation (1).
pub fn work(shape: &Shape, _: Protocol) -> Work {
    Work {
        rounds: levels(shape.ranks, shape.ports).into(),
        port_blocks: volume(shape.ranks, shape.ports),
        ..Work::flat(shape, shape.ranks.into())
    }
}
