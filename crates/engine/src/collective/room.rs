//! Room in scratch: which channels an operation takes, and how much of each block it moves at a time.

use super::Call;
use crate::choice::{self, Widths};
use crate::collective::eager::form::Form;
use crate::plan::{Plan, PlanKey, Room};
use crate::run::{block_bytes, reserved_bytes};
use crate::sequence::{ChannelRequest, Ring, rotating_share};
use crate::team::map::{CHANNELS, Map, SMALL_CHANNELS};
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::{Collective, Protocol, cost};
use ferrorail_shm::layout::LINE;

impl Team {
    /// Whether a reduction of elements of `unit` bytes, in blocks of `bytes`, finds room: says so before the
    /// caller takes memory for it, as all ranks leave the call to the host without.
    ///
    /// # Errors
    /// What the reduction would say: [`EngineError::ElementTooLarge`], [`EngineError::Unconnected`].
    pub fn check_element(
        &self,
        collective: Collective,
        root: Rank,
        (bytes, unit): (usize, usize),
        commutes: bool,
    ) -> Result<(), EngineError> {
        let mut state = self.enter()?;
        if self.map.topology.size() == 1 || bytes == 0 {
            return Ok(());
        }
        let key = PlanKey::new(collective, root, bytes).in_rank_order(!commutes);
        let plan = state.plans.take(&self.map, key);
        let load = Load {
            collective,
            bytes,
            unit,
        };
        let room = room(&self.map, &plan, load);
        let eager = plan.eager.map(Form::longest);
        state.plans.keep(plan);
        match eager {
            Some(longest) if bytes <= longest => Ok(()),
            _ => room.map(|_| ()),
        }
    }
}

/// What a call asks of channels: blocks of `bytes` bytes of whole elements of `unit` bytes.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub collective: Collective,
    pub bytes: usize,
    pub unit: usize,
}

impl Load {
    pub fn of(call: &Call<'_>) -> Self {
        Self {
            collective: call.collective,
            bytes: call.bytes,
            unit: call.reducer.map_or(1, |reducer| reducer.element_bytes),
        }
    }
}

/// As [`room`], which `plan` remembers.
#[inline]
pub(super) fn known_room(
    map: &Map,
    plan: &mut Plan,
    load: Load,
) -> Result<(ChannelRequest, usize), EngineError> {
    let Load { bytes, unit, .. } = load;
    if let Some(known) = plan.room
        && (known.bytes, known.unit) == (bytes, unit)
    {
        return Ok((known.channels, known.piece));
    }
    let (channels, piece) = room(map, plan, load)?;
    plan.room = Some(Room {
        bytes,
        unit,
        channels,
        piece,
    });
    Ok((channels, piece))
}

/// The channels of an operation, and the piece of each block that it moves at a time.
///
/// # Errors
/// [`EngineError::ElementTooLarge`] if not one element fits.
pub(super) fn room(
    map: &Map,
    plan: &Plan,
    load: Load,
) -> Result<(ChannelRequest, usize), EngineError> {
    let (channels, piece) = match plan.protocol {
        Protocol::Rendezvous if plan.route.schedule.scratch_blocks == 0 => {
            (ChannelRequest::CHANNEL, load.bytes)
        }
        Protocol::Rendezvous => whole_channels(map, plan, load),
        Protocol::Eager => capacity(map, plan, load),
    };
    match piece {
        0 if load.bytes > 0 => Err(EngineError::ElementTooLarge { bytes: load.unit }),
        _ => Ok((channels, piece)),
    }
}

/// The channels of an operation that lands in scratch, and the largest piece of a block (of a whole
/// vector, where the algorithm cuts that) with which the schedule fits there, in whole elements; 0 if not
/// one element fits. What does not fit as a whole goes in pieces of one channel.
fn capacity(map: &Map, plan: &Plan, load: Load) -> (ChannelRequest, usize) {
    let layout = map.segment().layout();
    if layout.small_channels > 0 {
        let widths = Widths {
            whole: SMALL_CHANNELS / CHANNELS,
            pieces: 1,
        };
        let small = in_ring(map, plan, load, (Ring::Small, layout.first_small(), widths));
        if small.1 == load.bytes {
            return small;
        }
    }
    whole_channels(map, plan, load)
}

/// As [`capacity`], without small channels.
fn whole_channels(map: &Map, plan: &Plan, load: Load) -> (ChannelRequest, usize) {
    let nodes = map.topology.node_count();
    let rotates = rotates(map, load.collective);
    let widths = choice::widths(load.collective, nodes, map.has_cores, rotates);
    in_ring(map, plan, load, (Ring::Channels, 0, widths))
}

/// As [`capacity`], of the channels of `ring` from `first`.
fn in_ring(
    map: &Map,
    plan: &Plan,
    load: Load,
    (ring, first, widths): (Ring, u32, Widths),
) -> (ChannelRequest, usize) {
    let layout = map.segment().layout();
    let reserved = match ring {
        Ring::Channels => reserved_bytes(&map.topology),
        Ring::Small => 0,
    };
    let blocks = plan.route.schedule.scratch_blocks as usize;
    let stage = stage_bytes(map, load.collective, load.bytes);
    let most = stage.saturating_mul(blocks.max(1)) as u64;
    let (width, piece) = choice::fit(widths, load.bytes, |width| {
        let scratch = match ring {
            Ring::Channels => scratch_of(map, load.collective, width),
            Ring::Small => layout.run_bytes(first, width),
        };
        piece_in((scratch - reserved).min(most), map, plan, load)
    });
    let bytes = blocks * block_bytes(piece, plan.parts, load.unit);
    let request = ChannelRequest {
        ring,
        width,
        rotating: rotating_part(map, load.collective, bytes),
    };
    (request, piece)
}

/// Up to so many ranks that share cores, those of an exchange write their scratch in turn: the rotating scratch of more
/// does not stay in the cache that cores share, beside what they exchange.
const EXCHANGING_RANKS_MAX: u32 = 4;

/// Whether an operation takes rotating scratch instead of its channels'. Two ranks that exchange write to lines that they
/// have read themselves, and of ranks that share a core the next one in a scan finds in its cache what the one before
/// has written.
fn rotates(map: &Map, collective: Collective) -> bool {
    let (ranks, has_cores) = (map.topology.size(), map.has_cores);
    let gains = match collective {
        Collective::Bcast
        | Collective::Gather
        | Collective::Gatherv
        | Collective::Reduce
        | Collective::Scatter
        | Collective::Scatterv => true,
        Collective::Scan | Collective::Exscan => has_cores,
        Collective::Allgather | Collective::Allgatherv => ranks > 2 && !has_cores,
        Collective::Allreduce
        | Collective::Alltoall
        | Collective::Alltoallv
        | Collective::ReduceScatter
        | Collective::ReduceScatterBlock => {
            (3..=EXCHANGING_RANKS_MAX).contains(&ranks) && !has_cores
        }
        Collective::Barrier => false,
    };
    gains && map.segment().layout().rotating_bytes > 0
}

/// Stages of a pipeline in which one rank copies a piece out while another copies the next one in.
const STAGES: usize = 4;

/// Shorter pieces take longer to announce than they gain.
const STAGE_BYTES_MIN: usize = 16 << 10;

/// Longest piece of a block of `bytes` bytes that passes one way between ranks with a core each, so that a call that all
/// ranks enter at once does not take as long as all its copies. Gathers and scatters in blocks of one length have copies
/// of several ranks at once, and the root's own.
pub(super) fn stage_bytes(map: &Map, collective: Collective, bytes: usize) -> usize {
    let one_way = matches!(
        collective,
        Collective::Bcast | Collective::Gatherv | Collective::Reduce | Collective::Scatterv
    );
    match one_way && map.has_cores && rotates(map, collective) {
        true => (bytes / STAGES).max(STAGE_BYTES_MIN).next_multiple_of(LINE),
        false => usize::MAX,
    }
}

/// What an operation of `collective` that has `bytes` bytes of scratch takes of the rotating scratch: all or none.
pub(super) fn rotating_part(map: &Map, collective: Collective, bytes: usize) -> usize {
    match rotates(map, collective) {
        true => bytes,
        false => 0,
    }
}

/// Scratch of a rank for an operation of `collective` that takes `width` channels. Where ranks share cores it is as much
/// of the rotating scratch as may be, since each piece takes context switches; else what channels have, so that pieces
/// stay in the cores' caches.
pub(super) fn scratch_of(map: &Map, collective: Collective, width: u32) -> u64 {
    let layout = map.segment().layout();
    match rotates(map, collective) && !map.has_cores {
        true => {
            let share = rotating_share(map.topology.size(), layout.rotating_bytes as usize);
            u64::from(width) * share as u64
        }
        false => layout.run_bytes(0, width),
    }
}

/// Largest piece with which the schedule fits into `scratch` bytes.
pub(super) fn piece_in(scratch: u64, map: &Map, plan: &Plan, load: Load) -> usize {
    let blocks = plan.route.schedule.scratch_blocks;
    let ranks = map.topology.size();
    let (bytes, unit) = (load.bytes as u64, load.unit as u64);
    cost::element_piece_bytes(plan.variant.algorithm, ranks, bytes, blocks, scratch, unit) as usize
}
