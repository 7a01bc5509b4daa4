//! What travels beside a checked message: where it lies, how it is divided, the CRC32C of each
//! chunk, and the words by which both sides tell how far they are.

use crate::run::span::copy_out;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::RAILS_MAX;
use std::mem::offset_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, Unaligned};

/// The word before a record in its cell: the flag of its arrival.
pub(crate) const FLAG_BYTES: usize = 8;

/// Bytes that a sum takes at a time out of memory that others write.
const BLOCK: usize = 4096;

/// Bytes of a check cell where messages have up to `rails` chunks; whole cache lines.
pub(crate) const fn cell_bytes(rails: u32) -> u32 {
    ((FLAG_BYTES + record_bytes(rails as u8)) as u32).next_multiple_of(64)
}

/// A chunk as its origin sent it.
#[derive(FromBytes, IntoBytes, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Sum {
    /// One past its last byte, in the message.
    end: U64,
    /// Of its bytes.
    crc: U32,
    zero: [u8; 4],
}

/// A record, as it travels; protected by a sum of its own that depends on the message's tag, so that an older
/// record is not taken for it.
#[derive(FromBytes, IntoBytes, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Record {
    /// Where the message lies at its target: an offset of its segment, or of user memory.
    at: U64,
    /// Whether it lies in the user memory that the target announced.
    in_user: u8,
    count: u8,
    zero: [u8; 6],
    own_sum: U32,
    more_zeros: [u8; 4],
    sums: [Sum; RAILS_MAX],
}

/// Length of a record of `chunks` chunks.
pub(super) const fn record_bytes(chunks: u8) -> usize {
    offset_of!(Record, sums) + size_of::<Sum>() * chunks as usize
}

impl Record {
    /// Of a message without chunks, at offset `at` of the target's segment or of its announced user memory.
    pub fn new(at: u64, in_user: bool) -> Self {
        Self {
            at: at.into(),
            in_user: in_user.into(),
            ..Self::new_zeroed()
        }
    }

    /// Adds a chunk that ends before byte `end` of the message.
    pub fn add(&mut self, end: u64, crc: u32) {
        self.sums[usize::from(self.count)] = Sum {
            end: end.into(),
            crc: crc.into(),
            zero: [0; 4],
        };
        self.count += 1;
    }

    /// Whether the message lies in user memory, and at which offset.
    pub fn place(&self) -> (bool, u64) {
        (self.in_user != 0, self.at.get())
    }

    /// Part of the message that chunk `index` is: first byte, and length.
    pub fn part(&self, index: u8) -> (u64, u64) {
        let end = |index: usize| self.sums[index].end.get();
        let start = usize::from(index).checked_sub(1).map_or(0, end);
        (start, end(index.into()).saturating_sub(start))
    }

    /// CRC32C of the bytes of chunk `index`.
    pub fn crc(&self, index: u8) -> u32 {
        self.sums[usize::from(index)].crc.get()
    }

    fn sum(&self, tag: u64) -> U32 {
        let own = &self.as_bytes()[..record_bytes(self.count)];
        crc32c::crc32c_append(crc32c::crc32c(&tag.to_le_bytes()), own).into()
    }

    /// Completes it, as the record of the message of `tag`; the bytes that travel.
    pub fn complete(&mut self, tag: u64) -> &[u8] {
        self.own_sum = self.sum(tag);
        &self.as_bytes()[..record_bytes(self.count)]
    }

    /// Reads a record of `count` chunks out of its cell; `None` if it is damaged.
    pub fn read(cell: MemoryRange, count: u8, tag: u64) -> Option<Self> {
        let bytes = record_bytes(count);
        let mut record = Self::new_zeroed();
        copy_out(
            cell.slice(FLAG_BYTES, bytes),
            &mut record.as_mut_bytes()[..bytes],
        );
        let own_sum = std::mem::take(&mut record.own_sum);
        (record.count == count && record.sum(tag) == own_sum).then_some(record)
    }
}

/// CRC32C of memory that others may write; what they write meanwhile shows as damage.
pub(super) fn sum_of(memory: MemoryRange) -> u32 {
    sum_on(0, memory)
}

/// As [`sum_of`], on top of the `sum` of what comes before.
pub(in crate::run) fn sum_on(mut sum: u32, memory: MemoryRange) -> u32 {
    let mut block = [0; BLOCK];
    let mut offset = 0;
    while offset < memory.bytes {
        let bytes = BLOCK.min(memory.bytes - offset);
        copy_out(memory.slice(offset, bytes), &mut block[..bytes]);
        sum = crc32c::crc32c_append(sum, &block[..bytes]);
        offset += bytes;
    }
    sum
}

/// Value of the flag of a record: attempt `attempt` of message number `index` of its origin in
/// operation `number`. Rises with operations and attempts.
pub(super) const fn record_flag(number: u64, attempt: u8, index: u16) -> u64 {
    number << 20 | (attempt as u64) << 16 | index as u64
}

/// The index in a record's flag, if it belongs to this operation and attempt.
pub(super) fn index_in(flag: u64, number: u64, attempt: u8) -> Option<u16> {
    (flag >> 16 == number << 4 | u64::from(attempt)).then_some(flag as u16)
}

/// What a target says of attempt `attempt`: a bit for each chunk that is damaged. Rises with
/// operations and attempts.
pub(super) const fn ack(number: u64, attempt: u8, damaged: u8) -> u64 {
    number << 20 | (attempt as u64 + 1) << 8 | damaged as u64
}

/// The damaged chunks in an acknowledgement, if it is about this operation and attempt.
pub(super) fn damaged_in(word: u64, number: u64, attempt: u8) -> Option<u8> {
    (word >> 8 == ack(number, attempt, 0) >> 8).then_some(word as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: u64 = 77 << 12 | 5;

    fn record() -> Record {
        let mut record = Record::new(12_345, true);
        record.add(64, 1);
        record.add(1 << 40, u32::MAX);
        record
    }

    fn cell(mut record: Record, tag: u64) -> Vec<u64> {
        let wire = record.complete(tag);
        let mut cell = vec![0; cell_bytes(2) as usize / 8];
        for (word, bytes) in cell[1..].iter_mut().zip(wire.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap());
        }
        cell
    }

    fn range(cell: &[u64]) -> MemoryRange {
        MemoryRange::new(cell.as_ptr().cast(), 8 * cell.len())
    }

    #[test]
    fn records_survive_the_wire() {
        let cell = cell(record(), TAG);
        let read = Record::read(range(&cell), 2, TAG).unwrap();
        assert_eq!(read, record());
        assert_eq!(
            (read.part(0), read.part(1)),
            ((0, 64), (64, (1 << 40) - 64))
        );
        assert_eq!(Record::read(range(&cell), 2, TAG + 1), None, "an older one");
        assert_eq!(Record::read(range(&cell), 1, TAG), None);
    }

    #[test]
    fn every_flipped_bit_of_a_record_shows() {
        let good = cell(record(), TAG);
        for bit in 0..8 * record_bytes(2) {
            let mut bad = good.clone();
            bad[1 + bit / 64] ^= 1 << (bit % 64);
            assert_eq!(Record::read(range(&bad), 2, TAG), None, "bit {bit}");
        }
    }

    #[test]
    fn sums_cover_every_byte_across_blocks() {
        let mut memory: Vec<u8> = (0..3 * BLOCK + 5).map(|i| (i * 31) as u8).collect();
        let sum = |memory: &[u8]| sum_of(MemoryRange::new(memory.as_ptr(), memory.len()));
        let right = sum(&memory);
        assert_eq!(right, crc32c::crc32c(&memory));
        for at in [0, BLOCK - 1, BLOCK, 3 * BLOCK + 4] {
            memory[at] ^= 0x10;
            assert_ne!(sum(&memory), right);
            memory[at] ^= 0x10;
        }
    }

    #[test]
    fn words_rise_and_belong_to_one_attempt() {
        let flags = [
            record_flag(4, 3, 7),
            record_flag(5, 0, 65_535),
            record_flag(5, 1, 0),
        ];
        assert!(flags.is_sorted());
        assert_eq!(index_in(flags[1], 5, 0), Some(65_535));
        assert_eq!(index_in(flags[1], 5, 1), None);
        assert_eq!(index_in(flags[0], 5, 3), None);
        let acks = [ack(4, 9, 0), ack(5, 0, 0xff), ack(5, 1, 0)];
        assert!(acks.is_sorted());
        assert_eq!(damaged_in(acks[1], 5, 0), Some(0xff));
        assert_eq!(damaged_in(acks[1], 5, 1), None);
        assert_eq!(damaged_in(0, 0, 0), None, "fresh memory says nothing");
    }
}
