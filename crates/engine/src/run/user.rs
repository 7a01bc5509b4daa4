//! The caller's memory as blocks, and which part of each an operation moves.

use crate::reducer::Reducer;
use ferrorail_base::memory::MemoryRange;

/// One block of a vector form: where it lies from its buffer's first byte on, and its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Bytes from the buffer's address; may be negative.
    pub offset: isize,
    /// Length in bytes.
    pub bytes: usize,
}

/// Blocks of one of the caller's buffers, as an exchange sees them that is compiled for each kind of them.
pub(crate) trait BlockList: Copy {
    /// Number of blocks.
    fn count(&self) -> u32;

    /// Where block `index` lies.
    fn block(&self, index: u32) -> MemoryRange;

    /// Bytes of the longest block.
    fn longest(&self) -> usize;

    /// The block that this rank and `peer` have in common, where each pair has one: of a single
    /// block, that.
    #[inline(always)]
    fn block_of(&self, peer: u32) -> MemoryRange {
        self.block(if self.count() == 1 { 0 } else { peer })
    }
}

/// So many blocks of one length, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Even {
    pub base: *mut u8,
    pub count: u32,
    pub bytes: usize,
}

impl Even {
    /// Of a rank that sends, or receives, nothing.
    pub const NONE: Self = Self::new(core::ptr::null_mut(), 0, 0);

    /// `count` blocks of `bytes` bytes.
    #[inline(always)]
    pub const fn new(base: *mut u8, count: u32, bytes: usize) -> Self {
        Self { base, count, bytes }
    }

    /// All of them, which are one piece of memory.
    pub fn whole(&self) -> MemoryRange {
        MemoryRange::new(self.base, self.count as usize * self.bytes)
    }
}

impl BlockList for Even {
    #[inline(always)]
    fn count(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    fn block(&self, index: u32) -> MemoryRange {
        let offset = index as usize * self.bytes;
        MemoryRange::new(self.base.wrapping_add(offset), self.bytes)
    }

    #[inline(always)]
    fn longest(&self) -> usize {
        if self.count == 0 { 0 } else { self.bytes }
    }
}

impl From<Even> for Side<'_> {
    fn from(even: Even) -> Self {
        Self::Even(even)
    }
}

/// Blocks as listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    pub base: *mut u8,
    pub blocks: &'a [Block],
}

impl BlockList for Table<'_> {
    #[inline(always)]
    fn count(&self) -> u32 {
        self.blocks.len() as u32
    }

    #[inline(always)]
    fn block(&self, index: u32) -> MemoryRange {
        let Block { offset, bytes } = self.blocks[index as usize];
        MemoryRange::new(self.base.wrapping_offset(offset), bytes)
    }

    #[inline(always)]
    fn longest(&self) -> usize {
        let lengths = self.blocks.iter().map(|block| block.bytes);
        lengths.max().unwrap_or(0)
    }
}

impl<'a> From<Table<'a>> for Side<'a> {
    fn from(table: Table<'a>) -> Self {
        Self::Table(table)
    }
}

/// One of the caller's buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side<'a> {
    Even(Even),
    Table(Table<'a>),
}

impl Side<'_> {
    /// What offsets count from.
    pub fn base(&self) -> *mut u8 {
        match self {
            Self::Even(even) => even.base,
            Self::Table(table) => table.base,
        }
    }

    /// All of it, which is one piece of memory if blocks are of one length.
    pub fn whole(&self) -> MemoryRange {
        match self {
            Self::Even(even) => even.whole(),
            Self::Table(_) => unreachable!("tables are registered by block"),
        }
    }

    /// Whether some block has no bytes.
    pub fn has_empty_block(&self) -> bool {
        (0..self.count()).any(|index| self.block(index).bytes == 0)
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Even(even) => even.whole().bytes,
            Self::Table(table) => table.blocks.iter().map(|block| block.bytes).sum(),
        }
    }
}

impl BlockList for Side<'_> {
    #[inline]
    fn count(&self) -> u32 {
        match self {
            Self::Even(even) => even.count(),
            Self::Table(table) => table.count(),
        }
    }

    #[inline]
    fn block(&self, index: u32) -> MemoryRange {
        match self {
            Self::Even(even) => even.block(index),
            Self::Table(table) => table.block(index),
        }
    }

    #[inline]
    fn longest(&self) -> usize {
        match self {
            Self::Even(even) => even.longest(),
            Self::Table(table) => table.longest(),
        }
    }
}

/// Which part of each block an operation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// At most `capacity` bytes from `offset` on: what exceeds scratch takes several operations.
    Piece { offset: usize, capacity: usize },
    /// Blocks of more than `above` and at most `capacity` bytes, and nothing of others.
    Between { above: usize, capacity: usize },
    /// Blocks of more than `capacity` bytes, and nothing of others.
    Above { capacity: usize },
}

impl Window {
    /// Room for a block in scratch.
    #[inline]
    pub fn capacity(self) -> usize {
        match self {
            Self::Piece { capacity, .. } | Self::Between { capacity, .. } => capacity,
            Self::Above { .. } => 0,
        }
    }

    /// The part of `block` that is moved.
    #[inline]
    pub fn of(self, block: MemoryRange) -> MemoryRange {
        let whole_if = |is_moved: bool| (0, if is_moved { block.bytes } else { 0 });
        let (offset, bytes) = match self {
            Self::Piece { offset, capacity } => {
                let offset = offset.min(block.bytes);
                (offset, capacity.min(block.bytes - offset))
            }
            Self::Between { above, capacity } => {
                whole_if(above < block.bytes && block.bytes <= capacity)
            }
            Self::Above { capacity } => whole_if(block.bytes > capacity),
        };
        MemoryRange {
            address: block.address + offset,
            bytes,
        }
    }
}

/// The caller's memory in one operation.
#[derive(Clone, Copy)]
pub(crate) struct UserBuffers<'a> {
    /// The contribution, which is only read.
    pub send: Side<'a>,
    /// The result.
    pub recv: Side<'a>,
    /// Which part of each block is moved.
    pub window: Window,
    /// Parts that each piece is cut into; 1 if it is not.
    pub parts: u32,
    /// Whether a message has the length of its pair's block and an empty one is left out, instead
    /// of every message having the length that its schedule says.
    pub pairs: bool,
    /// Whether the result is written past the caches.
    pub past_caches: bool,
    /// Of a reduction, what it does.
    pub reducer: Option<Reducer<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_block_once() {
        let block = MemoryRange {
            address: 1000,
            bytes: 25,
        };
        let mut next = block.address;
        for piece in 0..5 {
            let (offset, capacity) = (piece * 10, 10);
            let part = Window::Piece { offset, capacity }.of(block);
            assert_eq!(part.address, next);
            next += part.bytes;
        }
        assert_eq!(next, 1025);
    }

    #[test]
    fn a_length_goes_one_way_or_the_other() {
        for bytes in 0..20 {
            let block = MemoryRange { address: 64, bytes };
            let (above, capacity) = (3, 10);
            let small = Window::Between { above, capacity }.of(block).bytes;
            let large = Window::Above { capacity }.of(block).bytes;
            assert_eq!(small + large, if bytes > above { bytes } else { 0 });
            assert_eq!(small.min(large), 0);
        }
    }

    #[test]
    fn tables_may_reach_backwards() {
        let memory = [0u8; 32];
        let base = memory.as_ptr().wrapping_add(16).cast_mut();
        let table = [
            Block {
                offset: -16,
                bytes: 3,
            },
            Block {
                offset: 8,
                bytes: 5,
            },
        ];
        let side = Side::Table(Table {
            base,
            blocks: &table,
        });
        assert_eq!(side.block(0).address, memory.as_ptr() as usize);
        assert_eq!(side.block_of(1).bytes, 5);
        assert_eq!(
            Side::Even(Even::new(base, 1, 7)).block_of(9).address,
            base as usize
        );
    }
}
