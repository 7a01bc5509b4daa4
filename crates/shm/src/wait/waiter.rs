//! The waiting ladder: spin, yield, sleep, with the host's progress poked on the way.

use super::crowd::CROWD;
use super::policy::SPINS;
use super::{Doorbell, Ticket, WaitPolicy};
use ferrorail_base::fiber;
use ferrorail_base::sync::{assert_unlocked, spin_loop, yield_now};
use std::time::{Duration, Instant};

/// Spins between looks at the clock and the host, in a spin that is so long.
const SPINS_PER_LOOK: u32 = 1024;
/// A sleep on a doorbell is at least so long, if nobody rings.
const SLEEP_MIN: Duration = Duration::from_millis(1);
/// Yields before the first look at the clock: where ranks share cores most waits end at the first.
const UNTIMED_YIELDS: u32 = 8;
/// How many times the polls of [`WaitPolicy::spin_idle`] ranks of another core take to come one by one: 10 to 20 us then. Later
/// steps are shorter, as the host's progress and other programs are not to wait for them.
const COMING_ONE_BY_ONE: u32 = 12;
/// A nap is at least so long.
const NAP_MIN: Duration = Duration::from_micros(20);
/// Steps between looks at the clock in a fiber, which is left at each.
const SUSPENDED_PER_LOOK: u32 = 16;
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
    /// Polls instead of yields where other programs use the core; 0 where they do not.
    spins_crowded: u32,
    /// Idle steps past spinning.
    steps: u32,
    /// When it looked at the clock last: for the first time when spinning ended, or had lasted long.
    looked: Option<Instant>,
    /// Time from the first look to the last one, but for what steps took beyond [`STEP_MAX`].
    waited: Duration,
    /// How long it has waited when its peers are to be looked at next.
    next_check: Duration,
    /// Until it has waited so long it polls with yields, whatever the policy says.
    awake_until: Duration,
    ticket: Option<Ticket>,
}

impl Waiter {
    /// A waiter at the bottom of the ladder.
    #[inline]
    pub fn new(policy: &WaitPolicy) -> Waiter {
        Waiter {
            policy: *policy,
            spins_left: policy.spin,
            spins_crowded: 0,
            steps: 0,
            looked: None,
            waited: Duration::ZERO,
            next_check: FIRST_CHECK,
            awake_until: Duration::ZERO,
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

    /// Before a step: polls for a while if `is_idle` says that the core is of no use to others, where ranks share cores. At
    /// first for as long as others take to come one after the other, if the caller waits for what each `publishes_first`.
    #[inline]
    pub fn spin_idle(
        &self,
        publishes_first: bool,
        is_idle: impl FnOnce() -> bool,
        arrived: impl Fn() -> bool,
    ) -> bool {
        let spins = match publishes_first && self.steps < UNTIMED_YIELDS {
            true => self.policy.spin_idle * COMING_ONE_BY_ONE,
            false => self.policy.spin_idle,
        };
        let waits = !self.policy.suspends || fiber::is_awaited();
        spins != 0 && waits && is_idle() && poll(spins, arrived)
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
        if self.policy.suspends && fiber::suspend() {
            if self.steps.is_multiple_of(SUSPENDED_PER_LOOK) {
                self.look();
            }
            self.steps = self.steps.wrapping_add(1);
            return;
        }
        let looks_around = self.policy.spin_crowded != 0;
        if looks_around && self.steps == 0 {
            if self.spins_crowded != 0 {
                CROWD.spun_in_vain(self.spins_crowded);
            } else if CROWD.is_here() {
                self.spins_crowded = CROWD.spins(self.policy.spin_crowded);
                self.spins_left = self.spins_crowded;
                return;
            }
        }
        let yields = match self.spins_crowded {
            0 => yields.max(self.awake_until),
            _ => Duration::ZERO,
        };
        let give_way = || match looks_around {
            true => CROWD.give_way(),
            false => yield_now(),
        };
        self.steps = self.steps.wrapping_add(1);
        if self.steps <= UNTIMED_YIELDS && !yields.is_zero() {
            give_way();
            return;
        }
        self.looked.get_or_insert_with(Instant::now);
        if self.waited < yields {
            if self.steps.is_multiple_of(self.policy.poke_every.max(1)) {
                poke();
            }
            give_way();
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

    /// What the caller did meanwhile for others may have to be done again: polls for as long as at first, and then goes
    /// on as one that has waited all the time.
    #[cold]
    pub fn stay_awake(&mut self) {
        let mut awake = Self::new(&self.policy);
        (awake.looked, awake.waited) = (self.looked, self.waited);
        awake.next_check = self.next_check;
        awake.awake_until = self.waited + self.policy.yields;
        *self = awake;
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

#[cfg(test)]
mod tests;
