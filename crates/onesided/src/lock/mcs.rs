//! The queue of Mellor-Crummey and Scott over compare-and-swap (thesis, section 4.3.2).
//!
//! Verbs have no swap. Queueing up therefore takes a compare-and-swap for each guess of who is last
//! until one is right, and the number of messages grows with the number of contenders that
//! arrive together.

use super::word::mcs::{GRANTED, NOBODY, pack, unpack};
use super::{LockError, LockSite, Mailbox, Mode, RemoteLock, RemoteWord, await_mailbox};

/// MCS lock: first come, first served; every holder is exclusive, also one that asked for shared.
#[derive(Debug, Default)]
pub struct McsLock {
    held: bool,
}

impl McsLock {
    /// Stable name of the algorithm.
    pub const NAME: &'static str = "mcs";
}

impl RemoteLock for McsLock {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    async fn acquire<S: LockSite>(
        &mut self,
        site: &S,
        _mode: Mode,
    ) -> Result<(), LockError<S::Error>> {
        if self.held {
            return Err(LockError::Held);
        }
        site.clear(Mailbox::Grant);
        site.clear(Mailbox::Next);
        let me = pack(site.contender());
        let home = site.home();
        let mut last = NOBODY;
        loop {
            let found = home.compare_swap(last, me).await?;
            if found == last {
                break;
            }
            last = found;
        }
        if last != NOBODY {
            site.mailbox(unpack(last), Mailbox::Next).store(me).await?;
            await_mailbox(site, Mailbox::Grant).await?;
        }
        self.held = true;
        Ok(())
    }

    async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), LockError<S::Error>> {
        if !core::mem::take(&mut self.held) {
            return Err(LockError::NotHeld);
        }
        let me = pack(site.contender());
        let mut next = site.own(Mailbox::Next);
        if next == NOBODY {
            if site.home().compare_swap(me, NOBODY).await? == me {
                return Ok(());
            }
            // Somebody is queueing up at this moment and will say so.
            next = await_mailbox(site, Mailbox::Next).await?;
        }
        let grant = site.mailbox(unpack(next), Mailbox::Grant);
        grant.store(GRANTED).await?;
        Ok(())
    }
}
