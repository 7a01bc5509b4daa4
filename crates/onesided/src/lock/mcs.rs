//! The queue of Mellor-Crummey and Scott over compare-and-swap (thesis, section 4.3.2).
//!
//! Verbs have no swap. Queueing up therefore takes a compare-and-swap for each guess of who is last
//! until one is right, and the number of messages grows with the number of contenders that
//! arrive together.
//!
//! **Turns.** A contender queues up with a *turn* that is higher than its predecessor's and than all it
//! has seen in this lock, so that the words stored in its mailboxes rise. It is granted its own word.

use super::word::mcs::{NOBODY, contender, pack, turn};
use super::{LockSite, Mailbox, RemoteWord, await_mailbox};

/// MCS lock: first come, first served; every holder is exclusive, also one that asked for shared.
#[derive(Debug, Default)]
pub(super) struct McsLock {
    /// The highest turn seen.
    turn: u64,
    /// This contender's word while it holds the lock.
    held: u64,
}

impl McsLock {
    pub async fn acquire<S: LockSite>(&mut self, site: &S) -> Result<(), S::Error> {
        let home = site.home();
        let mut last = NOBODY;
        let me = loop {
            let me = pack(turn(last).max(self.turn) + 1, site.contender());
            let found = home.compare_swap(last, me).await?;
            if found == last {
                break me;
            }
            last = found;
        };
        if last != NOBODY {
            let ahead = site.mailbox(contender(last), Mailbox::Next);
            ahead.store(me).await?;
            await_mailbox(site, Mailbox::Grant, me).await?;
        }
        self.turn = turn(me);
        self.held = me;
        Ok(())
    }

    pub async fn release<S: LockSite>(&mut self, site: &S) -> Result<(), S::Error> {
        let me = self.held;
        let mut next = site.own(Mailbox::Next);
        // Who came behind this contender before has a lower turn.
        if next < me {
            if site.home().compare_swap(me, NOBODY).await? == me {
                return Ok(());
            }
            // Somebody is queueing up at this moment and will say so.
            next = await_mailbox(site, Mailbox::Next, me).await?;
        }
        self.turn = turn(next);
        let grant = site.mailbox(contender(next), Mailbox::Grant);
        grant.store(next).await
    }
}
