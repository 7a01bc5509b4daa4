//! The service thread: a thread of this process that serves all windows which want it.
//!
//! It looks all the time as long as some window wants that, else it sleeps until somebody rings. A
//! ring is a hint: all windows are looked at after each, and no sleep is unbounded.

use super::Window;
use ferrorail_base::sync::{
    AtomicBool, AtomicU32, Claim, Claimed, Mutex, Ordering, assert_unlocked, yield_now,
};
use ferrorail_fabric::Endpoint;
use ferrorail_shm::{WakePipe, WakePipeHandle, spawn_quietly};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest sleep, for hints that are lost.
const SLEEP: Duration = Duration::from_millis(10);

/// Successful looks after which wake-up events are armed anew: each uses up some of what they wake by.
const LOOKS_PER_ARM: u32 = 4;

/// The thread. It ends when this is dropped.
pub struct ServiceThread<F: Endpoint> {
    shared: Arc<Shared<F>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: u32,
}

struct Shared<F: Endpoint> {
    /// Whose wake-up events end a sleep.
    fabrics: Mutex<Vec<Arc<F>>>,
    /// The service thread has them while it looks, which may take waiting.
    windows: Claim<Vec<Arc<Window<F>>>>,
    /// Threads that want to change `windows`: the service thread gives way.
    changing: AtomicU32,
    wake_pipe: WakePipe,
    stop: AtomicBool,
}

impl<F: Endpoint> ServiceThread<F> {
    /// Starts it, with nothing to do.
    ///
    /// # Errors
    /// The system's, if there can be no thread or nothing to wake it by.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            fabrics: Mutex::default(),
            windows: Claim::default(),
            changing: AtomicU32::new(0),
            wake_pipe: WakePipe::create()?,
            stop: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = spawn_quietly("ferrorail-rma", move || own.run())?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
            process: std::process::id(),
        })
    }

    /// What other processes of the host wake it by.
    #[must_use]
    pub fn wake_pipe(&self) -> WakePipeHandle {
        self.shared.wake_pipe.handle()
    }

    /// Has it wake up for what peers put over `fabric`, if that can wake. Whether it can.
    pub fn listen(&self, fabric: &Arc<F>) -> bool {
        match fabric.wake_events() {
            Ok(descriptors) if descriptors.is_empty() => return false,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!("nobody is woken by rails: {error}");
                return false;
            }
        }
        let mut fabrics = self.shared.fabrics.lock();
        if !fabrics.iter().any(|known| Arc::ptr_eq(known, fabric)) {
            fabrics.push(Arc::clone(fabric));
        }
        // It may sleep without them.
        self.shared.wake_pipe.ring();
        true
    }

    /// Has it serve `window` from now on.
    pub fn add(&self, window: Arc<Window<F>>) {
        self.shared.change(|windows| windows.push(window));
        self.shared.wake_pipe.ring();
    }

    /// Ends it: what is asked of this process from now on is not answered.
    pub fn end(&self) {
        self.shared.stop.store(true, Ordering::Release);
        // A child of fork has no such thread, and what it held is held for ever.
        if self.process != std::process::id() {
            return;
        }
        // Not waited for with the lock held.
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            self.shared.wake_pipe.ring();
            // It does not panic; if it did, its work is over as well.
            let _ = thread.join();
        }
    }

    /// Has it serve `window` no more: when this returns it does not look there.
    pub fn remove(&self, window: &Arc<Window<F>>) {
        if self.process != std::process::id() {
            // A child of fork has no such thread, which may have held the lock.
            return;
        }
        self.shared
            .change(|windows| windows.retain(|known| !Arc::ptr_eq(known, window)));
    }
}

impl<F: Endpoint> Shared<F> {
    fn windows(&self) -> Claimed<'_, Vec<Arc<Window<F>>>> {
        loop {
            if let Some(windows) = self.windows.take() {
                return windows;
            }
            assert_unlocked();
            yield_now();
        }
    }

    /// Readies the wake-up events of each of `fabrics` in turn; what tells of its next.
    fn arm(fabrics: &[Arc<F>]) -> impl Iterator<Item = Vec<BorrowedFd<'_>>> {
        fabrics.iter().map(|fabric| {
            fabric.wake_events().unwrap_or_else(|error| {
                tracing::debug!("a wake pipe is not armed: {error}");
                Vec::new()
            })
        })
    }

    fn change(&self, act: impl FnOnce(&mut Vec<Arc<Window<F>>>)) {
        self.changing.fetch_add(1, Ordering::AcqRel);
        act(&mut self.windows());
        self.changing.fetch_sub(1, Ordering::AcqRel);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn run(&self) {
        let mut busy = 0u32;
        while !self.stopped() {
            if self.changing.load(Ordering::Acquire) > 0 {
                yield_now();
                continue;
            }
            let windows = self.windows();
            if self.look(&windows) {
                busy = busy.wrapping_add(1);
                if busy.is_multiple_of(LOOKS_PER_ARM) {
                    Self::arm(&self.fabrics.lock()).for_each(drop);
                }
                continue;
            }
            if windows.iter().any(|window| window.wants_polling()) {
                drop(windows);
                yield_now();
                continue;
            }
            for window in windows.iter() {
                window.set_asleep(true);
            }
            let fabrics: Vec<Arc<F>> = self.fabrics.lock().clone();
            let wake_descriptors: Vec<_> = Self::arm(&fabrics).flatten().collect();
            let missed = self.look(&windows);
            drop(windows);
            if !missed {
                self.wake_pipe.sleep(&wake_descriptors, SLEEP);
            }
            for window in self.windows().iter() {
                window.set_asleep(false);
            }
        }
    }

    /// Serves all windows. Whether there was anything.
    fn look(&self, windows: &[Arc<Window<F>>]) -> bool {
        let stopped = || self.stopped();
        windows
            .iter()
            .fold(false, |busy, window| window.serve(&stopped) | busy)
    }
}

impl<F: Endpoint> Drop for ServiceThread<F> {
    fn drop(&mut self) {
        self.end();
    }
}
