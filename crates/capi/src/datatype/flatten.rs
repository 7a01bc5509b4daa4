//! From a datatype to its runs of bytes: read from how it was made, or, where that is not possible,
//! found by packing memory whose bytes tell their places.

use super::arrays::{self, Given, Inner, counted, times};
use super::{Layout, layout};
use crate::session::Session;
use ferrorail_base::memory::{self, NoMemory};
use ferrorail_base::runs::{Builder, GROUPS_MAX, NoRuns, Runs};
use ferrorail_mpi_abi::{Combiner, Contents, Datatype, Envelope, MpiError, TypeLayout};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Largest element that is found out by packing, gaps included, in bytes.
const PROBE_BYTES_MAX: usize = 1 << 24;

/// Most numbers of a description that are read.
const NUMBERS_MAX: usize = 4 * GROUPS_MAX;

/// Most types inside one another.
const DEPTH_MAX: u32 = 64;

/// Asks the host about a type that is not in the fast table; `None` if it may not be used for
/// communication. Packing nothing tells whether it is committed, without an error handler of the
/// program being called.
pub fn examine(session: &Session, datatype: Datatype) -> Option<Layout> {
    let host = session.host();
    let mut nothing = [0u8; 8];
    // SAFETY: no element is read or written.
    unsafe {
        let address = nothing.as_mut_ptr();
        host.pack(address, 0, datatype, address, 0, session.self_comm)
            .ok()?;
    }
    let facts = host.type_layout(datatype).ok()?;
    let runs = match read(session, datatype, 0) {
        _ if facts.bytes == 0 => Ok(Runs::dense(0)),
        Ok(runs) if agrees(&runs, &facts) => Ok(runs),
        Err(NoRuns::NoMemory(refused)) => Err(NoRuns::NoMemory(refused)),
        _ => probe(session, datatype, &facts),
    };
    if let Err(reason) = runs {
        let bytes = facts.bytes;
        tracing::debug!(bytes, %reason, "a datatype is left to the host's packing");
    }
    Some(Layout::new(
        facts.bytes,
        facts.extent,
        facts.true_lower_bound,
        runs,
    ))
}

/// Whether `runs` is as long and reaches as far as the host says.
fn agrees(runs: &Runs, facts: &TypeLayout) -> bool {
    let low = facts.true_lower_bound;
    runs.bytes() == facts.bytes && runs.bounds() == Some((low, low.wrapping_add(facts.true_extent)))
}

/// What the host says as a reason for having no description.
fn no_runs(session: &Session, error: MpiError) -> NoRuns {
    match error.class == session.host().constants().errors.no_mem {
        true => NoRuns::NoMemory(NoMemory { bytes: 0 }),
        false => NoRuns::Irregular,
    }
}

/// The runs of `datatype`, which need not be committed, as it was made.
fn read(session: &Session, datatype: Datatype, depth: u32) -> Result<Runs, NoRuns> {
    if let Some(bytes) = session.datatypes.dense_bytes(datatype) {
        return Ok(Runs::dense(bytes));
    }
    let host = session.host();
    let envelope = host.type_envelope(datatype);
    let envelope = envelope.map_err(|error| no_runs(session, error))?;
    let numbers = envelope.integers + envelope.addresses + envelope.large;
    if depth == DEPTH_MAX || numbers > NUMBERS_MAX {
        return Err(NoRuns::Irregular);
    }
    if envelope.combiner.is_predefined() {
        // At the top it is this very type that is being examined.
        let known = (depth > 0).then(|| layout(session, datatype)).flatten();
        return whole(&known.ok_or(NoRuns::Irregular)?);
    }
    if envelope.combiner == Combiner::Other {
        return Err(NoRuns::Irregular);
    }
    let made = |contents: &Contents| made(session, &envelope, contents, depth);
    let made = host.with_type_contents(datatype, &envelope, made);
    made.map_err(|error| no_runs(session, error))?
}

/// A layout's data as runs.
fn whole(layout: &Layout) -> Result<Runs, NoRuns> {
    match layout.dense_at() {
        Some(offset) => Runs::dense(layout.bytes).shifted(offset),
        None => layout.runs().cloned().ok_or(layout.no_runs()),
    }
}

/// Puts a type together from what its maker was given (MPI 4.1, section 5.1.13; the large-count
/// forms give the same numbers in the same order).
fn made(
    session: &Session,
    envelope: &Envelope,
    contents: &Contents,
    depth: u32,
) -> Result<Runs, NoRuns> {
    let mut inner: HashMap<usize, Inner> = HashMap::new();
    for &datatype in &contents.datatypes {
        if let Entry::Vacant(place) = inner.entry(datatype.0) {
            let runs = read(session, datatype, depth + 1)?;
            let facts = session.host().type_layout(datatype);
            let extent = facts.map_err(|error| no_runs(session, error))?.extent as i64;
            place.insert(Inner { runs, extent });
        }
    }
    let of = |index: usize| {
        let datatype = contents.datatypes.get(index);
        datatype.and_then(|datatype| inner.get(&datatype.0))
    };
    let first = of(0).ok_or(NoRuns::Irregular)?;
    let mut numbers: Vec<i64> = Vec::new();
    memory::reserve(&mut numbers, contents.integers.len() + contents.wide.len())?;
    numbers.extend(contents.integers.iter().map(|&number| i64::from(number)));
    numbers.extend(&contents.wide);
    // Lengths, then as many places, of blocks of the first type or of a type each.
    let blocks = |numbers: &[i64], unit: i64, types_differ: bool| {
        let (lengths, places) = numbers.split_at(numbers.len() / 2);
        let blocks = lengths.iter().zip(places).enumerate();
        let inner = |index| if types_differ { of(index) } else { Some(first) };
        pieces(
            blocks.map(|(index, (&length, &at))| (inner(index), length, at)),
            unit,
        )
    };
    let alike = |length: i64, places: &[i64], unit: i64| {
        let places = places.iter();
        pieces(places.map(|&at| (Some(first), length, at)), unit)
    };
    let constants = session.host().constants();
    let (integers, large) = numbers.split_at(contents.integers.len());
    let given = Given { integers, large };
    match (envelope.combiner, &*numbers) {
        (Combiner::Dup | Combiner::Resized, _) => Ok(first.runs.clone()),
        (Combiner::Contiguous, &[count]) => first.block(count),
        (Combiner::Vector, &[count, length, stride]) => {
            strided(first, count, length, times(stride, first.extent)?)
        }
        (Combiner::Hvector, &[count, length, stride]) => strided(first, count, length, stride),
        (Combiner::Indexed, [_, rest @ ..]) => blocks(rest, first.extent, false),
        (Combiner::Hindexed, [_, rest @ ..]) => blocks(rest, 1, false),
        (Combiner::Struct, [_, rest @ ..]) => blocks(rest, 1, true),
        (Combiner::IndexedBlock, [_, length, places @ ..]) => alike(*length, places, first.extent),
        (Combiner::HindexedBlock, [_, length, places @ ..]) => alike(*length, places, 1),
        (Combiner::Subarray, _) => arrays::subarray(constants, first, given),
        (Combiner::Darray, _) => arrays::darray(constants, first, given),
        _ => Err(NoRuns::Irregular),
    }
}

fn strided(inner: &Inner, count: i64, length: i64, stride: i64) -> Result<Runs, NoRuns> {
    inner
        .block(length)?
        .repeated(counted(count)?, stride as isize)
}

/// Blocks one after another in the signature, each of a type, a length and a place in `unit`s.
fn pieces<'i>(
    blocks: impl Iterator<Item = (Option<&'i Inner>, i64, i64)>,
    unit: i64,
) -> Result<Runs, NoRuns> {
    let mut builder = Builder::default();
    for (inner, length, place) in blocks {
        let inner = inner.ok_or(NoRuns::Irregular)?;
        builder.append(&inner.block(length)?, times(place, unit)? as isize)?;
    }
    builder.finish()
}

/// The runs of a committed type, found by packing memory in which each byte tells its place, one
/// digit of it at a time.
fn probe(session: &Session, datatype: Datatype, facts: &TypeLayout) -> Result<Runs, NoRuns> {
    let reach = usize::try_from(facts.true_extent).map_err(|_| NoRuns::Irregular)?;
    if reach > PROBE_BYTES_MAX || facts.bytes > PROBE_BYTES_MAX {
        return Err(NoRuns::Irregular);
    }
    let mut places = memory::filled(facts.bytes, 0u32)?;
    let mut memory = memory::filled(reach, 0u8)?;
    let mut packed = memory::filled(facts.bytes, 0u8)?;
    let element = memory
        .as_mut_ptr()
        .wrapping_offset(facts.true_lower_bound.wrapping_neg());
    for digit in (0..u32::BITS).step_by(8) {
        if digit > 0 && reach <= 1 << digit {
            break;
        }
        for (place, byte) in memory.iter_mut().enumerate() {
            *byte = (place >> digit) as u8;
        }
        // SAFETY: the element's data lies within `memory`, whose first byte is its lowest.
        let done = unsafe {
            let (to, comm) = (packed.as_mut_ptr(), session.self_comm);
            let host = session.host();
            host.pack(element, 1, datatype, to, facts.bytes, comm)
        };
        done.map_err(|error| no_runs(session, error))?;
        for (place, &byte) in places.iter_mut().zip(&packed) {
            *place |= u32::from(byte) << digit;
        }
    }
    let runs = Runs::of_places(places.into_iter().map(|place| place as isize))?;
    runs.shifted(facts.true_lower_bound)
}
