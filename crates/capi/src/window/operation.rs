//! Put and get, and what all operations have in common (MPI 4.1, section 12.3).

use super::Entry;
use super::create::write_handle;
use crate::collective::Buffer;
use crate::datatype::{Elements, Packed, plain_bytes};
use crate::error::{CallError, Wrong};
use crate::session::Session;
use crate::thread::Inside;
use ferrorail_base::Rank;
use ferrorail_base::runs::NoRuns;
use ferrorail_base::runs::Piece;
use ferrorail_engine::{OneSided, Shape, WindowError};
use ferrorail_mpi_abi::Request;
use libc::{c_int, c_void};
use std::ptr;

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
pub(super) fn shape(elements: &Elements) -> Option<Shape<'_>> {
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
enum Way {
    Put,
    Get,
}

/// `MPI_Put`.
///
/// # Safety
/// The program's arguments.
#[inline]
pub unsafe fn put(
    session: &Session,
    entry: &Entry,
    origin: &Buffer,
    place: &Place,
) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe { transfer(session, entry, Way::Put, origin, place) }
}

/// `MPI_Get`.
///
/// # Safety
/// The program's arguments.
#[inline]
pub unsafe fn get(
    session: &Session,
    entry: &Entry,
    origin: &Buffer,
    place: &Place,
) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe { transfer(session, entry, Way::Get, origin, place) }
}

/// # Safety
/// The program's arguments.
#[inline(always)]
unsafe fn transfer(
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
    if let Some(shape) = shape(&origin) {
        // SAFETY: the program's buffer, which it leaves alone until the epoch ends.
        return Ok(unsafe { start(window, way, origin.address, &shape, to) }?);
    }
    let bytes = origin.bytes().unwrap_or(0);
    let mut copy = Packed::new(bytes)?;
    let (packed, shape) = (copy.as_mut_ptr(), Shape::bytes_at(0, bytes));
    // SAFETY: the program's buffer; the packed copy has room, and lives until the target is settled.
    unsafe {
        if let Way::Put = way {
            origin.pack(session, packed)?;
        }
        start(window, way, packed, &shape, to)?;
        window.settled(target)?;
        if let Way::Get = way {
            origin.unpack(session, packed)?;
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
    let Request(made) = session.host().completed_request()?;
    // SAFETY: the caller's contract.
    unsafe { write_handle(session.host(), request, made) };
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
