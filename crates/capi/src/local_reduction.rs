//! Operations that the host applies: those of the program, and those on types without a kernel.
//!
//! The engine moves packed elements, whose length all ranks know alike. The host's local reduction
//! sees elements as their datatype lays them out: where these have gaps, some at a time are
//! unpacked, reduced and packed again, so that gaps never travel and ranks may lay them out
//! differently.

use crate::datatype::{Elements, Packed};
use crate::error::CallError;
use crate::runtime::Session;
use ferrorail_engine::{EngineError, LocalReduction, Order};
use ferrorail_mpi_abi::{Datatype, MpiError, Op, TypeLayout};
use libc::c_int;
use std::ptr;

/// Bytes of elements that are laid out at a time, unless a single element has more.
const CHUNK_BYTES: usize = 32 << 10;

/// Operands of this size are held on the stack.
const SMALL_BYTES: usize = 1024;

/// Memory for operands, aligned for any type.
#[repr(C, align(64))]
struct Small([u8; SMALL_BYTES]);

/// An operation on elements of one type.
pub struct HostOperation<'a> {
    session: &'a Session,
    op: Op,
    datatype: Datatype,
    /// Bytes of one packed element.
    bytes: usize,
    /// Where data begins, if elements are plain bytes.
    dense_at: Option<isize>,
    /// Of elements that are not.
    layout: Option<TypeLayout>,
}

impl<'a> HostOperation<'a> {
    /// `op` on elements like these; `None` if the host does not say how they lie.
    pub fn new(session: &'a Session, op: Op, elements: &Elements) -> Option<Self> {
        let dense_at = elements.layout.dense_at;
        let layout = match dense_at {
            Some(_) => None,
            None => Some(session.host().type_layout(elements.datatype).ok()?),
        };
        Some(Self {
            session,
            op,
            datatype: elements.datatype,
            bytes: elements.layout.bytes,
            dense_at,
            layout,
        })
    }

    /// # Safety
    /// Both addresses are those of `elements` elements as the datatype lays them out, apart.
    unsafe fn reduce(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
    ) -> Result<(), MpiError> {
        let (host, most) = (self.session.host(), c_int::MAX as usize);
        let extent = match &self.layout {
            Some(layout) => layout.extent,
            None => self.bytes as isize,
        };
        let mut done = 0;
        while done < elements {
            let count = (elements - done).min(most);
            let skip = extent.wrapping_mul(done as isize);
            let (from, into) = (from.wrapping_offset(skip), into.wrapping_offset(skip));
            // SAFETY: the caller's contract, for the elements from `done` on.
            unsafe { host.reduce_local(from, into, count as c_int, self.datatype, self.op)? };
            done += count;
        }
        Ok(())
    }

    /// Elements that lie as they are packed. The host's result takes the place of the right
    /// operand, so that is copied where it must not.
    ///
    /// # Safety
    /// As [`LocalReduction::combine`].
    unsafe fn dense(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
        order: Order,
        at: isize,
    ) -> Result<(), CallError> {
        let origin = at.wrapping_neg();
        if order == Order::FromFirst {
            let (from, into) = (from.wrapping_offset(origin), into.wrapping_offset(origin));
            // SAFETY: the caller's contract; data begins at the addresses passed to this.
            return unsafe { self.reduce(from, into, elements) }.map_err(CallError::from);
        }
        let chunk = (CHUNK_BYTES / self.bytes).clamp(1, elements);
        Memory::with(chunk * self.bytes, |right| {
            for first in (0..elements).step_by(chunk) {
                let count = chunk.min(elements - first);
                let (skip, bytes) = (first * self.bytes, count * self.bytes);
                let left = into.wrapping_add(skip);
                // SAFETY: the caller's contract, for a chunk; `right` has room for one.
                unsafe {
                    ptr::copy_nonoverlapping(from.wrapping_add(skip), right, bytes);
                    let (left, right) =
                        (left.wrapping_offset(origin), right.wrapping_offset(origin));
                    self.reduce(left, right, count)?;
                    ptr::copy_nonoverlapping(
                        right.wrapping_offset(at),
                        left.wrapping_offset(at),
                        bytes,
                    );
                }
            }
            Ok(())
        })
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
        layout: &TypeLayout,
    ) -> Result<(), CallError> {
        let stride = layout.extent.unsigned_abs();
        let one = layout.true_extent.unsigned_abs();
        let chunk = (CHUNK_BYTES / stride.max(one).max(1)).clamp(1, elements);
        // Room for one side, its end rounded so that the other is as aligned.
        let side = (one + (chunk - 1) * stride).next_multiple_of(64);
        // Elements may follow one another downwards.
        let lowest = if layout.extent < 0 {
            (chunk - 1) * stride
        } else {
            0
        };
        let origin = (lowest as isize).wrapping_sub(layout.true_lower_bound);
        let (host, comm) = (self.session.host(), self.session.self_comm);
        Memory::with(2 * side, |memory| {
            let left = memory.wrapping_offset(origin);
            let right = left.wrapping_add(side);
            for first in (0..elements).step_by(chunk) {
                let count = chunk.min(elements - first);
                let (skip, bytes) = (first * self.bytes, count * self.bytes);
                let (from, into) = (from.wrapping_add(skip), into.wrapping_add(skip));
                let (a, b) = match order {
                    Order::FromFirst => (from, into.cast_const()),
                    Order::IntoFirst => (into.cast_const(), from),
                };
                // SAFETY: the caller's contract, for a chunk; each side has room for one.
                unsafe {
                    host.unpack(a, bytes, left, count, self.datatype, comm)?;
                    host.unpack(b, bytes, right, count, self.datatype, comm)?;
                    self.reduce(left, right, count)?;
                    host.pack(right, count, self.datatype, into, bytes, comm)?;
                }
            }
            Ok(())
        })
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
            match (self.dense_at, &self.layout) {
                (None, Some(layout)) => self.spread(from, into, elements, order, layout),
                (at, _) => self.dense(from, into, elements, order, at.unwrap_or(0)),
            }
        };
        outcome.map_err(|error| EngineError::Operation {
            reason: error.to_string(),
            mpi_class: error.class(self.session.host()),
        })
    }
}

/// Memory for the time of one call.
struct Memory;

impl Memory {
    /// Calls `act` with `bytes` bytes of zeros, aligned for any type.
    fn with(
        bytes: usize,
        act: impl FnOnce(*mut u8) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        if bytes <= SMALL_BYTES {
            return act(Small([0; SMALL_BYTES]).0.as_mut_ptr());
        }
        let mut memory = Packed::zeroed(bytes + 64)?;
        let address = memory.as_mut_ptr();
        act(address.wrapping_add(address.align_offset(64)))
    }
}
