//! Operations that the host applies: those of the program, and those on types without a kernel.
//!
//! The engine moves packed elements, whose length all ranks know alike. The host's local reduction
//! sees elements as their datatype lays them out: where these have gaps, some at a time are
//! unpacked, reduced and packed again, so that gaps never travel and ranks may lay them out
//! differently.

use crate::datatype::{Elements, Packed};
use crate::error::CallError;
use crate::session::Session;
use ferrorail_engine::{EngineError, LocalReduction, Order};
use ferrorail_mpi_abi::{MpiError, Op};
use libc::c_int;
use std::ops::Range;
use std::ptr;

/// Bytes of elements that are laid out at a time, unless a single element has more.
const CHUNK_BYTES: usize = 32 << 10;

/// Alignment of operands, enough for any type.
const ALIGNMENT: usize = 64;

/// An operation on elements of one type.
pub struct HostOperation<'a> {
    session: &'a Session,
    op: Op,
    /// One element, wherever.
    element: Elements,
    /// What an element with gaps takes up, by offsets from its address, with the gaps at its ends: an operation may
    /// assign whole structures of which the type names some members.
    span: Range<isize>,
}

impl<'a> HostOperation<'a> {
    /// `op` on elements like these; `None` if the host does not say how far one reaches.
    pub fn new(session: &'a Session, op: Op, elements: &Elements) -> Option<Self> {
        let layout = elements.layout.clone();
        let span = match layout.dense_at() {
            Some(_) => 0..0,
            None => session.host().type_layout(elements.datatype).ok()?.span(),
        };
        Some(Self {
            session,
            op,
            element: Elements {
                address: ptr::null_mut(),
                count: 1,
                datatype: elements.datatype,
                layout,
            },
            span,
        })
    }

    /// Elements of this type at `address`.
    fn at(&self, address: *const u8, count: usize) -> Elements {
        Elements {
            address: address.cast_mut(),
            count,
            ..self.element.clone()
        }
    }

    /// # Safety
    /// Both addresses are those of `elements` elements as the datatype lays them out, apart.
    unsafe fn reduce(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
    ) -> Result<(), MpiError> {
        let host = self.session.host();
        let mut done = 0;
        while done < elements {
            let count = (elements - done).min(c_int::MAX as usize);
            let skip = self.element.layout.extent().wrapping_mul(done as isize);
            let (from, into) = (from.wrapping_offset(skip), into.wrapping_offset(skip));
            let datatype = self.element.datatype;
            // SAFETY: the caller's contract, for the elements from `done` on.
            unsafe { host.reduce_local(from, into, count as c_int, datatype, self.op)? };
            done += count;
        }
        Ok(())
    }

    /// Elements that lie as they are packed, their data `begin` bytes from their addresses. The
    /// host's result takes the place of the right operand, so that is copied where it must not.
    ///
    /// # Safety
    /// As [`LocalReduction::combine`].
    unsafe fn dense(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
        order: Order,
        begin: isize,
    ) -> Result<(), CallError> {
        let origin = begin.wrapping_neg();
        if order == Order::FromFirst {
            let (from, into) = (from.wrapping_offset(origin), into.wrapping_offset(origin));
            // SAFETY: the caller's contract; data begins at the addresses passed to this.
            return unsafe { self.reduce(from, into, elements) }.map_err(CallError::from);
        }
        let bytes = self.element.layout.bytes;
        let chunk = (CHUNK_BYTES / bytes).clamp(1, elements);
        let mut memory = Operands::new(chunk * bytes)?;
        let right = memory.first();
        for first in (0..elements).step_by(chunk) {
            let count = chunk.min(elements - first);
            let skip = first * bytes;
            let left = into.wrapping_add(skip);
            // SAFETY: the caller's contract, for a chunk; `right` has room for one.
            unsafe {
                ptr::copy_nonoverlapping(from.wrapping_add(skip), right, count * bytes);
                let operands = (left.wrapping_offset(origin), right.wrapping_offset(origin));
                self.reduce(operands.0, operands.1, count)?;
                ptr::copy_nonoverlapping(right, left, count * bytes);
            }
        }
        Ok(())
    }

    /// Elements with gaps.
    ///
    /// # Safety
    /// As [`LocalReduction::combine`].
    unsafe fn spread(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
        order: Order,
    ) -> Result<(), CallError> {
        let layout = &self.element.layout;
        let stride = layout.extent().unsigned_abs();
        let reach = self.span.end.abs_diff(self.span.start);
        let chunk = (CHUNK_BYTES / stride.max(reach).max(1)).clamp(1, elements);
        let side = reach
            .checked_add((chunk - 1) * stride)
            .and_then(|side| side.checked_next_multiple_of(ALIGNMENT));
        let side = side.filter(|&side| side < isize::MAX as usize / 4);
        let side = side.ok_or(CallError::TooMuch)?;
        let mut memory = Operands::new(2 * side + ALIGNMENT)?;
        // Elements may follow one another downwards, and begin before or behind their addresses.
        let below = match layout.extent() {
            ..0 => (chunk - 1) * stride,
            _ => 0,
        };
        let left = memory
            .first()
            .wrapping_add(below)
            .wrapping_offset(self.span.start.wrapping_neg());
        let left = left.wrapping_add(left.align_offset(ALIGNMENT));
        let right = left.wrapping_add(side);
        for first in (0..elements).step_by(chunk) {
            let count = chunk.min(elements - first);
            let skip = first * layout.bytes;
            let (from, into) = (from.wrapping_add(skip), into.wrapping_add(skip));
            let (a, b) = match order {
                Order::FromFirst => (from, into.cast_const()),
                Order::IntoFirst => (into.cast_const(), from),
            };
            let (left, right) = (self.at(left, count), self.at(right, count));
            // SAFETY: the caller's contract, for a chunk; each side has room for one.
            unsafe {
                left.unpack(self.session, a)?;
                right.unpack(self.session, b)?;
                self.reduce(left.address, right.address, count)?;
                right.pack(self.session, into)?;
            }
        }
        Ok(())
    }
}

impl LocalReduction for HostOperation<'_> {
    unsafe fn combine(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
        order: Order,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller's contract.
        let outcome = unsafe {
            match self.element.layout.dense_at() {
                Some(begin) => self.dense(from, into, elements, order, begin),
                None => self.spread(from, into, elements, order),
            }
        };
        outcome.map_err(|error| EngineError::Operation {
            reason: error.to_string(),
            mpi_class: error.class(self.session.host()),
        })
    }
}

/// Memory for operands, aligned for any type.
struct Operands(Packed);

impl Operands {
    fn new(bytes: usize) -> Result<Self, CallError> {
        Packed::new(bytes + ALIGNMENT).map(Self)
    }

    fn first(&mut self) -> *mut u8 {
        let address = self.0.as_mut_ptr();
        address.wrapping_add(address.align_offset(ALIGNMENT))
    }
}
