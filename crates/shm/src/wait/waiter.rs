//! The waiting ladder: spin, yield, sleep, with the host's progress poked on the way.

use super::policy::SPINS;
use super::{Doorbell, Ticket, WaitPolicy};
use ferrorail_base::sync::{assert_unlocked, spin_loop};
use std::time::{Duration, Instant};

/// Spins between looks at the clock and the host, in a spin that is so long.
const SPINS_PER_LOOK: u32 = 1024;
/// A sleep on a doorbell is at least so long, if nobody rings.
const SLEEP_MIN: Duration = Duration::from_millis(1);
/// Yields before the first look at the clock: where ranks share cores most waits end at the first.
const UNTIMED_YIELDS: u32 = 8;
/// A nap is at least so long.
const NAP_MIN: Duration = Duration::from_micros(20);
/// When who waits first looks whether its peers are alive, and mean the same call.
const FIRST_CHECK: Duration = Duration::from_millis(100);
/// When it looks again: after as long as it has waited, but no later than this.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A step that takes longer counts as so long: this process did not run meanwhile, and nor may its peers have, as when a
/// job is suspended.
const STEP_MAX: Duration = Duration::from_secs(1);

/// The last rung of the ladder.
enum Rung<'a, 'b> {
    /// Sleeping until it is rung.
    Doorbell(&'a Doorbell<'b>),
    /// Sleeping for a while.
    Nap(&'a mut dyn FnMut(Duration)),
}

/// One wait; lives on the stack of a blocking call.
#[derive(Debug)]
pub struct Waiter {
    policy: WaitPolicy,
    spins_left: u32,
    /// Idle steps past spinning.
    steps: u32,
    /// When it looked at the clock last: for the first time when spinning ended, or had lasted long.
    looked: Option<Instant>,
    /// Time from the first look to the last one, but for what steps took beyond [`STEP_MAX`].
    waited: Duration,
    /// How long it has waited when its peers are to be looked at next.
    next_check: Duration,
    ticket: Option<Ticket>,
}

impl Waiter {
    /// A waiter at the bottom of the ladder.
    #[inline]
    pub fn new(policy: &WaitPolicy) -> Waiter {
        Waiter {
            policy: *policy,
            spins_left: policy.spin,
            steps: 0,
            looked: None,
            waited: Duration::ZERO,
            next_check: FIRST_CHECK,
            ticket: None,
        }
    }

    /// One idle step after a poll that failed. `doorbell` is given if whatever is awaited rings it;
    /// without one (memory that a NIC writes) the last rung is a nap with back-off. `poke` drives
    /// the host MPI's progress; it is called now and then in a long spin, and not in a short one.
    ///
    /// Going to sleep on a doorbell takes two steps with a poll of the caller's between them.
    ///
    /// # Panics
    /// With debug assertions, if this thread holds a [`Mutex`](ferrorail_base::sync::Mutex): others of
    /// its process may want that before what is awaited can happen.
    #[inline]
    pub fn idle(&mut self, doorbell: Option<&Doorbell<'_>>, poke: &mut dyn FnMut()) {
        match doorbell {
            Some(doorbell) => self.step((Rung::Doorbell(doorbell), self.policy.yields), poke),
            None => {
                let nap = &mut std::thread::sleep;
                self.step((Rung::Nap(nap), self.policy.yields), poke);
            }
        }
    }

    /// The first rung alone, without a look at the clock or the host in between: whether it has `arrived` before the end of
    /// that.
    #[inline]
    pub fn spin(&mut self, arrived: impl Fn() -> bool) -> bool {
        let spins = self.spins_left.min(SPINS);
        self.spins_left -= spins;
        poll(spins, arrived)
    }

    /// Before a step: polls for a while if `is_idle` says that the core is of no use to others, where ranks share cores.
    #[inline]
    pub fn spin_idle(&self, is_idle: impl FnOnce() -> bool, arrived: impl Fn() -> bool) -> bool {
        let spins = self.policy.spin_idle;
        spins != 0 && is_idle() && poll(spins, arrived)
    }

    /// As [`Waiter::idle`] without a doorbell, where the caller has its own way to nap. It is told for how long,
    /// and may nap for longer if what is awaited ends that. Naps begin after `yields`.
    #[inline]
    pub fn idle_with(
        &mut self,
        yields: Duration,
        nap: &mut dyn FnMut(Duration),
        poke: &mut dyn FnMut(),
    ) {
        self.step((Rung::Nap(nap), yields), poke);
    }

    #[inline]
    fn step(&mut self, rung: (Rung<'_, '_>, Duration), poke: &mut dyn FnMut()) {
        assert_unlocked();
        if self.spins_left != 0 {
            self.spins_left -= 1;
            spin_loop();
            if self.spins_left.is_multiple_of(SPINS_PER_LOOK) && self.spins_left != 0 {
                self.look_up(poke);
            }
            return;
        }
        self.idle_slowly(rung, poke);
    }

    /// In a long spin, as `FERRORAIL_SPIN` may ask for: the host's progress and the clock go on.
    #[cold]
    fn look_up(&mut self, poke: &mut dyn FnMut()) {
        poke();
        self.look();
    }

    /// Looks at the clock.
    fn look(&mut self) {
        let now = Instant::now();
        if let Some(before) = self.looked.replace(now) {
            self.waited += (now - before).min(STEP_MAX);
        }
    }

    #[cold]
    fn idle_slowly(&mut self, (rung, yields): (Rung<'_, '_>, Duration), poke: &mut dyn FnMut()) {
        self.steps = self.steps.wrapping_add(1);
        if self.steps <= UNTIMED_YIELDS && !yields.is_zero() {
            yield_core();
            return;
        }
        self.looked.get_or_insert_with(Instant::now);
        if self.waited < yields {
            if self.steps.is_multiple_of(self.policy.poke_every.max(1)) {
                poke();
            }
            yield_core();
            self.look();
            return;
        }
        match (rung, self.ticket.take()) {
            (Rung::Doorbell(doorbell), Some(ticket)) => {
                doorbell.sleep(ticket, self.rest(SLEEP_MIN))
            }
            (Rung::Doorbell(doorbell), None) => {
                poke();
                self.ticket = Some(doorbell.prepare());
                return;
            }
            (Rung::Nap(nap), _) => {
                poke();
                nap(self.rest(NAP_MIN));
            }
        }
        self.look();
    }

    /// Whether the wait has taken so long that the peers are to be looked at; true now and then.
    #[inline]
    pub fn is_check_due(&mut self) -> bool {
        let is_due = self.waited >= self.next_check;
        if is_due {
            self.next_check = self.waited + self.waited.min(CHECK_INTERVAL);
        }
        is_due
    }

    /// Time since the first step that looked at the clock, as of the last that did; zero before.
    #[inline]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How long to nap or to sleep next.
    fn rest(&self, least: Duration) -> Duration {
        let share = self.waited / self.policy.nap_share;
        share.max(least).min(self.policy.sleep)
    }

    /// Progress was made: back to the bottom of the ladder.
    #[inline]
    pub fn reset(&mut self) {
        *self = Waiter::new(&self.policy);
    }
}

/// Polls so many times; whether it has `arrived`.
#[inline]
fn poll(times: u32, arrived: impl Fn() -> bool) -> bool {
    (0..times).any(|_| {
        spin_loop();
        arrived()
    })
}

/// Lets another process have the core.
fn yield_core() {
    // Cannot fail on Linux.
    let _ = nix::sched::sched_yield();
}

#[cfg(test)]
mod tests {
    use super::super::policy::{NAP_SHARE, SLEEP};
    use super::*;
    use ferrorail_base::sync::{AtomicU32, AtomicU64, Ordering};

    const HASTY: WaitPolicy = WaitPolicy {
        spin: 3,
        spin_idle: 0,
        yields: Duration::from_micros(200),
        poke_every: 4,
        sleep: Duration::from_millis(1),
        nap_share: NAP_SHARE,
    };

    #[test]
    fn oversubscribed_ranks_do_not_spin() {
        assert_eq!(WaitPolicy::for_host(8, 2, None).spin, 0);
        assert_eq!(WaitPolicy::for_host(2, 2, None).spin, SPINS);
        assert_eq!(WaitPolicy::for_host(8, 2, Some(7)).spin, 7);
        assert_eq!(WaitPolicy::for_host(1, 2, Some(0)).spin, 0);
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
}
