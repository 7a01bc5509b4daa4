//! The thread that goes on with non-blocking collectives while no thread of the program does: peers may wait for what this
//! rank has to do in one while its program computes, or waits in a call of the host (MPI 4.1, section 2.9, on progress).

use super::queue::{go_on, program_steps, under_way};
use crate::thread::Inside;
use ferrorail_base::fiber::Driver;
use ferrorail_base::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use ferrorail_engine::spawn_quietly;
use std::io;
use std::mem;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it looks whether the program goes on.
const LOOK: Duration = Duration::from_millis(1);
/// How often while one call of the program waits for what is under way.
const LOOK_MAX: Duration = Duration::from_millis(4);
/// How long it naps between its own steps: a part of the time for which it has gone on, between these.
const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_SHARE: u32 = 16;
/// How long it looks on when nothing is under way any more, before it sleeps until something is.
const LINGER: Duration = Duration::from_millis(100);

static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
static SLEEPS: AtomicBool = AtomicBool::new(false);
static IS_TO_END: AtomicBool = AtomicBool::new(false);
/// Calls of the program that wait for what is under way, and go on with it, and how many there were.
static WAITING: AtomicUsize = AtomicUsize::new(0);
static WAITS: AtomicUsize = AtomicUsize::new(0);

/// Starts the thread if there is none.
///
/// # Errors
/// If there can be no thread.
pub fn start() -> io::Result<()> {
    let mut thread = THREAD.lock();
    if thread.is_none() {
        *thread = Some(spawn_quietly("ferrorail-nbc", run)?);
    }
    Ok(())
}

/// A call of the program that waits for what is under way, until this is dropped.
pub struct Waiting(());

impl Waiting {
    /// From now on.
    pub fn begin() -> Self {
        WAITS.fetch_add(1, Ordering::Relaxed);
        WAITING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Something is under way.
pub fn wake() {
    if SLEEPS.load(Ordering::SeqCst)
        && SLEEPS.swap(false, Ordering::SeqCst)
        && let Some(helper) = &*THREAD.lock()
    {
        helper.thread().unpark();
    }
}

/// Ends the thread.
pub fn stop() {
    let Some(helper) = THREAD.lock().take() else {
        return;
    };
    IS_TO_END.store(true, Ordering::SeqCst);
    helper.thread().unpark();
    if helper.join().is_err() {
        tracing::error!("the thread for non-blocking collectives has panicked");
    }
}

fn run() {
    let _inside = Inside::enter();
    let mut seen = program_steps();
    let mut since = Instant::now();
    let (mut waits, mut look) = (0, LOOK);
    while !IS_TO_END.load(Ordering::SeqCst) {
        let steps = program_steps();
        if under_way() == 0 {
            if since.elapsed() < LINGER {
                thread::sleep(LOOK);
                continue;
            }
            SLEEPS.store(true, Ordering::SeqCst);
            if under_way() == 0 && !IS_TO_END.load(Ordering::SeqCst) {
                thread::park();
            }
            SLEEPS.store(false, Ordering::SeqCst);
            since = Instant::now();
        } else if WAITING.load(Ordering::Relaxed) > 0 {
            let before = mem::replace(&mut waits, WAITS.load(Ordering::Relaxed));
            look = match before == waits {
                true => (2 * look).min(LOOK_MAX),
                false => LOOK,
            };
            since = Instant::now();
            thread::sleep(look);
        } else if steps != seen {
            seen = steps;
            since = Instant::now();
            thread::sleep(LOOK);
        } else {
            go_on(Driver::Helper);
            let nap = since.elapsed() / NAP_SHARE;
            thread::sleep(nap.clamp(NAP_MIN, LOOK));
        }
    }
}
