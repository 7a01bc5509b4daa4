//! Accumulating operations (MPI 4.1, sections 12.3.4 and 12.3.5).

use super::Entry;
use super::operation::{Operand, Place, here, shape_there};
use super::plain_update::PlainUpdate;
use crate::collective::Buffer;
use crate::datatype::{self, Elements};
use crate::error::{CallError, Wrong};
use crate::local_reduction::HostOperation;
use crate::operation::{Accumulation, Operations};
use crate::session::Session;
use crate::thread::{self, Inside};
use ferrorail_base::Rank;
use ferrorail_engine::{HostUpdate, Shape, Update};
use ferrorail_mpi_abi::Datatype;
use libc::c_void;
use std::ptr;

/// Most types inside one another that are looked through for the predefined one.
const DEPTH_MAX: u32 = 64;

/// The arguments of an accumulating operation.
#[derive(Clone, Copy)]
pub struct Accumulate {
    /// Operands.
    pub origin: Buffer,
    /// Where the target's elements go before they change, if anywhere.
    pub result: Option<Buffer>,
    /// The target.
    pub place: Place,
    /// The operation.
    pub op: usize,
}

/// The predefined type that `datatype` consists of.
fn basis(session: &Session, datatype: Datatype, depth: u32) -> Result<Datatype, CallError> {
    if session.datatypes.dense_bytes(datatype).is_some() {
        return Ok(datatype);
    }
    let host = session.host();
    let envelope = host.type_envelope(datatype)?;
    if envelope.combiner.is_predefined() {
        return Ok(datatype);
    }
    if depth == DEPTH_MAX {
        return Err(Wrong::Datatype.into());
    }
    host.with_type_contents(datatype, &envelope, |contents| {
        let mut found = None;
        for &inner in &contents.datatypes {
            let inner = basis(session, inner, depth + 1)?;
            // MPI 4.1, section 12.3.4: all of the same predefined type.
            if found.replace(inner).is_some_and(|before| before != inner) {
                return Err(Wrong::Datatype.into());
            }
        }
        found.ok_or(Wrong::Datatype.into())
    })?
}

/// `MPI_Accumulate`, `MPI_Get_accumulate`, `MPI_Fetch_and_op`.
///
/// # Safety
/// The program's arguments.
#[inline]
pub unsafe fn accumulate(
    session: &Session,
    entry: &Entry,
    args: &Accumulate,
) -> Result<(), CallError> {
    let place = &args.place;
    let Some(target) = entry.target(session, place.rank)? else {
        return Ok(());
    };
    if let Some((bytes, plain)) = plain_update(session, args) {
        let at = Shape::bytes_at(0, bytes);
        let result = args.result.map(|result| (result.address.cast(), &at));
        // SAFETY: the caller's contract.
        unsafe {
            entry.onesided().accumulate(
                (args.origin.address.cast_const().cast(), &at),
                result,
                target,
                place.displacement,
                &at,
                plain.element_bytes,
                plain.update,
            )?;
        }
        return Ok(());
    }
    // SAFETY: the caller's contract.
    unsafe { accumulate_typed(session, entry, target, args) }
}

/// [`accumulate`] of elements of any types.
///
/// # Safety
/// As [`accumulate`].
#[cold]
unsafe fn accumulate_typed(
    session: &Session,
    entry: &Entry,
    target: Rank,
    args: &Accumulate,
) -> Result<(), CallError> {
    let place = &args.place;
    let there = Elements::of(session, ptr::null_mut(), place.count, place.datatype)?;
    let element = {
        let _inside = Inside::enter();
        let basis = basis(session, there.datatype, 0)?;
        Elements {
            address: ptr::null_mut(),
            count: there.count.min(1),
            datatype: basis,
            layout: datatype::layout(session, basis).ok_or(Wrong::Datatype)?,
        }
    };
    let op = session.host().operation(args.op);
    let what = Operations::of(session).accumulation(session, op, &element);
    let (host_operation, host_update);
    let update = match what.ok_or(Wrong::Operation)? {
        Accumulation::Replace => Update::Replace,
        Accumulation::Keep => Update::Keep,
        Accumulation::Operation(operation) => match operation.kernel() {
            Some(kernel) => Update::Kernel(kernel),
            None => {
                let found = HostOperation::new(session, op, &element);
                host_operation = found.ok_or(Wrong::Datatype)?;
                host_update = HostUpdate(&host_operation);
                Update::Call(&host_update)
            }
        },
    };
    let is_read = !matches!(update, Update::Keep);
    let origin = match is_read {
        true => here(session, &args.origin)?,
        // Not even its count means anything.
        false => there.clone(),
    };
    let result = args.result.as_ref().map(|result| here(session, result));
    let result = result.transpose()?;
    let shape = shape_there(&there)?;
    let origin = Operand::new(&origin)?;
    let result = result.as_ref().map(Operand::new).transpose()?;
    let to = result.as_ref();
    // SAFETY: the caller's contract; copies have room.
    unsafe {
        if is_read {
            origin.pack(session)?;
        }
        entry.onesided().accumulate(
            (origin.address, &origin.shape),
            to.map(|result| (result.address, &result.shape)),
            target,
            place.displacement,
            &shape,
            element.layout.bytes.max(1),
            update,
        )?;
        to.map_or(Ok(()), |result| result.unpack(session))
    }
}

/// [`PlainUpdate::find`], remembered by the thread: handles of predefined things never change.
#[inline]
fn known_update(session: &Session, op: usize, datatype: usize) -> Option<PlainUpdate> {
    thread::with_local(|local| {
        let recent = local.recent_update.get();
        if let Some(recent) = recent
            && (recent.op, recent.datatype) == (op, datatype)
        {
            return Some(recent);
        }
        let found = PlainUpdate::find(session, op, datatype)?;
        local.recent_update.set(Some(found));
        Some(found)
    })
}

/// The length in bytes of an operation on plain elements, alike on all sides, and what it does. `None`
/// for all others, wrong arguments included.
#[inline]
fn plain_update(session: &Session, args: &Accumulate) -> Option<(usize, PlainUpdate)> {
    let (place, origin) = (&args.place, &args.origin);
    let alike = |side: &Buffer| {
        side.count == place.count && side.datatype == place.datatype && !side.address.is_null()
    };
    let sides = alike(origin) && args.result.as_ref().is_none_or(alike);
    let count = usize::try_from(place.count).ok().filter(|_| sides)?;
    let update = known_update(session, args.op, place.datatype)?;
    let bytes = update.element_bytes.checked_mul(count)?;
    (bytes > 0).then_some((bytes, update))
}

/// `MPI_Compare_and_swap`.
///
/// # Safety
/// The program's arguments: buffers of one element each.
pub unsafe fn compare_and_swap(
    session: &Session,
    entry: &Entry,
    buffers: [*mut c_void; 3],
    place: &Place,
) -> Result<(), CallError> {
    let Some(target) = entry.target(session, place.rank)? else {
        return Ok(());
    };
    let [origin, compare, result] = buffers;
    let datatype = session.host().datatype(place.datatype);
    let bytes = Operations::of(session).comparable_bytes(datatype);
    let bytes = bytes.ok_or(Wrong::Datatype)?;
    if buffers.iter().any(|buffer| buffer.is_null()) {
        return Err(Wrong::Buffer.into());
    }
    // SAFETY: the caller's contract.
    unsafe {
        entry.onesided().compare_and_swap(
            origin.cast(),
            compare.cast(),
            result.cast(),
            target,
            place.displacement,
            bytes,
        )?;
    }
    Ok(())
}
