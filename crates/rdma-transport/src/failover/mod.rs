//! [`Failover`]: an endpoint whose rails may fail and come back without anybody above noticing.
//!
//! It keeps a journal of what is in flight on each lane. When a lane fails, posts take another rail;
//! what had been in flight is accounted for, and what did not arrive is done again on a rail that
//! works. A lane that failed is tried now and then, and taken into use again. See
//! `docs/design/0010-failover.md` for why each operation takes effect exactly once.
//!
//! Atomics are the exception: one whose completion was lost is reported as failed, because nobody
//! can tell whether it happened.
//!
//! Modules: `address` (how the two sides meet), `control_message` (what they send each other), `control_block` (where),
//! `journal` (what is in flight), `pair` (state of one peer), `endpoint` (the calls), `recover` (the course
//! of a failure), `reconcile` (what it leaves to do), `reconnect` (a lane's return), `probe` (whether a lane
//! answers), `silence` (what is known of one that is asked), `detector` (which lane is left before its device
//! gives up: a state machine), `suspect` (what it is told and does), `leave` (how the two sides agree to leave
//! a lane), `watchdog` (a thread for when nobody calls).

mod address;
mod control_block;
mod control_message;
mod detector;
mod endpoint;
mod journal;
mod leave;
mod pair;
mod probe;
mod reconcile;
mod reconnect;
mod recover;
mod silence;
mod suspect;
#[cfg(test)]
mod tests;
mod watchdog;

use control_block::ControlBlock;
use ferrorail_base::config::{Settings, ShmKind};
use ferrorail_base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Mutex};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    Breakage, Clock, FabricError, LaneId, Memory, Op, RAILS_MAX, RailInfo, SystemClock, Ticket,
    Tracking, Transport,
};
use journal::{Entry, Journal};
use pair::{Pair, Phase};
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use watchdog::Watchdog;

/// How often lanes are looked at while nothing is wrong, and control words repeated while something is.
const TICK: Duration = Duration::from_millis(10);

/// Why the ticket of a lost atomic fails.
const UNKNOWN: &str = "the rail failed during an atomic; whether it took effect is unknown";

/// A transport with failover. See the [module documentation](self).
#[derive(Debug)]
pub struct Failover {
    inner: Arc<dyn Transport>,
    clock: Box<dyn Clock>,
    /// [`ferrorail_fabric::Attributes::immediate`].
    immediate: bool,
    process: ProcessId,
    shm: ShmKind,
    /// Time between trials of a lane that failed.
    probe: Option<Duration>,
    /// After which a device gives an operation up.
    timeout: Duration,
    /// This side's planes, as bits.
    planes: u8,
    /// This side's rails, as bits.
    all_rails: u8,
    peers: boxcar::Vec<Pair>,
    control_blocks: Mutex<Vec<Arc<ControlBlock>>>,
    /// The least time in which a lane delivers nothing before it is left; `None` leaves that to devices.
    suspect: Option<Duration>,
    /// What times of detectors are counted from.
    opened: Instant,
    /// Rails of which devices said last that their ports are down, as bits.
    said: AtomicU8,
    /// Those of them over which nothing got through since.
    down: AtomicU8,
    /// How often the port of each rail has come back.
    port_returns: [AtomicU64; RAILS_MAX],
    /// Peers with a lane whose probe is not acknowledged.
    probing: AtomicU32,
    /// Lanes whose operations are being accounted for, those to be left, and those that other lanes are
    /// asked about.
    attention: AtomicU32,
    calls: AtomicU32,
    /// Calls of `progress` between looks at the clock.
    calls_per_look: AtomicU32,
    /// What `calls` was when the watchdog last looked.
    tended: AtomicU32,
    /// Whether there is a watchdog.
    watched: AtomicBool,
    /// The peer whose lanes the watchdog looks at first when it brings lanes back.
    first: AtomicUsize,
    ticked: Mutex<Ticks>,
    events: [Events; RAILS_MAX],
    /// To be told by the next call of `progress`.
    device_failure: Mutex<Option<FabricError>>,
}

/// When the clock was looked at and how many calls there had been, when control words were, and when lanes were.
#[derive(Debug)]
struct Ticks {
    clock: Instant,
    calls: u32,
    words: Instant,
    lanes: Instant,
}

/// Memory that failover keeps for each peer, with journals of `rails` lanes at their first size; a
/// fabric that completes at once needs none.
pub fn pair_bytes(rails: u64) -> u64 {
    size_of::<Pair>() as u64 + control_block::PEER_BYTES as u64 + rails * Journal::FIRST_BYTES
}

/// Counts of what happened to a rail.
#[derive(Debug, Default)]
struct Events {
    failures: AtomicU64,
    readmissions: AtomicU64,
    resent: AtomicU64,
    warned: AtomicBool,
}

impl Failover {
    /// Adds failover to `inner`, which was opened by `process` under `settings`
    /// (`FERRORAIL_RAIL_PROBE`, `FERRORAIL_RAIL_TIMEOUT`).
    pub fn new(inner: Arc<dyn Transport>, process: ProcessId, settings: &Settings) -> Self {
        Self::with_clock(inner, process, settings, Box::new(SystemClock))
    }

    /// [`Failover::new`] in the time of `clock`.
    pub fn with_clock(
        inner: Arc<dyn Transport>,
        process: ProcessId,
        settings: &Settings,
        clock: Box<dyn Clock>,
    ) -> Self {
        let opened = clock.now();
        Self {
            planes: inner.attributes().planes(),
            all_rails: ((1_u16 << inner.attributes().rails.len()) - 1) as u8,
            immediate: inner.attributes().immediate,
            clock,
            inner,
            process,
            shm: settings.shm,
            probe: settings.rail_probe_ms.map(Duration::from_millis),
            timeout: Duration::from_millis(settings.rail_timeout_ms),
            peers: boxcar::Vec::new(),
            control_blocks: Mutex::default(),
            suspect: settings.rail_suspect_ms.map(Duration::from_millis),
            opened,
            said: AtomicU8::new(0),
            down: AtomicU8::new(0),
            port_returns: Default::default(),
            probing: AtomicU32::new(0),
            attention: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            calls_per_look: AtomicU32::new(1),
            tended: AtomicU32::new(0),
            watched: AtomicBool::new(false),
            first: AtomicUsize::new(0),
            ticked: Mutex::new(Ticks {
                clock: opened,
                calls: 0,
                words: opened,
                lanes: opened,
            }),
            events: Default::default(),
            device_failure: Mutex::default(),
        }
    }

    /// What carries the bytes, without failover.
    pub fn inner(&self) -> &dyn Transport {
        &*self.inner
    }

    /// The opened rails; `RailId(i)` is entry `i`.
    pub fn rails(&self) -> &[RailInfo] {
        &self.inner.attributes().rails
    }

    /// Number of the last operation of `lane` known to be complete.
    fn completed(&self, lane: LaneId) -> u64 {
        self.inner.lane(lane).completed
    }

    /// What broke `lane` in its present generation.
    fn breakage(&self, lane: LaneId) -> Option<Breakage> {
        self.inner.lane(lane).breakage
    }

    fn pair(&self, peer: PeerId) -> Result<&Pair, FabricError> {
        let unknown = || FabricError::BadPeerData { what: "peer id" };
        self.peers.get(peer.index()).ok_or_else(unknown)
    }

    fn plane(&self, rail: usize) -> u8 {
        self.rails()[rail].plane
    }

    fn unreachable(&self, pair: &Pair) -> FabricError {
        FabricError::Unreachable {
            peer: pair.name(),
            status: pair.unreachable.get().cloned().unwrap_or_default(),
        }
    }

    fn refusal(&self, pair: &Pair, rail: usize, status: &str) -> FabricError {
        FabricError::Completion {
            rail: self.rails()[rail].name.clone(),
            peer: pair.name(),
            status: status.to_owned(),
        }
    }

    /// Posts `op` on `rail`, or on another if that has failed, and records it.
    ///
    /// # Safety
    /// As [`Transport::post`].
    #[inline]
    unsafe fn post_on_any(
        &self,
        pair: &Pair,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        loop {
            let Some(usable) = pair.usable(rail.index()) else {
                return Err(self.unreachable(pair));
            };
            let lane = self.lane(pair, usable);
            let posted = if self.immediate {
                // SAFETY: the caller's contract is the callee's.
                unsafe { self.inner.post(lane.peer, lane.rail, op, tracking) }
            } else {
                let mut journal = pair.journals[usable].lock();
                if pair.postable() & 1 << usable == 0 {
                    // It failed meanwhile, and who accounts for that has taken the journal already; or no
                    // more atomics are to be in flight there.
                    continue;
                }
                // SAFETY: as above.
                unsafe { self.post_recorded(lane, &mut journal, op, tracking) }
            };
            match posted {
                Err(error) if self.is_broken(lane, &error) => self.mark_down(lane),
                other => return other,
            }
        }
    }

    /// Posts `op` and records it if operation `before` is in flight on the lane of that: should the lane fail,
    /// both are in its journal in their order.
    ///
    /// # Safety
    /// As [`Transport::post`].
    unsafe fn post_behind(
        &self,
        pair: &Pair,
        before: Ticket,
        op: &Op<'_>,
    ) -> Result<Ticket, FabricError> {
        let lane = before.lane();
        let mut journal = pair.journals[lane.rail.index()].lock();
        if !journal.holds(before.sequence) || pair.postable() & 1 << lane.rail.index() == 0 {
            return Err(FabricError::WouldBlock);
        }
        // SAFETY: the caller's contract is the callee's.
        match unsafe { self.post_recorded(lane, &mut journal, op, Tracking::Tracked) } {
            // Whoever takes it out of use accounts for `before`.
            Err(error) if self.is_broken(lane, &error) => Err(FabricError::WouldBlock),
            other => other,
        }
    }

    /// Posts `op` on `lane` and records it in its journal.
    ///
    /// # Safety
    /// As [`Transport::post`].
    #[inline]
    unsafe fn post_recorded(
        &self,
        lane: LaneId,
        journal: &mut Journal,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        // SAFETY: the caller's contract is the callee's.
        let ticket = unsafe { self.inner.post(lane.peer, lane.rail, op, tracking) }?;
        journal.record(Entry::new(op, ticket.sequence), self.completed(lane));
        Ok(ticket)
    }

    /// What became of an operation on a lane that is not in use, or was not when it was posted.
    fn account(&self, pair: &Pair, ticket: Ticket) -> Result<bool, FabricError> {
        let recovery = pair.recovery.lock();
        let state = &recovery.lanes[ticket.rail.index()];
        if let Some(status) = state.failure(ticket.sequence) {
            return Err(self.refusal(pair, ticket.rail.index(), status));
        }
        match &state.phase {
            Phase::Failed(_) if ticket.sequence > state.completed => {
                match pair.unreachable.get().is_some() {
                    true => Err(self.unreachable(pair)),
                    false => Ok(false),
                }
            }
            _ => Ok(true),
        }
    }
}

impl Drop for Failover {
    fn drop(&mut self) {
        // Pairs hold the control blocks too.
        drop(std::mem::take(&mut self.peers));
        let control_blocks = self.control_blocks.get_mut();
        for control_block in control_blocks.drain(..) {
            if let Some(control_block) = Arc::into_inner(control_block) {
                self.inner.release(Memory::Local(control_block.region));
            }
        }
    }
}
