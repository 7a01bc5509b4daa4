//! The collectives: one entry each, one way to run them.
//!
//! An entry says what the buffers are; [`Call`] carries that to [`Team::call`], which chooses the
//! plan, connects, cuts what exceeds scratch into pieces and runs the schedule. Vector forms of
//! which no rank knows all lengths have a way of their own in `by_length`.

mod attach;
mod by_length;
mod call;
pub(crate) mod eager;
mod even;
mod reduction;
mod room;
mod vector;
mod words;

use crate::barrier_order::Publishers;
use crate::blocking_wait::disagreement::{Expected, Messages};
use crate::blocking_wait::{Blocked, BlockingWait, status};
use crate::choice::{self, Left};
use crate::multicast;
use crate::plan::{Plan, PlanKey, Short};
use crate::quiescence;
use crate::run::{BlockList, Run, Side, UserBuffers, Window};
use crate::selection::LONG_BYTES_MIN;
use crate::sequence::{Allocation, ChannelRequest};
use crate::tag::tag;
use crate::team::connect::connect_all;
use crate::team::connected::Peers;
use crate::team::map::Map;
use crate::team::state::State;
use crate::{EngineError, Team};
use call::Call;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Collective, Protocol};
use ferrorail_shm::exceeds_caches;
use room::{Load, known_room, piece_in};

/// The collectives that teams run.
pub const OFFERED: &[Collective] = Collective::ALL;

impl Team {
    /// Runs `call` to its end. In line with the entry, which knows the collective, as far as short calls on one node go:
    /// nothing of these is written to memory but what is sent.
    ///
    /// # Errors
    /// After an error the team is unusable, but for [`EngineError::Truncated`]: peers may be anywhere.
    #[inline(always)]
    fn call<'a, S, R>(&self, call: Call<'a, S, R>) -> Result<(), EngineError>
    where
        S: BlockList + Into<Side<'a>>,
        R: BlockList + Into<Side<'a>>,
    {
        let mut state = self.enter()?;
        let state = &mut *state;
        let longest = call.longest();
        let looks = choice::by_length(call.collective) && state.ways.looks(call.collective);
        let is_short = longest < LONG_BYTES_MIN && !looks;
        let key = match is_short {
            true => call.short_key(&state.ways),
            false => match attach::key(&self.map, state, &call.general(), looks) {
                Ok(key) => key,
                Err(error) => return Err(self.failed(state, error)),
            },
        };
        let outcome = match state.plans.short(&key, longest) {
            Some(Short::Whole(form)) => {
                // SAFETY: the entry's caller vouches for its buffers.
                unsafe { eager::run(&self.map, state, call, form) }
            }
            Some(Short::ByLength(ways)) => {
                by_length::short(&self.map, state, call, (longest, ways))
            }
            None => self.planned(state, &call.general(), key),
        };
        if !is_short {
            state.ways.ended();
        }
        match outcome {
            Ok(()) => {
                finish(&self.map, state);
                Ok(())
            }
            Err(error) => Err(self.failed(state, error)),
        }
    }

    /// Runs `call` by the plan of `key`.
    #[inline(never)]
    fn planned(&self, state: &mut State, call: &Call<'_>, key: PlanKey) -> Result<(), EngineError> {
        let mut plan = state.plans.take(&self.map, key);
        let outcome = if self.map.topology.size() == 1 {
            // SAFETY: the entry's caller vouches for its buffers; one block each.
            unsafe { copy_own(call, self.map.rank, 0) };
            Ok(())
        } else if let Err(left) = refuse_left(&plan) {
            Err(left)
        } else if choice::by_length(call.collective) {
            by_length::run(&self.map, state, &mut plan, call)
        } else if let Some(form) = plan.eager_for(call.bytes) {
            // SAFETY: the entry's caller vouches for its buffers.
            unsafe { eager::run(&self.map, state, *call, form) }
        } else {
            scheduled(&self.map, state, &mut plan, call)
        };
        match &outcome {
            // The host's call then.
            Err(
                EngineError::ElementTooLarge { .. }
                | EngineError::TooManyConnections
                | EngineError::LeftByChoice
                | EngineError::Unconnected,
            ) => {
                state.plans.keep(plan);
            }
            _ => state.plans.put_back(plan, call.bytes),
        }
        outcome
    }

    /// After most errors peers may be anywhere.
    #[cold]
    pub(crate) fn failed(&self, state: &mut State, error: EngineError) -> EngineError {
        match error {
            // Nothing was done.
            EngineError::ElementTooLarge { .. }
            | EngineError::TooManyConnections
            | EngineError::LeftByChoice
            | EngineError::Unconnected => {}
            EngineError::Truncated { .. } => finish(&self.map, state),
            _ => self.break_off(state, &error),
        }
        error
    }

    /// A call that moves nothing. Its number is shown to ranks that think otherwise.
    #[inline(never)]
    fn empty(&self, collective: Collective, root: Rank) -> Result<(), EngineError> {
        let mut state = self.enter()?;
        let key = PlanKey::new(collective, root, 0);
        let plan = state.plans.take(&self.map, key);
        state.plans.put_back(plan, 0);
        if self.map.topology.size() > 1 {
            let op = state.sequence.skip();
            status::show(&self.map, tag(op, collective, root, 0));
            finish(&self.map, &state);
        }
        Ok(())
    }
}

/// Copies the block that `rank`, the caller, has for itself, from its byte `offset` on, unless it is in place. That is
/// all of a collective of one rank.
///
/// # Safety
/// The call's buffers are valid for their blocks.
unsafe fn copy_own(call: &Call<'_>, rank: Rank, offset: usize) {
    if call.send.count() == 0 || call.recv.count() == 0 {
        return;
    }
    let capacity = usize::MAX;
    let rest = |side: &Side<'_>| Window::Piece { offset, capacity }.of(side.block_of(rank.0));
    let (from, into) = (rest(&call.send), rest(&call.recv));
    if from.address != into.address {
        // SAFETY: the caller vouches for both.
        unsafe { from.copy_to(into) }
    }
}

/// Runs the plan's schedule, over as many pieces of each block as scratch demands.
fn scheduled(
    map: &Map,
    state: &mut State,
    plan: &mut Plan,
    call: &Call<'_>,
) -> Result<(), EngineError> {
    let between_nodes = map.topology.node_count() > 1;
    // Before peers meet: it is the host's call if there is no room.
    let mut room = known_room(map, plan, Load::of(call))?;
    if plan.variant.algorithm.multicast && between_nodes && !multicast::open(map, state)? {
        *plan = state.plans.without_multicast(map, plan);
        refuse_left(plan)?;
        room = known_room(map, plan, Load::of(call))?;
    }
    let (channels, piece) = room;
    let past_caches = goes_past_caches(map, call);
    connect_peers(map, state, plan, call)?;
    // Known lengths, straight into blocks that lie anywhere: one message per pair.
    let pairs = call.collective == Collective::Allgatherv && plan.protocol == Protocol::Rendezvous;
    let proves = call.collective.synchronising() && !(pairs && call.recv.has_empty_block());
    if piece < call.bytes {
        prepare_pieces(map, state)?;
    }
    let mut offset = 0;
    loop {
        let allocation = allocate(map, state, call, channels)?;
        let capacity = piece.min(call.bytes - offset);
        let user = UserBuffers {
            send: call.send,
            recv: call.recv,
            window: match pairs {
                true => Window::Above { capacity: 0 },
                false => Window::Piece { offset, capacity },
            },
            parts: plan.parts,
            pairs,
            past_caches,
            reducer: call.reducer.copied(),
        };
        plan.runs += 1;
        Run::new(map, &plan.route, user, allocation).complete(state, call.collective)?;
        finish(map, state);
        if proves {
            state.sequence.synchronised();
        }
        offset += capacity;
        if offset >= call.bytes {
            break;
        }
    }
    if call.collective == Collective::Barrier && !between_nodes && map.yields_at_once() {
        leave_barrier(map, state.sequence.op());
    }
    Ok(())
}

/// Leaves barrier `op`, behind those that a rooted call waits for that is expected to follow.
fn leave_barrier(map: &Map, op: u64) {
    let finished = |rank: Rank| map.segment().finished(NodeRank(rank.0));
    let has_called = |rank| finished(rank).load(Ordering::Acquire) > op;
    let have_called = |publishers| match publishers {
        Publishers::Root(root) => has_called(root),
        Publishers::Others => {
            let mut ranks = (0..map.topology.size()).map(Rank);
            ranks.all(|rank| rank == map.rank || has_called(rank))
        }
    };
    map.barrier_order.leave(op, map.rank, have_called);
}

/// Whether so much is exchanged on one node that no cache has it when it is used. Of a rooted call only the root has much.
fn goes_past_caches(map: &Map, call: &Call<'_>) -> bool {
    let ranks = map.topology.size() as usize;
    let of_rank = || call.send.bytes() + call.recv.bytes();
    map.topology.node_count() == 1
        && !call.collective.is_rooted()
        && exceeds_caches(ranks * of_rank())
}

/// Waits until operation `wanted` is finished everywhere, on one node: for half a ring at once, as who waits for each place
/// anew is woken up for each.
#[cold]
fn wait_for_room(map: &Map, state: &mut State, wanted: u64) -> Result<(), EngineError> {
    let mut blocking_wait = BlockingWait::new(map, "run-ahead").for_operation(state.sequence.op());
    let mut by_all = u64::MAX;
    for rank in map.others() {
        let finished = map.segment().finished(NodeRank(rank.0));
        let mut by_rank = finished.load(Ordering::Acquire);
        while by_rank < wanted {
            blocking_wait.idle(Blocked::Node, || format!("rank {rank}"))?;
            by_rank = finished.load(Ordering::Acquire);
        }
        by_all = by_all.min(by_rank);
    }
    state.sequence.all_finished(by_all.min(state.sequence.op()));
    Ok(())
}

/// Says on the node that this rank has finished the last operation. After each, also of those that
/// make one call together: a rank may be a ring ahead within one.
#[inline(always)]
fn finish(map: &Map, state: &State) {
    if map.topology.size() == 1 {
        return;
    }
    let (segment, op) = (map.segment(), state.sequence.op());
    segment.finished(map.node_rank).store(op, Ordering::Release);
    if state.sequence.wakes() {
        segment.doorbell().ring();
    }
}

/// The next operation's tag and channel; waits where no channel is free.
fn allocate(
    map: &Map,
    state: &mut State,
    call: &Call<'_>,
    channels: ChannelRequest,
) -> Result<Allocation, EngineError> {
    let allocation = if call.collective == Collective::Barrier {
        state.sequence.next_sync()
    } else {
        if map.topology.node_count() > 1 {
            keep_pace(map, state, channels)?;
        } else if state.sequence.is_full(channels) {
            wait_for_room(map, state, state.sequence.half_a_ring(channels))?;
        }
        let allocation = state.sequence.next(channels);
        Allocation {
            swapped: allocation.swapped && gains_by_swapping(map, call.collective),
            ..allocation
        }
    };
    Ok(Allocation {
        op: tag(allocation.op, call.collective, call.root, call.bytes),
        ..allocation
    })
}

/// Whether two ranks of one node write to each other what each reads once. All-reduces write to lines that they have
/// read anyway, and rooted collectives pass data one way.
fn gains_by_swapping(map: &Map, collective: Collective) -> bool {
    let is_exchange = matches!(
        collective,
        Collective::Allgather
            | Collective::Allgatherv
            | Collective::Alltoall
            | Collective::Alltoallv
            | Collective::ReduceScatter
            | Collective::ReduceScatterBlock
    );
    is_exchange && is_pair(map)
}

/// Whether the team is two ranks of one node.
fn is_pair(map: &Map) -> bool {
    map.topology.size() == 2 && map.topology.node_count() == 1
}

/// Between nodes, has channels known free before they are wanted, and waits for the next ones to be.
fn keep_pace(map: &Map, state: &mut State, channels: ChannelRequest) -> Result<(), EngineError> {
    quiescence::advance(map, state)?;
    if let Some(op) = state.sequence.request(channels) {
        quiescence::request(map, state, op)?;
    }
    match state.sequence.is_full(channels) {
        true => quiescence::wait(map, state, state.sequence.needed(channels)),
        false => Ok(()),
    }
}

/// Makes all ready that pieces after the first may need: by then there is no way back to the host.
fn prepare_pieces(map: &Map, state: &mut State) -> Result<(), EngineError> {
    match map.topology.node_count() {
        1 => Ok(()),
        _ => quiescence::prepare(map, state),
    }
}

/// Connects the peers that `plan` names, at its first run.
#[inline]
fn connect_peers(
    map: &Map,
    state: &mut State,
    plan: &mut Plan,
    call: &Call<'_>,
) -> Result<(), EngineError> {
    match plan.connected {
        true => Ok(()),
        false => connect_peers_now(map, state, plan, call),
    }
}

/// An error if the host runs what `plan` is for.
fn refuse_left(plan: &Plan) -> Result<(), EngineError> {
    match plan.left {
        None => Ok(()),
        Some(Left::QueuePairs) => Err(EngineError::TooManyConnections),
        Some(Left::Chosen) => Err(EngineError::LeftByChoice),
    }
}

#[cold]
fn connect_peers_now(
    map: &Map,
    state: &mut State,
    plan: &mut Plan,
    call: &Call<'_>,
) -> Result<(), EngineError> {
    let next = state.sequence.op() + 1;
    let expected = Expected {
        tag: tag(next, call.collective, call.root, call.bytes),
        messages: Messages::None,
    };
    let mut blocking_wait = BlockingWait::new(map, call.collective.name());
    blocking_wait.expect(expected);
    let which = Peers::Schedule {
        collective: call.collective,
        algorithm: plan.variant,
        root: call.root,
        protocol: plan.protocol,
    };
    let peers_of = |rank| plan.peers_of(map, rank);
    connect_all(map, state, which, &peers_of, &mut blocking_wait)?;
    plan.connected = true;
    Ok(())
}
