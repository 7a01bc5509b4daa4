//! A lock in this process, over CPU (or loom's) atomics.

use core::convert::Infallible;
use core::future::poll_fn;
use core::task::Poll;
use std::sync::Arc;

use ferrorail_base::sync::{AtomicU64, Ordering};

use crate::lock::{Arbiter, LockSite, Mailbox, Mode, Pause, RemoteWord};

/// The words of one lock, and what its holders check.
pub struct SharedLock {
    home: AtomicU64,
    mailboxes: Vec<Vec<AtomicU64>>,
    requests: Vec<AtomicU64>,
    /// Contenders that will ask no more.
    gone: AtomicU64,
    inside: AtomicU64,
    data: AtomicU64,
    /// Under loom: sleeping contenders. Two that merely yield to each other would starve a third.
    #[cfg(loom)]
    sleepers: Option<Vec<loom::sync::Notify>>,
    /// Whether an addition to the lock word wakes all, as only test-and-set needs.
    #[cfg(loom)]
    home_wakes: bool,
}

const EXCLUSIVE: u64 = 1 << 32;

impl SharedLock {
    pub fn new(contenders: u32) -> Arc<Self> {
        Arc::new(Self::polled(contenders))
    }

    fn polled(contenders: u32) -> Self {
        let zeros = |words| (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let mailboxes = (0..contenders).map(|_| zeros(Mailbox::COMMON + contenders as usize));
        Self {
            home: AtomicU64::new(0),
            mailboxes: mailboxes.collect(),
            requests: zeros(contenders as usize),
            gone: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            data: AtomicU64::new(0),
            #[cfg(loom)]
            sleepers: None,
            #[cfg(loom)]
            home_wakes: false,
        }
    }

    /// As `new`, but who pauses sleeps until something that concerns it has changed: a lost wake-up
    /// is a deadlock, which loom reports. Waking orders memory, so `new` checks the orderings better.
    #[cfg(loom)]
    pub fn with_sleep(contenders: u32, home_wakes: bool) -> Arc<Self> {
        // The last is the arbiter.
        let sleepers = (0..=contenders).map(|_| loom::sync::Notify::new());
        Arc::new(Self {
            sleepers: Some(sleepers.collect()),
            home_wakes,
            ..Self::polled(contenders)
        })
    }

    /// Wakes the owner of a changed mailbox, or all after a change of the lock word.
    #[cfg(loom)]
    fn wake(&self, owner: Option<u32>) {
        if owner.is_none() && !self.home_wakes {
            return;
        }
        for (index, sleeper) in self.sleepers.iter().flatten().enumerate() {
            if owner.is_none_or(|owner| owner as usize == index) {
                sleeper.notify();
            }
        }
    }

    #[cfg(not(loom))]
    fn wake(&self, _owner: Option<u32>) {}

    /// The lock word itself, for shortcuts.
    pub fn home(&self) -> &AtomicU64 {
        &self.home
    }

    /// Wakes who waits for a change of the lock word, after a shortcut changed it.
    pub fn changed(&self) {
        self.wake(None);
    }

    /// One look of the arbiter at all requests; whether there was news.
    pub fn serve(&self, arbiter: &mut Arbiter) -> bool {
        let mut news = false;
        for (contender, request) in self.requests.iter().enumerate() {
            news |= arbiter.observe(contender as u32, request.load(Ordering::Acquire));
        }
        while let Some((contender, value)) = arbiter.grant() {
            let mailbox = &self.mailboxes[contender as usize][Mailbox::Grant.index()];
            mailbox.store(value, Ordering::Release);
            self.wake(Some(contender));
        }
        news
    }

    /// Runs the arbiter until all contenders have left.
    pub fn serve_all(&self) {
        let contenders = self.requests.len();
        let mut arbiter = Arbiter::new(contenders as u32);
        loop {
            let last = self.gone.load(Ordering::Acquire) == contenders as u64;
            let news = self.serve(&mut arbiter);
            if last {
                assert!(arbiter.is_idle(), "somebody left without the release");
                return;
            }
            if !news {
                #[cfg(loom)]
                if let Some(sleepers) = &self.sleepers {
                    sleepers[contenders].wait();
                    continue;
                }
                ferrorail_base::sync::yield_now();
            }
        }
    }

    /// A contender will ask no more.
    pub fn leave(&self) {
        self.gone.fetch_add(1, Ordering::AcqRel);
        self.wake(Some(self.requests.len() as u32));
    }

    pub fn site(self: &Arc<Self>, contender: u32) -> AtomicSite {
        AtomicSite {
            lock: self.clone(),
            contender,
        }
    }

    /// What a holder does: an exclusive one adds one to the data. All accesses to the data are
    /// relaxed, so that only the lock can order them; the updates of `inside` see the latest value
    /// always.
    pub fn critical_section(&self, mode: Mode, stay: impl FnOnce()) {
        let unit = match mode {
            Mode::Shared => 1,
            Mode::Exclusive => EXCLUSIVE,
        };
        let others = self.inside.fetch_add(unit, Ordering::Relaxed);
        match mode {
            Mode::Shared => assert!(others < EXCLUSIVE, "a reader beside a writer"),
            Mode::Exclusive => assert_eq!(others, 0, "a writer beside others"),
        }
        let before = self.data.load(Ordering::Relaxed);
        stay();
        match mode {
            Mode::Shared => assert_eq!(self.data.load(Ordering::Relaxed), before),
            Mode::Exclusive => self.data.store(before + 1, Ordering::Relaxed),
        }
        self.inside.fetch_sub(unit, Ordering::Relaxed);
    }

    /// Number of exclusive critical sections, to be asked for after all threads have ended.
    pub fn written(&self) -> u64 {
        self.data.load(Ordering::Relaxed)
    }

    /// The lock word, zero when nobody holds or waits.
    pub fn word(&self) -> u64 {
        self.home.load(Ordering::Relaxed)
    }
}

pub struct AtomicSite {
    lock: Arc<SharedLock>,
    contender: u32,
}

pub struct AtomicWord<'a> {
    lock: &'a SharedLock,
    /// Whose mailbox; none for the lock word.
    owner: Option<u32>,
    word: &'a AtomicU64,
}

impl RemoteWord for AtomicWord<'_> {
    type Error = Infallible;

    async fn store(&self, value: u64) -> Result<(), Infallible> {
        self.word.store(value, Ordering::Release);
        self.lock.wake(self.owner);
        Ok(())
    }

    async fn compare_swap(&self, compare: u64, swap: u64) -> Result<u64, Infallible> {
        let result = self
            .word
            .compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire);
        Ok(result.unwrap_or_else(|found| found))
    }

    async fn fetch_add(&self, add: u64) -> Result<u64, Infallible> {
        let before = self.word.fetch_add(add, Ordering::AcqRel);
        self.lock.wake(self.owner);
        Ok(before)
    }
}

impl LockSite for AtomicSite {
    type Error = Infallible;
    type Word<'a> = AtomicWord<'a>;

    fn contender(&self) -> u32 {
        self.contender
    }

    fn contenders(&self) -> u32 {
        self.lock.mailboxes.len() as u32
    }

    fn home(&self) -> AtomicWord<'_> {
        AtomicWord {
            lock: &self.lock,
            owner: None,
            word: &self.lock.home,
        }
    }

    fn mailbox(&self, contender: u32, mailbox: Mailbox) -> AtomicWord<'_> {
        AtomicWord {
            lock: &self.lock,
            owner: Some(contender),
            word: &self.lock.mailboxes[contender as usize][mailbox.index()],
        }
    }

    fn own(&self, mailbox: Mailbox) -> u64 {
        self.lock.mailboxes[self.contender as usize][mailbox.index()].load(Ordering::Acquire)
    }

    async fn ask(&self, request: u64, _wake: bool) -> Result<(), Infallible> {
        self.lock.requests[self.contender as usize].store(request, Ordering::Release);
        self.lock.wake(Some(self.contenders()));
        Ok(())
    }

    async fn pause(&self, _why: Pause) -> Result<(), Infallible> {
        #[cfg(loom)]
        if let Some(sleepers) = &self.lock.sleepers {
            sleepers[self.contender as usize].wait();
            return Ok(());
        }
        let mut waited = false;
        poll_fn(|_| {
            if core::mem::replace(&mut waited, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        Ok(())
    }
}
