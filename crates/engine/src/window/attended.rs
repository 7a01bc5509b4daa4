//! What a window leaves to threads of the targets, and the thread of this process.

use super::OneSided;
use super::choose;
use super::ground::Ground;
use super::memory::{Memory, Share};
use crate::EngineError;
use crate::agree::agree;
use crate::rails::Rails;
use crate::team::map::TeamRails;
use ferrorail_base::Rank;
use ferrorail_base::config::{Handlers, WindowSettings};
use ferrorail_bootstrap::Oob;
use ferrorail_onesided::lock::{LockAlgorithm, SEATS};
use ferrorail_onesided::window::{self, Handling};
use ferrorail_shm::{AlarmHandle, Ringer};
use std::ops::Deref;
use std::sync::Arc;

/// The thread that serves this process's windows.
pub(crate) type Handler = window::Handler<Rails>;

/// Operands that a handler takes at a time: as many as all ranks' fit into this, within bounds.
const ROOMS_BYTES: usize = 1 << 20;
const OPERAND_BYTES_MIN: usize = 4 << 10;
const OPERAND_BYTES_MAX: usize = 64 << 10;

/// What all ranks know of a window's handlers.
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
    pub fn new(ground: &Ground<'_>, memory: Memory, shares: &[Share]) -> Self {
        let choice = ground.map.settings.accumulate();
        let rails = ground.rails.map(TeamRails::stay_here);
        let accumulate_from = choose::accumulate_from(choice, memory, rails);
        let asked = shares.iter().all(|share| share.elements);
        let own = shares[ground.map.rank.index()].keys;
        let own = own.over(ground.map.settings.windows);
        let share = ROOMS_BYTES / shares.len() / 64 * 64;
        Self {
            lock: lock_algorithm(ground, shares),
            settings: WindowSettings {
                // What this rank's program promises.
                registration: own.registration,
                ..shares[0].keys.over(ground.map.settings.windows)
            },
            accumulate_from,
            elements: choose::by_element(choice, memory, rails.is_some(), asked),
            operand_bytes: match accumulate_from {
                None => 0,
                Some(_) => share.clamp(OPERAND_BYTES_MIN, OPERAND_BYTES_MAX),
            },
        }
    }

    /// What a rank whose rooms are at `rooms` in its segment makes of it.
    pub fn handling(&self, rooms: usize, attendance: Attendance) -> (Arc<Handler>, Handling) {
        let handling = Handling {
            accumulate_from: self.accumulate_from,
            operand_bytes: self.operand_bytes,
            rooms,
            ringers: attendance.ringers,
            listeners: attendance.listeners,
        };
        (attendance.handler, handling)
    }
}

/// Which lock algorithm: what rank 0 says, else the fair one, as far as that has room.
fn lock_algorithm(ground: &Ground<'_>, shares: &[Share]) -> LockAlgorithm {
    let asked = shares[0].lock.and_then(|index| {
        let mut all = LockAlgorithm::ALL.into_iter();
        all.find(|known| *known as u8 == index)
    });
    let set = || LockAlgorithm::from_name(ground.map.settings.lock.as_deref()?);
    let (asked, ranks) = (asked.or_else(set), ground.topology.size());
    let algorithm = choose::lock_algorithm(asked, ranks);
    if choose::is_too_small(asked, ranks) && ground.map.rank == Rank(0) {
        let name = algorithm.name();
        let line = format!("lock queue serves {SEATS} ranks at most: {name} it is");
        ground.map.context.warn_once([line]);
    }
    algorithm
}

/// This process's handler, and what wakes others'.
pub(super) struct Attendance {
    handler: Arc<Handler>,
    ringers: Vec<Option<Ringer>>,
    /// Ranks whose handlers are woken by rails.
    listeners: Vec<bool>,
}

/// Starts this process's handler if the window needs one, and finds out how to wake others'.
/// Collective.
pub(super) fn attend(
    oob: &mut dyn Oob,
    ground: &Ground<'_>,
    plan: &Plan,
) -> Result<Option<Attendance>, EngineError> {
    if !plan.lock.is_served() && plan.accumulate_from.is_none() {
        return Ok(None);
    }
    let context = &ground.map.context;
    // Who sleeps is woken for all windows; only who looks all the time is slower for each more.
    let own = plan.lock == LockAlgorithm::Thread && plan.settings.handlers == Handlers::Window;
    let handler = match own {
        true => context.own_handler(),
        false => context.handler(),
    };
    let alarm = match &handler {
        Ok(handler) => {
            let listens = ground
                .rails
                .is_some_and(|rails| handler.listen(&rails.fabric));
            Ok((handler.alarm().to_wire().to_vec(), listens))
        }
        Err(error) => Err(error.to_string()),
    };
    let alarms = agree(oob, "starting the thread of a window", alarm)?;
    let handler = handler.map_err(|error| EngineError::Selection(error.to_string()))?;
    let host = ground.map.processes[ground.map.rank.index()].host;
    // Where rails lead to this host only, they wake nobody: a pipe does.
    let loops = ground.rails.is_some_and(TeamRails::stay_here);
    let by_pipe = |rank: Rank| {
        ground.map.processes[rank.index()].host == host && (ground.is_near(rank) || loops)
    };
    let open = |rank: Rank| {
        let handle = AlarmHandle::from_wire(&alarms[rank.index()].0)?;
        let opened = Ringer::open(&handle);
        opened
            .inspect_err(|error| tracing::debug!("rank {} cannot be woken: {error}", rank.0))
            .ok()
    };
    let ringers = ground
        .ranks()
        .map(|rank| by_pipe(rank).then(|| open(rank))?);
    Ok(Some(Attendance {
        ringers: ringers.collect(),
        listeners: alarms.iter().map(|alarm| alarm.1).collect(),
        handler,
    }))
}

/// A window, and the thread that serves it if one does.
pub(super) struct Attended {
    window: Arc<OneSided>,
    handler: Option<Arc<Handler>>,
}

impl Attended {
    pub fn new(window: OneSided, handler: Option<Arc<Handler>>) -> Self {
        let window = Arc::new(window);
        if let Some(handler) = &handler {
            handler.add(window.clone());
        }
        Self { window, handler }
    }

    /// When this returns no thread serves the window.
    pub fn dismiss(&self) {
        if let Some(handler) = &self.handler {
            handler.remove(&self.window);
        }
    }
}

impl Deref for Attended {
    type Target = OneSided;

    #[inline]
    fn deref(&self) -> &OneSided {
        &self.window
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.dismiss();
    }
}
