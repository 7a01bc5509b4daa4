//! Sixteen threads on real atomics, yielding where the seed says.

use std::sync::Arc;

use ferrorail_base::random::SplitMix64;
use ferrorail_base::sync::yield_now;

use super::atomic_site::SharedLock;
use super::{block_on, part};
use crate::lock::{Entrance, LockAlgorithm, Mode};

const CONTENDERS: u32 = 16;

fn stress(algorithm: LockAlgorithm, seed: u64, shared_percent: u64) {
    let lock = SharedLock::new(CONTENDERS);
    let arbiter = algorithm.is_served().then(|| {
        let lock = Arc::clone(&lock);
        std::thread::spawn(move || lock.serve_all())
    });
    let threads: Vec<_> = (0..CONTENDERS)
        .map(|contender| {
            let lock = Arc::clone(&lock);
            std::thread::spawn(move || {
                let site = lock.site(contender);
                let mut part = part(algorithm);
                let mut random = SplitMix64(seed ^ u64::from(contender) << 32);
                let mut exclusive = 0;
                for _ in 0..80 {
                    let shared =
                        random.draw() % 100 < shared_percent && algorithm != LockAlgorithm::Mcs;
                    let mode = if shared {
                        Mode::Shared
                    } else {
                        Mode::Exclusive
                    };
                    exclusive += u64::from(!shared);
                    let quick = random.draw().is_multiple_of(2)
                        && algorithm.try_enter(lock.home(), contender, mode);
                    if !quick {
                        let acquired = part.acquire(&site, Entrance::Fair(mode));
                        block_on(acquired, yield_now).expect("acquire");
                    }
                    lock.critical_section(mode, || {
                        if random.draw().is_multiple_of(3) {
                            yield_now();
                        }
                    });
                    if random.draw().is_multiple_of(4) {
                        yield_now();
                    }
                    if quick && algorithm.try_leave(lock.home(), contender, mode) {
                        lock.changed();
                        continue;
                    }
                    if quick {
                        part.adopt(mode);
                    }
                    block_on(part.release(&site), yield_now).expect("release");
                }
                lock.leave();
                exclusive
            })
        })
        .collect();
    let exclusive: u64 = threads
        .into_iter()
        .map(|thread| thread.join().expect("a contender failed"))
        .sum();
    if let Some(arbiter) = arbiter {
        arbiter.join().expect("the arbiter failed");
    }
    assert_eq!(lock.written(), exclusive, "{algorithm:?}, seed {seed}");
    assert_eq!(lock.word(), 0, "{algorithm:?}, seed {seed}");
}

/// Readers hold several locks, taken in any order, beside writers of each: whoever queued fairly while it
/// holds others would wait for ever.
#[test]
fn holders_of_several_locks_and_writers_do_not_wait_for_each_other() {
    const LOCKS: usize = 3;
    for algorithm in [LockAlgorithm::TestAndSet, LockAlgorithm::Queue] {
        let locks: Arc<Vec<_>> = Arc::new((0..LOCKS).map(|_| SharedLock::new(8)).collect());
        let threads: Vec<_> = (0..8)
            .map(|contender| {
                let locks = locks.clone();
                std::thread::spawn(move || {
                    let sites: Vec<_> = locks.iter().map(|lock| lock.site(contender)).collect();
                    let mut parts: Vec<_> = (0..LOCKS).map(|_| part(algorithm)).collect();
                    let mut random = SplitMix64(u64::from(contender));
                    for _ in 0..200 {
                        let first = random.draw() as usize;
                        if contender % 2 == 0 {
                            let which = first % LOCKS;
                            let (part, site) = (&mut parts[which], &sites[which]);
                            let entrance = Entrance::Fair(Mode::Exclusive);
                            block_on(part.acquire(site, entrance), yield_now).expect("one");
                            locks[which].critical_section(Mode::Exclusive, yield_now);
                            block_on(part.release(site), yield_now).expect("release");
                            continue;
                        }
                        for index in 0..LOCKS {
                            let which = (first + index) % LOCKS;
                            let joined = parts[which].acquire(&sites[which], Entrance::Joining);
                            block_on(joined, yield_now).expect("join");
                            yield_now();
                        }
                        for (index, part) in parts.iter_mut().enumerate() {
                            locks[index].critical_section(Mode::Shared, yield_now);
                            block_on(part.release(&sites[index]), yield_now).expect("release");
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("a contender failed");
        }
        for lock in locks.iter() {
            assert_eq!(
                (lock.word(), lock.written() > 0),
                (0, true),
                "{algorithm:?}"
            );
        }
    }
}

#[test]
fn sixteen_threads_write() {
    for seed in 0..3 {
        for algorithm in LockAlgorithm::ALL {
            stress(algorithm, seed, 0);
        }
    }
}

#[test]
fn sixteen_threads_read_and_write() {
    for seed in 0..3 {
        for algorithm in LockAlgorithm::ALL {
            stress(algorithm, seed, 30 + 20 * seed);
        }
    }
}
