//! Where the parts of a segment begin, and how long their pieces are.

use super::{
    CORE, EAGER_MESSAGES_BYTES, FLAGS, LINE, NodeGeometry, PAGE, RANK_BYTES, SLOT, SMALL_SCRATCH,
};
use std::num::Saturating;

/// The parts in the order in which they lie. Computed once: to add up what lies before a cell takes as long as a copy
/// of 1 KB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub cores: usize,
    pub sync_arrivals: usize,
    pub eager_slots: usize,
    pub arrivals: usize,
    pub rtrs: usize,
    pub checks: usize,
    pub scratch: usize,
    pub rotating: usize,
    pub areas: usize,
    pub small_scratch: usize,
    pub eager_messages: usize,
    /// The length of everything, in whole pages; the greatest number if it is longer than that.
    pub end: usize,
    /// Bytes of the flags of a slot.
    pub slot_flags: usize,
    /// Bytes that a pair of rank and channel has of each part.
    pub arrivals_of_pair: usize,
    pub arrivals_of_sync_pair: usize,
    pub checks_of_pair: usize,
    pub scratch_of_pair: usize,
}

/// Where the next part begins.
struct Cursor(Saturating<usize>);

impl Cursor {
    /// The start of a part of `count` times `bytes`, which is passed over.
    fn pass(&mut self, count: Saturating<usize>, bytes: usize) -> usize {
        let start = self.0;
        self.0 += count * Saturating(bytes);
        start.0
    }

    fn align(&mut self, unit: usize) -> usize {
        self.0 = up(self.0, unit);
        self.0.0
    }
}

fn up(bytes: Saturating<usize>, unit: usize) -> Saturating<usize> {
    Saturating(bytes.0.checked_next_multiple_of(unit).unwrap_or(usize::MAX))
}

impl Parts {
    pub(super) fn of(geometry: &NodeGeometry) -> Self {
        let count = |number: u32| Saturating(number as usize);
        let ranks = count(geometry.local_ranks);
        let pairs = ranks * count(geometry.channels);
        let sync_pairs = ranks * count(geometry.sync_channels);
        let small_pairs = ranks * count(geometry.small_channels);
        let slot_flags = 8 * (geometry.rails as usize).next_power_of_two();
        let flags_of = |slots: u32| up(count(slots) * Saturating(slot_flags), LINE).0;
        let arrivals_of_pair = flags_of(geometry.slots);
        let arrivals_of_sync_pair = flags_of(geometry.sync_slots);
        let checks_of_pair = match geometry.check_bytes {
            0 => 0,
            cell => {
                let acks = up(count(geometry.slots) * Saturating(8), LINE);
                (Saturating(2) * count(geometry.slots) * count(cell) + acks).0
            }
        };
        let scratch_of_pair = up(Saturating(geometry.scratch_bytes as usize), PAGE).0;
        let mut at = Cursor(Saturating(FLAGS));
        at.pass(ranks, RANK_BYTES);
        let cores = at.pass(ranks, CORE);
        at.align(LINE);
        let sync_arrivals = at.pass(sync_pairs, arrivals_of_sync_pair);
        at.align(PAGE);
        let eager_slots = at.pass(ranks * count(geometry.eager_slots), SLOT);
        let arrivals = at.pass(pairs + small_pairs, arrivals_of_pair);
        let rtrs = at.pass(pairs * Saturating(geometry.rtr_cells()), LINE);
        let checks = at.pass(pairs, checks_of_pair);
        at.align(PAGE);
        Self {
            cores,
            sync_arrivals,
            eager_slots,
            arrivals,
            rtrs,
            checks,
            scratch: at.pass(pairs, scratch_of_pair),
            rotating: at.pass(ranks, geometry.rotating_bytes as usize),
            areas: at.pass(ranks * count(geometry.areas), scratch_of_pair),
            small_scratch: at.pass(small_pairs, SMALL_SCRATCH),
            eager_messages: at.pass(small_pairs, EAGER_MESSAGES_BYTES),
            end: at.align(PAGE),
            slot_flags,
            arrivals_of_pair,
            arrivals_of_sync_pair,
            checks_of_pair,
            scratch_of_pair,
        }
    }
}
