//! How a leader that waits for a datagram sleeps.

use super::Leader;
use ferrorail_shm::sleep_on;
use std::time::Duration;

/// Longest sleep of a rank that waits for a datagram: the host's progress has to wait as long.
const DOZE_MAX: Duration = Duration::from_millis(4);

impl Leader {
    /// Sleeps until a datagram comes or the protocol has something to do; for `nap` where the rails tell nobody
    /// of datagrams.
    pub fn doze(&self, nap: Duration) {
        let mut protocol = self.protocol.lock();
        let descriptors = protocol
            .working_groups()
            .map(|group| group.arm().ok().flatten());
        let Some(descriptors) = descriptors.collect::<Option<Vec<_>>>() else {
            drop(protocol);
            return std::thread::sleep(nap);
        };
        // What came before may not be told.
        if self.drive_locked(&mut protocol) {
            return;
        }
        let left = Duration::from_nanos(protocol.due.since(self.now()));
        drop(protocol);
        // SAFETY: they are open as long as the groups, which are this leader's.
        unsafe { sleep_on(&descriptors, left.min(DOZE_MAX)) }
    }
}
