//! Registering a window's memory on rails, and probing who reaches it inside the node.

use super::placement::Placement;
use super::spec::{Memory, WindowSpec};
use crate::segment;
use crate::team::map::{Probe, TeamRails};
use ferrorail_base::{NodeId, Rank};
use ferrorail_fabric::{Endpoint, FabricError, LocalRegion};
use ferrorail_shm::Segment;
use serde::{Deserialize, Serialize};

/// What ranks tell each other of registered memory.
#[derive(Serialize, Deserialize)]
pub(super) struct Description {
    pub segment: Vec<u8>,
    pub memory: Option<Vec<u8>>,
    /// A word of the process's own, and what it holds.
    probe: (u64, u64),
}

/// Registrations of this rank, given back unless a window takes them over.
pub(super) struct Registered<'a> {
    pub rails: Option<&'a TeamRails>,
    pub segment: Option<LocalRegion>,
    pub memory: Option<LocalRegion>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        for region in [self.memory.take(), self.segment.take()]
            .into_iter()
            .flatten()
        {
            if let Some(rails) = self.rails {
                rails.fabric.deregister(region);
            }
        }
    }
}

/// Registers the segment and memory of the program on the rails. What is kept, and what all others are to
/// know of it.
///
/// # Safety
/// As [`super::Window::create`]; the segment outlives what is returned.
pub(super) unsafe fn register<'a>(
    placement: &Placement<'a>,
    segment: &Segment,
    spec: &WindowSpec,
    probe: &Probe,
) -> (Registered<'a>, Result<Description, String>) {
    let mut registered = Registered {
        rails: placement.rails,
        segment: None,
        memory: None,
    };
    let mut register_all = || -> Result<(), FabricError> {
        let Some(rails) = placement.rails else {
            return Ok(());
        };
        // SAFETY: the caller's contract.
        let region = unsafe { segment::register(&rails.fabric, segment, segment.bytes()) }?;
        registered.segment = Some(region);
        if let Memory::Create { address } = spec.memory
            && spec.bytes > 0
        {
            let bytes = spec.bytes as usize;
            // SAFETY: as above.
            let region = unsafe { rails.fabric.register(address as *mut u8, bytes, None) }?;
            registered.memory = Some(region);
        }
        Ok(())
    };
    let outcome = register_all().map_err(|error| error.to_string());
    let describe = |region: &Option<LocalRegion>| Some(region.as_ref()?.description.clone());
    let mine = outcome.map(|()| Description {
        segment: describe(&registered.segment).unwrap_or_default(),
        memory: describe(&registered.memory),
        probe: probe.description(),
    });
    (registered, mine)
}

/// Whether ranks must find out if they reach each other's memory: that of programs, of ranks of a node.
/// The same on all ranks.
pub(super) fn is_probed(placement: &Placement<'_>, memory: Memory) -> bool {
    let several = |node| placement.topology.ranks_of(NodeId(node)).len() > 1;
    !memory.is_allocated() && (0..placement.topology.node_count()).any(several)
}

/// Finds out whether this rank reaches the memory of those of its node, and of all where rails copy it too: what
/// programs attach later is not tried before an operation needs it.
pub(super) fn reaches(
    placement: &Placement<'_>,
    specs: &[WindowSpec],
    descriptions: &[Description],
) -> Result<(), String> {
    if specs[0].memory.is_allocated() {
        return Ok(());
    }
    let own = placement.map.rank;
    let is_dynamic = specs[own.index()].memory == Memory::Dynamic;
    // Ranks without memory leave operations to those with some, which then read what they left.
    if !is_dynamic && specs.iter().all(|spec| spec.bytes == 0) {
        return Ok(());
    }
    let is_out_of_reach = |&rank: &Rank| {
        let probe = descriptions[rank.index()].probe;
        rank != own && !placement.map.reads(rank, probe)
    };
    let copies = placement.rails.is_some_and(TeamRails::stay_here);
    let mut near = placement
        .ranks()
        .filter(|&rank| copies || placement.topology.same_node(rank, own));
    match near.find(is_out_of_reach) {
        None => Ok(()),
        Some(rank) => Err(format!(
            "the memory of rank {rank} is out of reach: cross-memory attach does not work \
             (FERRORAIL_CMA, ptrace_scope or a container's seccomp profile)"
        )),
    }
}
