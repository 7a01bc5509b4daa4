//! What was sent, and is not yet known to have arrived undamaged.

use crate::EngineError;
use crate::tag::number;
use ferrorail_base::{RailId, Rank};
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::Stripes;
use ferrorail_fabric::{LocalRegion, RAILS_MAX, RemoteRegion};

/// Messages without an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct UnacknowledgedList {
    /// Operation whose messages are counted.
    number: u64,
    /// Messages that it has sent so far.
    sent: u16,
    pub(super) open: Vec<Sent>,
}

/// A message without an acknowledgement.
#[derive(Debug)]
pub(super) struct Sent {
    pub to: Rank,
    pub slot: Slot,
    pub channel: u32,
    pub tag: u64,
    /// Which of its operation's messages it is.
    pub index: u16,
    /// Keys of what it reads, and where that is.
    pub source: LocalRegion,
    pub dest: RemoteRegion,
    pub offset: usize,
    pub stripes: Stripes,
    pub awaited: bool,
    /// The rail that carried each chunk last.
    pub rails: [RailId; RAILS_MAX],
    pub attempt: u8,
    /// Chunks still to be posted, as bits.
    pub owed: u8,
    pub record_owed: bool,
}

impl UnacknowledgedList {
    /// The number of the next message of the operation of `tag`.
    pub(super) fn next(&mut self, tag: u64, most: u32) -> Result<u16, EngineError> {
        let number = number(tag);
        if self.number != number {
            (self.number, self.sent) = (number, 0);
        }
        let index = self.sent;
        if u32::from(index) >= most {
            let reason = format!("{most} checked messages in one operation are the most");
            return Err(EngineError::Internal(reason));
        }
        self.sent += 1;
        Ok(index)
    }

    /// Whether every message has arrived undamaged.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Ranks that owe an acknowledgement.
    pub fn unacknowledged_by(&self) -> impl Iterator<Item = Rank> {
        self.open.iter().map(|sent| sent.to)
    }
}
