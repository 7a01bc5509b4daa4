//! The rungs of the ladder, one after another.

use super::super::policy::{NAP_SHARE, SLEEP};
use super::*;
use ferrorail_base::sync::{AtomicU32, AtomicU64, Ordering};

const HASTY: WaitPolicy = WaitPolicy {
    spin: 3,
    spin_idle: 0,
    spin_crowded: 0,
    yields: Duration::from_micros(200),
    poke_every: 4,
    sleep: Duration::from_millis(1),
    nap_share: NAP_SHARE,
    suspends: false,
};

#[test]
fn oversubscribed_ranks_do_not_spin() {
    assert_eq!(WaitPolicy::for_host(8, 2, None).spin, 0);
    assert_eq!(WaitPolicy::for_host(2, 2, None).spin, SPINS);
    assert_eq!(WaitPolicy::for_host(8, 2, Some(7)).spin, 7);
    assert_eq!(WaitPolicy::for_host(1, 2, Some(0)).spin, 0);
    assert_eq!(WaitPolicy::for_host(8, 2, None).spin_crowded, 0);
    assert_ne!(WaitPolicy::for_host(2, 2, None).spin_crowded, 0);
    assert_eq!(WaitPolicy::for_host(2, 2, Some(7)).spin_crowded, 0);
}

#[test]
fn where_others_use_the_cores_yields_are_left_out() {
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let doorbell = Doorbell::new(&words[0], &words[1]);
    let mut waiter = Waiter::new(&WaitPolicy {
        spin_crowded: 5,
        yields: Duration::from_secs(60),
        ..HASTY
    });
    CROWD.note(Duration::from_millis(3), Duration::from_secs(3600));
    // One step more turns to the longer spin.
    for _ in 0..HASTY.spin + 1 + 5 {
        waiter.idle(Some(&doorbell), &mut || {});
        assert_eq!(words[0].load(Ordering::Relaxed), 0, "spinning");
    }
    waiter.idle(Some(&doorbell), &mut || {});
    assert_ne!(words[0].load(Ordering::Relaxed), 0, "about to sleep");
}

#[test]
fn the_ladder_is_climbed_in_order() {
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let doorbell = Doorbell::new(&words[0], &words[1]);
    let mut pokes = 0;
    let mut waiter = Waiter::new(&HASTY);
    for _ in 0..3 {
        waiter.idle(Some(&doorbell), &mut || pokes += 1);
    }
    assert_eq!((pokes, waiter.waited()), (0, Duration::ZERO), "spinning");
    while waiter.waited() < HASTY.yields {
        waiter.idle(Some(&doorbell), &mut || pokes += 1);
        assert_eq!(
            words[0].load(Ordering::Relaxed),
            0,
            "yielding marks nothing"
        );
    }
    pokes = 0;
    waiter.idle(Some(&doorbell), &mut || pokes += 1);
    assert_eq!(
        (pokes, words[0].load(Ordering::Relaxed)),
        (1, 1),
        "ticket taken"
    );
    doorbell.ring();
    assert_eq!(
        words.each_ref().map(|word| word.load(Ordering::Relaxed)),
        [0, 1]
    );
    // A ring since the ticket: this sleep returns at once, however long it may last.
    waiter.policy.sleep = Duration::from_secs(3600);
    waiter.idle(Some(&doorbell), &mut || pokes += 1);
    assert_eq!(pokes, 1);
    waiter.reset();
    assert_eq!((waiter.waited(), waiter.spins_left), (Duration::ZERO, 3));
}

#[test]
fn who_stays_awake_goes_on_waiting() {
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let doorbell = Doorbell::new(&words[0], &words[1]);
    let mut waiter = Waiter::new(&HASTY);
    while words[0].load(Ordering::Relaxed) == 0 {
        waiter.idle(Some(&doorbell), &mut || {});
    }
    let waited = waiter.waited();
    assert!(waited >= HASTY.yields);
    words[0].store(0, Ordering::Relaxed);
    waiter.stay_awake();
    assert_eq!((waiter.waited(), waiter.spins_left), (waited, HASTY.spin));
    while waiter.waited() < waited + HASTY.yields {
        waiter.idle(Some(&doorbell), &mut || {});
        assert_eq!(words[0].load(Ordering::Relaxed), 0, "about to sleep");
    }
    waiter.idle(Some(&doorbell), &mut || {});
    assert_ne!(words[0].load(Ordering::Relaxed), 0, "awake");
    // Peers are looked at, however often it stays awake.
    while !waiter.is_check_due() {
        let mut asked = false;
        waiter.idle(Some(&doorbell), &mut || asked = true);
        if asked {
            waiter.stay_awake();
        }
    }
}

#[test]
fn a_sleep_without_ring_ends() {
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let doorbell = Doorbell::new(&words[0], &words[1]);
    let mut pokes = 0;
    let mut waiter = Waiter::new(&WaitPolicy { spin: 0, ..HASTY });
    for _ in 0..100_000 {
        if waiter.waited() > Duration::from_millis(10) {
            break;
        }
        waiter.idle(Some(&doorbell), &mut || pokes += 1);
    }
    assert!(waiter.waited() > Duration::from_millis(10));
    assert!(pokes >= 2, "the host is poked while sleeping");
}

#[test]
fn a_long_spin_drives_the_host_and_the_clock() {
    let mut pokes = 0;
    let mut waiter = Waiter::new(&WaitPolicy {
        spin: u32::MAX,
        ..HASTY
    });
    for _ in 0..4 * SPINS_PER_LOOK {
        waiter.idle(None, &mut || pokes += 1);
    }
    assert_eq!(pokes, 4);
    assert!(waiter.waited() > Duration::ZERO);
}

#[test]
fn a_job_that_was_suspended_has_not_waited_meanwhile() {
    let mut waiter = Waiter::new(&WaitPolicy { spin: 0, ..HASTY });
    let hour = Duration::from_secs(3600);
    for _ in 0..3 {
        waiter.looked = Instant::now().checked_sub(hour);
        waiter.look();
    }
    assert_eq!(waiter.waited(), 3 * STEP_MAX);
    waiter.looked = Instant::now().checked_sub(STEP_MAX / 2);
    waiter.look();
    assert!(waiter.waited() >= 3 * STEP_MAX + STEP_MAX / 2);
}

#[test]
fn naps_poke_and_lengthen_with_the_wait() {
    let mut pokes = 0;
    let mut waiter = Waiter::new(&WaitPolicy {
        spin: 0,
        yields: Duration::ZERO,
        ..HASTY
    });
    for _ in 0..8 {
        waiter.idle(None, &mut || pokes += 1);
    }
    assert_eq!(pokes, 8);
    assert!(waiter.waited() >= 8 * NAP_MIN);

    waiter.policy.sleep = SLEEP;
    let mut rest = |waited, least| {
        waiter.waited = waited;
        waiter.rest(least)
    };
    let millisecond = Duration::from_millis(1);
    assert_eq!(rest(Duration::ZERO, NAP_MIN), NAP_MIN);
    assert_eq!(rest(4 * millisecond, NAP_MIN), millisecond / 4);
    assert_eq!(rest(4 * millisecond, SLEEP_MIN), millisecond);
    assert_eq!(rest(32 * millisecond, SLEEP_MIN), 2 * millisecond);
    assert_eq!(rest(100 * millisecond, NAP_MIN), SLEEP);
}

#[test]
fn threads_wake_each_other() {
    const ROUNDS: u64 = 200;
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let turn = AtomicU64::new(0);
    let policy = WaitPolicy {
        spin: 0,
        yields: Duration::ZERO,
        ..HASTY
    };
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (words, turn) = (&words, &turn);
            scope.spawn(move || {
                let doorbell = Doorbell::new(&words[0], &words[1]);
                for round in (0..ROUNDS).filter(|round| round % 2 == me) {
                    let mut waiter = Waiter::new(&policy);
                    while turn.load(Ordering::Acquire) != round {
                        waiter.idle(Some(&doorbell), &mut || ());
                    }
                    turn.store(round + 1, Ordering::Release);
                    doorbell.ring();
                }
            });
        }
    });
    assert_eq!(turn.load(Ordering::Relaxed), ROUNDS);
}
