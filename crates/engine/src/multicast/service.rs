//! The thread that drives the multicasts of a process while the program is elsewhere.

use super::Leader;
use ferrorail_base::sync::{AtomicBool, Mutex, Ordering};
use ferrorail_shm::spawn_quietly;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// Between looks while some message is not known to have reached everybody: a receiver that asks for what
/// it lacks waits so long if nobody else looks.
const BUSY: Duration = Duration::from_millis(1);

/// The same while threads of the program look themselves: each look of this thread takes their core away.
const ATTENDED: Duration = Duration::from_millis(4);

/// The same after this many looks at which nothing happened.
const QUIET: Duration = Duration::from_millis(10);
const QUIET_LOOKS: u32 = 50;

/// Between looks while nothing is outstanding.
const IDLE: Duration = Duration::from_millis(500);

/// Drives leaders until it is dropped.
pub(crate) struct Service {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

/// Wakes the thread.
#[derive(Clone)]
pub(crate) struct Waker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    leaders: Mutex<Vec<Weak<Leader>>>,
    stop: AtomicBool,
    /// Set while the thread does not look soon of its own accord: from before the look after which it
    /// sleeps for long, so that what begins during that look is not overlooked.
    idle: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Something is outstanding: the thread looks soon, if it does not do so anyway.
    #[inline]
    pub fn wake(&self) {
        if self.0.idle.load(Ordering::Relaxed)
            && self.0.idle.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.0.thread.get()
        {
            thread.unpark();
        }
    }
}

impl Service {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there can be none.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = spawn_quietly("ferrorail-mcast", move || of_thread.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    /// What wakes it.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared))
    }

    /// Drives `leader`, too, as long as it lives.
    pub fn add(&self, leader: &Arc<Leader>) {
        self.shared.leaders.lock().push(Arc::downgrade(leader));
    }

    /// Has all leaders tell the statistics what they have done.
    pub fn tell_statistics(&self) {
        for leader in self.shared.leaders() {
            leader.tell_statistics();
        }
    }
}

impl Shared {
    fn leaders(&self) -> Vec<Arc<Leader>> {
        let mut leaders = self.leaders.lock();
        leaders.retain(|leader| leader.strong_count() > 0);
        leaders.iter().filter_map(Weak::upgrade).collect()
    }

    fn run(&self) {
        // Nobody else sets it.
        let _ = self.thread.set(thread::current());
        let mut quiet_looks = 0;
        while !self.stop.load(Ordering::Acquire) {
            self.idle.store(true, Ordering::SeqCst);
            let look = self.look();
            quiet_looks = match look.moved || look.attended {
                true => 0,
                false => quiet_looks + 1,
            };
            let pause = match look.busy {
                false => IDLE,
                true if quiet_looks > QUIET_LOOKS => QUIET,
                // It looks again before a message could be late: being woken for each of a stream of
                // them would take a core from the ranks.
                true => {
                    self.idle.store(false, Ordering::Relaxed);
                    if look.attended { ATTENDED } else { BUSY }
                }
            };
            thread::park_timeout(pause);
            // Something has begun.
            if !self.idle.load(Ordering::Relaxed) {
                quiet_looks = quiet_looks.min(QUIET_LOOKS - 1);
            }
        }
    }

    /// Drives all leaders that nobody else drives.
    fn look(&self) -> Look {
        let mut look = Look {
            busy: false,
            moved: false,
            attended: true,
        };
        for leader in self.leaders() {
            // An error is kept for those who wait for a message.
            let (attended, moved) = leader.serve();
            look.moved |= moved;
            if leader.is_busy() {
                look.busy = true;
                look.attended &= attended;
            }
        }
        look
    }
}

/// What a look showed.
struct Look {
    /// Something is outstanding.
    busy: bool,
    moved: bool,
    /// All that is outstanding was looked after by the program's threads.
    attended: bool,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // A child of fork has no such thread; the thread itself may let go of the last leader.
        if let Some(thread) = self.thread.take()
            && self.process == std::process::id()
            && thread.thread().id() != thread::current().id()
        {
            thread.thread().unpark();
            // It does not panic; if it did, its work is over as well.
            let _ = thread.join();
        }
    }
}
