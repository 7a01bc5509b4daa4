//! A node segment: shared memory that all ranks of a (virtual) node lay out alike.

use crate::copy::Written;
use crate::layout::LINE;
use crate::segment::found::Found;
use crate::segment::{Segment, SegmentHandle, ShmError, round_to_pages};
use crate::{
    Arrival, Cores, Doorbell, EAGER_MESSAGE, EagerGroup, EagerSlot, GroupValues, NodeFlags,
    NodeGeometry, NodeLayout, Status,
};
use ferrorail_base::NodeRank;
use ferrorail_base::config::ShmKind;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU32, AtomicU64, Ordering};

mod scratch;

/// Words of a cache line.
const WORDS_OF_LINE: usize = LINE / size_of::<u64>();

/// A segment together with its layout.
#[derive(Debug)]
pub struct NodeSegment {
    segment: Segment,
    layout: NodeLayout,
    /// Its eager slots, those of each rank together.
    eager_slots: Found<EagerSlot>,
    /// The words from the node's doorbell on.
    doorbell: Found<AtomicU32>,
    /// The words from that of the first rank on which say what ranks have finished, a line each.
    finished: Found<AtomicU64>,
    /// The words that say on which cores ranks waited last.
    cores: Found<AtomicU32>,
    written: Written,
}

impl NodeSegment {
    /// Creates the segment, with room for `spares` more of the same geometry, and writes its header.
    ///
    /// # Errors
    /// As [`Segment::create`].
    pub fn create(kind: ShmKind, geometry: NodeGeometry, spares: usize) -> Result<Self, ShmError> {
        let layout = NodeLayout::of(geometry);
        let bytes = layout.total_bytes();
        let too_large = || ShmError::TooLarge { bytes };
        let one = usize::try_from(bytes).map_err(|_| too_large())?;
        let all = round_to_pages(one)?.checked_mul(1 + spares);
        let segment = Segment::create(kind, all.ok_or_else(too_large)?)?;
        // The magic last: whoever sees it sees the rest.
        for (word, value) in header(&segment).iter().zip(header_words(&geometry)).rev() {
            word.store(value, Ordering::Release);
        }
        Ok(Self::new(segment, layout))
    }

    /// Attaches to a segment of the same geometry.
    ///
    /// # Errors
    /// As [`Segment::attach`]; [`ShmError::Header`] if its creator laid it out differently.
    pub fn attach(handle: &SegmentHandle, geometry: NodeGeometry) -> Result<Self, ShmError> {
        let segment = Segment::attach(handle)?;
        let layout = NodeLayout::of(geometry);
        let expected = header_words(&geometry).to_vec();
        let words = header(&segment).iter();
        let found: Vec<u64> = words.map(|word| word.load(Ordering::Acquire)).collect();
        if found != expected || (segment.bytes() as u64) < layout.total_bytes() {
            return Err(ShmError::Header { expected, found });
        }
        Ok(Self::new(segment, layout))
    }

    fn new(segment: Segment, layout: NodeLayout) -> Self {
        let geometry = layout.geometry();
        let ranks = geometry.local_ranks as usize;
        let slots = ranks * geometry.eager_slots as usize;
        Self {
            eager_slots: Found::new(&segment, layout.eager_slots_start(), slots),
            doorbell: Found::new(&segment, layout.doorbell(), 2),
            finished: Found::new(
                &segment,
                layout.finished(NodeRank(0)),
                ranks * WORDS_OF_LINE,
            ),
            cores: Found::new(&segment, layout.cores(), ranks),
            written: Written::none_of(segment.bytes()),
            segment,
            layout,
        }
    }

    /// As [`Segment::close`].
    pub fn close(&mut self) {
        self.segment.close();
    }

    /// The segments that it was created with room for, at the creator and at who attached, in the same order.
    pub fn take_spares(&mut self) -> Vec<Self> {
        let layout = self.layout;
        let parts = self.segment.split(layout.total_bytes() as usize);
        let spare = |segment| Self::new(segment, layout);
        parts.into_iter().map(spare).collect()
    }

    /// The mapping.
    #[inline]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Where its cells lie.
    #[inline]
    pub fn layout(&self) -> &NodeLayout {
        &self.layout
    }

    /// How many there are of each cell.
    #[inline]
    pub fn geometry(&self) -> &NodeGeometry {
        self.layout.geometry()
    }

    /// The node's doorbell.
    #[inline]
    pub fn doorbell(&self) -> Doorbell<'_> {
        // SAFETY: found there.
        let words = unsafe { self.doorbell.of(&self.segment) };
        Doorbell::new(&words[0], &words[1])
    }

    /// The doorbell of those who wait for [`Self::completed_watermark`] to rise, and for nothing else.
    pub fn quiescence_doorbell(&self) -> Doorbell<'_> {
        let at = self.layout.quiescence_doorbell();
        Doorbell::new(self.segment.word32(at), self.segment.word32(at + 4))
    }

    /// The flags of all ranks of the node.
    #[inline]
    pub fn flags(&self) -> NodeFlags<'_> {
        let first = self.layout.node_flag(NodeRank(0));
        NodeFlags::new(
            self.segment
                .cells(first, self.geometry().local_ranks as usize),
        )
    }

    /// The number of the last operation that `r` has finished, with all before it.
    #[inline]
    pub fn finished(&self, r: NodeRank) -> &AtomicU64 {
        // SAFETY: found there.
        let words = unsafe { self.finished.of(&self.segment) };
        &words[r.index() * WORDS_OF_LINE]
    }

    /// On which cores the ranks of the node wait.
    #[inline]
    pub fn cores(&self) -> Cores<'_> {
        // SAFETY: found there.
        Cores::new(unsafe { self.cores.of(&self.segment) })
    }

    /// The status cell of another node's rank that `r` has read last.
    pub fn probed(&self, r: NodeRank) -> Status {
        let at = self.layout.probe(r);
        Status::read([at, at + 8].map(|at| self.segment.word(at)))
    }

    /// What the node's leader heard in round `round` of quiescence.
    #[inline]
    pub fn quiescence_word(&self, round: u32) -> &AtomicU64 {
        self.segment.word(self.layout.quiescence_word(round))
    }

    /// The number of the last operation that all ranks of all nodes are known to have finished.
    #[inline]
    pub fn completed_watermark(&self) -> &AtomicU64 {
        self.segment.word(self.layout.completed_watermark())
    }

    /// `r`'s eager slots, of which there are some.
    #[inline(always)]
    pub fn eager_slots(&self, r: NodeRank) -> &[EagerSlot] {
        // SAFETY: found there.
        let all = unsafe { self.eager_slots.of(&self.segment) };
        let of_rank = self.geometry().eager_slots as usize;
        &all[r.index() * of_rank..][..of_rank]
    }

    /// `r`'s eager slot number `index`.
    #[inline(always)]
    pub fn eager_slot(&self, r: NodeRank, index: u32) -> &EagerSlot {
        &self.eager_slots(r)[index as usize]
    }

    /// Slot number `index` of each of `members` consecutive ranks from `first` on.
    #[inline]
    pub fn eager_group(
        &self,
        (first, members): (NodeRank, u32),
        index: u32,
        values: GroupValues,
    ) -> EagerGroup<'_> {
        // SAFETY: found there.
        let all = unsafe { self.eager_slots.of(&self.segment) };
        let of_rank = self.geometry().eager_slots as usize;
        let slots = &all[first.index() * of_rank + index as usize..];
        EagerGroup::new(slots, of_rank, members as usize, values)
    }

    /// The arrival flag of `slot` at `r` for chunk `chunk` of its message.
    #[inline]
    pub fn arrival(&self, r: NodeRank, channel: u32, slot: u32, chunk: u8) -> Arrival<'_> {
        let at = self.layout.arrival(r, channel, slot, chunk);
        Arrival::new(self.segment.word(at))
    }

    /// The RTR cell of `slot` at `r`: eight words.
    #[inline]
    pub fn rtr(&self, r: NodeRank, channel: u32, slot: u32) -> &[AtomicU64] {
        self.segment.cells(self.layout.rtr(r, channel, slot), 8)
    }

    /// The check cell of `slot` at `r`; its first word is the flag of the check's arrival.
    pub fn check(&self, r: NodeRank, channel: u32, slot: u32) -> MemoryRange {
        let bytes = self.geometry().check_bytes as usize;
        let at = self.layout.check(r, channel, slot);
        self.segment.range().slice(at, bytes)
    }

    /// The flag of the check of `slot` at `r`.
    pub fn check_flag(&self, r: NodeRank, channel: u32, slot: u32) -> &AtomicU64 {
        self.segment.word(self.layout.check(r, channel, slot))
    }

    /// The word in which `r` is told what became of the `index`-th message that it sends.
    pub fn ack(&self, r: NodeRank, channel: u32, index: u16) -> &AtomicU64 {
        self.segment.word(self.layout.ack(r, channel, index))
    }

    /// `r`'s area number `index`.
    pub fn area(&self, r: NodeRank, index: u32) -> MemoryRange {
        let bytes = self.geometry().scratch_capacity();
        self.segment
            .range()
            .slice(self.layout.area(r, index), bytes)
    }

    /// Room of the eager message to come in `slot` at `r`; its last word is the flag.
    #[inline]
    pub fn eager_message(&self, r: NodeRank, channel: u32, slot: u32) -> MemoryRange {
        let at = self.layout.eager_message(r, channel, slot);
        self.segment.range().slice(at, EAGER_MESSAGE)
    }

    /// The flag of the eager message to come in `slot` at `r`.
    #[inline]
    pub fn eager_message_flag(&self, r: NodeRank, channel: u32, slot: u32) -> &AtomicU64 {
        let at = self.layout.eager_message(r, channel, slot);
        self.segment.word(at + EAGER_MESSAGE - size_of::<u64>())
    }

    /// Room in which `r` writes its `index`-th eager message to go.
    #[inline]
    pub fn own_eager_message(&self, r: NodeRank, channel: u32, index: u32) -> MemoryRange {
        let at = self.layout.own_eager_message(r, channel, index);
        self.segment.range().slice(at, EAGER_MESSAGE)
    }
}

const HEADER_WORDS: usize = 8;
const MAGIC: u32 = u32::from_be_bytes(*b"frrl");
/// Changes whenever a cell moves or changes its meaning.
const VERSION: u32 = 12;

/// The words of the header, magic first. They fit the line that the layout reserves.
fn header_words(geometry: &NodeGeometry) -> [u64; HEADER_WORDS] {
    let two = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    // Areas and synchronising slots are few.
    let few = geometry.areas << 24 | geometry.sync_channels << 16 | geometry.sync_slots;
    [
        two(MAGIC, VERSION),
        two(geometry.local_ranks, geometry.channels),
        two(geometry.slots, geometry.rails),
        geometry.scratch_bytes,
        geometry.rotating_bytes,
        two(geometry.check_bytes, geometry.rtr_base),
        two(geometry.small_channels, geometry.eager_slots),
        few.into(),
    ]
}

fn header(segment: &Segment) -> &[AtomicU64] {
    segment.cells(NodeLayout::header(), HEADER_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: NodeGeometry = NodeGeometry {
        local_ranks: 3,
        eager_slots: 2,
        channels: 2,
        sync_channels: 1,
        small_channels: 1,
        slots: 38,
        rtr_base: 3,
        sync_slots: 8,
        rails: 2,
        scratch_bytes: 10_000,
        rotating_bytes: 0,
        areas: 1,
        check_bytes: 0,
    };

    #[test]
    fn both_mappings_reach_the_same_cells() {
        for kind in [ShmKind::Memfd, ShmKind::Posix] {
            let here = NodeSegment::create(kind, GEOMETRY, 0).unwrap();
            let there = NodeSegment::attach(&here.segment().handle(), GEOMETRY).unwrap();
            here.segment().unlink();
            here.flags().signal(NodeRank(2), 9);
            assert!(there.flags().reached(NodeRank(2), 9));
            here.eager_slot(NodeRank(1), 1).publish(7, b"payload");
            let mut out = [0; 7];
            assert!(there.eager_slot(NodeRank(1), 1).try_read(7, &mut out));
            assert_eq!(&out, b"payload");
            here.arrival(NodeRank(0), 1, 37, 1).raise(5);
            assert_eq!(there.arrival(NodeRank(0), 1, 37, 1).value(), 5);
            here.rtr(NodeRank(2), 0, 3)[7].store(6, Ordering::Relaxed);
            assert_eq!(there.rtr(NodeRank(2), 0, 3)[7].load(Ordering::Relaxed), 6);
            let (mine, yours) = (here.scratch(NodeRank(2), 1), there.scratch(NodeRank(2), 1));
            assert_eq!((mine.bytes, yours.bytes), (10_000, 10_000));
            assert_ne!(mine.address, yours.address);
            // SAFETY: both ranges are mapped and nobody else knows of them.
            let read = unsafe {
                mine.slice(9_999, 1).as_ptr().write(0xa5);
                yours.slice(9_999, 1).as_ptr().read()
            };
            assert_eq!(read, 0xa5);
        }
    }

    #[test]
    fn a_different_geometry_is_refused() {
        let here = NodeSegment::create(ShmKind::Memfd, GEOMETRY, 0).unwrap();
        let other = NodeGeometry {
            rails: 1,
            ..GEOMETRY
        };
        let error = NodeSegment::attach(&here.segment().handle(), other).unwrap_err();
        assert!(matches!(error, ShmError::Header { .. }), "{error}");
        let blank = Segment::create(
            ShmKind::Memfd,
            NodeLayout::of(GEOMETRY).total_bytes() as usize,
        )
        .unwrap();
        let error = NodeSegment::attach(&blank.handle(), GEOMETRY).unwrap_err();
        assert!(matches!(error, ShmError::Header { .. }), "{error}");
    }
}
