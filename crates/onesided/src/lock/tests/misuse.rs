//! What callers may do wrong, and the names.

use super::atomic_site::SharedLock;
use super::{block_on, part};
use crate::lock::{Arbiter, Entrance, LockAlgorithm, LockError, Mode, SEATS};

#[test]
fn a_lock_is_not_acquired_or_released_twice() {
    for algorithm in LockAlgorithm::ALL {
        let shared = SharedLock::new(2);
        let site = shared.site(1);
        let mut arbiter = Arbiter::new(2);
        let mut relax = || {
            shared.serve(&mut arbiter);
        };
        let mut lock = part(algorithm);
        assert_eq!(
            block_on(lock.release(&site), &mut relax),
            Err(LockError::NotHeld)
        );
        for entrance in [Mode::Shared, Mode::Exclusive].map(Entrance::Fair) {
            assert_eq!(block_on(lock.acquire(&site, entrance), &mut relax), Ok(()));
            assert_eq!(
                block_on(lock.acquire(&site, entrance), &mut relax),
                Err(LockError::Held)
            );
            assert_eq!(block_on(lock.release(&site), &mut relax), Ok(()));
        }
        assert_eq!(
            block_on(lock.release(&site), &mut relax),
            Err(LockError::NotHeld)
        );
    }
}

#[test]
fn queue_refuses_more_contenders_than_it_has_seats() {
    let shared = SharedLock::new(SEATS + 1);
    let mut lock = part(LockAlgorithm::Queue);
    let entrance = Entrance::Fair(Mode::Exclusive);
    let refused = block_on(lock.acquire(&shared.site(0), entrance), || ());
    assert!(matches!(
        refused,
        Err(LockError::Contenders { max: SEATS, .. })
    ));
    assert_eq!(shared.word(), 0);
}

#[test]
fn algorithms_are_found_by_name() {
    for algorithm in LockAlgorithm::ALL {
        assert_eq!(LockAlgorithm::from_name(algorithm.name()), Some(algorithm));
    }
    assert_eq!(LockAlgorithm::from_name("spin"), None);
}
