//! A deterministic world for locks: one thread, virtual time, every message takes a time drawn
//! from the seed and has its effect in the middle of it.

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ferrorail_base::random::SplitMix64;

use crate::lock::{Arbiter, LockSite, Mailbox, Pause, RemoteWord};

/// Mean time of a message from its posting to its completion.
pub const ROUND_TRIP: u64 = 100;
/// Time between two looks at a mailbox.
const LOOK: u64 = 4;
/// Later than anything that is planned.
const NEVER: u64 = u64::MAX;
/// In place of when a task goes on.
const ENDED: u64 = 0;
/// Ten times the longest contest: only a lost wake-up lasts that long.
const END_OF_TIME: u64 = 1 << 23;

struct Words {
    home: u64,
    mailboxes: Vec<Vec<u64>>,
    requests: Vec<u64>,
    /// Whether the arbiter was woken since it last looked.
    woken: bool,
    /// So far: each access to a word of another one, as figure 4.7 of the thesis counts.
    messages: u64,
    /// Called at each effect on the lock word, with the contender, and at each request.
    at_home: Rc<dyn Fn(u32)>,
}

/// A word that somebody waits for.
#[derive(Clone, Copy)]
enum Place {
    Mailbox(u32, Mailbox),
    Request(u32),
}

impl Words {
    fn at(&mut self, place: Place) -> &mut u64 {
        match place {
            Place::Mailbox(contender, mailbox) => {
                &mut self.mailboxes[contender as usize][mailbox.index()]
            }
            Place::Request(contender) => &mut self.requests[contender as usize],
        }
    }
}

/// A store that nobody acknowledged, and when it is accounted for.
struct Owed {
    due: u64,
    place: Place,
    value: u64,
}

/// Time and the memory of one lock.
pub struct World {
    now: Cell<u64>,
    /// When the task that runs goes on.
    next: Cell<u64>,
    random: RefCell<SplitMix64>,
    words: RefCell<Words>,
    /// How many of 100 stores are not acknowledged.
    lost_percent: Cell<u64>,
    owed: RefCell<Vec<Owed>>,
}

impl World {
    pub fn new(seed: u64, contenders: u32, at_home: Rc<dyn Fn(u32)>) -> Rc<Self> {
        Rc::new(Self {
            now: Cell::new(0),
            next: Cell::new(NEVER),
            random: RefCell::new(SplitMix64(seed)),
            words: RefCell::new(Words {
                home: 0,
                mailboxes: vec![
                    vec![0; Mailbox::COMMON + contenders as usize];
                    contenders as usize
                ],
                requests: vec![0; contenders as usize],
                woken: false,
                messages: 0,
                at_home,
            }),
            lost_percent: Cell::new(0),
            owed: RefCell::default(),
        })
    }

    /// From now on so many of 100 stores are not acknowledged, whether they took effect or not.
    pub fn lose(&self, percent: u64) {
        self.lost_percent.set(percent);
    }

    /// Stores `value`; when the store is complete. If it is not acknowledged that takes until failover
    /// has looked whether it arrived.
    fn deliver(&self, place: Place, value: u64) -> u64 {
        let percent = self.lost_percent.get();
        let lost = percent > 0 && self.random(100) < percent;
        if !lost || self.random(2) == 0 {
            *self.words.borrow_mut().at(place) = value;
        }
        if !lost {
            return self.now();
        }
        let due = self.now() + self.random(50 * ROUND_TRIP);
        self.owed.borrow_mut().push(Owed { due, place, value });
        due
    }

    /// Does what failover does: a word that has reached the value proves that the store arrived,
    /// else it is done again.
    fn account(&self) {
        let mut words = self.words.borrow_mut();
        self.owed.borrow_mut().retain(|owed| {
            if owed.due > self.now() {
                return true;
            }
            let word = words.at(owed.place);
            *word = owed.value.max(*word);
            words.woken = true;
            false
        });
    }

    pub fn site(self: &Rc<Self>, contender: u32) -> VirtualSite {
        VirtualSite {
            world: self.clone(),
            contender,
        }
    }

    pub fn now(&self) -> u64 {
        self.now.get()
    }

    pub fn home(&self) -> u64 {
        self.words.borrow().home
    }

    /// From 0 to below `bound`.
    pub fn random(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    pub async fn sleep(&self, time: u64) {
        let until = self.now() + time;
        poll_fn(|_| {
            if self.now() >= until {
                return Poll::Ready(());
            }
            self.next.set(until);
            Poll::Pending
        })
        .await;
    }

    /// Runs the arbiter while `working`: it looks all the time, or only when it was woken.
    pub async fn serve(&self, sleeps: bool, working: impl Fn() -> bool) {
        let mut arbiter = Arbiter::new(self.words.borrow().requests.len() as u32);
        while working() {
            if !sleeps || core::mem::take(&mut self.words.borrow_mut().woken) {
                let requests = self.words.borrow().requests.clone();
                for (contender, request) in requests.into_iter().enumerate() {
                    arbiter.observe(contender as u32, request);
                }
                while let Some((contender, value)) = arbiter.grant() {
                    self.send().await;
                    self.deliver(Place::Mailbox(contender, Mailbox::Grant), value);
                }
            }
            self.sleep(LOOK).await;
        }
        assert!(arbiter.is_idle(), "somebody left without the release");
    }

    /// Messages of the contenders and the arbiter.
    pub fn messages(&self) -> u64 {
        self.words.borrow().messages
    }

    /// The way of a message to where it takes effect.
    async fn send(&self) {
        self.words.borrow_mut().messages += 1;
        self.sleep(self.half_a_message()).await;
    }

    fn half_a_message(&self) -> u64 {
        ROUND_TRIP / 4 + self.random(ROUND_TRIP / 2)
    }

    /// Runs all tasks to their end, those that are due at the same time in random order.
    pub fn run(&self, tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
        let mut context = Context::from_waker(Waker::noop());
        // With each task, when it goes on.
        let mut tasks: Vec<_> = tasks.into_iter().map(|task| (0, task)).collect();
        let mut due = Vec::new();
        while !tasks.is_empty() {
            self.account();
            let now = self.now();
            due.clear();
            due.extend((0..tasks.len()).filter(|&task| tasks[task].0 <= now));
            for index in (1..due.len()).rev() {
                due.swap(index, self.random(index as u64 + 1) as usize);
            }
            for &index in &due {
                let (next, task) = &mut tasks[index];
                self.next.set(NEVER);
                let ended = task.as_mut().poll(&mut context).is_ready();
                *next = if ended { ENDED } else { self.next.get() };
            }
            tasks.retain(|&(next, _)| next != ENDED);
            let owed = self.owed.borrow();
            let next = tasks.iter().map(|&(next, _)| next);
            let next = next.chain(owed.iter().map(|owed| owed.due)).min();
            let next = next.unwrap_or(NEVER);
            assert!(
                tasks.is_empty() || next < END_OF_TIME,
                "a wake-up was lost: {} contenders wait for ever",
                tasks.len()
            );
            if !tasks.is_empty() {
                self.now.set(next);
            }
        }
    }
}

pub struct VirtualSite {
    world: Rc<World>,
    contender: u32,
}

pub struct VirtualWord<'a> {
    site: &'a VirtualSite,
    /// A mailbox, or the lock word.
    mailbox: Option<(u32, Mailbox)>,
}

impl VirtualWord<'_> {
    async fn access(&self, change: impl FnOnce(u64) -> u64) -> Result<u64, Infallible> {
        let world = &self.site.world;
        world.send().await;
        let before = {
            let mut words = world.words.borrow_mut();
            if self.mailbox.is_none() {
                (words.at_home)(self.site.contender);
            }
            let word = match self.mailbox {
                None => &mut words.home,
                Some((contender, mailbox)) => {
                    &mut words.mailboxes[contender as usize][mailbox.index()]
                }
            };
            let before = *word;
            *word = change(before);
            before
        };
        world.sleep(world.half_a_message()).await;
        Ok(before)
    }
}

impl RemoteWord for VirtualWord<'_> {
    type Error = Infallible;

    async fn store(&self, value: u64) -> Result<(), Infallible> {
        let world = &self.site.world;
        let (contender, mailbox) = self.mailbox.expect("the lock word is changed atomically");
        world.send().await;
        let complete = world.deliver(Place::Mailbox(contender, mailbox), value);
        world
            .sleep(complete - world.now() + world.half_a_message())
            .await;
        Ok(())
    }

    async fn compare_swap(&self, compare: u64, swap: u64) -> Result<u64, Infallible> {
        self.access(|word| if word == compare { swap } else { word })
            .await
    }

    async fn fetch_add(&self, add: u64) -> Result<u64, Infallible> {
        self.access(|word| word.wrapping_add(add)).await
    }
}

impl LockSite for VirtualSite {
    type Error = Infallible;
    type Word<'a> = VirtualWord<'a>;

    fn contender(&self) -> u32 {
        self.contender
    }

    fn contenders(&self) -> u32 {
        self.world.words.borrow().mailboxes.len() as u32
    }

    fn home(&self) -> VirtualWord<'_> {
        VirtualWord {
            site: self,
            mailbox: None,
        }
    }

    fn mailbox(&self, contender: u32, mailbox: Mailbox) -> VirtualWord<'_> {
        VirtualWord {
            site: self,
            mailbox: Some((contender, mailbox)),
        }
    }

    fn own(&self, mailbox: Mailbox) -> u64 {
        self.world.words.borrow().mailboxes[self.contender as usize][mailbox.index()]
    }

    async fn ask(&self, request: u64, wake: bool) -> Result<(), Infallible> {
        let world = &self.world;
        world.send().await;
        {
            let mut words = world.words.borrow_mut();
            (words.at_home)(self.contender);
            words.woken |= wake;
        }
        let complete = world.deliver(Place::Request(self.contender), request);
        world
            .sleep(complete - world.now() + world.half_a_message())
            .await;
        Ok(())
    }

    async fn pause(&self, why: Pause) -> Result<(), Infallible> {
        match why {
            Pause::Mailbox => self.world.sleep(LOOK).await,
            // A round trip takes a microsecond.
            Pause::Backoff(microseconds) => {
                let pause = u64::from(microseconds) * ROUND_TRIP;
                self.world.sleep(pause).await;
            }
        }
        Ok(())
    }
}
