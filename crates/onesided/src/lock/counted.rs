//! Counts the remote messages of whatever runs on a site.

use ferrorail_base::sync::{AtomicU64, Ordering};

use super::{LockSite, Mailbox, Pause, RemoteWord};

/// A site that counts each access to a remote word as one message, as figure 4.7 of the thesis does.
#[derive(Debug)]
pub struct CountedSite<S> {
    site: S,
    messages: AtomicU64,
}

impl<S> CountedSite<S> {
    /// Counts from zero.
    pub fn new(site: S) -> Self {
        Self {
            site,
            messages: AtomicU64::new(0),
        }
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

/// A word of a [`CountedSite`].
#[derive(Debug)]
pub struct CountedWord<'a, W> {
    word: W,
    messages: &'a AtomicU64,
}

impl<W> CountedWord<'_, W> {
    fn count(&self) -> &W {
        self.messages.fetch_add(1, Ordering::Relaxed);
        &self.word
    }
}

impl<W: RemoteWord> RemoteWord for CountedWord<'_, W> {
    type Error = W::Error;

    async fn load(&self) -> Result<u64, Self::Error> {
        self.count().load().await
    }

    async fn store(&self, value: u64) -> Result<(), Self::Error> {
        self.count().store(value).await
    }

    async fn compare_swap(&self, compare: u64, swap: u64) -> Result<u64, Self::Error> {
        self.count().compare_swap(compare, swap).await
    }

    async fn fetch_add(&self, add: u64) -> Result<u64, Self::Error> {
        self.count().fetch_add(add).await
    }
}

impl<S: LockSite> LockSite for CountedSite<S> {
    type Error = S::Error;
    type Word<'a>
        = CountedWord<'a, S::Word<'a>>
    where
        S: 'a;

    fn contender(&self) -> u32 {
        self.site.contender()
    }

    fn contenders(&self) -> u32 {
        self.site.contenders()
    }

    fn home(&self) -> Self::Word<'_> {
        CountedWord {
            word: self.site.home(),
            messages: &self.messages,
        }
    }

    fn mailbox(&self, contender: u32, mailbox: Mailbox) -> Self::Word<'_> {
        CountedWord {
            word: self.site.mailbox(contender, mailbox),
            messages: &self.messages,
        }
    }

    fn own(&self, mailbox: Mailbox) -> u64 {
        self.site.own(mailbox)
    }

    async fn ask(&self, request: u64, wake: bool) -> Result<(), Self::Error> {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.site.ask(request, wake).await
    }

    async fn pause(&self, why: Pause) -> Result<(), Self::Error> {
        self.site.pause(why).await
    }
}
