//! The non-blocking collectives of a communicator that are under way, in order, and all communicators that have some.

use super::comm_team::CommTeam;
use super::request::Job;
use ferrorail_base::fiber::{Driver, Fiber};
use ferrorail_base::sync::{AtomicU64, AtomicUsize, Claim, Mutex, Ordering};
use ferrorail_engine::Team;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A collective and where it is.
type Started = (Arc<Job>, Execution);

/// How far a collective is.
pub enum Execution {
    /// It is under way.
    Begun(Fiber),
    /// It found no stack for its fiber, and begins in its turn.
    Later(Later),
}

/// A call that has not begun.
pub struct Later {
    number: u64,
    run: Box<dyn FnOnce()>,
}

// SAFETY: as a fiber that has begun, it belongs to one call, which any one thread may go on with.
unsafe impl Send for Later {}

impl Execution {
    /// The call of this number, which is yet to `run`.
    pub fn later(number: u64, run: Box<dyn FnOnce()>) -> Self {
        Self::Later(Later { number, run })
    }

    /// Goes on with it until it waits; nothing if it is over.
    fn go_on(self, driver: Driver) -> Option<Self> {
        let mut fiber = match self {
            Self::Begun(fiber) => fiber,
            Self::Later(Later { number, run }) => match Fiber::in_turn(number, run) {
                Ok(fiber) => fiber,
                Err(run) => return Some(Self::Later(Later { number, run })),
            },
        };
        (!fiber.resume(driver)).then_some(Self::Begun(fiber))
    }
}

/// Those of one communicator.
pub struct Queue {
    comm_team: Arc<CommTeam>,
    /// The first, which whoever goes on with it claims.
    first: Claim<Option<Started>>,
    /// Those behind it.
    others: Mutex<VecDeque<Started>>,
    /// How many there are.
    length: AtomicUsize,
}

/// Those that have collectives under way.
static ACTIVE: Mutex<Vec<Arc<Queue>>> = Mutex::new(Vec::new());

/// How long a program that ends goes on with collectives that it has not awaited, which peers may wait for.
const LAST_STEPS: Duration = Duration::from_secs(1);

/// How many collectives are under way.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Rises when a thread of the program goes on with them.
static PROGRAM_STEPS: AtomicU64 = AtomicU64::new(0);

impl Queue {
    /// Of collectives that run on this team.
    pub fn new(comm_team: CommTeam) -> Self {
        Self {
            comm_team: Arc::new(comm_team),
            first: Claim::default(),
            others: Mutex::default(),
            length: AtomicUsize::new(0),
        }
    }

    /// The team that they run on.
    pub fn team(&self) -> &Arc<Team> {
        &self.comm_team.team
    }

    /// The team and what belongs to it.
    pub fn comm_team(&self) -> &Arc<CommTeam> {
        &self.comm_team
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.length.load(Ordering::Acquire) == 0
    }

    /// Puts a collective that waits behind all others.
    pub fn push(self: &Arc<Self>, job: Arc<Job>, execution: Execution) {
        // Before somebody may go on with it, and end it.
        self.length.fetch_add(1, Ordering::Release);
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        self.others.lock().push_back((job, execution));
        let mut active = ACTIVE.lock();
        if !active.iter().any(|queue| Arc::ptr_eq(queue, self)) {
            active.push(self.clone());
        }
    }

    /// Goes on with the first ones until one has to wait; whether one has ended.
    fn go_on(&self, driver: Driver) -> bool {
        // Who has it is going on.
        let Some(mut first) = self.first.take() else {
            return false;
        };
        let mut has_ended = false;
        loop {
            if first.is_none() {
                *first = self.others.lock().pop_front();
            }
            let Some((job, execution)) = first.take() else {
                return has_ended;
            };
            if let Some(execution) = execution.go_on(driver) {
                *first = Some((job, execution));
                return has_ended;
            }
            job.over();
            self.length.fetch_sub(1, Ordering::Release);
            UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
            has_ended = true;
        }
    }
}

/// How many collectives are under way.
#[inline]
pub fn under_way() -> usize {
    UNDER_WAY.load(Ordering::SeqCst)
}

/// How often threads of the program went on with them.
pub fn program_steps() -> u64 {
    PROGRAM_STEPS.load(Ordering::Relaxed)
}

/// One that has collectives under way, over rails if any has: rails wake up nobody who sleeps.
pub fn any_active() -> Option<Arc<Queue>> {
    let active = ACTIVE.lock();
    let mut busy = active.iter().filter(|queue| !queue.is_idle());
    let first = busy.next()?;
    let over_rails = |queue: &&Arc<Queue>| queue.team().has_rails();
    Some(busy.find(over_rails).unwrap_or(first).clone())
}

/// Goes on with all that are under way, until they wait. Without a lock, as they are not to wait with one.
pub fn go_on(driver: Driver) {
    if under_way() == 0 {
        return;
    }
    if driver != Driver::Helper {
        PROGRAM_STEPS.fetch_add(1, Ordering::Relaxed);
    }
    let mut has_ended = false;
    for index in 0.. {
        let queue = ACTIVE.lock().get(index).cloned();
        let Some(queue) = queue else {
            break;
        };
        has_ended |= queue.go_on(driver);
    }
    if has_ended {
        let is_idle = |queue: &mut Arc<Queue>| queue.is_idle();
        let idle: Vec<_> = ACTIVE.lock().extract_if(.., is_idle).collect();
        // The last use of a team may unmap its memory.
        drop(idle);
    }
}

/// Ends all that is under way without a result, unless it ends in a moment: the program is at its end.
pub fn abandon() {
    let start = Instant::now();
    while under_way() > 0 && start.elapsed() < LAST_STEPS {
        go_on(Driver::Program);
        thread::yield_now();
    }
    for queue in std::mem::take(&mut *ACTIVE.lock()) {
        let first = queue.first.take().and_then(|mut first| first.take());
        let others = std::mem::take(&mut *queue.others.lock());
        // What they have is not given back, as others may refer to it.
        let all = first.into_iter().chain(others);
        all.for_each(std::mem::forget);
        // Fibers refer to the team.
        std::mem::forget(queue);
    }
    UNDER_WAY.store(0, Ordering::SeqCst);
}
