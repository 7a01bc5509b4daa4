//! A team's memory: the node segment, its registration on the rails, and who reaches whose memory.

use super::map::{CHANNELS, Map, NodeMemory, SMALL_CHANNELS, SYNC_CHANNELS, TeamRails};
use super::measure::policy;
use super::rails::AgreedRails;
use crate::EngineError;
use crate::agree::{agree, gather};
use crate::choice;
use crate::run::checked::cell_bytes;
use crate::segment::{Making, register};
use crate::shared_settings::SharedSettings;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_base::{NodeId, Rank, Topology};
use ferrorail_bootstrap::Oob;
use ferrorail_coll::schedule::slot_limit;
use ferrorail_fabric::Fabric;
use ferrorail_fabric::stripe::Planner;
use ferrorail_shm::{NodeLayout, NodeSegment, SegmentHandle};

/// Bytes of flags per rank with which a channel still counts as small.
const SMALL_FLAGS_MAX: u32 = 8192;

/// Opens the node's segment, registers it on `rails`, and finds out whether puts may land in user
/// memory. Collective.
pub(super) fn open(
    oob: &mut dyn Oob,
    map: &mut Map,
    rails: Option<AgreedRails>,
) -> Result<(), EngineError> {
    let lanes = rails.as_ref().map_or(1, |rails| rails.local.len() as u32);
    map.node_memory = Some(open_segment(oob, map, lanes)?);
    // SAFETY: the segment lives in the team's map beside the registration, which is dropped first.
    let register =
        |rails: &AgreedRails| unsafe { register(&rails.fabric, map.segment().segment()) };
    let region = rails.as_ref().map(register).transpose();
    let description = match (&region, &rails) {
        (Ok(Some(region)), Some(rails)) => Ok(rails.fabric.describe(region)),
        (Err(error), _) => Err(error.to_string()),
        _ => Ok(Vec::new()),
    };
    if map.settings.cma {
        ferrorail_shm::cma_allow();
    }
    let word = AtomicU64::new(0x6665_7272_6f72_6169 ^ u64::from(map.rank.0));
    let probe = (&raw const word as u64, word.load(Ordering::Relaxed));
    let mine = description.map(|description| (description, probe));
    let agreed = agree(oob, "registering the node segment", mine);
    if let (Some(rails), Ok(Some(region))) = (rails, region) {
        let wanted = map.settings.stripe_policy();
        let planner = Planner::new(
            policy(wanted, rails.fabric.rails(), &rails.local),
            map.settings.stripe_threshold,
            map.settings.stripe_bytes_min,
        );
        // Before anything is refused: the team's rails give the registration back.
        map.rails = Some(TeamRails::new(rails, planner, region));
    }
    // Peers open descriptors where rails are emulated.
    if map.rails.as_ref().is_none_or(|rails| !rails.stay_here())
        && let Some(memory) = &mut map.node_memory
    {
        memory.segment.close();
    }
    let (descriptions, probes): (Vec<_>, Vec<_>) = agreed?.into_iter().unzip();
    if let Some(rails) = &mut map.rails {
        rails.descriptions = descriptions;
    }
    if map.settings.zero_copy != Some(false) {
        let answers = gather(oob, "cross-memory probe", &reaches_all(map, &probes))?;
        map.zero_copy = answers.into_iter().all(|reached| reached);
    }
    // The probed word lived until every rank had answered.
    word.store(0, Ordering::Relaxed);
    Ok(())
}

/// Layouts of all nodes' segments in a team over `rails` rails.
pub(crate) fn layouts(
    topology: &Topology,
    settings: &SharedSettings,
    rails: u32,
) -> Vec<NodeLayout> {
    let size = topology.size();
    (0..topology.node_count())
        .map(|node| NodeLayout {
            local_ranks: topology.ranks_of(NodeId(node)).len() as u32,
            // Synchronisations move nothing; the layout gives them scratch all the same.
            channels: CHANNELS + SYNC_CHANNELS,
            small_channels: match settings.reliable || topology.node_count() == 1 {
                true => 0,
                false => small_channels(size, rails),
            },
            slots: slot_limit(size),
            rails,
            scratch_bytes: choice::scratch_bytes(settings.scratch_bytes, size),
            check_bytes: match settings.reliable && topology.node_count() > 1 {
                true => cell_bytes(rails),
                false => 0,
            },
        })
        .collect()
}

fn open_segment(oob: &mut dyn Oob, map: &Map, rails: u32) -> Result<NodeMemory, EngineError> {
    let layouts = layouts(&map.topology, &map.settings, rails);
    let layout = layouts[map.node.index()];
    let making = Making {
        leader: map.topology.leader_of(map.node),
        acts: ["creating the node segment", "attaching the node segment"],
        create: |kind| NodeSegment::create(kind, layout),
        attach: |handle: &SegmentHandle| NodeSegment::attach(handle, layout),
        segment: NodeSegment::segment,
    };
    let segment = making.open(oob, map.settings.shm())?;
    if map.topology.is_leader(map.rank) {
        map.context.stats().segment(layout.total_bytes());
    }
    Ok(NodeMemory { segment, layouts })
}

/// Small channels between nodes, unless the flags of one, of which every slot has some, take more
/// room than what they are about.
fn small_channels(size: u32, rails: u32) -> u32 {
    match 8 * slot_limit(size) * rails.next_power_of_two() {
        0..=SMALL_FLAGS_MAX => SMALL_CHANNELS,
        _ => 0,
    }
}

/// Whether this rank can write every other's private memory: by cross-memory attach inside the
/// node (and the host, for loopback rails), by the rails elsewhere. What cannot be registered when it
/// comes to that goes in pieces.
fn reaches_all(map: &Map, probes: &[(u64, u64)]) -> bool {
    let capabilities = map.rails.as_ref().map(|rails| rails.fabric.capabilities());
    let one_host = map.rails.as_ref().is_some_and(TeamRails::stay_here);
    let inside = (0..map.topology.size())
        .map(Rank)
        .filter(|&peer| peer != map.rank && (one_host || map.topology.same_node(peer, map.rank)))
        .all(|peer| map.reads(peer, probes[peer.index()]));
    inside && capabilities.is_none_or(|capabilities| capabilities.private_memory)
}
