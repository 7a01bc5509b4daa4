//! How a leader that waits for a datagram sleeps.

use super::Leader;
use ferrorail_shm::sleep_on;
use std::os::fd::RawFd;
use std::time::Duration;

/// Longest sleep of a rank that waits for a datagram: the host's progress has to wait as long.
const DOZE_MAX: Duration = Duration::from_millis(4);

/// How a thread may sleep.
enum Armed {
    /// Something moved: not at all.
    Awake,
    /// Nothing would wake it.
    No,
    /// Until one of these is readable, or so long.
    Until(Vec<RawFd>, Duration),
}

impl Leader {
    /// Sleeps until a datagram comes or the protocol has something to do; for `nap` where the rails tell nobody
    /// of datagrams.
    pub fn doze(&self, nap: Duration) {
        match self.arm() {
            Armed::Awake => {}
            Armed::No => std::thread::sleep(nap),
            Armed::Until(descriptors, limit) => {
                // SAFETY: they are open as long as the groups, which are this leader's.
                unsafe { sleep_on(&descriptors, limit) }
            }
        }
    }

    fn arm(&self) -> Armed {
        let mut inner = self.inner.lock();
        let descriptors = inner
            .groups
            .iter_mut()
            .map(|group| group.arm().ok().flatten());
        let Some(descriptors) = descriptors.collect() else {
            return Armed::No;
        };
        // What came before may not be told.
        if self.drive_locked(&mut inner) {
            return Armed::Awake;
        }
        let left = Duration::from_nanos(inner.due.since(self.now()));
        Armed::Until(descriptors, left.min(DOZE_MAX))
    }
}
