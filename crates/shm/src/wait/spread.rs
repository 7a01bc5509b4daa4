//! As many ranks on each core, where ranks share cores.
//!
//! The kernel is content with 5 of 8 ranks on one of two cores, and leaves them there: all of them are ready to run at all
//! times, as who waits yields. A collective then takes as long as the fuller core does. A rank of that core moves itself: it
//! binds itself to the other one and takes that back at once, so that the kernel may move it as before.

use super::Cores;
use ferrorail_base::NodeRank;
use ferrorail_base::last_cache::processor;
use ferrorail_base::sync::{AtomicU32, Ordering};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;

/// Steps of waits between looks: some milliseconds of short calls.
const STEPS: u32 = 256;
/// Looks in a row that have to find the same: the others say anew where they are in between.
const LOOKS: u32 = 2;
/// After each move looks become half as frequent, this often at most: where other programs use the cores, the kernel may
/// have good reasons to move the rank back.
const HALVINGS: u32 = 12;

/// The calling thread.
const SELF: Pid = Pid::from_raw(0);

/// When a process looks where the ranks of its node are, and how often it has moved.
struct Spread {
    /// Steps until the next look.
    steps: AtomicU32,
    /// Looks in a row that found this rank on a core with too many.
    looks: AtomicU32,
    moves: AtomicU32,
}

/// Of this process.
static SPREAD: Spread = Spread::new();

/// A step of a wait of the rank `own`, where ranks share cores and nobody but those of `cores` belongs to the job on this
/// host. Now and then it looks, and moves the calling thread if that makes the cores more even.
#[inline]
pub fn spread_ranks(cores: Cores<'_>, own: NodeRank) {
    SPREAD.step(cores, own);
}

impl Spread {
    const fn new() -> Self {
        Self {
            steps: AtomicU32::new(STEPS),
            looks: AtomicU32::new(0),
            moves: AtomicU32::new(0),
        }
    }

    #[inline]
    fn step(&self, cores: Cores<'_>, own: NodeRank) {
        match self.steps.load(Ordering::Relaxed) {
            0 => self.look(cores, own),
            // Another thread's step may be lost.
            steps => self.steps.store(steps - 1, Ordering::Relaxed),
        }
    }

    #[cold]
    fn look(&self, cores: Cores<'_>, own: NodeRank) {
        if let Some(core) = self.target(cores.scarce(own)) {
            let moved = move_to(core);
            tracing::debug!(core, ?moved, "this rank's core has more ranks than another");
        }
        let halvings = self.moves.load(Ordering::Relaxed).min(HALVINGS);
        self.steps.store(STEPS << halvings, Ordering::Relaxed);
    }

    /// Where to move after a look that found `scarce`.
    fn target(&self, scarce: Option<usize>) -> Option<usize> {
        let looks = scarce.map_or(0, |_| self.looks.load(Ordering::Relaxed) + 1);
        self.looks.store(looks % LOOKS, Ordering::Relaxed);
        let core = scarce.filter(|_| looks == LOOKS)?;
        self.moves.fetch_add(1, Ordering::Relaxed);
        Some(core)
    }
}

/// Moves the calling thread to `core`, if it may run there and that is on the same NUMA node; whether it did. Afterwards it may
/// run where it might before.
///
/// # Errors
/// The system forbids it.
fn move_to(core: usize) -> nix::Result<bool> {
    let here = nix::sched::sched_getcpu()?;
    let allowed = sched_getaffinity(SELF)?;
    if !allowed.is_set(core)? || numa_node(core) != numa_node(here) {
        return Ok(false);
    }
    let mut only = CpuSet::new();
    only.set(core)?;
    sched_setaffinity(SELF, &only)?;
    sched_setaffinity(SELF, &allowed)?;
    Ok(true)
}

/// The name of the NUMA node of `core`, where the kernel tells.
fn numa_node(core: usize) -> Option<String> {
    let entries = fs::read_dir(processor(core as u32)).ok()?;
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find(|name| name.starts_with("node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_seen_twice_in_a_row_makes_a_rank_move() {
        let spread = Spread::new();
        assert_eq!(spread.target(Some(1)), None);
        assert_eq!(spread.target(None), None);
        assert_eq!(spread.target(Some(1)), None);
        assert_eq!(spread.target(Some(2)), Some(2));
        assert_eq!(spread.target(Some(2)), None);
    }

    #[test]
    fn looks_become_rare_after_moves() {
        let words: [AtomicU32; 1] = Default::default();
        let steps_after = |moves| {
            let spread = Spread::new();
            spread.moves.store(moves, Ordering::Relaxed);
            spread.look(Cores::new(&words), NodeRank(0));
            spread.steps.load(Ordering::Relaxed)
        };
        assert_eq!(
            [0, 1, 12, 99].map(steps_after),
            [256, 512, 1 << 20, 1 << 20]
        );
        words[0].store(0, Ordering::Relaxed);
        let spread = Spread::new();
        for _ in 0..STEPS {
            spread.step(Cores::new(&words), NodeRank(0));
        }
        assert_eq!(words[0].load(Ordering::Relaxed), 0, "no look yet");
        spread.step(Cores::new(&words), NodeRank(0));
        assert_ne!(words[0].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_thread_that_moves_may_run_where_it_might_before() {
        let allowed = sched_getaffinity(SELF).unwrap();
        let cores = (0..CpuSet::count()).filter(|&core| allowed.is_set(core) == Ok(true));
        for core in cores {
            if move_to(core).unwrap() {
                assert_eq!(sched_getaffinity(SELF).unwrap(), allowed);
            }
        }
        let outside = (0..CpuSet::count()).find(|&core| allowed.is_set(core) == Ok(false));
        assert_eq!(move_to(outside.unwrap()), Ok(false));
    }
}
