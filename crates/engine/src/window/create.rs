//! Making a window: every step is agreed on before the next, so that all ranks succeed or all fail.
//!
//! All ranks connect to all others here, because a passive target takes no part in anything later.

use super::choose::{self, Way};
use super::link::{Links, link, peers_by_rail};
use super::memory::{Geometry, Share};
use super::placement::Placement;
use super::process_context::Processes;
use super::register::{Description, Probe, Registered, is_probed, reaches, register};
use super::service::{LocalService, Plan, ServedWindow, start_service};
use super::spec::{Memory, WindowSpec};
use super::{OneSided, Window};
use crate::agree::agree;
use crate::segment::Making;
use crate::team::Team;
use crate::{EngineError, Rails};
use ferrorail_base::{PeerId, RailId, Rank};
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::stripe::RailWeights;
use ferrorail_fabric::{Endpoint, FabricError};
use ferrorail_onesided::window::{self, Link, Parts, Target, WindowRails};
use ferrorail_shm::{Cma, Segment};

/// # Safety
/// As [`Window::create`].
pub(super) unsafe fn create(team: &Team, spec: WindowSpec) -> Result<Window, EngineError> {
    let mut state = team.enter()?;
    let map = &team.map;
    let placement = Placement::new(map, spec.memory)?;
    let address = match spec.memory {
        Memory::Create { address } => address as u64,
        _ => 0,
    };
    let share = Share {
        bytes: spec.bytes,
        unit: spec.unit,
        address,
        lock: spec.lock.map(|lock| lock as u8),
        elements: spec.elements,
        keys: spec.keys,
    };
    let atomics = placement
        .rails
        .map(|rails| rails.fabric.attributes().atomics);
    let atomics = choose::atomics(map.settings.atomics, atomics);
    let mine = atomics.map(|_| share).map_err(str::to_owned);
    let shares = agree(state.oob(), "collecting window sizes", mine)?;
    let atomics = atomics.ok().flatten();
    let plan = Plan::new(&placement, spec.memory, &shares);
    let geometry = Geometry::new(
        &placement.topology,
        placement.rails.is_some(),
        spec.memory,
        &shares,
        plan.operand_bytes,
    )
    .ok_or_else(|| map.refused("laying out the window", "it is too large"))?;
    let service = start_service(state.oob(), &placement, &plan)?;
    let bytes = geometry.bytes[placement.node.index()];
    let making = Making {
        leader: placement.topology.leader_of(placement.node),
        acts: [
            "creating a window's segment",
            "attaching and registering a window's segment",
        ],
        create: |kind| Segment::create(kind, bytes),
        attach: Segment::attach,
        segment: |segment| segment,
    };
    let probe = Probe::new(&placement);
    let register = |segment: &Segment| {
        // SAFETY: the caller keeps memory that it brings; the segment is kept beside its registration.
        unsafe { register(&placement, segment, &spec, &probe) }
    };
    let (segment, registered, descriptions) =
        making.open_with(state.oob(), map.settings.shm, register)?;
    let reached = reaches(&placement, spec.memory, &shares, &descriptions);
    let by_rail = peers_by_rail(&placement, atomics);
    let links = match placement.rails.is_some() || is_probed(&placement, spec.memory) {
        true => link(&mut state, &placement, (&by_rail.0, by_rail.1), reached)?,
        false => (Vec::new(), RailId(0)),
    };
    probe.end();
    finish(
        state.oob(),
        &placement,
        segment,
        spec,
        shares,
        &geometry,
        (registered, &descriptions, links),
        (plan, service),
    )
}

fn finish(
    oob: &mut dyn Oob,
    placement: &Placement<'_>,
    segment: Segment,
    spec: WindowSpec,
    shares: Vec<Share>,
    geometry: &Geometry,
    (mut registered, descriptions, (links, words)): (Registered<'_>, &[Description], Links),
    (plan, service): (Plan, Option<LocalService>),
) -> Result<Window, EngineError> {
    let mut targets: Vec<Target> = placement
        .ranks()
        .map(|rank| mapped(placement, rank, spec.memory, &shares, geometry, &segment))
        .collect();
    for (target, offset) in targets.iter_mut().zip(&geometry.offsets) {
        target.elements = plan.elements.then_some(*offset);
    }
    let (rails, imported) = reach(
        placement,
        (&mut registered, descriptions),
        (&links, words),
        geometry,
        &mut targets,
    );
    if placement.rails.is_some() {
        agree(oob, "importing a window's memory", imported)?;
    }
    let local = |rank: Rank| match targets[rank.index()].memory {
        window::Memory::Mapped(address) => Some(address),
        _ => None,
    };
    let mapped: Vec<Option<usize>> = placement.ranks().map(local).collect();
    let base = match spec.memory {
        Memory::Create { address } => address,
        _ => mapped[placement.map.rank.index()].unwrap_or(0),
    };
    tracing::debug!(
        ranks = targets.len(),
        rails = rails.is_some(),
        "window made"
    );
    let operand_buffers = geometry.operand_buffers(&placement.topology, placement.map.rank);
    let served = service.map(|service| plan.service_plan(operand_buffers, service));
    let (service_thread, service_plan) = served.unzip();
    Ok(Window {
        context: placement.map.context.clone(),
        onesided: ServedWindow::new(
            OneSided::new(Parts {
                rank: placement.map.rank,
                control: geometry.control(&placement.topology, placement.map.rank),
                segment,
                layout: geometry.layouts[placement.node.index()],
                targets,
                rails,
                lock: plan.lock,
                settings: plan.settings,
                service_plan,
                process_context: Box::new(Processes::of(placement.map)),
            }),
            service_thread,
        ),
        spec,
        base,
        mapped,
    })
}

/// Imports the memory of all `links`, and completes what is known of those `targets`.
fn reach(
    placement: &Placement<'_>,
    (registered, descriptions): (&mut Registered<'_>, &[Description]),
    (links, words): (&[(Rank, PeerId, RailWeights)], RailId),
    geometry: &Geometry,
    targets: &mut [Target],
) -> (Option<WindowRails<Rails>>, Result<(), String>) {
    let (Some(used), Some(segment)) = (registered.rails, registered.segment.take()) else {
        return (None, Ok(()));
    };
    let mut weights_by_rank = vec![RailWeights::equal(used.local.len()); targets.len()];
    for (rank, _, rail_weights) in links {
        weights_by_rank[rank.index()] = *rail_weights;
    }
    let staged = geometry.layouts[placement.node.index()].staged(placement.node_rank.0);
    let (fabric, local) = (used.fabric.clone(), used.local.clone());
    let memory = registered.memory.take();
    let mut rails = WindowRails::new(
        fabric,
        local,
        words,
        used.planner,
        segment,
        memory,
        staged,
        weights_by_rank,
    );
    let dynamic = geometry.layouts[placement.node.index()].dynamic;
    let mut outcome = Ok(());
    for &(rank, peer, _) in links {
        let described = &descriptions[rank.index()];
        let place = Place {
            control: geometry.control(&placement.topology, rank),
            operand_buffers: geometry.operand_buffers(&placement.topology, rank),
            memory: geometry.offsets[rank.index()],
        };
        let target = &mut targets[rank.index()];
        if let Err(error) = import(&mut rails, rank, peer, described, target, place, dynamic) {
            outcome = Err(error.to_string());
        }
    }
    (Some(rails), outcome)
}

/// A rank as its node sees it; of others, what is not known yet is left open.
fn mapped(
    placement: &Placement<'_>,
    rank: Rank,
    memory: Memory,
    shares: &[Share],
    geometry: &Geometry,
    segment: &Segment,
) -> Target {
    let share = &shares[rank.index()];
    let same_node = placement.is_mapped(rank);
    let reach = match Way::of(memory, placement.locality(rank)) {
        Way::Mapped if memory.is_allocated() => {
            window::Memory::Mapped(segment.range().address + geometry.offsets[rank.index()])
        }
        Way::Mapped => window::Memory::Mapped(share.address as usize),
        Way::Attach => window::Memory::Attach {
            process: Cma::of(placement.map.processes[rank.index()]),
            address: share.address,
        },
        Way::Rails | Way::Attached => window::Memory::Mapped(0),
    };
    Target {
        bytes: share.bytes,
        unit: share.unit,
        memory: reach,
        control: same_node.then(|| geometry.control(&placement.topology, rank)),
        link: None,
        elements: None,
    }
}

/// What belongs to a rank in the segment of its node, as offsets.
struct Place {
    control: usize,
    operand_buffers: usize,
    memory: usize,
}

/// Imports what `rank` registered.
fn import(
    rails: &mut WindowRails<Rails>,
    rank: Rank,
    peer: PeerId,
    described: &Description,
    target: &mut Target,
    place: Place,
    dynamic: bool,
) -> Result<(), FabricError> {
    let fabric = rails.fabric().clone();
    let segment = fabric.import(peer, &described.segment)?;
    let link = Link {
        peer,
        segment,
        control: place.control,
        operand_buffers: place.operand_buffers,
    };
    let far = target.control.is_none();
    let memory = match &described.memory {
        Some(memory) if far => match fabric.import(peer, memory) {
            Ok(memory) => Some(memory),
            Err(error) => {
                fabric.release(peer, segment);
                return Err(error);
            }
        },
        _ => None,
    };
    rails.link(rank, link, memory);
    target.link = Some(link);
    if far {
        target.memory = match memory {
            _ if dynamic => window::Memory::Attached,
            Some(region) => window::Memory::Rails { region, offset: 0 },
            None => window::Memory::Rails {
                region: segment,
                offset: place.memory,
            },
        };
    }
    Ok(())
}
