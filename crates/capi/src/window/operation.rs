//! Put and get, and what all operations have in common (MPI 4.1, section 12.3).

use super::Entry;
use crate::collective::Buffer;
use crate::datatype::{Elements, Packed, plain_bytes};
use crate::error::{CallError, Wrong};
use crate::session::Session;
use crate::thread::Inside;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::runs::NoRuns;
use ferrorail_base::runs::Piece;
use ferrorail_engine::{OneSided, Shape, WindowError};
use ferrorail_mpi_abi::Request;
use libc::{c_int, c_void};
use std::{mem, ptr};

/// Where an operation acts, as it came in registers.
#[derive(Clone, Copy)]
pub struct Place {
    /// Rank of the target.
    pub rank: c_int,
    /// Displacement there, in its units.
    pub displacement: i64,
    /// Number of elements.
    pub count: i64,
    /// Their type.
    pub datatype: usize,
}

impl Place {
    /// As passed to C.
    #[inline]
    pub fn new(rank: c_int, displacement: isize, count: impl Into<i64>, datatype: usize) -> Self {
        Self {
            rank,
            displacement: displacement as i64,
            count: count.into(),
            datatype,
        }
    }
}

/// [`Elements::of`] memory of this process.
#[inline]
pub(super) fn here(session: &Session, buffer: &Buffer) -> Result<Elements, CallError> {
    let elements = Elements::of(session, buffer.address, buffer.count, buffer.datatype)?;
    match elements.is_absent() {
        true => Err(Wrong::Buffer.into()),
        false => Ok(elements),
    }
}

/// How elements lie; `None` if only the host knows.
#[inline]
fn shape(elements: &Elements) -> Option<Shape<'_>> {
    let layout = &elements.layout;
    if let Some(offset) = layout.dense_for(elements.count) {
        return Some(Shape::Dense(Piece {
            offset,
            bytes: layout.bytes * elements.count,
        }));
    }
    layout.runs().map(|runs| Shape::Runs {
        runs,
        count: elements.count,
        extent: layout.extent(),
    })
}

/// Elements of this process as an operation sees them: where they lie, or packed if only the host knows how.
pub(super) struct Operand<'a> {
    /// What their places in the shape count from.
    pub address: *mut u8,
    /// How they lie there.
    pub shape: Shape<'a>,
    elements: &'a Elements,
    packed: Option<Packed>,
}

impl<'a> Operand<'a> {
    /// A packed copy has room, but nothing is in it.
    pub fn new(elements: &'a Elements) -> Result<Self, CallError> {
        if let Some(shape) = shape(elements) {
            return Ok(Self {
                address: elements.address,
                shape,
                elements,
                packed: None,
            });
        }
        let bytes = elements.bytes().unwrap_or(0);
        let mut packed = Packed::new(bytes)?;
        Ok(Self {
            address: packed.as_mut_ptr(),
            shape: Shape::bytes_at(0, bytes),
            elements,
            packed: Some(packed),
        })
    }

    /// Whether it is a packed copy.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// After an operation failed that may still be under way.
    pub fn disown(&mut self, window: &OneSided) {
        if let Some(packed) = &mut self.packed {
            let memory = MemoryRange::new(packed.as_mut_ptr(), packed.room());
            if window.disown(memory) {
                // Left to the rails for good.
                mem::forget(self.packed.take());
            }
        }
    }

    /// Before it is read.
    ///
    /// # Safety
    /// The elements are readable.
    pub unsafe fn pack(&self, session: &Session) -> Result<(), CallError> {
        match self.packed {
            // SAFETY: the caller's contract; the copy has room.
            Some(_) => unsafe { self.elements.pack(session, self.address) },
            None => Ok(()),
        }
    }

    /// Once it has been written.
    ///
    /// # Safety
    /// The elements are writable, all bytes were received.
    pub unsafe fn unpack(&self, session: &Session) -> Result<(), CallError> {
        match self.packed {
            // SAFETY: the caller's contract.
            Some(_) => unsafe { self.elements.unpack(session, self.address) },
            None => Ok(()),
        }
    }
}

/// The shape of elements at a target. Types too irregular for one are not offered there.
#[inline]
pub(super) fn shape_there(elements: &Elements) -> Result<Shape<'_>, CallError> {
    let shape = shape(elements);
    shape.ok_or_else(|| match elements.layout.no_runs() {
        NoRuns::NoMemory(refused) => refused.into(),
        NoRuns::Irregular => Wrong::Datatype.into(),
    })
}

/// [`plain_bytes`] of both sides of an operation.
#[inline]
fn plain_both(session: &Session, origin: &Buffer, place: &Place) -> Option<(usize, usize)> {
    let here = plain_bytes(session, origin.count, origin.datatype)?;
    let alike = (origin.count, origin.datatype) == (place.count, place.datatype);
    let there = match alike {
        true => here,
        false => plain_bytes(session, place.count, place.datatype)?,
    };
    let absent = origin.address.is_null() && here > 0;
    (!absent).then_some((here, there))
}

/// Which way data goes.
#[derive(Clone, Copy)]
pub enum Way {
    /// `MPI_Put`.
    Put,
    /// `MPI_Get`.
    Get,
}

/// `MPI_Put` or `MPI_Get`.
///
/// # Safety
/// The program's arguments.
#[inline(always)]
pub unsafe fn transfer(
    session: &Session,
    entry: &Entry,
    way: Way,
    origin: &Buffer,
    place: &Place,
) -> Result<(), CallError> {
    let Some(target) = entry.target(session, place.rank)? else {
        return Ok(());
    };
    if let Some((here, there)) = plain_both(session, origin, place) {
        let (here, there) = (Shape::bytes_at(0, here), Shape::bytes_at(0, there));
        let to = (target, place.displacement, &there);
        // SAFETY: the program's buffer, which it leaves alone until the epoch ends.
        unsafe { start(entry.onesided(), way, origin.address.cast(), &here, to)? };
        return Ok(());
    }
    // SAFETY: the caller's contract.
    unsafe { transfer_typed(session, entry, way, origin, (target, place)) }
}

/// # Safety
/// The buffer is valid as its shape says, and left alone until the operation is complete.
#[inline(always)]
unsafe fn start(
    window: &OneSided,
    way: Way,
    address: *mut u8,
    here: &Shape<'_>,
    (target, displacement, there): (Rank, i64, &Shape<'_>),
) -> Result<(), WindowError> {
    // SAFETY: the caller's contract.
    unsafe {
        match way {
            Way::Put => window.put(address, here, target, displacement, there),
            Way::Get => window.get(address, here, target, displacement, there),
        }
    }
}

/// [`transfer`] of elements of any types.
///
/// # Safety
/// As [`transfer`].
#[cold]
unsafe fn transfer_typed(
    session: &Session,
    entry: &Entry,
    way: Way,
    origin: &Buffer,
    (target, place): (Rank, &Place),
) -> Result<(), CallError> {
    let window = entry.onesided();
    let origin = here(session, origin)?;
    let there = Elements::of(session, ptr::null_mut(), place.count, place.datatype)?;
    let at = shape_there(&there)?;
    let to = (target, place.displacement, &at);
    let mut operand = Operand::new(&origin)?;
    // SAFETY: the program's buffer, which it leaves alone until the epoch ends; a packed copy lives until the target
    // is settled, or is disowned.
    unsafe {
        if let Way::Put = way {
            operand.pack(session)?;
        }
        let started = start(window, way, operand.address, &operand.shape, to);
        let is_packed = operand.is_packed();
        let settled = started.and_then(|()| match is_packed {
            true => window.settled(target),
            false => Ok(()),
        });
        settled.inspect_err(|_| operand.disown(window))?;
        if let Way::Get = way {
            operand.unpack(session)?;
        }
    }
    Ok(())
}

/// Ends an operation that was asked for with a request: once the program's buffers are its own again
/// it gets a request that is complete.
///
/// # Safety
/// `request` is where the program wants the request.
pub unsafe fn requested(
    session: &Session,
    entry: &Entry,
    rank: c_int,
    request: *mut c_void,
    outcome: Result<(), CallError>,
) -> Result<(), CallError> {
    outcome?;
    if let Some(target) = entry.target(session, rank)? {
        entry.onesided().settled_here(target)?;
    }
    let _inside = Inside::enter();
    let Request(made) = session.host().completed_request(session.self_comm)?;
    // SAFETY: the caller's contract.
    unsafe { session.host().write_handle(request, made) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Layout;
    use ferrorail_base::runs::Runs;
    use ferrorail_mpi_abi::Datatype;

    #[test]
    fn dense_elements_are_one_piece() {
        let elements = Elements {
            address: ptr::null_mut(),
            count: 3,
            datatype: Datatype(0),
            layout: Layout::new(8, 8, 4, Runs::dense(8).shifted(4)),
        };
        let piece = shape(&elements).and_then(|shape| shape.single());
        let expected = Piece {
            offset: 4,
            bytes: 24,
        };
        assert_eq!(piece, Some(expected));
    }
}
