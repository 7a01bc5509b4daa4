//! What operations use in turn: channels, eager slots.

/// Entries that operations use in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entries<const ENTRIES: usize> {
    pub uses: usize,
    /// The operation that used each entry last.
    last: [u64; ENTRIES],
}

impl<const ENTRIES: usize> Default for Entries<ENTRIES> {
    fn default() -> Self {
        Self {
            uses: 0,
            last: [0; ENTRIES],
        }
    }
}

impl<const ENTRIES: usize> Entries<ENTRIES> {
    /// The operation that used last what the use after `later` others will use.
    #[inline]
    pub fn blocker(&self, later: usize) -> u64 {
        self.blocker_of(ENTRIES, later)
    }

    /// The same where only the first `entries` are used.
    #[inline]
    pub fn blocker_of(&self, entries: usize, later: usize) -> u64 {
        self.last[(self.uses + 1 + later) % entries]
    }

    /// Entries from the next one to the end of the next `width` adjacent ones, which begin at a multiple
    /// of that. Those passed over count as used with them.
    #[inline(always)]
    fn reach(&self, width: u32) -> usize {
        let width = width as usize;
        debug_assert!(width.is_power_of_two(), "a width is a power of two");
        // A division takes as long as all the rest.
        let first = (self.uses + width) & !(width - 1);
        first + width - 1 - self.uses
    }

    /// The operation that used last what the next `width` adjacent entries will use.
    #[inline]
    pub fn needed(&self, width: u32) -> u64 {
        self.blocker(self.reach(width) - 1)
    }

    /// The operation after which there is room for half a ring more than that, unless so much is never
    /// free: those that depend on every rank prove all but the one before.
    #[inline]
    pub fn due(&self, width: u32) -> u64 {
        let reach = self.reach(width);
        let most = ENTRIES - width as usize;
        self.blocker((reach + ENTRIES / 2).min(most).max(reach) - 1)
    }

    /// Whether the last use was in an odd round of the entries.
    pub fn is_odd_turn(&self) -> bool {
        !(self.uses / ENTRIES).is_multiple_of(2)
    }

    /// Has the first entry come next, where those behind are not needed to be ahead: the fewer are used, the fewer pages are
    /// touched, and the fewer lines of the caches.
    #[inline(always)]
    pub fn begin_anew(&mut self) {
        self.uses = ENTRIES - 1;
    }

    #[inline(always)]
    pub fn next(&mut self, op: u64, width: u32) -> u32 {
        let (next, width) = (self.uses + 1, width as usize);
        self.uses += self.reach(width as u32);
        let first = self.uses + 1 - width;
        for passed_over in next..first {
            self.last[passed_over % ENTRIES] = op;
        }
        let first = first % ENTRIES;
        self.last[first..first + width].fill(op);
        first as u32
    }
}
