//! A lock that a thread at the target keeps (thesis, section 4.2).
//!
//! A contender asks by storing into a word of its own at the target, where the [`Arbiter`] finds it,
//! and waits until its mailbox holds that request; it leaves by another store to that word, which nobody
//! acknowledges.
//! That is three messages under any contention, of which two are the contender's, but none of them
//! arrives while the target's thread is not scheduled.
//!
//! The two algorithms differ in what the thread does meanwhile: it looks all the time (a dedicated thread), or it
//! sleeps and each request wakes it (event-driven).
//!
//! [`Arbiter`]: super::Arbiter

use super::word::request;
use super::{Entrance, LockSite, Mailbox, await_mailbox};

/// One contender's part in a lock that a thread at the target keeps: fair, reader-writer, for any
/// number of contenders.
#[derive(Debug)]
pub(super) struct ServedLock {
    wakes: bool,
    /// Of the last request.
    number: u64,
}

impl ServedLock {
    /// Requests wake the thread at the target if it `wakes`.
    pub const fn new(wakes: bool) -> Self {
        Self { wakes, number: 0 }
    }

    pub async fn acquire<S: LockSite>(
        &mut self,
        site: &S,
        entrance: Entrance,
    ) -> Result<(), S::Error> {
        // Counted once it is on its way: an attempt that was begun and left begins again alike.
        let number = self.number + 1;
        let request = request::pack(number, Some(entrance));
        site.ask(request, self.wakes).await?;
        self.number = number;
        await_mailbox(site, Mailbox::Grant, request).await?;
        Ok(())
    }

    pub async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), S::Error> {
        self.number += 1;
        let request = request::pack(self.number, None);
        site.ask(request, self.wakes).await
    }
}
