//! Where the parts of a segment begin, and how long it is.

use super::{EAGER_MESSAGES_BYTES, FLAGS, LINE, NodeLayout, PAGE, RANK_BYTES, SLOT, SMALL_SCRATCH};
use ferrorail_base::NodeRank;

impl NodeLayout {
    /// The length of everything, as the last of the parts below with its own.
    pub(super) fn checked_total(&self) -> Option<u64> {
        let [line, page] = [LINE as u64, PAGE as u64];
        let ranks = u64::from(self.local_ranks);
        let arrivals = |slots: u32| {
            u64::from(slots)
                .checked_mul(8 * u64::from(self.rails).next_power_of_two())?
                .checked_next_multiple_of(line)
        };
        let slots = u64::from(self.slots);
        let pairs = ranks.checked_mul(u64::from(self.channels))?;
        let syncs = ranks.checked_mul(u64::from(self.sync_channels))?;
        let small = ranks.checked_mul(u64::from(self.small_channels))?;
        let checks = match self.check_bytes {
            0 => 0,
            bytes => slots
                .checked_mul(2 * u64::from(bytes))?
                .checked_add((8 * slots).checked_next_multiple_of(line)?)?,
        };
        let of_pair = arrivals(self.slots)?
            .checked_add(u64::from(self.slots.saturating_sub(self.rtr_base)) * line)?
            .checked_add(checks)?;
        let scratch = self.scratch_bytes.checked_next_multiple_of(page)?;
        let areas = ranks.checked_mul(u64::from(self.areas))?;
        (FLAGS as u64 + ranks * RANK_BYTES as u64)
            .checked_add(syncs.checked_mul(arrivals(self.sync_slots)?)?)?
            .checked_next_multiple_of(page)?
            .checked_add((ranks * SLOT as u64).checked_mul(u64::from(self.eager_slots))?)?
            .checked_add(pairs.checked_mul(of_pair)?)?
            .checked_add(small.checked_mul(arrivals(self.slots)?)?)?
            .checked_next_multiple_of(page)?
            .checked_add(pairs.checked_add(areas)?.checked_mul(scratch)?)?
            .checked_add(small.checked_mul((SMALL_SCRATCH + EAGER_MESSAGES_BYTES) as u64)?)?
            .checked_next_multiple_of(page)
    }

    #[inline]
    pub(super) fn sync_arrivals(&self) -> usize {
        FLAGS + self.local_ranks as usize * RANK_BYTES
    }

    #[inline]
    pub(super) fn eager_slots_start(&self) -> usize {
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
    pub(super) fn all_areas(&self) -> usize {
        self.all_scratch() + self.pairs() * self.scratch_capacity()
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
