//! Making a window: every step is agreed on before the next, so that all ranks succeed or all fail.
//!
//! All ranks connect to all others here, because a passive target takes no part in anything later.

use super::attended::{Attendance, Attended, Plan, attend};
use super::choose::{self, Way};
use super::ground::{Ground, refused};
use super::link::{Links, link, peers_by_rail};
use super::memory::{Memory, Placement, Share};
use super::register::{Description, Probe, Registered, is_probed, reaches, register};
use super::surroundings::Processes;
use super::{OneSided, Window};
use crate::agree::agree;
use crate::segment::Making;
use crate::team::Team;
use crate::{EngineError, Rails};
use ferrorail_base::config::WindowKeys;
use ferrorail_base::{PeerId, RailId, Rank};
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::stripe::Balance;
use ferrorail_fabric::{Fabric, FabricError};
use ferrorail_onesided::lock::LockAlgorithm;
use ferrorail_onesided::window::{self, Link, Parts, Target, WindowRails};
use ferrorail_shm::{Cma, Segment};

/// What a window shall be. Ranks may differ in all but the kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpec {
    /// The memory.
    pub memory: Memory,
    /// Its length here, in bytes.
    pub bytes: u64,
    /// Bytes by which displacements count here.
    pub unit: u64,
    /// The lock algorithm, instead of that of `FERRORAIL_LOCK`; rank 0's counts.
    pub lock: Option<LockAlgorithm>,
    /// Whether the program wants elements of up to eight bytes accumulated one at a time
    /// (`mpi_accumulate_granularity`); done if all ranks do.
    pub elements: bool,
    /// Settings of this window alone; rank 0's count.
    pub keys: WindowKeys,
}

/// # Safety
/// As [`Window::create`].
pub(super) unsafe fn create(team: &Team, spec: WindowSpec) -> Result<Window, EngineError> {
    let mut state = team.enter()?;
    let map = &team.map;
    let ground = Ground::new(map, spec.memory)?;
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
    let atomics = ground
        .rails
        .map(|rails| rails.fabric.capabilities().atomics);
    let atomics = choose::atomics(map.settings.atomics(), atomics);
    let mine = atomics.map(|_| share).map_err(str::to_owned);
    let shares = agree(state.oob(), "collecting window sizes", mine)?;
    let atomics = atomics.ok().flatten();
    let plan = Plan::new(&ground, spec.memory, &shares);
    let placement = Placement::new(
        &ground.topology,
        ground.rails.is_some(),
        spec.memory,
        &shares,
        plan.operand_bytes,
    )
    .ok_or_else(|| refused(map, "laying out the window", "it is too large"))?;
    let attendance = attend(state.oob(), &ground, &plan)?;
    let bytes = placement.bytes[ground.node.index()];
    let making = Making {
        leader: ground.topology.leader_of(ground.node),
        acts: [
            "creating a window's segment",
            "attaching and registering a window's segment",
        ],
        create: |kind| Segment::create(kind, bytes),
        attach: Segment::attach,
        segment: |segment| segment,
    };
    let probe = Probe::new(&ground);
    let register = |segment: &Segment| {
        // SAFETY: the caller keeps memory that it brings; the segment is kept beside its registration.
        unsafe { register(&ground, segment, &spec, &probe) }
    };
    let (segment, registered, descriptions) =
        making.open_with(state.oob(), map.settings.shm(), register)?;
    let reached = reaches(&ground, spec.memory, &shares, &descriptions);
    let by_rail = peers_by_rail(&ground, atomics);
    let links = match ground.rails.is_some() || is_probed(&ground, spec.memory) {
        true => link(&mut state, &ground, (&by_rail.0, by_rail.1), reached)?,
        false => (Vec::new(), RailId(0)),
    };
    probe.end();
    finish(
        state.oob(),
        &ground,
        segment,
        spec,
        shares,
        &placement,
        (registered, &descriptions, links),
        (plan, attendance),
    )
}

fn finish(
    oob: &mut dyn Oob,
    ground: &Ground<'_>,
    segment: Segment,
    spec: WindowSpec,
    shares: Vec<Share>,
    placement: &Placement,
    (mut registered, descriptions, (links, words)): (Registered<'_>, &[Description], Links),
    (plan, attendance): (Plan, Option<Attendance>),
) -> Result<Window, EngineError> {
    let mut targets: Vec<Target> = ground
        .ranks()
        .map(|rank| near(ground, rank, spec.memory, &shares, placement, &segment))
        .collect();
    for (target, offset) in targets.iter_mut().zip(&placement.offsets) {
        target.elements = plan.elements.then_some(*offset);
    }
    let (rails, imported) = reach(
        ground,
        (&mut registered, descriptions),
        (&links, words),
        placement,
        &mut targets,
    );
    if ground.rails.is_some() {
        agree(oob, "importing a window's memory", imported)?;
    }
    let local = |rank: Rank| match targets[rank.index()].memory {
        window::Memory::Mapped(address) => Some(address),
        _ => None,
    };
    let mapped: Vec<Option<usize>> = ground.ranks().map(local).collect();
    let base = match spec.memory {
        Memory::Create { address } => address,
        _ => mapped[ground.map.rank.index()].unwrap_or(0),
    };
    tracing::debug!(
        ranks = targets.len(),
        rails = rails.is_some(),
        "window made"
    );
    let rooms = placement.rooms(&ground.topology, ground.map.rank);
    let attended = attendance.map(|attendance| plan.handling(rooms, attendance));
    let (handler, handling) = attended.unzip();
    Ok(Window {
        context: ground.map.context.clone(),
        onesided: Attended::new(
            OneSided::new(Parts {
                rank: ground.map.rank,
                control: placement.control(&ground.topology, ground.map.rank),
                segment,
                layout: placement.layouts[ground.node.index()],
                targets,
                rails,
                lock: plan.lock,
                settings: plan.settings,
                handling,
                surroundings: Box::new(Processes::of(ground.map)),
            }),
            handler,
        ),
        spec,
        base,
        mapped,
    })
}

/// Imports the memory of all `links`, and completes what is known of those `targets`.
fn reach(
    ground: &Ground<'_>,
    (registered, descriptions): (&mut Registered<'_>, &[Description]),
    (links, words): (&[(Rank, PeerId, Balance)], RailId),
    placement: &Placement,
    targets: &mut [Target],
) -> (Option<WindowRails<Rails>>, Result<(), String>) {
    let (Some(used), Some(segment)) = (registered.rails, registered.segment.take()) else {
        return (None, Ok(()));
    };
    let mut balances = vec![Balance::equal(used.local.len()); targets.len()];
    for (rank, _, balance) in links {
        balances[rank.index()] = *balance;
    }
    let bounce = placement.layouts[ground.node.index()].bounce(ground.node_rank.0);
    let (fabric, local) = (used.fabric.clone(), used.local.clone());
    let memory = registered.memory.take();
    let mut rails = WindowRails::new(
        fabric,
        local,
        words,
        used.planner,
        segment,
        memory,
        bounce,
        balances,
    );
    let dynamic = placement.layouts[ground.node.index()].dynamic;
    let mut outcome = Ok(());
    for &(rank, peer, _) in links {
        let described = &descriptions[rank.index()];
        let place = Place {
            control: placement.control(&ground.topology, rank),
            rooms: placement.rooms(&ground.topology, rank),
            memory: placement.offsets[rank.index()],
        };
        let target = &mut targets[rank.index()];
        if let Err(error) = import(&mut rails, rank, peer, described, target, place, dynamic) {
            outcome = Err(error.to_string());
        }
    }
    (Some(rails), outcome)
}

/// A rank as its node sees it; of others, what is not known yet is left open.
fn near(
    ground: &Ground<'_>,
    rank: Rank,
    memory: Memory,
    shares: &[Share],
    placement: &Placement,
    segment: &Segment,
) -> Target {
    let share = &shares[rank.index()];
    let same_node = ground.is_near(rank);
    let reach = match Way::of(memory, ground.whereabouts(rank)) {
        Way::Mapped if memory.is_allocated() => {
            window::Memory::Mapped(segment.range().address + placement.offsets[rank.index()])
        }
        Way::Mapped => window::Memory::Mapped(share.address as usize),
        Way::Attach => window::Memory::Attach {
            process: Cma::of(ground.map.processes[rank.index()]),
            address: share.address,
        },
        Way::Rails | Way::Attached => window::Memory::Mapped(0),
    };
    Target {
        bytes: share.bytes,
        unit: share.unit,
        memory: reach,
        control: same_node.then(|| placement.control(&ground.topology, rank)),
        link: None,
        elements: None,
    }
}

/// What belongs to a rank in the segment of its node, as offsets.
struct Place {
    control: usize,
    rooms: usize,
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
        rooms: place.rooms,
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
