//! A lock that a thread at the target keeps (thesis, section 4.2).
//!
//! A contender asks by storing into a word of its own at the target, where the [`Arbiter`] finds it,
//! and waits at its mailbox; it leaves by another store to that word, which nobody acknowledges.
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

    async fn ask<S: LockSite>(&mut self, site: &S, mode: Option<Mode>) -> Result<(), S::Error> {
        self.number += 1;
        site.ask(request::pack(self.number, mode), self.wakes).await
    }

    /// Waits for the answer to the last request.
    async fn wait<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        await_mailbox(site, Mailbox::Grant).await?;
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
        if self.held {
            return Err(LockError::Held);
        }
        site.clear(Mailbox::Grant);
        self.ask(site, Some(mode)).await?;
        self.wait(site).await
    }

    async fn join<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        if self.held {
            return Err(LockError::Held);
        }
        site.clear(Mailbox::Grant);
        self.number += 1;
        site.ask(request::join(self.number), self.wakes).await?;
        self.wait(site).await
    }

    async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        if !core::mem::take(&mut self.held) {
            return Err(LockError::NotHeld);
        }
        self.ask(site, None).await?;
        Ok(())
    }
}
