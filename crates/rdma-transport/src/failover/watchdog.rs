//! The watchdog: a thread that looks after failing rails while the program does something else.
//!
//! A rank may leave a collective when its last message is posted, and then compute, or wait for
//! another rank in the host MPI or on a communicator without rails. If that message is lost, only
//! its origin can send it again, and others wait for that. Ten times a second the watchdog looks
//! whether anybody has driven the rails since; if not, it does so itself. It wakes at once when a device
//! says something of its ports.

use super::{Failover, TICK};
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_fabric::{EventSource, Events, FabricError};
use ferrorail_shm::{WakePipe, spawn_quietly};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Between looks while nothing is wrong.
const INTERVAL: Duration = Duration::from_millis(100);

/// Tends a fabric until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    stop: Arc<AtomicBool>,
    wake: Arc<WakePipe>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Watchdog {
    /// Calls `watch` again and again from a thread of its own; it is to sleep on the pipe, which is rung when
    /// the watchdog is dropped.
    ///
    /// # Errors
    /// If there can be no thread or no pipe.
    pub fn start(watch: impl Fn(&WakePipe) + Send + 'static) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let wake = Arc::new(WakePipe::create()?);
        let (stopped, woken) = (Arc::clone(&stop), Arc::clone(&wake));
        let thread = spawn_quietly("ferrorail-rails", move || {
            while !stopped.load(Ordering::Acquire) {
                watch(&woken);
            }
        })?;
        Ok(Self {
            stop,
            wake,
            thread: Some(thread),
            process: std::process::id(),
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // A child of fork has no such thread.
        if let Some(thread) = self.thread.take()
            && self.process == std::process::id()
        {
            self.wake.ring();
            // It does not panic; if it did, its work is over as well.
            let _ = thread.join();
        }
    }
}

impl Failover {
    /// A thread that looks after the rails, if they need one: operations may be in flight after their post
    /// returns.
    ///
    /// # Errors
    /// [`FabricError::SetUp`] if there can be no thread or no pipe.
    pub fn watchdog(self: &Arc<Self>) -> Result<Option<Watchdog>, FabricError> {
        if self.immediate {
            return Ok(None);
        }
        let rails = Arc::clone(self);
        let watchdog = Watchdog::start(move |wake| rails.tend_and_sleep(wake));
        watchdog.map(Some).map_err(|source| FabricError::SetUp {
            verb: "pthread_create",
            object: "the thread that looks after the rails".into(),
            source,
        })
    }

    /// The watchdog's part: [`Failover::tend`], then sleeps on `wake` until it is time for that again, or a
    /// device says something.
    fn tend_and_sleep(&self, wake: &WakePipe) {
        let (soon, events) = self.look_after();
        let interval = if soon { TICK } else { INTERVAL };
        wake.sleep(&events.descriptors, interval);
    }

    /// Brings lanes back, and drives the rails if nobody has since the last call. Errors are kept for
    /// those who ask for them. Whether it should be called again soon.
    pub fn tend(&self) -> bool {
        self.look_after().0
    }

    fn look_after(&self) -> (bool, Events<'_>) {
        self.watched.store(true, Ordering::Relaxed);
        let events = self.inner.events(EventSource::Device).unwrap_or_default();
        self.heed_devices(events.ports_down);
        let calls = self.calls.load(Ordering::Relaxed);
        if self.tended.swap(calls, Ordering::Relaxed) == calls
            && let Err(error) = self.drive()
        {
            self.device_failure.lock().get_or_insert(error);
        }
        self.look_around();
        let suspicious = self.probing.load(Ordering::Relaxed) > 0;
        let soon = self.bring_back() || suspicious || self.attention.load(Ordering::Relaxed) > 0;
        (soon, events)
    }
}
