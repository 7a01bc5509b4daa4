//! Where the parts of a segment begin, and how long it is.

use super::{
    CORE, Channel, EAGER_MESSAGE, EAGER_MESSAGES, EAGER_MESSAGES_BYTES, FLAGS, LINE, NodeLayout,
    PAGE, RANK_BYTES, SLOT, SMALL_SCRATCH, check_slot,
};
use ferrorail_base::NodeRank;
use std::num::Saturating;

/// Where parts begin that every operation uses: to add up what lies before them takes as long as a copy of 1 KB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starts {
    sync_arrivals: usize,
    arrivals: usize,
    scratch: usize,
    rotating: usize,
    small_scratch: usize,
}

impl Starts {
    /// As [`NodeLayout::arrival`].
    #[inline]
    #[track_caller]
    pub(crate) fn arrival(
        &self,
        layout: &NodeLayout,
        r: NodeRank,
        channel: u32,
        (slot, chunk): (u32, u8),
    ) -> usize {
        assert!(
            u32::from(chunk) < layout.rails,
            "chunk {chunk} of {}",
            layout.rails
        );
        let slot = check_slot(slot, layout.slots_of(channel));
        let start = match layout.kind(channel) {
            Channel::Ordinary => {
                self.arrivals + layout.pair(r, channel) * layout.arrival_bytes(layout.slots)
            }
            Channel::Sync(sync) => {
                let pair = r.index() * layout.sync_channels as usize + sync as usize;
                layout.check_rank(r);
                self.sync_arrivals + pair * layout.arrival_bytes(layout.sync_slots)
            }
            Channel::Small(small) => {
                let pair = layout.pairs() + layout.small_pair(r, small);
                self.arrivals + pair * layout.arrival_bytes(layout.slots)
            }
        };
        start + 8 * (slot * layout.slot_flags() + usize::from(chunk))
    }

    /// As [`NodeLayout::scratch`].
    #[inline]
    #[track_caller]
    pub(crate) fn scratch(&self, layout: &NodeLayout, r: NodeRank, channel: u32) -> usize {
        match layout.kind(channel) {
            Channel::Ordinary => self.scratch + layout.pair(r, channel) * layout.scratch_capacity(),
            Channel::Sync(_) => 0,
            Channel::Small(small) => {
                self.small_scratch + layout.small_pair(r, small) * SMALL_SCRATCH
            }
        }
    }

    /// As [`NodeLayout::rotating`].
    #[inline]
    #[track_caller]
    pub(crate) fn rotating(&self, layout: &NodeLayout, r: NodeRank) -> usize {
        layout.check_rank(r);
        self.rotating + r.index() * layout.rotating_bytes as usize
    }

    /// As [`NodeLayout::eager_message`].
    #[inline]
    #[track_caller]
    pub(crate) fn eager_message(
        &self,
        layout: &NodeLayout,
        r: NodeRank,
        channel: u32,
        slot: u32,
    ) -> usize {
        assert!(slot < EAGER_MESSAGES, "eager message {slot}");
        let Channel::Small(small) = layout.kind(channel) else {
            panic!("channel {channel} is no small one");
        };
        let small_pairs = layout.local_ranks as usize * layout.small_channels as usize;
        let start = self.small_scratch + small_pairs * SMALL_SCRATCH;
        start + layout.small_pair(r, small) * EAGER_MESSAGES_BYTES + slot as usize * EAGER_MESSAGE
    }

    /// As [`NodeLayout::own_eager_message`].
    #[inline]
    #[track_caller]
    pub(crate) fn own_eager_message(
        &self,
        layout: &NodeLayout,
        r: NodeRank,
        channel: u32,
        index: u32,
    ) -> usize {
        self.eager_message(layout, r, channel, index) + EAGER_MESSAGES as usize * EAGER_MESSAGE
    }
}

impl NodeLayout {
    #[inline]
    pub(crate) fn starts(&self) -> Starts {
        Starts {
            sync_arrivals: self.sync_arrivals(),
            arrivals: self.arrivals(),
            scratch: self.all_scratch(),
            rotating: self.all_rotating(),
            small_scratch: self.all_small(),
        }
    }

    /// The length of everything, as the last of the parts below with its own; `u64::MAX` if it is longer.
    pub(super) fn total(&self) -> u64 {
        let count = |number: u32| Saturating(u64::from(number));
        let bytes = |bytes: usize| Saturating(bytes as u64);
        let up = |Saturating(bytes): Saturating<u64>, unit: usize| {
            let whole = bytes.checked_next_multiple_of(unit as u64);
            Saturating(whole.unwrap_or(u64::MAX))
        };
        let slot_flags = Saturating(u64::from(self.rails).next_power_of_two());
        let arrivals = |slots: u32| up(count(slots) * slot_flags * bytes(8), LINE);
        let ranks = count(self.local_ranks);
        let [pairs, syncs, small, areas] = [
            self.channels,
            self.sync_channels,
            self.small_channels,
            self.areas,
        ]
        .map(|each| ranks * count(each));
        let slots = count(self.slots);
        let checks = match self.check_bytes {
            0 => bytes(0),
            cell => slots * count(cell) * count(2) + up(slots * bytes(8), LINE),
        };
        let rtrs = count(self.slots.saturating_sub(self.rtr_base)) * bytes(LINE);
        let of_pair = arrivals(self.slots) + rtrs + checks;
        let cores = up(ranks * bytes(CORE), LINE);
        let flags = bytes(FLAGS) + ranks * bytes(RANK_BYTES) + cores;
        let front = up(flags + syncs * arrivals(self.sync_slots), PAGE);
        let eager_slots = ranks * count(self.eager_slots) * bytes(SLOT);
        let cells = eager_slots + pairs * of_pair + small * arrivals(self.slots);
        let of_channels = (pairs + areas) * up(Saturating(self.scratch_bytes), PAGE);
        let scratch = of_channels + ranks * Saturating(self.rotating_bytes);
        let small_scratch = small * bytes(SMALL_SCRATCH + EAGER_MESSAGES_BYTES);
        up(up(front + cells, PAGE) + scratch + small_scratch, PAGE).0
    }

    #[inline]
    pub(super) fn sync_arrivals(&self) -> usize {
        self.cores() + (self.local_ranks as usize * CORE).next_multiple_of(LINE)
    }

    /// The eager slots of the first rank, before those of the others.
    #[inline]
    pub(crate) fn eager_slots_start(&self) -> usize {
        let syncs = self.local_ranks as usize * self.sync_channels as usize;
        (self.sync_arrivals() + syncs * self.arrival_bytes(self.sync_slots)).next_multiple_of(PAGE)
    }

    #[inline]
    pub(super) fn arrivals(&self) -> usize {
        self.eager_slots_start() + self.local_ranks as usize * self.eager_slots as usize * SLOT
    }

    #[inline]
    pub(super) fn rtrs(&self) -> usize {
        let small = self.local_ranks as usize * self.small_channels as usize;
        self.arrivals() + (self.pairs() + small) * self.arrival_bytes(self.slots)
    }

    #[inline]
    pub(super) fn all_scratch(&self) -> usize {
        (self.all_checks() + self.pairs() * self.pair_checks()).next_multiple_of(PAGE)
    }

    #[inline]
    fn all_rotating(&self) -> usize {
        self.all_scratch() + self.pairs() * self.scratch_capacity()
    }

    #[inline]
    pub(super) fn all_areas(&self) -> usize {
        self.all_rotating() + self.local_ranks as usize * self.rotating_bytes as usize
    }

    #[inline]
    pub(super) fn all_small(&self) -> usize {
        let areas = self.local_ranks as usize * self.areas as usize;
        self.all_areas() + areas * self.scratch_capacity()
    }

    /// Where the checks of a pair of rank and channel begin.
    #[track_caller]
    pub(super) fn checks(&self, r: NodeRank, channel: u32) -> usize {
        assert!(self.check_bytes > 0, "messages are not checked");
        self.all_checks() + self.pair(r, channel) * self.pair_checks()
    }

    #[inline]
    fn all_checks(&self) -> usize {
        self.rtrs() + self.pairs() * self.rtr_cells() * LINE
    }

    #[inline]
    fn pair_checks(&self) -> usize {
        match self.check_bytes as usize {
            0 => 0,
            bytes => {
                2 * self.slots as usize * bytes + (8 * self.slots as usize).next_multiple_of(LINE)
            }
        }
    }

    /// RTR cells of a pair of rank and channel.
    #[inline]
    pub(super) fn rtr_cells(&self) -> usize {
        self.slots.saturating_sub(self.rtr_base) as usize
    }

    /// Pairs of rank and ordinary channel.
    #[inline]
    pub(super) fn pairs(&self) -> usize {
        self.local_ranks as usize * self.channels as usize
    }

    #[inline]
    pub(super) fn slot_flags(&self) -> usize {
        (self.rails as usize).next_power_of_two()
    }

    /// Bytes of the arrival flags of `slots` slots.
    #[inline]
    pub(super) fn arrival_bytes(&self, slots: u32) -> usize {
        (slots as usize * self.slot_flags() * 8).next_multiple_of(LINE)
    }
}
