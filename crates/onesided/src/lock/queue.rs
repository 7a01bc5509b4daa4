//! A fair reader-writer lock with a constant number of remote messages, by fetch-and-add alone.
//!
//! A queue lock needs to know *who* comes next. Verbs have no swap to learn that by, and a ticket
//! tells only how many are ahead. Here every contender has a bit of its own in the lock word, so
//! that the fetch-and-add which queues it up also tells everybody else who it is, and the one
//! which leaves returns all who wait.
//!
//! **The turn.** Somebody has the turn as long as any reader or writer bit is set. A contender adds
//! its bit; if there was none, it takes the turn, otherwise it waits at its own mailbox. Only who
//! has the turn lets an exclusive one in or admits the first shared holder, so none is there that
//! it has not seen, and once there is none there is none again without it.
//!
//! * A *writer* keeps its bit while it holds the lock. With the turn and no shared holders it
//!   holds at once; otherwise it is named in the word, and the last shared holder wakes it.
//!   A fetch-and-add decides between "the last has left already" and "it will see the name".
//! * A *reader* turns its bit into one more shared holder and passes the turn on.
//! * *Passing the turn*: all readers that wait become holders by one fetch-and-add, which also
//!   names the next writer, if one waits; without readers, the next writer gets the lock. Writers follow each other by
//!   rank, going around. If nobody waits, the turn is free.
//!
//! * A reader that *joins*, because it holds other locks, becomes one more shared holder at once if
//!   there is any, whatever the turn. Where there is none it waits like others: only for who holds now.
//!
//! **Grants.** No bit of the word tells how often a contender has waited, so nobody who hands the lock over
//! could number its grants to another among those of all. Each contender therefore has a mailbox for
//! each other one, which numbers what it stores there.
//!
//! So a reader waits for at most one writer once the writer ahead has left, and a writer for at
//! most every other writer once, with the readers between them.
//!
//! **Messages** of one acquisition and its release, each charged to whom it serves:
//!
//! | | request | admission or naming | hand-over | leave | sum |
//! |---|---|---|---|---|---|
//! | writer alone | 1 | | | 1 | 2 |
//! | writer among writers | 1 | | 1 | 1 | 3 |
//! | writer among readers | 1 | at most 1 | 1 | 1 | at most 4 |
//! | reader alone | 1 | 1 | | 1 | 3 |
//! | reader among others | 1 | at most 1 | 1 | 1 | at most 4 |

use super::word::{QueueWord, SEATS, Seats, grant};
use super::{Entrance, LockSite, Mailbox, Mode, Pause, RemoteWord};

/// Fair reader-writer queue lock for up to [`SEATS`] contenders. See the module's text.
#[derive(Debug, Default)]
pub(super) struct QueueLock {
    /// The word names this contender, which holds the lock exclusively, as the one to wake; leaving removes that
    /// too.
    named: bool,
    grants: Grants,
}

/// What this contender granted, and was granted.
#[derive(Debug, Default)]
struct Grants {
    /// Number of the last grant to anybody.
    given: u64,
    /// The last one taken from each contender.
    taken: [u64; SEATS as usize],
}

impl Grants {
    /// Grants `contender` what `kind` says.
    async fn hand<S: LockSite>(
        &mut self,
        site: &S,
        contender: u32,
        kind: u64,
    ) -> Result<(), S::Error> {
        self.given += 1;
        let mailbox = site.mailbox(contender, Mailbox::GrantBy(site.contender()));
        mailbox.store(grant::pack(self.given, kind)).await
    }

    /// Waits until somebody grants something: its kind.
    async fn take<S: LockSite>(&mut self, site: &S) -> Result<u64, S::Error> {
        loop {
            let contenders = self.taken.iter_mut().zip(0..site.contenders());
            for (taken, contender) in contenders {
                if contender == site.contender() {
                    continue;
                }
                let found = site.own(Mailbox::GrantBy(contender));
                if found > *taken {
                    *taken = found;
                    return Ok(grant::kind(found));
                }
            }
            site.pause(Pause::Mailbox).await?;
        }
    }
}

/// Adds to the lock word; the word after it.
async fn add<S: LockSite>(site: &S, add: u64) -> Result<QueueWord, S::Error> {
    Ok(QueueWord(site.home().fetch_add(add).await?).plus(add))
}

/// Whether the word names this contender then.
async fn acquire_exclusive<S: LockSite>(site: &S, grants: &mut Grants) -> Result<bool, S::Error> {
    let me = site.contender();
    let before = QueueWord(site.home().fetch_add(QueueWord::writer(me)).await?);
    if before.is_idle() {
        if before.holders() == 0 {
            return Ok(false);
        }
        if add(site, QueueWord::wake(me)).await?.holders() == 0 {
            return Ok(true);
        }
    }
    Ok(grants.take(site).await? == grant::EXCLUSIVE_WOKEN)
}

async fn acquire_shared<S: LockSite>(site: &S, grants: &mut Grants) -> Result<(), S::Error> {
    let mine = QueueWord::reader(site.contender());
    let before = QueueWord(site.home().fetch_add(mine).await?);
    if before.is_idle() {
        let word = add(site, QueueWord::HOLDER.wrapping_sub(mine)).await?;
        return pass_turn(site, grants, word).await;
    }
    grants.take(site).await?;
    Ok(())
}

/// Joins the shared holders if there are any, whoever waits, and waits for an exclusive one only. Each
/// step takes effect only on the word it was decided from.
async fn join<S: LockSite>(site: &S, grants: &mut Grants) -> Result<(), S::Error> {
    let home = site.home();
    let mut word = QueueWord(0);
    loop {
        let joins = word.is_idle() || word.holders() > 0;
        let next = match joins {
            true => word.plus(QueueWord::HOLDER),
            // Whoever has the turn now admits all readers when it passes it on.
            false => word.plus(QueueWord::reader(site.contender())),
        };
        let found = home.compare_swap(word.0, next.0).await?;
        if found != word.0 {
            word = QueueWord(found);
            continue;
        }
        if !joins {
            grants.take(site).await?;
        }
        return Ok(());
    }
}

/// Gives the turn to whoever waits. `word` is what this contender, which has the turn, last saw; its
/// own bit is gone from it.
async fn pass_turn<S: LockSite>(
    site: &S,
    grants: &mut Grants,
    mut word: QueueWord,
) -> Result<(), S::Error> {
    let me = site.contender();
    let mut admitted = Seats::default();
    // Ends: whoever was admitted hears of it only below and cannot come back before.
    while !word.is_idle() {
        let readers = word.readers();
        let writer = word.writers().after(me);
        if let (Some(writer), true, 0) = (writer, readers.is_empty(), word.holders()) {
            grants.hand(site, writer, grant::EXCLUSIVE).await?;
            break;
        }
        let admission =
            (readers.count() * QueueWord::HOLDER).wrapping_sub(QueueWord::readers_of(readers));
        let naming = writer.map_or(0, QueueWord::wake);
        word = add(site, admission.wrapping_add(naming)).await?;
        admitted = admitted.union(readers);
        if writer.is_some() {
            // A shared holder is left that will wake it: this contender, or one admitted just now
            // that hears of it only below.
            break;
        }
    }
    for reader in admitted.iter() {
        grants.hand(site, reader, grant::SHARED).await?;
    }
    Ok(())
}

impl QueueLock {
    pub async fn acquire<S: LockSite>(
        &mut self,
        site: &S,
        entrance: Entrance,
    ) -> Result<(), S::Error> {
        let grants = &mut self.grants;
        match entrance {
            Entrance::Fair(Mode::Exclusive) => self.named = acquire_exclusive(site, grants).await?,
            Entrance::Fair(Mode::Shared) => acquire_shared(site, grants).await?,
            Entrance::Joining => join(site, grants).await?,
        }
        Ok(())
    }

    pub async fn release<S: LockSite>(&mut self, site: &S, mode: Mode) -> Result<(), S::Error> {
        let me = site.contender();
        let grants = &mut self.grants;
        match mode {
            Mode::Shared => {
                let word = add(site, QueueWord::HOLDER.wrapping_neg()).await?;
                if let (0, Some(writer)) = (word.holders(), word.woken()) {
                    grants.hand(site, writer, grant::EXCLUSIVE_WOKEN).await?;
                }
            }
            Mode::Exclusive => {
                let name = match core::mem::take(&mut self.named) {
                    true => QueueWord::wake(me),
                    false => 0,
                };
                let leave = QueueWord::writer(me) + name;
                let word = add(site, leave.wrapping_neg()).await?;
                pass_turn(site, grants, word).await?;
            }
        }
        Ok(())
    }
}
