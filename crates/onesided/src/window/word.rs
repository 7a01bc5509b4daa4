//! The words of a target's locks, as lock algorithms see them.

use super::layout::{self, PeerWord};
use super::request::told;
use super::{Window, WindowError, count};
use crate::lock::{LockSite, Mailbox, Pause, RemoteWord};
use ferrorail_base::Rank;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_fabric::{Endpoint, LocalSlice, Notification, Op, RemoteSlice, Ticket};
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Which of a target's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Of passive-target synchronisation.
    Lock,
    /// Its holders, where that one lets in one at a time.
    Holders,
    /// Of accumulations.
    Accumulate,
}

impl Which {
    const fn home(self) -> usize {
        match self {
            Self::Lock => layout::LOCK,
            Self::Holders => layout::HOLDERS,
            Self::Accumulate => layout::ACCUMULATE,
        }
    }

    /// Offset of a mailbox of the line `line` in a control block of a window of `ranks` ranks.
    const fn mailbox(self, ranks: u32, line: u32, mailbox: Mailbox) -> usize {
        let word = match (self, mailbox) {
            (Self::Accumulate, Mailbox::GrantBy(by)) => {
                return layout::accumulate_grant(ranks, line, by);
            }
            (_, Mailbox::GrantBy(by)) => return layout::lock_grant(ranks, line, by),
            (Self::Accumulate, _) => PeerWord::AccumulateMailbox(mailbox.index()),
            _ => PeerWord::LockMailbox(mailbox.index()),
        };
        layout::peer(line, word)
    }

    const fn result(self) -> PeerWord {
        match self {
            Self::Lock | Self::Holders => PeerWord::LockResult,
            Self::Accumulate => PeerWord::AccumulateResult,
        }
    }
}

/// What of an algorithm's first operation over rails is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Nothing: operations are posted and awaited as they come.
    No,
    /// The next operation is to be posted, and not awaited: its future never ends.
    First,
    /// That operation, which the same algorithm's next one is.
    Posted(Ticket),
}

/// One lock of one target. At any time one thread at most uses it.
pub(super) struct Site<'w, F: Endpoint> {
    window: &'w Window<F>,
    target: Rank,
    which: Which,
    /// This contender: a rank, or behind them the service thread of the target.
    contender: u32,
    /// The line of this rank's control block that is for this lock.
    line: u32,
    /// A put that the next addition to a word of the target has to follow.
    behind: Cell<Option<Ticket>>,
    pub begun: Cell<Begun>,
}

impl<F: Endpoint> Window<F> {
    pub(super) fn site(&self, target: Rank, which: Which) -> Site<'_, F> {
        Site {
            window: self,
            target,
            which,
            contender: self.rank.0,
            line: target.0,
            behind: Cell::new(None),
            begun: Cell::new(Begun::No),
        }
    }

    /// This rank's own accumulate lock, as its service thread sees it.
    pub(super) fn service_site(&self) -> Site<'_, F> {
        Site {
            contender: self.size(),
            line: self.size(),
            ..self.site(self.rank, Which::Accumulate)
        }
    }
}

impl<F: Endpoint> Site<'_, F> {
    /// Has the next addition to a word of the target, which must be what comes next, follow `put`.
    pub(super) fn follow(&self, put: Option<Ticket>) {
        self.behind.set(put);
    }
}

/// A word of some rank's control block.
pub(super) struct Word<'s, F: Endpoint> {
    site: &'s Site<'s, F>,
    of: Rank,
    offset: usize,
}

/// Lets one poll pass.
async fn pass() {
    let mut passed = false;
    poll_fn(|_| match std::mem::replace(&mut passed, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

impl<'s, F: Endpoint> Word<'s, F> {
    /// The word itself, if it is accessed by the CPU.
    #[inline]
    fn mapped(&self, atomically: bool) -> Option<&'s AtomicU64> {
        let target = &self.site.window.targets[self.of.index()];
        let control = target.control?;
        let by_rail = atomically && target.link.is_some();
        (!by_rail).then(|| self.site.window.segment.word(control + self.offset))
    }

    /// After a change that a rank of this node may wait for.
    #[inline]
    fn ring(&self) {
        self.site.window.doorbell().ring();
    }

    /// Runs an operation on the rail that leaves a value in this lock's result word.
    async fn remotely(
        &self,
        op: impl for<'o> Fn(RemoteSlice<'o>, LocalSlice<'o>) -> Op<'o>,
    ) -> Result<u64, WindowError> {
        let Site {
            window,
            which,
            line,
            ..
        } = *self.site;
        let rails = window.rails();
        let result = layout::peer(line, which.result());
        let into = LocalSlice {
            region: rails.segment(),
            offset: window.control + result,
            bytes: size_of::<u64>(),
        };
        let at = rails.link_of(self.of).control(self.offset);
        let ticket = self.begin(|| op(at, into)).await?;
        while !rails.fabric().is_complete(ticket)? {
            rails.progress()?;
            if !rails.fabric().is_complete(ticket)? {
                pass().await;
            }
        }
        Ok(window.own_word(result).load(Ordering::Acquire))
    }

    /// Posts an operation, unless it is under way already.
    async fn begin<'o>(&self, op: impl Fn() -> Op<'o>) -> Result<Ticket, WindowError> {
        let site = self.site;
        if let Begun::Posted(ticket) = site.begun.get() {
            site.begun.set(Begun::No);
            return Ok(ticket);
        }
        let rails = site.window.rails();
        let ticket = loop {
            // SAFETY: aligned words: of the owner's control block, this rank's to write if it is stored to, and of
            // this lock.
            let posted = unsafe { rails.post(self.of, rails.word_rail(), &op()) }?;
            if let Some(put) = site.behind.get()
                && (posted.is_some() || rails.fabric().is_complete(put)?)
            {
                site.behind.set(None);
            }
            match posted {
                Some(ticket) => break ticket,
                None => pass().await,
            }
        };
        if site.which != Which::Accumulate {
            count(&site.window.counters.lock_messages);
        }
        if site.begun.get() == Begun::First {
            site.begun.set(Begun::Posted(ticket));
            pending::<()>().await;
        }
        Ok(ticket)
    }

    /// [`RemoteWord::store`], by a rail that wakes the service thread of the word's owner if it `wakes`.
    async fn store_and_wake(&self, value: u64, wakes: bool) -> Result<(), WindowError> {
        // Words that are stored to are never updated atomically.
        if let Some(word) = self.mapped(false) {
            word.store(value, Ordering::Release);
            self.ring();
            return Ok(());
        }
        self.remotely(|at, into| {
            let nothing = LocalSlice { bytes: 0, ..into };
            told(nothing, at, Notification { word: at, value }, wakes)
        })
        .await?;
        Ok(())
    }
}

impl<F: Endpoint> RemoteWord for Word<'_, F> {
    type Error = WindowError;

    async fn store(&self, value: u64) -> Result<(), WindowError> {
        self.store_and_wake(value, false).await
    }

    async fn compare_swap(&self, compare: u64, swap: u64) -> Result<u64, WindowError> {
        if let Some(word) = self.mapped(true) {
            let outcome = word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst);
            if outcome.is_ok() {
                self.ring();
            }
            let (Ok(before) | Err(before)) = outcome;
            return Ok(before);
        }
        self.remotely(|at, into| Op::compare_swap(at, compare, swap, into))
            .await
    }

    async fn fetch_add(&self, add: u64) -> Result<u64, WindowError> {
        if let Some(word) = self.mapped(true) {
            let before = word.fetch_add(add, Ordering::SeqCst);
            self.ring();
            return Ok(before);
        }
        self.remotely(|at, into| Op::fetch_add(at, add, into, self.site.behind.get()))
            .await
    }
}

impl<F: Endpoint> LockSite for Site<'_, F> {
    type Error = WindowError;
    type Word<'a>
        = Word<'a, F>
    where
        Self: 'a;

    fn contender(&self) -> u32 {
        self.contender
    }

    fn contenders(&self) -> u32 {
        let service_thread =
            self.which == Which::Accumulate && self.window.accumulates_by_service();
        self.window.size() + u32::from(service_thread)
    }

    fn home(&self) -> Word<'_, F> {
        Word {
            site: self,
            of: self.target,
            offset: self.which.home(),
        }
    }

    fn mailbox(&self, contender: u32, mailbox: Mailbox) -> Word<'_, F> {
        // The target's service thread waits in the target's control block.
        let (of, line) = match contender < self.window.size() {
            true => (Rank(contender), self.target.0),
            false => (self.target, contender),
        };
        Word {
            site: self,
            of,
            offset: self.which.mailbox(self.window.size(), line, mailbox),
        }
    }

    fn own(&self, mailbox: Mailbox) -> u64 {
        let offset = self.which.mailbox(self.window.size(), self.line, mailbox);
        self.window.own_word(offset).load(Ordering::Acquire)
    }

    async fn ask(&self, request: u64, wake: bool) -> Result<(), WindowError> {
        let window = self.window;
        let word = Word {
            site: self,
            of: self.target,
            offset: layout::lock_request(window.size(), window.rank.0),
        };
        let by_rail = wake && window.wakes_by_rail(self.target);
        word.store_and_wake(request, by_rail).await?;
        if wake {
            window.wake_service(self.target);
        }
        Ok(())
    }

    async fn pause(&self, why: Pause) -> Result<(), WindowError> {
        let Pause::Backoff(microseconds) = why else {
            pass().await;
            return Ok(());
        };
        let pause = Duration::from_micros(microseconds.into());
        let begun = Instant::now();
        while begun.elapsed() < pause {
            pass().await;
        }
        Ok(())
    }
}
