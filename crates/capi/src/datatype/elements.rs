//! Elements of a datatype in the program's memory, as plain bytes and back.

use super::{Layout, layout};
use crate::error::{CallError, Wrong};
use crate::session::Session;
use ferrorail_base::{fiber, memory};
use ferrorail_mpi_abi::Datatype;
use libc::c_void;
use std::ops::Range;

/// Bytes packed by one call of the host at most, unless a single element has more. An `int` must
/// hold it.
const PACK_BYTES_MAX: usize = 1 << 30;

/// `count` elements of a datatype at an address of the program.
#[derive(Clone, Debug)]
pub struct Elements {
    /// Address as passed; may be `MPI_BOTTOM`.
    pub address: *mut u8,
    /// Number of elements.
    pub count: usize,
    /// Their type.
    pub datatype: Datatype,
    /// Its layout.
    pub layout: Layout,
}

/// Whether no memory is at `address`: in the first page.
#[inline]
pub fn is_absent(address: usize) -> bool {
    const FIRST_PAGE: usize = 4096;
    address < FIRST_PAGE
}

impl Elements {
    /// Those that a program describes, checked but for the address: their bytes do not overflow.
    #[inline(always)]
    pub fn of(
        session: &Session,
        address: *mut c_void,
        count: i64,
        datatype: usize,
    ) -> Result<Self, Wrong> {
        let count = usize::try_from(count).map_err(|_| Wrong::Count)?;
        let datatype = session.host().datatype(datatype);
        let elements = Self {
            address: address.cast(),
            count,
            datatype,
            layout: layout(session, datatype).ok_or(Wrong::Datatype)?,
        };
        elements.bytes().ok_or(Wrong::Count)?;
        Ok(elements)
    }

    /// Bytes of data; `None` on overflow.
    #[inline]
    pub fn bytes(&self) -> Option<usize> {
        self.layout.bytes.checked_mul(self.count)
    }

    /// Address of the data, if it is plain bytes.
    #[inline]
    pub fn dense(&self) -> Option<*mut u8> {
        let offset = self.layout.dense_for(self.count)?;
        Some(self.address.wrapping_offset(offset))
    }

    /// Whether data would lie where no memory is: not even displacements that are addresses
    /// (`MPI_BOTTOM`) make sense of this buffer.
    #[inline]
    pub fn is_absent(&self) -> bool {
        let lowest = self.address.wrapping_offset(self.layout.lowest());
        self.count != 0 && self.layout.bytes != 0 && is_absent(lowest as usize)
    }

    /// The block of as many elements for rank `index`, counted from this one.
    pub fn block(&self, index: usize) -> Self {
        self.some((self.count * index) as i64, self.count)
    }

    /// So many elements of the same type, `displacement` extents from these.
    pub fn some(&self, displacement: i64, count: usize) -> Self {
        let offset = self.layout.extent().wrapping_mul(displacement as isize);
        Self {
            address: self.address.wrapping_offset(offset),
            count,
            ..self.clone()
        }
    }

    /// The elements of `ranks` blocks, one after the other.
    ///
    /// # Errors
    /// If their bytes cannot be counted.
    #[inline]
    pub fn times(&self, ranks: u32) -> Result<Self, CallError> {
        let too_many = CallError::TooMuch;
        let Some(count) = self.count.checked_mul(ranks as usize) else {
            return Err(too_many);
        };
        let all = Self {
            count,
            ..self.clone()
        };
        all.bytes().map(|_| all).ok_or(too_many)
    }

    /// Addresses of the data, which is plain bytes from `address` on.
    #[inline]
    pub fn range(&self, address: *const u8) -> Range<usize> {
        let bytes = self.bytes().unwrap_or(usize::MAX);
        address as usize..(address as usize).saturating_add(bytes)
    }

    /// Calls `act` with element address, element count, offset in packed bytes and bytes, for
    /// pieces that the host's `int` arguments can express.
    fn pieces(
        &self,
        mut act: impl FnMut(*mut u8, usize, usize, usize) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let most = (PACK_BYTES_MAX / self.layout.bytes.max(1)).max(1);
        let mut done = 0;
        while done < self.count {
            let count = most.min(self.count - done);
            let stride = self.layout.extent().wrapping_mul(done as isize);
            let bytes = self.layout.bytes;
            act(
                self.address.wrapping_offset(stride),
                count,
                bytes * done,
                bytes * count,
            )?;
            done += count;
        }
        Ok(())
    }

    /// Packs all elements to `to`, which may overlap with them if they are plain bytes.
    ///
    /// # Safety
    /// The elements are readable; `to` has room for [`Elements::bytes`].
    pub unsafe fn pack(&self, session: &Session, to: *mut u8) -> Result<(), CallError> {
        let layout = &self.layout;
        if let Some(from) = self.dense() {
            let bytes = self.bytes().ok_or(CallError::TooMuch)?;
            // SAFETY: the caller's contract.
            unsafe { memory::copy_overlapping(from, to, bytes) };
            return Ok(());
        }
        if let Some(runs) = layout.runs() {
            // SAFETY: the caller's contract.
            unsafe { runs.pack(self.address, self.count, layout.extent(), to) }
            return Ok(());
        }
        self.before_host_packing(session);
        self.pieces(|address, count, offset, bytes| {
            let to = to.wrapping_add(offset);
            let comm = session.self_comm;
            // SAFETY: the caller's contract, piece by piece.
            unsafe {
                session
                    .host()
                    .pack(address, count, self.datatype, to, bytes, comm)?
            };
            Ok(())
        })
    }

    /// Unpacks all elements from `from`; bytes in gaps keep their values.
    ///
    /// # Safety
    /// `from` has [`Elements::bytes`] bytes; the elements are writable.
    pub unsafe fn unpack(&self, session: &Session, from: *const u8) -> Result<(), CallError> {
        let layout = &self.layout;
        if let Some(to) = self.dense() {
            let bytes = self.bytes().ok_or(CallError::TooMuch)?;
            // SAFETY: the caller's contract.
            unsafe { memory::copy_overlapping(from, to, bytes) };
            return Ok(());
        }
        if let Some(runs) = layout.runs() {
            // SAFETY: the caller's contract.
            unsafe { runs.unpack(from, self.address, self.count, layout.extent()) }
            return Ok(());
        }
        self.before_host_packing(session);
        self.pieces(|address, count, offset, bytes| {
            let from = from.wrapping_add(offset);
            let comm = session.self_comm;
            // SAFETY: the caller's contract, piece by piece.
            unsafe {
                session
                    .host()
                    .unpack(from, bytes, address, count, self.datatype, comm)?
            };
            Ok(())
        })
    }

    /// The type was too irregular to be flattened: the host is called, which not every thread may do.
    fn before_host_packing(&self, session: &Session) {
        fiber::leave_to_program();
        let bytes = self.bytes().unwrap_or(0);
        session.context.stats().packed_by_host(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::runs::{NoRuns, Runs};

    fn elements(count: usize, layout: Layout) -> Elements {
        Elements {
            address: std::ptr::without_provenance_mut(1 << 20),
            count,
            datatype: Datatype(0),
            layout,
        }
    }

    #[test]
    fn blocks_of_elements_with_gaps_are_extents_apart() {
        // Also of elements that go backwards.
        for (extent, third) in [(24, (1 << 20) + 3 * 5 * 24), (-24, (1 << 20) - 3 * 5 * 24)] {
            let some = elements(5, Layout::new(8, extent, 4, Runs::dense(8).shifted(4)));
            assert_eq!(some.block(0).address, some.address);
            let block = some.block(3);
            assert_eq!((block.address as usize, block.count), (third, 5));
            assert_eq!(some.times(3).unwrap().bytes(), Some(120));
        }
    }

    #[test]
    fn pieces_for_the_host_tile_elements_and_packed_bytes() {
        const BYTES: usize = PACK_BYTES_MAX / 4 + 1;
        let layout = Layout::new(BYTES, 3 * BYTES as isize, 0, Err(NoRuns::Irregular));
        let mut found = Vec::new();
        let all = elements(7, layout);
        let done = all.pieces(|address, count, offset, bytes| {
            found.push((address as usize, count, offset, bytes));
            Ok(())
        });
        assert!(done.is_ok());
        let piece = |first: usize, count: usize| {
            let address = (1 << 20) + first * 3 * BYTES;
            (address, count, first * BYTES, count * BYTES)
        };
        assert_eq!(found, [piece(0, 3), piece(3, 3), piece(6, 1)]);
    }
}
