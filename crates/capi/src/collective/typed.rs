//! Blocks of which each has a type of its own, as those of `MPI_Alltoallw` (MPI 4.1, section 6.8).

use super::list::{List, make_room};
use super::{Buffer, Refusal, Table};
use crate::datatype::{Elements, Layout};
use crate::error::CallError;
use crate::session::Session;
use ferrorail_base::memory;
use ferrorail_engine::Block;
use libc::c_void;
use std::ops::Range;

/// Lists in `list`, which is empty, what `buffer`, whose type is the address of an array of types, has for each of so many
/// `ranks`, as `table` says, whose displacements are bytes. The type of a block of no elements may be anything. Returns the
/// elements of each block, and the addresses that those with bytes span where all are plain bytes.
///
/// # Errors
/// If an array is missing, or a block is not right; if their bytes cannot be counted, or there is no memory.
///
/// # Safety
/// The arrays have an entry per rank.
pub unsafe fn list_each(
    list: &mut List,
    session: &Session,
    buffer: &Buffer,
    table: &Table,
    ranks: u32,
) -> Result<(Vec<Elements>, Range<usize>), Refusal> {
    if table.is_absent() || buffer.datatype == 0 {
        return Err(Refusal::Invalid);
    }
    let ranks = ranks as usize;
    let mut each = Vec::new();
    memory::reserve(&mut each, ranks)?;
    make_room(list, ranks)?;
    let (mut total, mut start, mut end) = (0usize, usize::MAX, 0);
    for rank in 0..ranks {
        // SAFETY: the caller's contract.
        let elements = unsafe { elements(session, buffer, table, rank)? };
        let bytes = elements.bytes().ok_or(CallError::TooMuch)?;
        total = total.checked_add(bytes).ok_or(CallError::TooMuch)?;
        let offset = elements.dense().map_or(0, |address| {
            if bytes != 0 {
                let range = elements.range(address);
                (start, end) = (start.min(range.start), end.max(range.end));
            }
            (address as isize).wrapping_sub(buffer.address as isize)
        });
        list.push(Block { offset, bytes });
        each.push(elements);
    }
    Ok((each, start.min(end)..end))
}

/// The elements of block `rank`.
///
/// # Safety
/// The arrays have an entry for it.
pub unsafe fn elements(
    session: &Session,
    buffer: &Buffer,
    table: &Table,
    rank: usize,
) -> Result<Elements, Refusal> {
    let host = session.host();
    // SAFETY: the caller's contract.
    let (count, displacement, datatype) = unsafe {
        let types = buffer.datatype as *const c_void;
        let count = table.count(rank);
        let displacement = table.displacement(rank);
        (count, displacement, host.handle_in(types, rank))
    };
    let address = (buffer.address.cast::<u8>()).wrapping_offset(displacement as isize);
    if count == 0 {
        return Ok(Elements {
            address,
            count: 0,
            datatype: host.datatype(datatype),
            layout: Layout::plain(0),
        });
    }
    let elements = Elements::of(session, address.cast(), count, datatype);
    let elements = elements.map_err(|_| Refusal::Invalid)?;
    match elements.is_absent() {
        true => Err(Refusal::Invalid),
        false => Ok(elements),
    }
}
