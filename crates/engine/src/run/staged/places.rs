//! Where pieces and the words about them lie: in a rank's first area, which is registered with the
//! segment.
//!
//! ```text
//! doorbell        u64      rung by who asks              1 line
//! ring        u64      what this rank rings others with, in the same line
//! flags       u64 each of the chunks of a piece      1 line
//! requests    u64 per rank: the credit it asks for
//! answers     u64 per rank: what it says
//! incoming    header and bytes of a piece            half of the rest
//! outgoing    as much
//! ```

use crate::run::checked::sum_on;
use crate::run::span::{copy_in, copy_out};
use crate::team::map::Map;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::RAILS_MAX;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, Unaligned};

const LINE: usize = 64;
const _: () = assert!(RAILS_MAX * 8 <= LINE);

/// Bytes of a piece before its data.
pub(super) const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == LINE);

/// The places of one rank, as offsets in the segment of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    start: usize,
    ranks: usize,
    /// Length of each half of what is not words.
    half: usize,
}

impl Layout {
    /// Those of `rank`.
    pub fn of(map: &Map, rank: Rank) -> Self {
        let (layout, local) = map.layout_of(rank);
        let start = layout.area(local, 0);
        // Alike on all nodes.
        let capacity = map.segment().geometry().scratch_capacity();
        Self::new(start, capacity, map.topology.size() as usize)
    }

    fn new(start: usize, capacity: usize, ranks: usize) -> Self {
        let words = Self::words(ranks);
        let half = (capacity - words) / 2 / LINE * LINE;
        assert!(
            half > HEADER_BYTES,
            "an area has a page, and 16 bytes per rank beside"
        );
        Self { start, ranks, half }
    }

    fn words(ranks: usize) -> usize {
        (2 * LINE + 16 * ranks).next_multiple_of(LINE)
    }

    /// The doorbell.
    #[inline]
    pub fn doorbell(&self) -> usize {
        self.start
    }

    /// What this rank puts to others' doorbells.
    pub fn ring(&self) -> usize {
        self.start + 8
    }

    /// The flag of chunk `chunk` of a piece.
    pub fn flag(&self, chunk: u8) -> usize {
        assert!(usize::from(chunk) < RAILS_MAX, "chunk {chunk}");
        self.start + LINE + 8 * usize::from(chunk)
    }

    /// What `origin` asks for.
    pub fn request(&self, origin: Rank) -> usize {
        assert!(origin.index() < self.ranks, "rank {origin}");
        self.start + 2 * LINE + 8 * origin.index()
    }

    /// What `target` answers.
    pub fn answer(&self, target: Rank) -> usize {
        self.request(target) + 8 * self.ranks
    }

    /// Where pieces of others come.
    pub fn incoming(&self) -> usize {
        self.start + Self::words(self.ranks)
    }

    /// Where this rank's own pieces are laid out.
    pub fn outgoing(&self) -> usize {
        self.incoming() + self.half
    }

    /// Most bytes of a message in one piece.
    pub fn piece_bytes(&self) -> usize {
        self.half - HEADER_BYTES
    }
}

/// What a piece says of itself.
#[derive(FromBytes, IntoBytes, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Header {
    /// What the message's flags hold, besides the number of chunks.
    pub tag: U64,
    /// Where the piece goes in the announced memory.
    pub offset: U64,
    /// Length of its data.
    pub bytes: U64,
    /// The message's flag at the target.
    pub slot: U32,
    /// Whether it is the message's last: 1 or 0.
    pub last: u8,
    pub zero: [u8; 3],
    /// Of the piece, where that is wanted; of other headers 0.
    pub sum: U32,
    pub more_zeros: [u8; 28],
}

impl Header {
    /// Writes the header before its data, which `piece` has already; with a sum if that is wanted.
    /// `grant` tells the piece from older ones.
    pub fn write(mut self, piece: MemoryRange, grant: u64, with_sum: bool) {
        if with_sum {
            self.sum = self.sum_of(piece, grant);
        }
        copy_in(self.as_bytes(), piece.slice(0, HEADER_BYTES));
    }

    /// Reads the header of a piece that has come to `area`. `None` if the piece is damaged, as far as
    /// that is asked, or says more than can be.
    pub fn read(area: MemoryRange, grant: u64, with_sum: bool) -> Option<Self> {
        let mut header = Self::new_zeroed();
        copy_out(area.slice(0, HEADER_BYTES), header.as_mut_bytes());
        let sum = std::mem::take(&mut header.sum);
        let fits = header.bytes <= (area.bytes - HEADER_BYTES) as u64;
        (fits && (!with_sum || header.sum_of(area, grant) == sum)).then_some(header)
    }

    /// The sum of this header, whose own is 0, and its data in `piece`.
    fn sum_of(&self, piece: MemoryRange, grant: u64) -> U32 {
        let own = crc32c::crc32c_append(crc32c::crc32c(&grant.to_le_bytes()), self.as_bytes());
        let data = piece.slice(HEADER_BYTES, self.bytes.get() as usize);
        sum_on(own, data).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_stay_inside() {
        // A page and 128 bytes per rank, or the least of a team with few connections: what every team has.
        for (capacity, ranks) in [
            (4096, 2),
            (4096, 32),
            (8192, 64),
            (65536, 5),
            (1 << 20, 8192),
            (16 * 8192 + (8 << 10), 8192),
        ] {
            let places = Layout::new(4096, capacity, ranks);
            let mut parts = vec![(places.doorbell(), 8), (places.ring(), 8)];
            parts.extend((0..RAILS_MAX as u8).map(|chunk| (places.flag(chunk), 8)));
            for rank in (0..ranks as u32).map(Rank) {
                parts.extend([(places.request(rank), 8), (places.answer(rank), 8)]);
            }
            let piece = places.piece_bytes() + HEADER_BYTES;
            parts.extend([(places.incoming(), piece), (places.outgoing(), piece)]);
            parts.sort_unstable();
            assert!(
                parts
                    .windows(2)
                    .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
            );
            let (at, bytes) = parts[parts.len() - 1];
            assert!(at + bytes <= 4096 + capacity);
            assert!(parts.iter().all(|(at, _)| at % 8 == 0));
            assert_eq!(places.outgoing() % LINE, 0);
        }
    }

    #[test]
    fn pieces_survive_the_wire_and_damage_shows() {
        let header = Header {
            tag: (77 << 12 | 5).into(),
            offset: (1 << 33).into(),
            bytes: 100.into(),
            slot: 300.into(),
            last: 1,
            ..Header::new_zeroed()
        };
        let mut area: Vec<u8> = (0..HEADER_BYTES as u8 + 120).collect();
        let range = |area: &[u8]| MemoryRange::new(area.as_ptr(), area.len());
        header.write(range(&area), 9, true);
        assert_eq!(Header::read(range(&area), 9, true), Some(header));
        assert_eq!(Header::read(range(&area), 10, true), None, "an older one");
        for bit in 0..8 * (HEADER_BYTES + 100) {
            area[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::read(range(&area), 9, true), None, "bit {bit}");
            area[bit / 8] ^= 1 << (bit % 8);
        }
        header.write(range(&area), 9, false);
        assert_eq!(Header::read(range(&area), 9, false), Some(header));
        let long = Header {
            bytes: 121.into(),
            ..header
        };
        long.write(range(&area), 9, false);
        assert_eq!(Header::read(range(&area), 9, false), None);
    }
}
