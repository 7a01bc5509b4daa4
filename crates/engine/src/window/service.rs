//! What a window leaves to threads of the targets, and the thread of this process.

use super::choose;
use super::placement::Placement;
use super::spec::WindowSpec;
use crate::EngineError;
use crate::agree::agree;
use crate::rails::Rails;
use crate::team::map::TeamRails;
use ferrorail_base::Rank;
use ferrorail_base::config::{ServiceThreads, WindowSettings};
use ferrorail_bootstrap::Oob;
use ferrorail_onesided::lock::{LockAlgorithm, SEATS};
use ferrorail_onesided::window::{self, ServicePlan};
use ferrorail_shm::{WakePipeHandle, WakePipeWriter};
use std::sync::Arc;

/// The thread that serves this process's windows.
pub(crate) type ServiceThread = window::ServiceThread<Rails>;

/// Operands that a service thread takes at a time: as many as all ranks' fit into this, within bounds.
const OPERAND_BUFFERS_BYTES: usize = 1 << 20;
const OPERAND_BYTES_MIN: usize = 4 << 10;
const OPERAND_BYTES_MAX: usize = 64 << 10;

/// What all ranks know of a window's service threads.
pub(super) struct Plan {
    pub lock: LockAlgorithm,
    pub settings: WindowSettings,
    accumulate_from: Option<usize>,
    /// Whether elements of eight bytes are accumulated one at a time.
    pub elements: bool,
    /// Bytes of operands in a room.
    pub operand_bytes: usize,
}

impl Plan {
    pub fn new(placement: &Placement<'_>, specs: &[WindowSpec]) -> Self {
        let memory = specs[0].memory;
        let choice = placement.map.settings.accumulate;
        let rails = placement.rails.map(TeamRails::stay_here);
        let accumulate_from = choose::accumulate_from(choice, memory, rails);
        let asked = specs.iter().all(|spec| spec.elements);
        let own = specs[placement.map.rank.index()].keys;
        let own = own.over(placement.map.settings.windows);
        let share = OPERAND_BUFFERS_BYTES / specs.len() / 64 * 64;
        Self {
            lock: lock_algorithm(placement, specs[0].lock),
            settings: WindowSettings {
                // What this rank's program promises.
                registration: own.registration,
                ..specs[0].keys.over(placement.map.settings.windows)
            },
            accumulate_from,
            elements: choose::by_element(choice, memory, rails.is_some(), asked),
            operand_bytes: match accumulate_from {
                None => 0,
                Some(_) => share.clamp(OPERAND_BYTES_MIN, OPERAND_BYTES_MAX),
            },
        }
    }
}

/// Which lock algorithm: what rank 0 `asked` for, else the fair one, as far as that has room.
fn lock_algorithm(placement: &Placement<'_>, asked: Option<LockAlgorithm>) -> LockAlgorithm {
    let set = || LockAlgorithm::from_name(placement.map.settings.lock.as_deref()?);
    let (asked, ranks) = (asked.or_else(set), placement.topology.size());
    let algorithm = choose::lock_algorithm(asked, ranks);
    if choose::is_too_small(asked, ranks) && placement.map.rank == Rank(0) {
        let name = algorithm.name();
        let line = format!("lock queue serves {SEATS} ranks at most: {name} it is");
        placement.map.context.warn_once([line]);
    }
    algorithm
}

/// Starts this process's service thread if the window needs one, and finds out how to wake others'. This rank's
/// operand buffers are at `operand_buffers` in its segment. Collective.
pub(super) fn start_service(
    oob: &mut dyn Oob,
    placement: &Placement<'_>,
    plan: &Plan,
    operand_buffers: usize,
) -> Result<Option<(Arc<ServiceThread>, ServicePlan)>, EngineError> {
    if !plan.lock.is_served() && plan.accumulate_from.is_none() {
        return Ok(None);
    }
    let context = &placement.map.context;
    // Who sleeps is woken for all windows; only who looks all the time is slower for each more.
    let own = plan.lock == LockAlgorithm::Thread
        && plan.settings.service_threads == ServiceThreads::Window;
    let service_thread = match own {
        true => context.own_service_thread(),
        false => context.service_thread(),
    };
    let wake_pipe = match &service_thread {
        Ok(service_thread) => {
            let listens = placement
                .rails
                .is_some_and(|rails| service_thread.listen(&rails.fabric));
            Ok((service_thread.wake_pipe().to_wire().to_vec(), listens))
        }
        Err(error) => Err(error.to_string()),
    };
    let wake_descriptors = agree(oob, "starting the thread of a window", wake_pipe)?;
    let service_thread =
        service_thread.map_err(|error| EngineError::Internal(error.to_string()))?;
    let host = placement.map.processes[placement.map.rank.index()].host;
    // Where rails lead to this host only, they wake nobody: a pipe does.
    let loops = placement.rails.is_some_and(TeamRails::stay_here);
    let by_pipe = |rank: Rank| {
        placement.map.processes[rank.index()].host == host && (placement.is_mapped(rank) || loops)
    };
    let open = |rank: Rank| {
        let handle = WakePipeHandle::from_wire(&wake_descriptors[rank.index()].0)?;
        let opened = WakePipeWriter::open(&handle);
        opened
            .inspect_err(|error| tracing::debug!("rank {} cannot be woken: {error}", rank.0))
            .ok()
    };
    let wakers = placement
        .ranks()
        .map(|rank| by_pipe(rank).then(|| open(rank))?);
    let service_plan = ServicePlan {
        accumulate_from: plan.accumulate_from,
        operand_bytes: plan.operand_bytes,
        operand_buffers,
        wakers: wakers.collect(),
        listeners: wake_descriptors.iter().map(|rank| rank.1).collect(),
    };
    Ok(Some((service_thread, service_plan)))
}
