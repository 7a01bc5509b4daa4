//! The thread that carries out what is in flight on modelled rails.

use super::Core;
use super::model::Model;
use ferrorail_base::sync::{Ordering, spin_loop, yield_now};
use ferrorail_fabric::FabricError;
use ferrorail_shm::spawn_quietly;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Closer than this to the next event the thread polls: timers are not more precise.
const POLL: Duration = Duration::from_micros(50);

impl Model {
    fn run(&self, core: &Core) {
        while !self.stop.load(Ordering::Acquire) {
            let next = (0..self.rails.len())
                .filter_map(|index| {
                    let _turn = self.rails[index].turn.lock();
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

/// Starts the thread of a fabric that has a model.
pub(super) fn start(core: &Arc<Core>) -> Result<Option<JoinHandle<()>>, FabricError> {
    let Some(model) = &core.model else {
        return Ok(None);
    };
    let core = Arc::clone(core);
    let spawned = spawn_quietly("ferrorail-loop", move || {
        if let Some(model) = &core.model {
            model.run(&core);
        }
    });
    let handle = spawned.map_err(|source| FabricError::SetUp {
        verb: "pthread_create",
        object: "the thread of the modelled rails".into(),
        source,
    })?;
    let _ = model.carrier.set(handle.thread().clone());
    // An operation cannot have been posted before, but a stop may follow at once.
    handle.thread().unpark();
    Ok(Some(handle))
}
