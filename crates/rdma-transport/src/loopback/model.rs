//! Rails with a modelled latency and bandwidth.
//!
//! Each rail of a process is one network card: operations leave it one after the other at its
//! bandwidth, whoever they go to, and take effect one latency later; the completion takes another
//! latency back, as a reliable connection's acknowledgement does. Sources are read when the
//! operation takes effect, which is late, as a real card may do: a buffer reused too early shows.
//!
//! One thread per fabric carries operations out; it sleeps while nothing is in flight. A thread
//! that calls `progress` helps. Whoever it is, a rail's operations are carried out one at a time
//! and in order.

use super::operation::{Operation, Refusal};
use super::peer::{Failure, Lane, Peer};
use super::{Core, failed};
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{AtomicBool, AtomicU64, Ordering, spin_loop, yield_now};
use ferrorail_base::{PeerId, RailId};
use ferrorail_fabric::{FabricError, RailInfo};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Operations in flight on one rail, as the depth of a send queue.
const DEPTH: usize = 1024;

/// Closer than this to the next event the thread polls: timers are not more precise.
const POLL: Duration = Duration::from_micros(50);

/// The modelled rails of one process.
#[derive(Debug)]
pub(super) struct Model {
    latency: Duration,
    rails: Vec<Rail>,
    carrier: OnceLock<Thread>,
    stop: AtomicBool,
    /// Completions since the last call of `progress`.
    completions: AtomicU64,
    /// First failure since the last call of `progress`.
    failure: Mutex<Option<FabricError>>,
}

#[derive(Debug)]
struct Rail {
    /// As in the setting; 0 is unlimited.
    bandwidth_mb_s: u64,
    /// Held by whoever carries out this rail's operations.
    turn: Mutex<()>,
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    /// When the last byte posted so far has left.
    free_at: Instant,
    /// Posted and neither completed nor failed.
    in_flight: usize,
    flights: VecDeque<Flight>,
    acknowledgements: VecDeque<Acknowledgement>,
}

/// An operation on its way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    due: Instant,
    peer: PeerId,
    sequence: u64,
    operation: Operation,
}

/// A completion on its way back.
#[derive(Clone, Copy, Debug)]
struct Acknowledgement {
    due: Instant,
    peer: PeerId,
    sequence: u64,
}

impl Model {
    /// The model that `settings` ask for; `None` if operations take effect when posted.
    pub(super) fn new(settings: &Settings, rails: &[RailInfo]) -> Option<Self> {
        if settings.loopback_latency_ns == 0 && rails.iter().all(|rail| rail.bandwidth_mb_s == 0) {
            return None;
        }
        let rail = |info: &RailInfo| Rail {
            bandwidth_mb_s: info.bandwidth_mb_s,
            turn: Mutex::new(()),
            queue: Mutex::new(Queue {
                free_at: Instant::now(),
                in_flight: 0,
                flights: VecDeque::with_capacity(DEPTH),
                acknowledgements: VecDeque::with_capacity(DEPTH),
            }),
        };
        Some(Self {
            latency: Duration::from_nanos(settings.loopback_latency_ns),
            rails: rails.iter().map(rail).collect(),
            carrier: OnceLock::new(),
            stop: AtomicBool::new(false),
            completions: AtomicU64::new(0),
            failure: Mutex::new(None),
        })
    }

    /// Queues `operation`; its sequence number.
    pub(super) fn post(
        &self,
        lane: &Lane,
        peer: PeerId,
        rail: RailId,
        operation: Operation,
    ) -> Result<Result<u64, Refusal>, FabricError> {
        let mut queue = self.rails[rail.index()].lock();
        if lane.failure.get().is_some() {
            return Ok(Err(Refusal::Flushed));
        }
        if queue.in_flight == DEPTH {
            return Err(FabricError::WouldBlock);
        }
        let bytes = operation.bytes();
        queue.free_at =
            queue.free_at.max(Instant::now()) + self.rails[rail.index()].transmission(bytes);
        let due = queue.free_at + self.latency;
        let sequence = lane.count(bytes);
        queue.flights.push_back(Flight {
            due,
            peer,
            sequence,
            operation,
        });
        queue.in_flight += 1;
        let idle_before = queue.in_flight == 1;
        drop(queue);
        // Behind an operation in flight this one is not the next event of its rail.
        if idle_before && let Some(carrier) = self.carrier.get() {
            carrier.unpark();
        }
        Ok(Ok(sequence))
    }

    /// Whether operation `sequence` is complete.
    pub(super) fn is_complete(&self, lane: &Lane, sequence: u64) -> Result<bool, String> {
        if lane.completed.load(Ordering::Acquire) >= sequence {
            return Ok(true);
        }
        match lane.failure.get() {
            Some(failure) if failure.sequence <= sequence => Err(failure.status.clone()),
            _ => Ok(false),
        }
    }

    /// Carries out what is due where nobody else is at it; completions since the last call.
    pub(super) fn progress(&self, core: &Core) -> Result<usize, FabricError> {
        for (index, rail) in self.rails.iter().enumerate() {
            if let Ok(_turn) = rail.turn.try_lock() {
                self.carry(core, index);
            }
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.completions.swap(0, Ordering::Relaxed) as usize),
        }
    }

    /// Carries out what is due on rail `index`; when its next event is. The caller has the turn.
    fn carry(&self, core: &Core, index: usize) -> Option<Instant> {
        let rail = &self.rails[index];
        let mut queue = rail.lock();
        while let Some(&flight) = queue.flights.front()
            && flight.due <= Instant::now()
        {
            queue.flights.pop_front();
            drop(queue);
            let carried = self.carry_out(core, index, &flight);
            queue = rail.lock();
            if carried {
                queue.acknowledgements.push_back(Acknowledgement {
                    due: flight.due + self.latency,
                    peer: flight.peer,
                    sequence: flight.sequence,
                });
            } else {
                queue.in_flight -= 1;
            }
        }
        while let Some(&Acknowledgement {
            due,
            peer,
            sequence,
        }) = queue.acknowledgements.front()
            && due <= Instant::now()
        {
            queue.acknowledgements.pop_front();
            queue.in_flight -= 1;
            let lane = &core.peers[peer.index()].lanes[index];
            lane.completed.store(sequence, Ordering::Release);
            self.completions.fetch_add(1, Ordering::Relaxed);
        }
        let flight = queue.flights.front().map(|flight| flight.due);
        let acknowledgement = queue.acknowledgements.front().map(|a| a.due);
        flight.into_iter().chain(acknowledgement).min()
    }

    /// Carries `flight` out; false if it failed or an earlier one of its lane did.
    fn carry_out(&self, core: &Core, index: usize, flight: &Flight) -> bool {
        let peer: &Peer = &core.peers[flight.peer.index()];
        let lane = &peer.lanes[index];
        if lane.failure.get().is_some() {
            return false;
        }
        let plane = core.rails[index].plane;
        // SAFETY: who posted it keeps the memory of both sides until it completes.
        let Err(refusal) = (unsafe { flight.operation.execute(peer, plane) }) else {
            return true;
        };
        let status = refusal.to_string();
        let _ = lane.failure.set(Failure {
            sequence: flight.sequence,
            status: status.clone(),
        });
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| failed(core, peer, index, status));
        false
    }

    /// Ends the thread; what is in flight is lost, as when a queue pair is destroyed.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if let Some(carrier) = self.carrier.get() {
            carrier.unpark();
        }
    }

    fn run(&self, core: &Core) {
        while !self.stop.load(Ordering::Acquire) {
            let next = (0..self.rails.len())
                .filter_map(|index| {
                    let turn = self.rails[index].turn.lock();
                    let _turn = turn.unwrap_or_else(PoisonError::into_inner);
                    self.carry(core, index)
                })
                .min();
            let Some(next) = next else {
                thread::park();
                continue;
            };
            let left = next.saturating_duration_since(Instant::now());
            if left > POLL {
                thread::park_timeout(left - POLL);
            } else if !left.is_zero() {
                (0..16).for_each(|_| spin_loop());
                yield_now();
            }
        }
    }
}

impl Rail {
    /// Time that `bytes` bytes keep it busy.
    fn transmission(&self, bytes: usize) -> Duration {
        let ns = (bytes as u128 * 1000).checked_div(u128::from(self.bandwidth_mb_s));
        Duration::from_nanos(ns.map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread of a fabric that has a model. It takes no signals: they are the program's.
pub(super) fn start(core: &Arc<Core>) -> Result<Option<JoinHandle<()>>, FabricError> {
    let Some(model) = &core.model else {
        return Ok(None);
    };
    let set_up = |verb, source| FabricError::SetUp {
        verb,
        object: "the thread of the modelled rails".into(),
        source,
    };
    let mut before = SigSet::empty();
    pthread_sigmask(
        SigmaskHow::SIG_BLOCK,
        Some(&SigSet::all()),
        Some(&mut before),
    )
    .map_err(|errno| set_up("pthread_sigmask", errno.into()))?;
    let spawned: io::Result<JoinHandle<()>> = {
        let core = Arc::clone(core);
        thread::Builder::new()
            .name("ferrorail-loop".into())
            .spawn(move || {
                if let Some(model) = &core.model {
                    model.run(&core);
                }
            })
    };
    let restored = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    let handle = spawned.map_err(|error| set_up("pthread_create", error))?;
    let _ = model.carrier.set(handle.thread().clone());
    // An operation cannot have been posted before, but a stop may follow at once.
    handle.thread().unpark();
    restored.map_err(|errno| set_up("pthread_sigmask", errno.into()))?;
    Ok(Some(handle))
}
