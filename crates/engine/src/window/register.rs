//! Registering a window's memory on rails, and probing who reaches it inside the node.

use super::create::WindowSpec;
use super::ground::Ground;
use super::memory::{Memory, Share};
use crate::EngineError;
use crate::agree::agree;
use crate::segment;
use crate::team::map::TeamRails;
use ferrorail_base::Rank;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::{Fabric, LocalRegion};
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
    /// What all ranks say of theirs.
    pub descriptions: Vec<Description>,
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

/// Registers the segment and memory of the program on the rails, and finds out whether ranks of a
/// node reach each other's memory.
///
/// # Safety
/// As [`super::Window::create`]; the segment outlives what is returned.
pub(super) unsafe fn register<'a>(
    oob: &mut dyn Oob,
    ground: &Ground<'a>,
    segment: &Segment,
    spec: &WindowSpec,
    shares: &[Share],
) -> Result<Registered<'a>, EngineError> {
    let mut registered = Registered {
        rails: ground.rails,
        segment: None,
        memory: None,
        descriptions: Vec::new(),
    };
    // SAFETY: the caller's contract.
    let outcome = unsafe { register_here(&mut registered, segment, spec) };
    if ground.map.settings.cma {
        ferrorail_shm::cma_allow();
    }
    let word = AtomicU64::new(0x7769_6e64_6f77_0000 ^ u64::from(ground.map.rank.0));
    let probe = (&raw const word as u64, word.load(Ordering::Relaxed));
    let describe = |region: &Option<LocalRegion>| {
        let rails = registered.rails?;
        region.as_ref().map(|region| rails.fabric.describe(region))
    };
    let mine = outcome.map(|()| Description {
        segment: describe(&registered.segment).unwrap_or_default(),
        memory: describe(&registered.memory),
        probe,
    });
    registered.descriptions = agree(oob, "registering a window", mine)?;
    let unreached = match spec.memory {
        Memory::Create { .. } | Memory::Dynamic => {
            unreached(ground, spec.memory, shares, &registered.descriptions)
        }
        _ => None,
    };
    let reached = match unreached {
        None => Ok(()),
        Some(rank) => Err(format!(
            "the memory of rank {rank} is out of reach: cross-memory attach does not work \
             (FERRORAIL_CMA, ptrace_scope or a container's seccomp profile)"
        )),
    };
    agree(oob, "probing a window's memory", reached)?;
    // The probed word lived until every rank had answered.
    word.store(0, Ordering::Relaxed);
    Ok(registered)
}

/// # Safety
/// As [`register`].
unsafe fn register_here(
    registered: &mut Registered<'_>,
    segment: &Segment,
    spec: &WindowSpec,
) -> Result<(), String> {
    let Some(rails) = registered.rails else {
        return Ok(());
    };
    let say = |error: ferrorail_fabric::FabricError| error.to_string();
    // SAFETY: the caller's contract.
    let region = unsafe { segment::register(&rails.fabric, segment) };
    registered.segment = Some(region.map_err(say)?);
    if let Memory::Create { address } = spec.memory
        && spec.bytes > 0
    {
        // SAFETY: as above.
        let region = unsafe {
            rails
                .fabric
                .register(address as *mut u8, spec.bytes as usize, None)
        };
        registered.memory = Some(region.map_err(say)?);
    }
    Ok(())
}

/// The first rank of this node whose memory this one cannot reach.
fn unreached(
    ground: &Ground<'_>,
    memory: Memory,
    shares: &[Share],
    descriptions: &[Description],
) -> Option<Rank> {
    let local = ground.topology.ranks_of(ground.node).iter().copied();
    local
        .filter(|&rank| rank != ground.map.rank)
        .filter(|&rank| memory == Memory::Dynamic || shares[rank.index()].bytes > 0)
        .find(|&rank| !ground.map.reads(rank, descriptions[rank.index()].probe))
}
