//! Tree scatter: the tree gather the other way round; each level splits the blocks k+1 ways.
//!
//! Five ranks, root 3, one port; `p>q: blocks`:
//!
//! ```text
//! round 1   3>4: 4
//! round 2   3>0: 0 1
//! round 3   0>1: 1        3>2: 2
//! ```
//!
//! * Rounds: ⌈log_{k+1} N⌉. Messages: N-1. Volume per port as in the tree gather, equation (1).

use crate::algorithm::Request;
use crate::gather::direct::scratch_blocks;
pub use crate::gather::tree::work;
use crate::group::Group;
use crate::schedule::{Buffer, Schedule, Span};
use crate::tree::Branch;

/// One rank's schedule.
pub fn build(request: &Request<'_>) -> Schedule {
    let (me, root) = (request.rank.0, request.root.0);
    let group = Group::ranks(request.topology);
    let mut builder = request.builder();
    if me == root {
        builder.copy_all_but(root, Buffer::Send, Buffer::Scratch);
    }
    builder.end_round();
    Branch::new(&group, root, me, request.ports).scatter(&mut builder);
    let own = match me == root {
        true => Span::send(me, 1),
        false => Span::scratch(me, 1),
    };
    builder.copy(own, Span::recv(0, 1));
    builder.finish(scratch_blocks(request))
}
