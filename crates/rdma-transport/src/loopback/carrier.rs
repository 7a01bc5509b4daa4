//! The thread that carries out what is in flight on modelled rails.

use super::Core;
use super::model::Model;
use ferrorail_base::sync::{Ordering, spin_loop, yield_now};
use ferrorail_fabric::FabricError;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Closer than this to the next event the thread polls: timers are not more precise.
const POLL: Duration = Duration::from_micros(50);

impl Model {
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
