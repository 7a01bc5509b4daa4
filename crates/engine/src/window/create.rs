//! Making a window: every step is agreed on before the next, so that all ranks succeed or all fail.
//!
//! All ranks connect to all others here, because a passive target takes no part in anything later.

use super::choose::{self, Way};
use super::link::{Links, link};
use super::memory::Geometry;
use super::placement::Placement;
use super::process_context::Processes;
use super::register::{Description, Registered, is_probed, reaches, register};
use super::service::{Plan, ServiceThread, start_service};
use super::spec::{Memory, WindowSpec};
use super::{OneSided, Window};
use crate::agree::agree;
use crate::segment::Making;
use crate::team::Team;
use crate::team::map::Probe;
use crate::{EngineError, Rails};
use ferrorail_base::{PeerId, RailId, Rank};
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::stripe::RailWeights;
use ferrorail_fabric::{Endpoint, FabricError};
use ferrorail_onesided::window::{self, Link, Parts, ServicePlan, Target, WindowRails};
use ferrorail_shm::{Cma, Segment};
use std::sync::Arc;

/// # Safety
/// As [`Window::create`].
pub(super) unsafe fn create(team: &Team, spec: WindowSpec) -> Result<Window, EngineError> {
    let mut state = team.enter()?;
    let map = &team.map;
    let placement = Placement::new(map, spec.memory)?;
    let atomics = placement
        .rails
        .map(|rails| rails.fabric.attributes().atomics);
    let atomics = choose::atomics(map.settings.atomics, atomics);
    let mine = atomics.map(|_| spec).map_err(str::to_owned);
    let specs = agree(state.oob(), "collecting window sizes", mine)?;
    let atomics = atomics.ok().flatten();
    let plan = Plan::new(&placement, &specs);
    let geometry = Geometry::new(
        &placement.topology,
        placement.rails.is_some(),
        &specs,
        plan.operand_bytes,
    )
    .ok_or_else(|| map.refused("laying out the window", "it is too large"))?;
    let operand_buffers = geometry.places[map.rank.index()].operand_buffers;
    let service = start_service(state.oob(), &placement, &plan, operand_buffers)?;
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
    let probe = Probe::new(map);
    let register = |segment: &Segment| {
        // SAFETY: the caller keeps memory that it brings; the segment is kept beside its registration.
        unsafe { register(&placement, segment, &spec, &probe) }
    };
    let (segment, registered, descriptions) =
        making.open_with(state.oob(), map.settings.shm, register)?;
    let reached = reaches(&placement, &specs, &descriptions);
    let links = match placement.rails.is_some() || is_probed(&placement, spec.memory) {
        true => link(&mut state, &placement, atomics, reached)?,
        false => (Vec::new(), RailId(0)),
    };
    probe.end();
    let design = Design {
        placement,
        spec,
        specs,
        plan,
        geometry,
    };
    design.finish(
        state.oob(),
        segment,
        (registered, descriptions, links),
        service,
    )
}

/// What all ranks have agreed on.
struct Design<'a> {
    placement: Placement<'a>,
    /// This rank's.
    spec: WindowSpec,
    /// What each rank asked for.
    specs: Vec<WindowSpec>,
    plan: Plan,
    geometry: Geometry,
}

impl Design<'_> {
    fn finish(
        self,
        oob: &mut dyn Oob,
        segment: Segment,
        (registered, descriptions, links): (Registered<'_>, Vec<Description>, Links),
        service: Option<(Arc<ServiceThread>, ServicePlan)>,
    ) -> Result<Window, EngineError> {
        let (placement, rank) = (&self.placement, self.placement.map.rank);
        let mut targets: Vec<Target> = placement
            .ranks()
            .map(|rank| self.target(rank, &segment))
            .collect();
        let (rails, imported) = self.reach(registered, &descriptions, links, &mut targets);
        if placement.rails.is_some() {
            agree(oob, "importing a window's memory", imported)?;
        }
        let local = |target: &Target| match target.memory {
            window::Memory::Mapped(address) => Some(address),
            _ => None,
        };
        let mapped: Vec<Option<usize>> = targets.iter().map(local).collect();
        let base = match self.spec.memory {
            Memory::Create { address } => address,
            _ => mapped[rank.index()].unwrap_or(0),
        };
        tracing::debug!(
            ranks = targets.len(),
            rails = rails.is_some(),
            "window made"
        );
        let (service_thread, service_plan) = service.unzip();
        let onesided = OneSided::new(Parts {
            rank,
            control: self.geometry.places[rank.index()].control,
            segment,
            layout: self.geometry.layouts[placement.node.index()],
            targets,
            rails,
            lock: self.plan.lock,
            settings: self.plan.settings,
            threads: self.spec.threads,
            service_plan,
            process_context: Box::new(Processes::of(placement.map)),
        });
        if let Some(service_thread) = &service_thread {
            service_thread.add(onesided.clone());
        }
        let context = placement.map.context.clone();
        if onesided.may_be_offered() {
            context.look_for_offers(onesided.clone());
        }
        Ok(Window {
            context,
            onesided,
            service_thread,
            spec: self.spec,
            base,
            mapped,
        })
    }

    /// A rank as its node sees it; of others, what is not known yet is left open.
    fn target(&self, rank: Rank, segment: &Segment) -> Target {
        let (placement, spec) = (&self.placement, &self.specs[rank.index()]);
        let place = self.geometry.places[rank.index()];
        let memory = match Way::of(spec.memory, placement.locality(rank)) {
            Way::Mapped if spec.memory.is_allocated() => {
                window::Memory::Mapped(segment.range().address + place.memory)
            }
            Way::Mapped => window::Memory::Mapped(spec.memory.address()),
            Way::Attach => window::Memory::Attach {
                process: Cma::of(placement.map.processes[rank.index()]),
                address: spec.memory.address() as u64,
            },
            Way::Rails | Way::Attached => window::Memory::Mapped(0),
        };
        Target {
            bytes: spec.bytes,
            unit: spec.unit,
            memory,
            control: placement.is_mapped(rank).then_some(place.control),
            link: None,
            elements: self.plan.elements.then_some(place.memory),
        }
    }

    /// Imports the memory of all `links`, and completes what is known of those `targets`.
    fn reach(
        &self,
        mut registered: Registered<'_>,
        descriptions: &[Description],
        (links, words): Links,
        targets: &mut [Target],
    ) -> (Option<WindowRails<Rails>>, Result<(), String>) {
        let (Some(used), Some(segment)) = (registered.rails, registered.segment.take()) else {
            return (None, Ok(()));
        };
        let mut weights_by_rank = vec![RailWeights::equal(used.local.len()); targets.len()];
        for (rank, _, rail_weights) in &links {
            weights_by_rank[rank.index()] = *rail_weights;
        }
        let layout = &self.geometry.layouts[self.placement.node.index()];
        let mut rails = WindowRails::new(
            used.fabric.clone(),
            used.local.clone(),
            words,
            used.planner,
            segment,
            registered.memory.take(),
            layout.staged(self.placement.node_rank.0),
            weights_by_rank,
        );
        let mut outcome = Ok(());
        for (rank, peer, _) in links {
            let (described, target) = (&descriptions[rank.index()], &mut targets[rank.index()]);
            if let Err(error) = self.import(&mut rails, (rank, peer), described, target) {
                outcome = Err(error.to_string());
            }
        }
        (Some(rails), outcome)
    }

    /// Imports what `rank` registered.
    fn import(
        &self,
        rails: &mut WindowRails<Rails>,
        (rank, peer): (Rank, PeerId),
        described: &Description,
        target: &mut Target,
    ) -> Result<(), FabricError> {
        let place = self.geometry.places[rank.index()];
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
                _ if self.spec.memory == Memory::Dynamic => window::Memory::Attached,
                Some(region) => window::Memory::Rails { region, offset: 0 },
                None => window::Memory::Rails {
                    region: segment,
                    offset: place.memory,
                },
            };
        }
        Ok(())
    }
}
