//! A window: memory of every rank that all of them reach, and the rules of when.
//!
//! * [`layout`]: control blocks and window memory in the segment of a node;
//! * [`Parts`]: what a window is made of; whoever makes it (collectively) fills them in;
//! * `target`: what is known of one rank, and how its memory is reached: by load and store, by
//!   cross-memory attach, or over rails;
//! * `rails`: operations on rails, staging slots; `buffer`: registrations of buffers, `kept`: those that
//!   last; `lent`: those of calls that fail; `outstanding`: operations under way;
//! * `word`: the words of a target's locks as the lock algorithms see them;
//! * `transfer`: put and get; `attach`: copies to and from other processes; `accumulate`: everything atomic; `elements`: one element at a time;
//! * `by_target`: what an epoch leaves to its targets;
//! * `dynamic`: memory that is attached later;
//! * `serve`: what a thread of the target does for others, where a window wants that; [`ServiceThread`]: the
//!   thread;
//! * `active`: fence and post/start/complete/wait, `pscw`: how ranks tell each other of those; `passive`: lock, unlock, `lock_all`: of all targets, `early`: locks asked for at once; `flush`: waiting for what was
//!   started.
//!
//! No operation and no passive synchronisation needs anything of the target: its control block and
//! memory are written from outside. All peers are therefore connected when the window is made.
//!
//! # Atomicity
//!
//! Every accumulating operation (accumulate, get-accumulate, fetch-and-op, compare-and-swap), of any
//! type and length, is a read-modify-write under the accumulate lock of its target, so all of them
//! exclude each other. An origin that holds the target's lock exclusively leaves that out, unless several of
//! its threads may operate at once: the lock is their process's. Where the program asks for it, elements of
//! eight bytes are changed one at a time by atomics instead, all of them in the window (`elements`). The words
//! of locks have one path each: the CPU's atomics where the window lies on one node, the rails'
//! where it spans nodes; ranks of the target's node take part by CPU there only if the rails'
//! atomics and the CPU's exclude each other ([`AtomicScope::Global`](ferrorail_fabric::AtomicScope)).
//! All atomics on one target's words use the same rail, since devices do not exclude each other.
//!
//! # Threads
//!
//! Every method may be called by several threads at once, and no lock is held over a wait (see
//! `ferrorail_base::sync`). A thread that waits for a target's lock holds up others only at that target. Threads that lock or unlock one target at the same time
//! break a rule of MPI's (epochs of a process are disjoint); that is not found out, for it would cost
//! each lock a fifth more.

mod accumulate;
mod active;
mod attach;
mod buffer;
mod by_rail;
mod by_target;
mod dynamic;
mod early;
mod elements;
mod error;
mod exclusive;
mod flush;
mod held;
mod kept;
pub mod layout;
mod lent;
mod lock_all;
mod messages;
mod outstanding;
mod packed;
mod passive;
mod pscw;
mod rails;
mod request;
mod serve;
mod service_thread;
mod shape;
mod target;
mod threads;
mod transfer;
mod update;
mod waiting;
mod word;

pub use error::WindowError;
pub use layout::WindowLayout;
pub use messages::lock_messages;
pub use rails::WindowRails;
pub use serve::ServicePlan;
pub use service_thread::ServiceThread;
pub use shape::{Cutter, Shape, zip};
pub use target::{Link, Memory, Target};
pub use threads::Threads;
pub use update::{Combine, Update};
pub use waiting::ProcessContext;

use crate::lock::{AnyLock, LockAlgorithm};
use active::Active;
use by_target::ByTarget;
use dynamic::Dynamic;
use ferrorail_base::Rank;
use ferrorail_base::config::WindowSettings;
use ferrorail_base::sync::{AtomicU8, AtomicU64, Claim, Mutex, MutexGuard, Ordering};
use ferrorail_fabric::Endpoint;
use ferrorail_shm::{Doorbell, Segment};
use held::HeldCell;
use kept::Kept;
use passive::Passive;
use serve::Service;
use std::sync::{Arc, Weak};
use waiting::Waiting;

/// What a window is made of.
pub struct Parts<F: Endpoint> {
    /// This process.
    pub rank: Rank,
    /// The segment of its node.
    pub segment: Segment,
    /// What is in that.
    pub layout: WindowLayout,
    /// Offset of this process's control block.
    pub control: usize,
    /// All ranks, this one included.
    pub targets: Vec<Target>,
    /// Where ranks of other nodes are reached.
    pub rails: Option<WindowRails<F>>,
    /// The lock of passive-target synchronisation.
    pub lock: LockAlgorithm,
    /// Settings that all ranks share.
    pub settings: WindowSettings,
    /// Which threads of this process may operate on the window.
    pub threads: Threads,
    /// What is left to service threads, if anything is: the lock, or accumulating operations.
    pub service_plan: Option<ServicePlan>,
    /// The process.
    pub process_context: Box<dyn ProcessContext>,
}

/// Operations of this rank on one window so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Puts.
    pub puts: AtomicU64,
    /// Gets.
    pub gets: AtomicU64,
    /// Accumulating operations.
    pub accumulates: AtomicU64,
    /// Those that changed one element at a time.
    pub elements: AtomicU64,
    /// Calls that ask for a target's lock, or for all.
    pub locks: AtomicU64,
    /// Acquisitions of a target's lock whose words rails reach.
    pub acquired: AtomicU64,
    /// Operations over rails on the words of locks, to acquire or to release.
    pub lock_messages: AtomicU64,
    /// Fences, and epochs started or posted.
    pub epochs: AtomicU64,
    /// Accumulating operations that the target's service thread did.
    pub handled: AtomicU64,
    /// Requests that this rank's service thread served.
    pub served: AtomicU64,
    /// Operations that this rank left to targets.
    pub by_target: AtomicU64,
    /// Operations that others left to this rank, and it carried out.
    pub for_origins: AtomicU64,
    /// Registrations of buffers that outlive their operation.
    pub kept: AtomicU64,
    /// Operations that found their buffer registered.
    pub reused: AtomicU64,
    /// Kept registrations that made way for others.
    pub evicted: AtomicU64,
}

/// Adds one. Not atomic as a whole, which costs a fifth of a short operation: threads that share a
/// window may lose counts.
#[inline]
fn count(counter: &AtomicU64) {
    let before = counter.load(Ordering::Relaxed);
    counter.store(before + 1, Ordering::Relaxed);
}

/// One rank's side of a window.
pub struct Window<F: Endpoint> {
    /// For wishes of threads ([`early`]).
    me: Weak<Self>,
    /// Before the segment whose registration it holds.
    rails: Option<WindowRails<F>>,
    segment: Segment,
    rank: Rank,
    control: usize,
    targets: Vec<Target>,
    process_context: Box<dyn ProcessContext>,
    lock: LockAlgorithm,
    settings: WindowSettings,
    threads: Threads,
    service: Option<Service>,
    active: Mutex<Active>,
    /// What of `active` an operation looks at: see `active::mode`.
    mode: AtomicU8,
    /// How often all targets were locked together.
    lock_alls: AtomicU64,
    /// What is held of each target's lock.
    held: Arc<[HeldCell]>,
    /// This rank is one contender for each lock, whatever its threads are: they take turns.
    passive: Vec<Claim<Passive>>,
    by_target: ByTarget,
    /// Of a dynamic window.
    dynamic: Option<Dynamic>,
    /// Where accumulations combine; registered once it is used, and given back by `rails`, which go before.
    staging: Claim<Vec<u8>>,
    counters: Counters,
}

impl<F: Endpoint> Window<F> {
    /// Puts a window together. All ranks must have got this far before anybody uses it.
    #[must_use]
    pub fn new(parts: Parts<F>) -> Arc<Self> {
        let ranks = parts.targets.len();
        let by_service_thread = (parts.service_plan.as_ref())
            .is_some_and(|service_plan| service_plan.accumulate_from.is_some());
        // Words of an accumulate lock have as many contenders.
        let accumulate = LockAlgorithm::for_ranks(ranks as u32 + u32::from(by_service_thread));
        let backoff = parts.settings.lock_backoff;
        let passive = || Claim::new(Passive::new(parts.lock, accumulate, backoff));
        if let Some(rails) = &parts.rails {
            *rails.kept() = Kept::new(&parts.settings);
        }
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            held: held::of_window(ranks),
            passive: (0..ranks).map(|_| passive()).collect(),
            dynamic: parts.layout.dynamic.then(|| Dynamic::new(ranks)),
            service: parts.service_plan.map(|service_plan| {
                Service::new(
                    ranks as u32,
                    parts.lock,
                    AnyLock::new(accumulate, backoff),
                    service_plan,
                )
            }),
            rails: parts.rails,
            segment: parts.segment,
            rank: parts.rank,
            control: parts.control,
            targets: parts.targets,
            process_context: parts.process_context,
            lock: parts.lock,
            settings: parts.settings,
            threads: parts.threads,
            active: Mutex::new(Active::new(ranks)),
            mode: AtomicU8::new(active::mode::NONE),
            lock_alls: AtomicU64::new(0),
            by_target: ByTarget::new(ranks),
            staging: Claim::default(),
            counters: Counters::default(),
        })
    }

    /// This process.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.targets.len() as u32
    }

    /// What is known of `rank`.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn target(&self, rank: Rank) -> &Target {
        &self.targets[rank.index()]
    }

    /// The lock algorithm.
    #[must_use]
    pub fn lock_algorithm(&self) -> LockAlgorithm {
        self.lock
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Which atomics the locks use: `cpu`, or `nic`.
    #[must_use]
    pub fn atomics(&self) -> &'static str {
        match self.rails {
            None => "cpu",
            Some(_) => "nic",
        }
    }

    /// The index of a rank as a program passes it.
    ///
    /// # Errors
    /// [`WindowError::Rank`].
    #[inline]
    pub fn checked_rank(&self, rank: i64) -> Result<Rank, WindowError> {
        match usize::try_from(rank) {
            Ok(index) if index < self.targets.len() => Ok(Rank(index as u32)),
            _ => Err(WindowError::Rank {
                rank,
                size: self.size(),
            }),
        }
    }

    fn doorbell(&self) -> Doorbell<'_> {
        let at = WindowLayout::DOORBELL;
        Doorbell::new(self.segment.word32(at), self.segment.word32(at + 4))
    }

    /// A word of this rank's control block.
    #[inline]
    fn own_word(&self, offset: usize) -> &AtomicU64 {
        self.segment.word(self.control + offset)
    }

    fn active(&self) -> MutexGuard<'_, Active> {
        self.active.lock()
    }

    /// Stores `value` in a word of `to`'s control block that this rank alone writes. What was put
    /// there before, and completed, is seen by whoever sees the value.
    fn tell(&self, to: Rank, offset: usize, value: u64) -> Result<(), WindowError> {
        match self.tell_mapped(to, offset, value) {
            true => Ok(()),
            false => self.on_rails(to, |rails| rails.notify(to, offset, value)),
        }
    }

    /// [`Window::tell`] if `to` is of this node. Whether it is.
    fn tell_mapped(&self, to: Rank, offset: usize, value: u64) -> bool {
        let Some(control) = self.targets[to.index()].control else {
            return false;
        };
        let word = self.segment.word(control + offset);
        word.store(value, Ordering::Release);
        self.doorbell().ring();
        true
    }

    /// # Panics
    /// In a window on one node.
    fn rails(&self) -> &WindowRails<F> {
        self.rails
            .as_ref()
            .expect("ranks of other nodes are reached by rails")
    }
}

impl<F: Endpoint> Drop for Window<F> {
    fn drop(&mut self) {
        self.detach_all();
    }
}
