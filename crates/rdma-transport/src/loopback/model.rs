//! Rails with a modelled latency and bandwidth.
//!
//! Each rail of a process is one network card: operations leave it one after the other at its
//! bandwidth, whoever they go to, and take effect one latency later; the completion takes another
//! latency back, as a reliable connection's acknowledgement does. Sources are read when the
//! operation takes effect, which is late, as a real card may do: a buffer reused too early shows.
//!
//! One thread per fabric (`carrier`) carries operations out; it sleeps while nothing is in flight.
//! A thread that calls `progress` helps. Whoever it is, a rail's operations are carried out one at
//! a time and in order.

use super::Core;
use super::faults::{self, Faults, Kind};
use super::flight::Flight;
use super::keys::Key;
use super::late::Late;
use super::operation::{Operation, Refusal, is_message, uses};
use super::peer::{Lane, Peer};
use crate::breakages::Failures;
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use ferrorail_base::{PeerId, RailId};
use ferrorail_fabric::{Breakage, FabricError, LaneId, LocalRegion, RailInfo};
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Operations in flight on one rail, as the depth of a send queue.
const DEPTH: usize = 1024;

/// How often what does not get through is tried again.
const RETRY: Duration = Duration::from_micros(500);

/// The modelled rails of one process.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) latency: Duration,
    /// How long an operation may go unanswered before its lane breaks.
    timeout: Duration,
    pub(super) rails: Vec<Rail>,
    pub(super) carrier: OnceLock<Thread>,
    pub(super) stop: AtomicBool,
    /// Completions since the last call of `progress`.
    completions: AtomicU64,
    /// Failures since the last call of `progress`.
    failures: Failures,
}

#[derive(Debug)]
pub(super) struct Rail {
    /// As in the setting; 0 is unlimited.
    bandwidth_mb_s: u64,
    /// Held by whoever carries out this rail's operations.
    pub(super) turn: Mutex<()>,
    pub(super) queue: Mutex<Queue>,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// When the last byte posted so far has left.
    pub(super) free_at: Instant,
    /// Posted and neither completed nor failed.
    in_flight: usize,
    pub(super) flights: VecDeque<Flight>,
    acknowledgements: VecDeque<Acknowledgement>,
    pub(super) faults: Faults,
    pub(super) posted: u64,
    /// Since when the front flight has not got through.
    stalled: Option<Instant>,
    /// What the network still holds of lanes that broke.
    pub(super) late: Late,
}

/// A completion on its way back.
#[derive(Clone, Copy, Debug)]
struct Acknowledgement {
    due: Instant,
    peer: PeerId,
    sequence: u64,
    /// It never comes; the lane breaks when it has been waited for long enough.
    lost: bool,
}

impl Model {
    /// The model that `settings` ask for; `None` if operations take effect when posted.
    ///
    /// # Errors
    /// [`FabricError::NoRails`] if `FERRORAIL_LOOPBACK_FAULTS` cannot be read.
    pub(super) fn new(
        settings: &Settings,
        rails: &[RailInfo],
    ) -> Result<Option<Self>, FabricError> {
        let unlimited = rails.iter().all(|rail| rail.bandwidth_mb_s == 0);
        let faultless = settings.loopback_faults.is_empty();
        if settings.loopback_latency_ns == 0 && unlimited && faultless {
            return Ok(None);
        }
        let faults = faults::parse(&settings.loopback_faults, rails).map_err(|part| {
            let reason = format!("FERRORAIL_LOOPBACK_FAULTS: `{part}` is no fault of a rail here");
            FabricError::NoRails { reason }
        })?;
        let rail = |(info, faults): (&RailInfo, Faults)| Rail {
            bandwidth_mb_s: info.bandwidth_mb_s,
            turn: Mutex::new(()),
            queue: Mutex::new(Queue {
                free_at: Instant::now(),
                in_flight: 0,
                flights: VecDeque::with_capacity(DEPTH),
                acknowledgements: VecDeque::with_capacity(DEPTH),
                faults,
                posted: 0,
                stalled: None,
                late: Late::default(),
            }),
        };
        Ok(Some(Self {
            timeout: Duration::from_millis(settings.rail_timeout_ms),
            latency: Duration::from_nanos(settings.loopback_latency_ns),
            rails: rails.iter().zip(faults).map(rail).collect(),
            carrier: OnceLock::new(),
            stop: AtomicBool::new(false),
            completions: AtomicU64::new(0),
            failures: Failures::default(),
        }))
    }

    /// Queues `operation`, which uses a region here of that key; its sequence number.
    pub(super) fn post(
        &self,
        core: &Core,
        id: LaneId,
        lane: &Lane,
        (region, operation): (Key, Operation),
    ) -> Result<u64, FabricError> {
        let rail = &self.rails[id.rail.index()];
        let mut queue = rail.queue.lock();
        if let Some(mut broken) = lane.breakage.get() {
            if broken.refused.is_some() {
                broken.status = Refusal::Flushed.to_string();
            }
            return Err(core.broken(id, broken));
        }
        if queue.in_flight == DEPTH {
            return Err(FabricError::WouldBlock);
        }
        let bytes = operation.local.bytes;
        queue.free_at = queue.free_at.max(Instant::now()) + rail.transmission(bytes);
        let posted = queue.posted;
        let delay = queue.faults.delay(posted);
        // What follows comes later too: operations of a rail are carried out in order.
        queue.free_at += delay;
        let due = queue.free_at + self.latency;
        let sequence = lane.count(bytes);
        queue.flights.push_back(Flight {
            due,
            peer: id.peer,
            generation: lane.generation.load(Ordering::Relaxed),
            sequence,
            number: posted,
            region,
            operation,
        });
        queue.in_flight += 1;
        queue.posted += 1;
        let idle_before = queue.in_flight == 1;
        drop(queue);
        // Behind an operation in flight this one is not the next event of its rail.
        if idle_before && let Some(carrier) = self.carrier.get() {
            carrier.unpark();
        }
        Ok(sequence)
    }

    /// Carries out what is due where nobody else is at it; completions since the last call.
    pub(super) fn progress(&self, core: &Core) -> Result<usize, FabricError> {
        for (index, rail) in self.rails.iter().enumerate() {
            if let Some(_turn) = rail.turn.try_lock() {
                self.carry(core, index);
            }
        }
        match self.failures.pop() {
            Some(failure) => Err(failure),
            None => Ok(self.completions.swap(0, Ordering::Relaxed) as usize),
        }
    }

    /// Carries out what is due on rail `index`; when its next event is. The caller has the turn.
    pub(super) fn carry(&self, core: &Core, index: usize) -> Option<Instant> {
        let rail = &self.rails[index];
        let mut queue = rail.queue.lock();
        let mut fault = None;
        let mut retry = None;
        while let Some(&flight) = queue.flights.front()
            && flight.due <= Instant::now()
        {
            let now = Instant::now();
            fault = queue.fault();
            if matches!(
                fault,
                Some(Kind::Down | Kind::Stuck | Kind::Unplugged | Kind::Late | Kind::Gone)
            ) {
                let since = *queue.stalled.get_or_insert(now);
                let silent = matches!(fault, Some(Kind::Stuck | Kind::Unplugged));
                if silent || now.duration_since(since) < self.timeout {
                    retry = Some(now + RETRY);
                    break;
                }
                queue.flights.pop_front();
                queue.in_flight -= 1;
                if fault == Some(Kind::Late) {
                    // SAFETY: the flight was in flight: its source is still there.
                    unsafe { queue.late.hold(flight) };
                }
                self.unanswered(core, index, flight.peer);
                continue;
            }
            queue.stalled = None;
            queue.flights.pop_front();
            let damaged = is_message(&flight.operation) && queue.faults.corrupts(flight.number);
            drop(queue);
            // SAFETY: who posted it keeps the memory of both sides until it completes.
            let (flight, copy) = unsafe { flight.damaged_if(damaged) };
            let carried = self.carry_out(core, index, &flight);
            drop(copy);
            queue = rail.queue.lock();
            if carried {
                let lost = fault == Some(Kind::Mute);
                let back = if lost { self.timeout } else { self.latency };
                queue.acknowledgements.push_back(Acknowledgement {
                    due: flight.due + back,
                    peer: flight.peer,
                    sequence: flight.sequence,
                    lost,
                });
            } else {
                queue.in_flight -= 1;
            }
        }
        self.acknowledge(core, index, &mut queue);
        let now = Instant::now();
        if fault.or(queue.fault()).is_none() && !queue.late.is_empty() {
            queue.late.release(core, index);
        }
        // While it holds something back, the end of the fault is an event too.
        let held = (!queue.late.is_empty()).then_some(now + RETRY);
        let flight = queue.flights.front().map(|flight| flight.due);
        let acknowledgement = queue.acknowledgements.front().map(|a| a.due);
        let flight = retry.or(flight);
        flight.into_iter().chain(acknowledgement).chain(held).min()
    }

    /// Completes what has been acknowledged.
    fn acknowledge(&self, core: &Core, index: usize, queue: &mut Queue) {
        while let Some(&Acknowledgement {
            due,
            peer,
            sequence,
            lost,
        }) = queue.acknowledgements.front()
            && due <= Instant::now()
        {
            queue.acknowledgements.pop_front();
            queue.in_flight -= 1;
            if lost {
                self.unanswered(core, index, peer);
                continue;
            }
            let lane = &core.peers[peer.index()].lanes[index];
            lane.completed.store(sequence, Ordering::Release);
            self.completions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Carries `flight` out; false if it failed or an earlier one of its lane did.
    fn carry_out(&self, core: &Core, index: usize, flight: &Flight) -> bool {
        let peer: &Peer = &core.peers[flight.peer.index()];
        let lane = &peer.lanes[index];
        if lane.breakage.is_broken() {
            return false;
        }
        // SAFETY: who posted it keeps the memory of both sides until it completes.
        match unsafe { flight.execute(core, index) } {
            Some(Ok(())) => true,
            Some(Err(refusal)) => {
                let broken = core.breakage(flight.peer, refusal.to_string(), Some(flight.sequence));
                self.fail(core, index, flight.peer, broken);
                false
            }
            None => {
                self.unanswered(core, index, flight.peer);
                false
            }
        }
    }

    fn unanswered(&self, core: &Core, index: usize, peer: PeerId) {
        let status = "transport retry counter exceeded".to_owned();
        self.fail(core, index, peer, core.breakage(peer, status, None));
    }

    /// Breaks a lane and remembers to tell.
    fn fail(&self, core: &Core, index: usize, peer: PeerId, broken: Breakage) {
        let lane = &core.peers[peer.index()].lanes[index];
        if lane.breakage.set(broken.clone()) {
            let rail = RailId(index as u8);
            self.failures
                .push(core.broken(LaneId { peer, rail }, broken));
        }
    }

    /// Drops what is in flight on `lane`; returns when none of it is being carried out any more.
    pub(super) fn forget(&self, lane: LaneId) {
        let rail = &self.rails[lane.rail.index()];
        let _turn = rail.turn.lock();
        let mut queue = rail.queue.lock();
        // SAFETY: what is in flight has its source.
        unsafe { queue.hold_late(lane.peer) };
        queue.flights.retain(|flight| flight.peer != lane.peer);
        queue.acknowledgements.retain(|ack| ack.peer != lane.peer);
        queue.in_flight = queue.flights.len() + queue.acknowledgements.len();
    }

    /// Drops what is in flight from or to memory of `region` here, which is about to go; returns when none
    /// of it is being carried out any more. As with a device, what lacks its region never completes, and
    /// what uses the same memory through another region does.
    pub(super) fn forget_region(&self, region: &LocalRegion) {
        let inside = |flight: &Flight| {
            flight.region == Key::from_handle(region.handle)
                && uses(&flight.operation, region.range)
        };
        for rail in &self.rails {
            let _turn = rail.turn.lock();
            let mut queue = rail.queue.lock();
            queue.flights.retain(|flight| !inside(flight));
            queue.in_flight = queue.flights.len() + queue.acknowledgements.len();
        }
    }

    /// Ends the thread; what is in flight is lost, as when a queue pair is destroyed.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if let Some(carrier) = self.carrier.get() {
            carrier.unpark();
        }
    }
}

impl Rail {
    /// Time that `bytes` bytes keep it busy.
    pub(super) fn transmission(&self, bytes: usize) -> Duration {
        let ns = (bytes as u128 * 1000).checked_div(u128::from(self.bandwidth_mb_s));
        Duration::from_nanos(ns.map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX)))
    }
}

impl Queue {
    /// What befalls the rail now.
    pub(super) fn fault(&mut self) -> Option<Kind> {
        self.faults.at(self.posted, Instant::now())
    }

    /// Where packets are late, holds those of what is in flight to `peer`, whose lane ends.
    ///
    /// # Safety
    /// As [`Late::hold`].
    unsafe fn hold_late(&mut self, peer: PeerId) {
        if self.fault() == Some(Kind::Late) {
            let lost = self.flights.iter().filter(|flight| flight.peer == peer);
            // SAFETY: the caller's promise.
            lost.for_each(|flight| unsafe { self.late.hold(*flight) });
        }
    }
}
