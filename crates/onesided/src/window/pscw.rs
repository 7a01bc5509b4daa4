//! How ranks tell each other of posts and completions (thesis, section 3.3.3), in one of two forms. Both are
//! one write each, which nobody answers, and neither is ever cleared.
//!
//! * *Counters*: a 64-bit word for each ordered pair of ranks that holds how often one posted, or completed,
//!   to the other.
//! * *Bit vectors*: at each rank a vector with one status for each other rank, which that rank changes by an
//!   RDMA write. A status is one bit in a byte of its own, since bytes are the least that an RDMA write
//!   changes: two writers of one byte would undo each other. So a vector is as many bytes
//!   long as there are ranks, without a bound, and who waits for 64 ranks looks at one cache line.
//!
//! # Why epochs never mix
//!
//! A status is not cleared but turned over: the n-th post from t to o writes n mod 2, and so does the n-th
//! completion from o to t. Whoever waits for the n-th knows n by counting its own calls, so it must tell the
//! n-th from those before and after it:
//!
//! * *None is ahead.* t posts for the (n+1)-th time once its exposure epoch n is over, hence after o
//!   completed n, which it does having seen post n. o completes n+1 having seen post n+1, hence after t
//!   has seen completion n. So the status that is looked at belongs to n−1 or to n, which differ.
//! * *None is late.* A write that a failing rail repeats must not arrive after the next one. So the next to
//!   the same rank is posted when nothing is under way to it; writes are repeated only until they are
//!   complete, and only once the broken lane is closed at both ends (`docs/design/0010-failover.md`).

use super::layout::{self, PeerWord, Status};
use super::rails::Direction;
use super::{Window, WindowError};
use ferrorail_base::Rank;
use ferrorail_base::config::Pscw;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU8, Ordering, fence};
use ferrorail_fabric::Endpoint;

/// The status that the `number`-th of its kind writes.
const fn bit(number: u64) -> u8 {
    (number % 2) as u8
}

impl<F: Endpoint> Window<F> {
    /// Tells `to` of this rank's `number`-th post or completion to it, from 1. What this rank stored before,
    /// and what it put and completed, is seen by whoever sees that.
    pub(super) fn signal(&self, to: Rank, what: Status, number: u64) -> Result<(), WindowError> {
        match self.settings.pscw {
            Pscw::Counters => {
                self.tell(to, layout::peer(self.rank.0, PeerWord::Count(what)), number)
            }
            Pscw::BitVectors => self.turn(to, what, bit(number)),
        }
    }

    /// Whether `from` has told of its `number`-th.
    pub(super) fn has_signalled(&self, from: Rank, what: Status, number: u64) -> bool {
        match self.settings.pscw {
            Pscw::Counters => {
                let word = self.own_word(layout::peer(from.0, PeerWord::Count(what)));
                word.load(Ordering::Acquire) >= number
            }
            Pscw::BitVectors => {
                let offset = self.control + layout::status(self.size(), what, from.0);
                let status = self.segment.cell::<AtomicU8>(offset);
                status.load(Ordering::Acquire) == bit(number)
            }
        }
    }

    fn turn(&self, to: Rank, what: Status, status: u8) -> Result<(), WindowError> {
        let offset = layout::status(self.size(), what, self.rank.0);
        if let Some(control) = self.targets[to.index()].control {
            let cell = self.segment.cell::<AtomicU8>(control + offset);
            cell.store(status, Ordering::Release);
            self.doorbell().ring();
            return Ok(());
        }
        // The one before has arrived, and is not done again.
        self.settled(to)?;
        fence(Ordering::SeqCst);
        let mut status = status;
        let here = MemoryRange::new(&raw mut status, 1);
        self.on_rails(to, |rails| {
            let there = rails.link_of(to).control(offset);
            // SAFETY: the byte is copied into a slot before this returns; the status is this rank's to write.
            unsafe { rails.transfer(to, Direction::Put, here, there) }
        })
    }
}

#[cfg(test)]
mod tests;
