//! A team's memory: the node segment, its registration on the rails, and who reaches whose memory.

use super::geometry::{layouts, registered};
use super::layouts::Layouts;
use super::map::{Map, NodeMemory, Probe, TeamRails};
use crate::EngineError;
use crate::agree::{agree, gather};
use crate::domains::{Place, divide, needs_places};
use crate::segment::{Making, register};
use ferrorail_base::Rank;
use ferrorail_base::config::ShmKind;
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::Attributes;
use ferrorail_shm::{
    NodeGeometry, NodeSegment, SegmentHandle, is_address_space_limited, largest_segment,
};
use serde::{Deserialize, Serialize};

/// Bytes of address space that spares may take.
const SPARE_BYTES_MAX: u64 = 1 << 30;

/// Opens the node's segment, registers it on the team's rails, and finds out whether puts may land in user
/// memory. Collective. Returns segments for teams that are yet to come, as many as its leader says with `spares`
/// where a team of one node can have some.
pub(super) fn open(
    oob: &mut dyn Oob,
    map: &mut Map,
    spares: usize,
) -> Result<Vec<NodeSegment>, EngineError> {
    let probe = Probe::new(map);
    let (size, choice) = (map.topology.node_size_max(), map.settings.domains);
    let mine = Said {
        probe: probe.description(),
        knows_all: knows_all(map),
        has_cores: map.has_cores,
        place: match needs_places(choice, size, map.has_cores) {
            true => map.context.place(),
            // Which makes none of the team, should another rank think otherwise.
            false => Place::default(),
        },
    };
    let (mut memory, said) = open_segment(oob, map, spares, mine)?;
    let spares = memory.segment.take_spares();
    map.node_memory = Some(memory);
    map.has_cores = said.iter().all(|said| said.has_cores);
    let places: Vec<Place> = said.iter().map(|said| said.place).collect();
    map.domains = divide(choice, &map.topology, &places);
    place_scratch(map, &spares, &places);
    register_front(oob, map)?;
    // Peers open descriptors where rails are emulated.
    if map.rails.as_ref().is_none_or(|rails| !rails.stay_here())
        && let Some(memory) = &mut map.node_memory
    {
        memory.segment.close();
    }
    if map.settings.zero_copy != Some(false) {
        map.zero_copy = said.iter().all(|said| said.knows_all)
            || gather(oob, "cross-memory probe", &reaches_all(map, &said))?
                .into_iter()
                .all(|reached| reached);
    }
    probe.end();
    Ok(spares)
}

/// Has this rank's scratch lie on its NUMA node, before others write there, where ranks are on several: else it lies where
/// the rank is that first writes to it. Segments of other kinds than memfd have all their pages by now, where they were
/// made.
fn place_scratch(map: &Map, spares: &[NodeSegment], places: &[Place]) {
    let numa_node = |rank: Rank| places[rank.index()].numa_node;
    let own = numa_node(map.rank);
    let mut near = map.topology.ranks_of(map.node).iter();
    let is_apart = near.any(|&rank| numa_node(rank) != own);
    let Some(numa_node) = own.filter(|_| is_apart) else {
        return;
    };
    let mut segments = spares.iter().chain([map.segment()]);
    let placed =
        segments.try_for_each(|segment| segment.prefer_numa_node(map.node_rank, numa_node));
    if let Err(error) = placed {
        tracing::debug!(%error, "scratch lies where it is first written");
    }
}

/// Registers on the team's rails what barriers take of the node's segment; all of it where connecting writes to it.
/// Collective.
fn register_front(oob: &mut dyn Oob, map: &Map) -> Result<(), EngineError> {
    let Some(rails) = &map.rails else {
        return Ok(());
    };
    let segment = map.segment();
    let bytes = registered(segment.layout(), &map.settings, false) as usize;
    // SAFETY: the segment lives in the team's map beside the registration, which is dropped first.
    let region = unsafe { register(&rails.fabric, segment.segment(), bytes) };
    let registered = region.map(|region| {
        let second = rails.front.set(region);
        assert!(second.is_ok(), "registered once");
    });
    let mine = registered.map_err(|error| error.to_string());
    agree(oob, "registering the node segment", mine)?;
    map.count_registered(bytes);
    Ok(())
}

/// What a rank says of itself while the node's segment is opened.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Said {
    /// A word of its memory that others try to read: its address, and what is there.
    probe: (u64, u64),
    /// [`knows_all`].
    knows_all: bool,
    /// [`Map::has_cores`], of its host.
    has_cores: bool,
    /// What it is bound to, where that matters.
    place: Place,
}

/// Opens the node's segment; returns what all ranks say as well.
fn open_segment(
    oob: &mut dyn Oob,
    map: &Map,
    spares: usize,
    mine: Said,
) -> Result<(NodeMemory, Vec<Said>), EngineError> {
    let layouts = layouts(
        &map.topology,
        &map.settings,
        map.rail_count().into(),
        map.all_pairs,
    );
    let layout = layouts.of(&map.topology, map.node);
    let geometry = *layout.geometry();
    // The pages of other kinds are taken when they are made.
    let of_kind = |is_memfd| NodeGeometry {
        rotating_bytes: if is_memfd { geometry.rotating_bytes } else { 0 },
        ..geometry
    };
    let making = Making {
        leader: map.topology.leader_of(map.node),
        acts: ["creating the node segment", "attaching the node segment"],
        create: |kind| {
            let is_memfd = kind == ShmKind::Memfd;
            let has_room =
                is_memfd && map.topology.node_count() == 1 && !is_address_space_limited();
            // The team's own is one of those in a file.
            let in_file = (largest_segment() / layout.total_bytes()).saturating_sub(1);
            let most = in_file.min(SPARE_BYTES_MAX / layout.total_bytes());
            let spares = spares.min(most as usize);
            NodeSegment::create(kind, of_kind(is_memfd), if has_room { spares } else { 0 })
        },
        attach: |handle: &SegmentHandle| NodeSegment::attach(handle, of_kind(handle.is_memfd())),
        segment: NodeSegment::segment,
    };
    let (segment, (), said) = making.open_with(oob, map.settings.shm, |_| ((), Ok(mine)))?;
    if map.topology.is_leader(map.rank) {
        let stats = map.context.stats();
        stats.segments.add(1);
        stats.segment_bytes.add(segment.layout().total_bytes());
    }
    let layouts = match map.topology.node_count() {
        1 => Layouts::of_one(*segment.layout()),
        _ => layouts,
    };
    Ok((NodeMemory { segment, layouts }, said))
}

/// Whether this rank has read the memory of every other before, in a team that stays on the node: then it reads that
/// of this team's ranks as well, and nobody need ask it.
fn knows_all(map: &Map) -> bool {
    let reached = map.context.reached.lock();
    map.settings.cma
        && map.topology.node_count() == 1
        && map
            .others()
            .all(|peer| reached.contains(&map.processes[peer.index()]))
}

/// Whether this rank can write every other's private memory: by cross-memory attach inside the
/// node (and the host, for loopback rails), by the rails elsewhere. What cannot be registered when it
/// comes to that goes in pieces.
fn reaches_all(map: &Map, said: &[Said]) -> bool {
    let attributes = map.rails.as_ref().map(|rails| rails.fabric.attributes());
    let one_host = map.rails.as_ref().is_some_and(TeamRails::stay_here);
    let inside = map
        .others()
        .filter(|&peer| one_host || map.topology.same_node(peer, map.rank))
        .all(|peer| map.reads(peer, said[peer.index()].probe));
    inside && attributes.is_none_or(Attributes::reaches_private_memory)
}
