//! How many there are of each kind of cell, and how large they are.

use super::{EAGER_MESSAGES, PAGE, SMALL_SCRATCH};
use ferrorail_base::NodeRank;

/// Geometry of a node segment; every rank of the node computes the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeGeometry {
    /// Ranks of the node.
    pub local_ranks: u32,
    /// Eager slots of a rank: [`EAGER_SLOTS`](super::EAGER_SLOTS) and [`EXCHANGE_SLOTS`](super::EXCHANGE_SLOTS), or none
    /// between nodes, where nobody uses them.
    pub eager_slots: u32,
    /// Scratch channels of the team.
    pub channels: u32,
    /// Channels for operations that move nothing.
    pub sync_channels: u32,
    /// Channels for operations of few bytes.
    pub small_channels: u32,
    /// Arrival slots per rank and channel.
    pub slots: u32,
    /// The first slot of RTRs: those from here on have a cell.
    pub rtr_base: u32,
    /// Arrival slots per rank and synchronising channel.
    pub sync_slots: u32,
    /// Rails: a message is at most as many chunks, each with a flag of its own in every slot.
    pub rails: u32,
    /// Scratch bytes per rank and channel.
    pub scratch_bytes: u64,
    /// Scratch bytes per rank that belong to no channel, whole pages: operations take parts of them in turn.
    pub rotating_bytes: u64,
    /// Areas of a rank, as large as its scratch of a channel, which belong to no channel.
    pub areas: u32,
    /// Bytes of a check cell, in whole lines; 0 if messages are not checked.
    pub check_bytes: u32,
}

/// A channel as one of its kind.
#[derive(Clone, Copy)]
pub(super) enum Channel {
    Ordinary,
    Sync(u32),
    Small(u32),
}

impl NodeGeometry {
    /// Channels of all kinds.
    pub const fn channel_count(&self) -> u32 {
        self.first_small() + self.small_channels
    }

    /// The number of the first small channel.
    #[inline]
    pub const fn first_small(&self) -> u32 {
        self.channels + self.sync_channels
    }

    /// Arrival slots of a rank in `channel`.
    #[inline]
    pub const fn slots_of(&self, channel: u32) -> u32 {
        match self.kind(channel) {
            Channel::Sync(_) => self.sync_slots,
            Channel::Ordinary | Channel::Small(_) => self.slots,
        }
    }

    /// Bytes of scratch that a rank and channel has in fact: whole pages.
    #[inline]
    pub fn scratch_capacity(&self) -> usize {
        (self.scratch_bytes as usize).next_multiple_of(PAGE)
    }

    /// Bytes of a rank's scratch of `channel`.
    #[inline]
    pub fn channel_bytes(&self, channel: u32) -> u64 {
        self.run_bytes(channel, 1)
    }

    /// Bytes of a rank's scratch of `width` adjacent channels of one row from `channel` on, which is one
    /// range.
    #[inline]
    pub fn run_bytes(&self, channel: u32, width: u32) -> u64 {
        match self.kind(channel) {
            Channel::Ordinary => {
                u64::from(width - 1) * self.scratch_capacity() as u64 + self.scratch_bytes
            }
            Channel::Sync(_) => 0,
            Channel::Small(_) => u64::from(width) * SMALL_SCRATCH as u64,
        }
    }

    /// Whether `slot` of `channel` has room for eager messages.
    #[inline]
    pub fn has_eager_message(&self, channel: u32, slot: u32) -> bool {
        channel >= self.first_small() && slot < EAGER_MESSAGES
    }

    #[inline]
    pub(super) const fn kind(&self, channel: u32) -> Channel {
        match channel {
            _ if channel < self.channels => Channel::Ordinary,
            _ if channel < self.first_small() => Channel::Sync(channel - self.channels),
            _ => Channel::Small(channel - self.first_small()),
        }
    }

    /// The number of a pair of rank and ordinary channel.
    #[inline]
    #[track_caller]
    pub(super) fn pair(&self, r: NodeRank, channel: u32) -> usize {
        self.pair_of(r, channel, self.channels)
    }

    /// The number of a pair of rank and the `small`-th small channel.
    #[inline]
    #[track_caller]
    pub(super) fn small_pair(&self, r: NodeRank, small: u32) -> usize {
        self.pair_of(r, small, self.small_channels)
    }

    /// The number of a pair of rank and the `sync`-th synchronising channel.
    #[inline]
    #[track_caller]
    pub(super) fn sync_pair(&self, r: NodeRank, sync: u32) -> usize {
        self.pair_of(r, sync, self.sync_channels)
    }

    /// The number of the pair of `r` and the `index`-th of `channels` channels of a kind.
    #[inline]
    #[track_caller]
    fn pair_of(&self, r: NodeRank, index: u32, channels: u32) -> usize {
        self.check_rank(r);
        assert!(index < channels, "channel {index} of {channels}");
        r.index() * channels as usize + index as usize
    }

    /// The number of the RTR cell of `slot` of a pair.
    #[inline]
    #[track_caller]
    pub(super) fn rtr_cell(&self, slot: u32) -> usize {
        let slot = check_slot(slot, self.slots);
        assert!(slot >= self.rtr_base as usize, "slot {slot} is of a put");
        slot - self.rtr_base as usize
    }

    /// RTR cells of a pair of rank and channel.
    #[inline]
    pub(super) fn rtr_cells(&self) -> usize {
        self.slots.saturating_sub(self.rtr_base) as usize
    }

    #[inline]
    #[track_caller]
    pub(super) fn check_rank(&self, r: NodeRank) {
        assert!(
            r.0 < self.local_ranks,
            "node rank {r} of {}",
            self.local_ranks
        );
    }
}

#[inline]
#[track_caller]
pub(super) fn check_slot(slot: u32, slots: u32) -> usize {
    assert!(slot < slots, "slot {slot} of {slots}");
    slot as usize
}
