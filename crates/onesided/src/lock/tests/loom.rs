//! Every interleaving of a few contenders. Loom fails on a lost wake-up by itself: nobody can run.

use ferrorail_base::sync::yield_now;

use super::atomic_site::{AtomicSite, SharedLock};
use crate::lock::Mode::{Exclusive, Shared};
use crate::lock::{AnyLock, LockAlgorithm, Mode, RemoteLock, block_on};

fn use_lock(lock: &SharedLock, site: &AtomicSite, algorithm: LockAlgorithm, modes: &[Mode]) {
    let mut part = AnyLock::new(algorithm);
    for &mode in modes {
        let Ok(()) = block_on(part.acquire(site, mode), yield_now) else {
            panic!("acquire failed");
        };
        // Treated as exclusive, so checked as exclusive.
        let checked = match algorithm {
            LockAlgorithm::Mcs => Exclusive,
            _ => mode,
        };
        lock.critical_section(checked, || ());
        let Ok(()) = block_on(part.release(site), yield_now) else {
            panic!("release failed");
        };
    }
}

/// Contender i acquires in the modes `programs[i]`, one after the other. `preemptions` bounds
/// the search; without it, it is exhaustive.
fn check(
    algorithm: LockAlgorithm,
    programs: &'static [&'static [Mode]],
    preemptions: Option<usize>,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let lock = match programs.len() as u32 {
            2 => SharedLock::new(2),
            more => SharedLock::with_sleep(more, algorithm == LockAlgorithm::TestAndSet),
        };
        let others: Vec<_> = (1..programs.len())
            .map(|contender| {
                let lock = lock.clone();
                loom::thread::spawn(move || {
                    let site = lock.site(contender as u32);
                    use_lock(&lock, &site, algorithm, programs[contender]);
                })
            })
            .collect();
        use_lock(&lock, &lock.site(0), algorithm, programs[0]);
        for other in others {
            other.join().unwrap();
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
    ($($name:ident: $algorithm:ident, $preemptions:expr, $programs:expr;)*) => {
        $(#[test]
        fn $name() {
            check(LockAlgorithm::$algorithm, $programs, $preemptions);
        })*
    };
}

cases! {
    test_and_set_two_writers: TestAndSet, None, &[&[Exclusive], &[Exclusive]];
    test_and_set_mixed: TestAndSet, None, &[&[Shared, Exclusive], &[Exclusive, Shared]];
    test_and_set_three: TestAndSet, Some(3), &[&[Exclusive], &[Shared], &[Shared]];
    mcs_two: Mcs, None, &[&[Exclusive], &[Exclusive]];
    mcs_two_twice: Mcs, Some(5), &[&[Exclusive, Exclusive], &[Exclusive, Exclusive]];
    mcs_three: Mcs, Some(3), &[&[Exclusive], &[Exclusive], &[Exclusive]];
    queue_two_writers: Queue, None, &[&[Exclusive], &[Exclusive]];
    queue_writer_reader: Queue, None, &[&[Exclusive], &[Shared]];
    queue_two_readers: Queue, None, &[&[Shared], &[Shared]];
    queue_two_twice: Queue, None, &[&[Exclusive, Shared], &[Shared, Exclusive]];
    queue_three_writers: Queue, None, &[&[Exclusive], &[Exclusive], &[Exclusive]];
    queue_two_writers_reader: Queue, None, &[&[Exclusive], &[Exclusive], &[Shared]];
    queue_writer_two_readers: Queue, Some(4), &[&[Exclusive], &[Shared], &[Shared]];
    queue_three_again: Queue, Some(3), &[&[Exclusive, Exclusive], &[Shared, Shared], &[Exclusive]];
}
