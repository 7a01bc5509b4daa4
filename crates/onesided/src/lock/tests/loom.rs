//! Every interleaving of a few contenders. Loom fails on a lost wake-up by itself: nobody can run.

use ferrorail_base::sync::yield_now;

use super::atomic_site::{AtomicSite, SharedLock};
use super::{block_on, part};
use crate::lock::Mode::{Exclusive, Shared};
use crate::lock::{Entrance, LockAlgorithm, LockSite, Mode};

/// How contenders get the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By the algorithm's steps.
    Steps,
    /// In one step if possible, as the CPU does.
    Shortcut,
    /// Those of even number as the CPU does, where it and a card exclude each other.
    Both,
    /// Shared holders of even number do not queue.
    Join,
}

fn use_lock(
    lock: &SharedLock,
    site: &AtomicSite,
    algorithm: LockAlgorithm,
    way: Way,
    modes: &[Mode],
) {
    let mut part = part(algorithm);
    let me = site.contender();
    let shortcut = way == Way::Shortcut || way == Way::Both && me.is_multiple_of(2);
    for &mode in modes {
        let quick = shortcut && algorithm.try_enter(lock.home(), me, mode);
        let entrance = match way == Way::Join && me.is_multiple_of(2) && mode == Shared {
            true => Entrance::Joining,
            false => Entrance::Fair(mode),
        };
        if !quick {
            let Ok(()) = block_on(part.acquire(site, entrance), yield_now) else {
                panic!("acquire failed");
            };
        }
        // Treated as exclusive, so checked as exclusive.
        let checked = match algorithm {
            LockAlgorithm::Mcs => Exclusive,
            _ => mode,
        };
        lock.critical_section(checked, || ());
        if quick {
            if algorithm.try_leave(lock.home(), me, mode) {
                lock.changed();
                continue;
            }
            part.adopt(mode);
        }
        let Ok(()) = block_on(part.release(site), yield_now) else {
            panic!("release failed");
        };
    }
    // Only an arbiter looks at that, and each step of a contender multiplies what is searched.
    if algorithm.is_served() {
        lock.leave();
    }
}

/// How many preemptions a search tries; exhaustive without a bound.
#[derive(Clone, Copy)]
enum Bound {
    Always(Option<usize>),
    /// The longest searches: the first number, but the second where `LOOM_MAX_PREEMPTIONS` is set, as
    /// `scripts/test full` does.
    Usually(usize, Option<usize>),
}

/// No bound.
const NONE: Bound = Bound::Always(None);

/// Always at most so many preemptions.
const fn at_most(preemptions: usize) -> Bound {
    Bound::Always(Some(preemptions))
}

/// Contender i acquires in the modes `programs[i]`, one after the other.
fn check(algorithm: LockAlgorithm, way: Way, programs: &'static [&'static [Mode]], bound: Bound) {
    let mut model = loom::model::Builder::new();
    // Loom's builder has read the variable.
    model.preemption_bound = match (bound, model.preemption_bound) {
        (Bound::Always(bound), _) | (Bound::Usually(_, bound), Some(_)) => bound,
        (Bound::Usually(bound, _), None) => Some(bound),
    };
    model.check(move || {
        let lock = match programs.len() as u32 {
            2 if !algorithm.is_served() => SharedLock::new(2),
            more => SharedLock::with_sleep(more, algorithm == LockAlgorithm::TestAndSet),
        };
        let others: Vec<_> = (1..programs.len())
            .map(|contender| {
                let lock = lock.clone();
                loom::thread::spawn(move || {
                    let site = lock.site(contender as u32);
                    use_lock(&lock, &site, algorithm, way, programs[contender]);
                })
            })
            .collect();
        let arbiter = algorithm.is_served().then(|| {
            let lock = lock.clone();
            loom::thread::spawn(move || lock.serve_all())
        });
        use_lock(&lock, &lock.site(0), algorithm, way, programs[0]);
        for other in others {
            other.join().unwrap();
        }
        if let Some(arbiter) = arbiter {
            arbiter.join().unwrap();
        }
        let exclusive = programs.iter().flat_map(|program| program.iter());
        let exclusive = exclusive
            .filter(|&&mode| mode == Exclusive || algorithm == LockAlgorithm::Mcs)
            .count();
        assert_eq!(lock.written(), exclusive as u64);
        assert_eq!(lock.word(), 0, "the lock word is not free at the end");
    });
}

macro_rules! cases {
    ($($name:ident: $algorithm:ident, $way:ident, $bound:expr, $programs:expr;)*) => {
        $(#[test]
        fn $name() {
            check(LockAlgorithm::$algorithm, Way::$way, $programs, $bound);
        })*
    };
}

cases! {
    test_and_set_two_writers: TestAndSet, Steps, NONE, &[&[Exclusive], &[Exclusive]];
    test_and_set_mixed: TestAndSet, Steps, NONE, &[&[Shared, Exclusive], &[Exclusive, Shared]];
    test_and_set_three: TestAndSet, Steps, at_most(3), &[&[Exclusive], &[Shared], &[Shared]];
    mcs_two: Mcs, Steps, NONE, &[&[Exclusive], &[Exclusive]];
    mcs_two_twice: Mcs, Steps, at_most(5), &[&[Exclusive, Exclusive], &[Exclusive, Exclusive]];
    mcs_three: Mcs, Steps, Bound::Usually(2, Some(3)), &[&[Exclusive], &[Exclusive], &[Exclusive]];
    queue_two_writers: Queue, Steps, NONE, &[&[Exclusive], &[Exclusive]];
    queue_writer_reader: Queue, Steps, NONE, &[&[Exclusive], &[Shared]];
    queue_two_readers: Queue, Steps, NONE, &[&[Shared], &[Shared]];
    queue_two_twice: Queue, Steps, NONE, &[&[Exclusive, Shared], &[Shared, Exclusive]];
    queue_three_writers: Queue, Steps, Bound::Usually(4, None), &[&[Exclusive], &[Exclusive], &[Exclusive]];
    queue_two_writers_reader: Queue, Steps, Bound::Usually(4, None), &[&[Exclusive], &[Exclusive], &[Shared]];
    queue_writer_two_readers: Queue, Steps, at_most(4), &[&[Exclusive], &[Shared], &[Shared]];
    queue_three_again: Queue, Steps, at_most(3), &[&[Exclusive, Exclusive], &[Shared, Shared], &[Exclusive]];
    shortcut_test_and_set: TestAndSet, Shortcut, at_most(4), &[&[Shared, Exclusive], &[Exclusive, Shared]];
    shortcut_two_writers: Queue, Shortcut, NONE, &[&[Exclusive], &[Exclusive]];
    shortcut_two_twice: Queue, Shortcut, at_most(4), &[&[Exclusive, Shared], &[Shared, Exclusive]];
    shortcut_two_writers_reader: Queue, Shortcut, at_most(3), &[&[Exclusive], &[Exclusive], &[Shared]];
    shortcut_writer_two_readers: Queue, Shortcut, at_most(3), &[&[Exclusive], &[Shared], &[Shared]];
    shortcut_and_steps: Queue, Both, at_most(3), &[&[Exclusive], &[Shared], &[Exclusive]];
    shortcut_and_steps_twice: Queue, Both, at_most(4), &[&[Shared, Exclusive], &[Exclusive, Shared]];
    served_two_writers: Event, Steps, at_most(1), &[&[Exclusive], &[Exclusive]];
    served_writer_reader: Thread, Steps, at_most(1), &[&[Exclusive], &[Shared]];
    acquire_shared_and_writer: Queue, Join, NONE, &[&[Shared], &[Exclusive]];
    acquire_shared_twice: Queue, Join, at_most(4), &[&[Shared, Shared], &[Exclusive, Shared]];
    acquire_shared_two_and_writer: Queue, Join, at_most(3), &[&[Shared], &[Exclusive], &[Shared]];
    acquire_shared_and_two_writers: Queue, Join, at_most(2), &[&[Shared, Shared], &[Exclusive], &[Exclusive]];
}
