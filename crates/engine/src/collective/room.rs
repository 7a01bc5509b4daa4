//! Room in scratch: which channels an operation takes, and how much of each block it moves at a time.

use super::Call;
use crate::collective::eager::form::Form;
use crate::plan::{Plan, PlanKey, Room};
use crate::run::block_bytes;
use crate::scratch::{self, Scratch, Widths};
use crate::sequence::{ChannelRequest, Ring};
use crate::team::map::{CHANNELS, Map, SMALL_CHANNELS};
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::{Collective, Protocol, cost};

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
    let geometry = map.segment().geometry();
    if geometry.small_channels > 0 {
        let small = small_channels(map, plan, load);
        if small.1 == load.bytes {
            return small;
        }
    }
    whole_channels(map, plan, load)
}

/// As [`capacity`], without small channels.
fn whole_channels(map: &Map, plan: &Plan, load: Load) -> (ChannelRequest, usize) {
    let blocks = plan.route.schedule.scratch_blocks;
    let piece = |scratch| piece_in(scratch, map, plan, load) as u64;
    let bytes = load.bytes as u64;
    let (width, piece) = Scratch::of(map).fit_stages(plan.variant, bytes, blocks, piece);
    request(map, plan, load, (Ring::Channels, width, piece as usize))
}

/// Small channels, where all goes at once or not at all.
fn small_channels(map: &Map, plan: &Plan, load: Load) -> (ChannelRequest, usize) {
    let geometry = map.segment().geometry();
    let widths = Widths {
        whole: SMALL_CHANNELS / CHANNELS,
        pieces: 1,
    };
    let first = geometry.first_small();
    let (width, piece) = scratch::fit(widths, load.bytes, |width| {
        piece_in(geometry.run_bytes(first, width), map, plan, load)
    });
    request(map, plan, load, (Ring::Small, width, piece))
}

/// So many channels for pieces of `piece` bytes of a block.
fn request(
    map: &Map,
    plan: &Plan,
    load: Load,
    (ring, width, piece): (Ring, u32, usize),
) -> (ChannelRequest, usize) {
    let blocks = plan.route.schedule.scratch_blocks as usize;
    let bytes = blocks * block_bytes(piece, plan.parts, load.unit);
    let request = ChannelRequest {
        ring,
        width,
        rotating: rotating_part(map, load.collective, bytes),
        ..ChannelRequest::CHANNEL
    };
    (request, piece)
}

/// What an operation of `collective` that has `bytes` bytes of scratch takes of the rotating scratch: all or none.
pub(super) fn rotating_part(map: &Map, collective: Collective, bytes: usize) -> usize {
    match Scratch::of(map).rotates(collective) {
        true => bytes,
        false => 0,
    }
}

/// Scratch of a rank for an operation of `collective` that takes `width` channels.
pub(super) fn scratch_of(map: &Map, collective: Collective, width: u32) -> u64 {
    match Scratch::of(map).rotating_share(collective) {
        Some(share) => u64::from(width) * share,
        None => map.segment().geometry().run_bytes(0, width),
    }
}

/// Largest piece with which the schedule fits into `scratch` bytes.
pub(super) fn piece_in(scratch: u64, map: &Map, plan: &Plan, load: Load) -> usize {
    let blocks = plan.route.schedule.scratch_blocks;
    let ranks = map.topology.size();
    let (bytes, unit) = (load.bytes as u64, load.unit as u64);
    cost::element_piece_bytes(plan.variant.algorithm, ranks, bytes, blocks, scratch, unit) as usize
}
