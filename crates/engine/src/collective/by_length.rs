//! Vector forms of which no rank knows all lengths: each message goes by the length of its pair.
//!
//! On one node what is short enough rides in eager slots or lies in their annexes. What has room in scratch takes
//! it. What has not goes straight into user memory, once its receiver has announced where; both
//! ends know which of the two it is. Where user memory cannot be reached, the ranks first agree how
//! many pieces the longest message takes.

use super::room::{rotating_part, scratch_of};
use super::words::gather_words;
use super::{
    Call, Load, allocate, connect_peers, copy_own, eager, finish, goes_past_caches, is_pair,
    piece_in, prepare_pieces,
};
use crate::EngineError;
use crate::choice::{ZERO_COPY_BYTES_MIN, regular};
use crate::plan::{Found, Lengths, Plan, ShortWays, selector};
use crate::run::{BlockList, Run, Side, UserBuffers, Window, beside_cells, block_bytes};
use crate::scratch::{self, Scratch, Widths};
use crate::selection::LONG_BYTES_MIN;
use crate::sequence::{Allocation, ChannelRequest, longest_part};
use crate::tag::tag;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::Rank;
use ferrorail_coll::{Collective, Protocol};
use ferrorail_shm::layout::LINE;

pub(super) fn run(
    map: &Map,
    state: &mut State,
    plan: &mut Plan,
    call: &Call<'_>,
) -> Result<(), EngineError> {
    if plan.large.is_some() {
        connect_peers(map, state, plan, call)?;
    }
    plan.runs += 1;
    let lengths = match plan.lengths {
        Some(lengths) => lengths,
        None => find_lengths(map, state, plan, call.collective),
    };
    let Some(large) = &plan.large else {
        return in_pieces(map, state, plan, call, lengths);
    };
    let (longest, wanted) = (call.longest(), lengths.channels);
    // A block that is too long for its receiver is no reason to leave others waiting.
    let (mut above, mut differs) = (0, None);
    if let Some(form) = plan.eager {
        above = form.longest();
        if longest <= above {
            let channels = wanted;
            return short(map, state, *call, (longest, ShortWays { form, channels }));
        }
        // SAFETY: the entry's caller vouches for its buffers.
        differs = unsafe { eager::exchange::<_, _, true>(map, state, *call, form)? };
    }
    if is_pair(map) {
        let between = call.pair_bytes(map.rank);
        if between <= lengths.in_segment {
            pair_in_segment(map, state, plan, call, (above, between, lengths))?;
            return unless_differs(differs);
        }
    }
    if longest == 0 {
        match map.topology.node_count() {
            1 => state.sequence.pass_over(wanted),
            _ => {
                allocate(map, state, call, wanted)?;
            }
        }
        return Ok(());
    }
    // One channel: a pair has the same slot in all schedules, and uses it in one of them.
    let allocation = allocate(map, state, call, wanted)?;
    let in_place = straight(map, state, call, allocation);
    // Little scratch has less room than eager slots and their annexes.
    let whole = lengths.whole.max(above);
    // Other nodes may want something of this rank where it has no blocks.
    let has_all = map.topology.node_count() > 1;
    let leaves = !map.has_cores && is_sparse(call);
    let mut move_blocks = |route, window, allocation| {
        if !has_all && !has_blocks(call, window) {
            return Ok(());
        }
        let run = Run::new(map, route, user(call, window, false), allocation);
        let mut run = if leaves { run.leaving_copies() } else { run };
        run.complete(state, call.collective)
    };
    let through_scratch = Window::Between {
        above,
        capacity: whole,
    };
    move_blocks(&plan.route, through_scratch, allocation)?;
    move_blocks(large, Window::Above { capacity: whole }, in_place)?;
    unless_differs(differs)
}

/// Runs a call of which this rank has no block that is too long for eager slots, but `longest`, on one node. In line with the
/// entry.
#[inline(always)]
pub(super) fn short<S: BlockList, R: BlockList>(
    map: &Map,
    state: &mut State,
    call: Call<'_, S, R>,
    (longest, ShortWays { form, channels }): (usize, ShortWays),
) -> Result<(), EngineError> {
    let differs = match longest {
        0 => {
            let request = eager::requested::<S, R, true>(map, state, &call, form);
            eager::take_place(state, &call, request);
            None
        }
        // SAFETY: the entry's caller vouches for its buffers.
        _ => unsafe { eager::exchange::<S, R, true>(map, state, call, form)? },
    };
    match form.of_pair {
        true => pass_over_pieces(state),
        // Who waits for a free slot or channel does not need this rank for it.
        false => state.sequence.pass_over(channels),
    }
    unless_differs(differs)
}

/// All is done; a rank that has a block of another length for this one than that expects makes it fail.
#[inline]
fn unless_differs(rank: Option<Rank>) -> Result<(), EngineError> {
    match rank {
        None => Ok(()),
        Some(rank) => Err(EngineError::Truncated { rank }),
    }
}

/// How blocks move that are too long for scratch, after those that `first` moves: straight into user memory. On one node that
/// has a number of its own, so that a rank that waits for a block sees that another, which took it for longer or shorter, is
/// beyond the way that it should have come.
fn straight(map: &Map, state: &mut State, call: &Call<'_>, first: Allocation) -> Allocation {
    if map.topology.node_count() > 1 {
        return first;
    }
    let op = state.sequence.skip();
    Allocation {
        op: tag(op, call.collective, call.root, call.bytes),
        ..first
    }
}

/// Whether this rank has a block that moves in `window`, or is to have one.
fn has_blocks(call: &Call<'_>, window: Window) -> bool {
    let is_moved =
        |side: &Side<'_>| (0..side.count()).any(|index| window.of(side.block(index)).bytes > 0);
    is_moved(&call.send) || is_moved(&call.recv)
}

/// Whether this rank has blocks for a half of the others at most, and receives as few.
fn is_sparse(call: &Call<'_>) -> bool {
    let blocks = |side: &Side<'_>| {
        let has_bytes = |index: &u32| side.block(*index).bytes > 0;
        (0..side.count()).filter(has_bytes).count()
    };
    let is_sparse = |side: &Side<'_>| 2 * blocks(side) <= side.count() as usize;
    call.collective == Collective::Alltoallv && is_sparse(&call.send) && is_sparse(&call.recv)
}

/// Which way blocks go in calls of `plan`, which are calls of `collective`. The plan remembers it.
#[cold]
fn find_lengths(map: &Map, state: &State, plan: &mut Plan, collective: Collective) -> Lengths {
    let (ranks, nodes) = (map.topology.size(), map.topology.node_count());
    let scratch = Scratch::of(map);
    let up_to = |bytes, scratch| {
        let load = Load {
            collective,
            bytes,
            unit: 1,
        };
        piece_in(scratch, map, plan, load)
    };
    let width = scratch.width_by_length();
    let piece = match nodes {
        // Both ranks know the lengths, and how many pieces there are.
        1 if is_pair(map) => up_to(usize::MAX, map.segment().geometry().run_bytes(0, width)),
        1 => up_to(NODE_BYTES_MAX, scratch_of(map, collective, width)),
        // Rails read RTRs in the rest.
        _ => {
            let all = scratch_of(map, collective, width) as usize;
            up_to(
                ZERO_COPY_BYTES_MIN as usize,
                beside_cells(all, ranks) as u64,
            )
        }
    };
    // Where ranks exchange blocks, they gain by scratch up to twice the length; one rank that has blocks for many others
    // copies them all, where these could read what they are to get.
    let most = match collective {
        Collective::Alltoallv => 2 * NODE_BYTES_MAX,
        _ if ranks <= 4 => NODE_BYTES_MAX,
        _ => NODE_BYTES_MAX / 2,
    };
    // Two ranks know when they have something for rotating scratch, and take it then.
    let longest_part = match is_pair(map) {
        true => 0,
        false => longest_part(ranks, scratch.rotating as usize) as u64,
    };
    let in_segment = in_segment(map, collective, plan.key.found(state.plans.found()));
    let whole = match longest_part {
        0 => piece,
        _ => up_to(most, longest_part),
    };
    let whole = whole.min(in_segment);
    let has_part = longest_part > 0 && plan.eager.is_none_or(|form| form.longest() < whole);
    let blocks = plan.route.schedule.scratch_blocks as usize;
    let channels = match has_part {
        true => ChannelRequest {
            rotating: blocks * block_bytes(whole, plan.parts, 1),
            partly: true,
            near: !scratch.rotates(collective),
            ..ChannelRequest::CHANNEL
        },
        false => ChannelRequest {
            width,
            ..ChannelRequest::CHANNEL
        },
    };
    plan.eager = plan.eager.map(|form| form.up_to(in_segment));
    *plan.lengths.insert(Lengths {
        channels,
        whole,
        piece: piece.min(in_segment),
        in_segment,
    })
}

/// Longest block of a node's ranks that does not go straight into user memory: as rules have it for blocks of one length. No
/// shorter than long ones: a rank that has no long blocks does not look for times.
fn in_segment(map: &Map, collective: Collective, found: Found) -> usize {
    if map.topology.node_count() != 1 {
        return usize::MAX;
    }
    let selector = selector(map, found);
    let goes_straight = |class: &u32| {
        let query = selector.query(regular(collective), 1 << class);
        selector.chooser.table.choose(&query).protocol == Protocol::Rendezvous
    };
    let first = (LONG_BYTES_MIN.ilog2() + 1..usize::BITS).find(goes_straight);
    first.map_or(usize::MAX, |class| 1 << (class - 1))
}

/// Moves the blocks of two ranks for each other, the longer of which has `longest` bytes, through scratch, if that is too long
/// for eager slots, by which blocks of up to `above` bytes went. Both know how long it is.
fn pair_in_segment(
    map: &Map,
    state: &mut State,
    plan: &Plan,
    call: &Call<'_>,
    (above, longest, lengths): (usize, usize, Lengths),
) -> Result<(), EngineError> {
    let moved = match longest <= above {
        true => {
            pass_over_pieces(state);
            0
        }
        false => pieces(map, state, plan, call, (longest, lengths))?,
    };
    // Its own block may be longer than those.
    // SAFETY: the entry's caller vouches for its buffers.
    unsafe { copy_own(call, map.rank, moved) };
    Ok(())
}

/// Takes the number of the first piece in a call of two ranks that has none: a rank that waits for one, as it has another length,
/// sees that this one is beyond it.
#[inline(always)]
fn pass_over_pieces(state: &mut State) {
    state.sequence.skip();
}

/// Where user memory cannot be reached.
fn in_pieces(
    map: &Map,
    state: &mut State,
    plan: &mut Plan,
    call: &Call<'_>,
    lengths: Lengths,
) -> Result<(), EngineError> {
    let longest = longest(map, state, call)?;
    if longest == 0 {
        return Ok(());
    }
    // Who waits for its peers shows the next operation as this call's, which is the first piece.
    connect_peers(map, state, plan, call)?;
    pieces(map, state, plan, call, (longest, lengths)).map(|_| ())
}

/// Moves blocks of up to `longest` bytes in pieces; returns how many bytes of each were.
fn pieces(
    map: &Map,
    state: &mut State,
    plan: &Plan,
    call: &Call<'_>,
    (longest, lengths): (usize, Lengths),
) -> Result<usize, EngineError> {
    let past_caches = goes_past_caches(map, call);
    let capacity = Scratch::of(map)
        .stage_bytes(call.collective, longest as u64)
        .min(lengths.piece as u64) as usize;
    let capacity = capacity.min(longest.next_multiple_of(LINE));
    if capacity < longest {
        prepare_pieces(map, state)?;
    }
    let channels = channels_for(map, plan, call.collective, capacity, lengths);
    let mut offset = 0;
    while offset < longest {
        let allocation = allocate(map, state, call, channels)?;
        let piece = user(call, Window::Piece { offset, capacity }, past_caches);
        Run::new(map, &plan.route, piece, allocation).complete(state, call.collective)?;
        finish(map, state);
        offset += capacity;
    }
    Ok(offset)
}

/// The channels of pieces of `bytes` bytes, on one node no more than these need.
fn channels_for(
    map: &Map,
    plan: &Plan,
    collective: Collective,
    bytes: usize,
    lengths: Lengths,
) -> ChannelRequest {
    if map.topology.node_count() > 1 {
        return lengths.channels;
    }
    let most = Scratch::of(map).width_by_length();
    let scratch = bytes * plan.route.schedule.scratch_blocks as usize;
    let widths = Widths {
        whole: most,
        pieces: most,
    };
    let has_room = |width| scratch_of(map, collective, width) >= scratch as u64;
    let (width, _) = scratch::fit(widths, true, has_room);
    ChannelRequest {
        width,
        rotating: rotating_part(map, collective, scratch),
        ..ChannelRequest::CHANNEL
    }
}

/// Longest block that goes through scratch inside a node, where there is room.
const NODE_BYTES_MAX: usize = 64 << 10;

fn user<'a>(call: &Call<'a>, window: Window, past_caches: bool) -> UserBuffers<'a> {
    UserBuffers {
        send: call.send,
        recv: call.recv,
        window,
        parts: 1,
        pairs: true,
        past_caches,
        reducer: None,
    }
}

/// Length of the longest block of any rank.
fn longest(map: &Map, state: &mut State, call: &Call<'_>) -> Result<usize, EngineError> {
    let all = gather_words(map, state, [call.longest() as u64])?;
    Ok(all.into_iter().flatten().max().unwrap_or(0) as usize)
}
