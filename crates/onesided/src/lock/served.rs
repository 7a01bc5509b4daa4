//! A lock that a thread at the target keeps (thesis, section 4.2).
//!
//! A contender asks by storing into a word of its own at the target, where the [`Arbiter`] finds it,
//! and waits until its mailbox holds that request; it leaves by another store to that word, which nobody
//! acknowledges.
//! That is three messages under any contention, of which two are the contender's, but none of them
//! arrives while the target's thread is not scheduled.
//!
//! The two algorithms differ in what the thread does meanwhile: it looks all the time
//! ([`ServedLock::polled`], a dedicated thread), or it sleeps and each request wakes it
//! ([`ServedLock::woken`], event-driven).
//!
//! [`Arbiter`]: super::Arbiter

use super::word::request;
use super::{LockError, LockSite, Mailbox, Mode, RemoteLock, await_mailbox};

/// One contender's part in a lock that a thread at the target keeps: fair, reader-writer, for any
/// number of contenders.
#[derive(Debug)]
pub struct ServedLock {
    wakes: bool,
    /// Of the last request.
    number: u64,
    held: bool,
}

impl ServedLock {
    /// Name of the algorithm with a thread that looks all the time.
    pub const THREAD: &'static str = "thread";
    /// Name of the algorithm with a thread that sleeps.
    pub const EVENT: &'static str = "event";

    /// With a dedicated thread at the target.
    #[must_use]
    pub const fn polled() -> Self {
        Self {
            wakes: false,
            number: 0,
            held: false,
        }
    }

    /// With a thread that requests wake.
    #[must_use]
    pub const fn woken() -> Self {
        Self {
            wakes: true,
            ..Self::polled()
        }
    }

    /// Asks by the word that `request` makes of a number, and waits for the answer.
    async fn obtain<S: LockSite>(
        &mut self,
        site: &S,
        request: impl FnOnce(u64) -> u64,
    ) -> Result<(), LockError<S::Error>> {
        if self.held {
            return Err(LockError::Held);
        }
        // Counted once it is on its way: an attempt that was begun and left begins again alike.
        let number = self.number + 1;
        let request = request(number);
        site.ask(request, self.wakes).await?;
        self.number = number;
        await_mailbox(site, Mailbox::Grant, request).await?;
        self.held = true;
        Ok(())
    }
}

impl RemoteLock for ServedLock {
    fn name(&self) -> &'static str {
        match self.wakes {
            false => Self::THREAD,
            true => Self::EVENT,
        }
    }

    async fn acquire<S: LockSite>(
        &mut self,
        site: &S,
        mode: Mode,
    ) -> Result<(), LockError<S::Error>> {
        let request = |number| request::pack(number, Some(mode));
        self.obtain(site, request).await
    }

    async fn acquire_shared<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        self.obtain(site, request::acquire_shared).await
    }

    async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        if !core::mem::take(&mut self.held) {
            return Err(LockError::NotHeld);
        }
        self.number += 1;
        let request = request::pack(self.number, None);
        Ok(site.ask(request, self.wakes).await?)
    }
}
