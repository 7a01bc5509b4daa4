//! Lists of the blocks of vector forms.

use super::{Refusal, Table};
use crate::datatype::Layout;
use ferrorail_base::memory::NoMemory;
use ferrorail_engine::Block;
use libc::{c_int, c_void};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::slice;

/// A list with room for the blocks of a usual node's ranks in itself.
pub type List = SmallVec<[Block; 16]>;

/// Makes room for `length` blocks in an empty list.
#[inline]
pub fn make_room(list: &mut List, length: usize) -> Result<(), NoMemory> {
    // What reserves is a call, also where there is room.
    if length <= list.capacity() {
        return Ok(());
    }
    list.try_reserve_exact(length).map_err(|_| NoMemory {
        bytes: length.saturating_mul(size_of::<Block>()),
    })
}

/// What was found of blocks as they were listed.
pub struct Listed {
    /// Addresses that those with bytes span, as far as there are any; of no bytes, an empty range.
    pub span: Range<usize>,
    /// Their lowest byte of data.
    pub lowest: usize,
    /// Whether one has a negative count.
    pub negative: bool,
    /// Whether the bytes of one, or of all, cannot be counted.
    pub too_much: bool,
}

/// Lists in `list`, which is empty, the blocks of elements of `layout` as `table` has them from `address` on, an entry for each
/// of so many `ranks`: all in one pass, as most tables are short.
///
/// # Errors
/// If there is no table, or no memory for the list.
///
/// # Safety
/// The table's arrays have an entry per rank.
#[inline(always)]
pub unsafe fn list_blocks(
    list: &mut List,
    address: *mut c_void,
    layout: &Layout,
    table: &Table,
    ranks: u32,
) -> Result<Listed, Refusal> {
    if table.is_absent() {
        return Err(Refusal::Invalid);
    }
    let (address, ranks) = (address as usize, ranks as usize);
    make_room(list, ranks)?;
    // SAFETY: the caller's contract; there is room.
    Ok(unsafe {
        match table.large {
            true => list_entries::<i64>(list, address, layout, table, ranks),
            false => list_entries::<c_int>(list, address, layout, table, ranks),
        }
    })
}

/// [`list_blocks`] of entries of this type.
///
/// # Safety
/// As [`list_blocks`], and the list has room.
#[inline(always)]
unsafe fn list_entries<T: Copy + Into<i64>>(
    list: &mut List,
    address: usize,
    layout: &Layout,
    table: &Table,
    ranks: usize,
) -> Listed {
    let (each, extent, lowest_at) = (layout.bytes, layout.extent(), layout.lowest());
    let at = layout.dense_at().unwrap_or(0);
    let (counts, displacements) = (table.counts.cast::<T>(), table.displacements.cast::<T>());
    assert!(list.capacity() >= ranks, "room for a block per rank");
    // SAFETY: the room of the list, which is that long.
    let room = unsafe { slice::from_raw_parts_mut(list.as_mut_ptr().cast(), ranks) };
    let (mut total, mut negative, mut too_much) = (0usize, false, false);
    let (mut start, mut end, mut lowest) = (usize::MAX, 0, usize::MAX);
    for (rank, room) in room.iter_mut().enumerate() {
        // SAFETY: the caller's contract.
        let (count, displacement) = unsafe {
            let entry = |array: *const T| array.add(rank).read().into();
            (entry(counts), entry(displacements))
        };
        let (bytes, overflows) = each.overflowing_mul(count as usize);
        let (sum, sum_overflows) = total.overflowing_add(bytes);
        total = sum;
        negative |= count < 0;
        too_much |= overflows | sum_overflows;
        let first = extent.wrapping_mul(displacement as isize);
        let offset = first.wrapping_add(at);
        if bytes != 0 {
            let data = address.wrapping_add_signed(offset);
            start = start.min(data);
            end = end.max(data.saturating_add(bytes));
            lowest = lowest.min(address.wrapping_add_signed(first.wrapping_add(lowest_at)));
        }
        *room = MaybeUninit::new(Block { offset, bytes });
    }
    // SAFETY: so many blocks were written.
    unsafe { list.set_len(ranks) };
    Listed {
        span: start.min(end)..end,
        lowest,
        negative,
        too_much,
    }
}
