//! From a datatype to its runs of bytes: read from how it was made, or, where that is not possible,
//! found by packing memory whose bytes tell their places.

use super::{Layout, layout};
use crate::runtime::Session;
use ferrorail_base::runs::{Builder, GROUPS_MAX, Runs};
use ferrorail_mpi_abi::{Combiner, Contents, Datatype, Envelope, TypeLayout};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Largest element that is found out by packing, gaps included, in bytes.
const PROBE_BYTES_MAX: usize = 1 << 24;

/// Most numbers of a description that are read.
const NUMBERS_MAX: usize = 32 * GROUPS_MAX;

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
    let runs = if facts.bytes == 0 {
        Some(Runs::dense(0))
    } else {
        read(session, datatype, 0)
            .filter(|runs| agrees(runs, &facts))
            .or_else(|| probe(session, datatype, &facts))
    };
    if runs.is_none() {
        tracing::debug!(
            bytes = facts.bytes,
            "a datatype is left to the host's packing"
        );
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

/// The runs of `datatype`, which need not be committed, as it was made.
fn read(session: &Session, datatype: Datatype, depth: u32) -> Option<Runs> {
    if let Some(bytes) = session.datatypes.dense_bytes(datatype) {
        return Some(Runs::dense(bytes));
    }
    let host = session.host();
    let envelope = host.type_envelope(datatype).ok()?;
    let numbers = envelope.integers + envelope.addresses + envelope.large;
    if depth == DEPTH_MAX || numbers > NUMBERS_MAX {
        return None;
    }
    if envelope.combiner.is_predefined() {
        // At the top it is this very type that is being examined.
        return if depth == 0 {
            None
        } else {
            whole(&layout(session, datatype)?)
        };
    }
    if envelope.combiner == Combiner::Other {
        return None;
    }
    let made = |contents: &Contents| made(session, &envelope, contents, depth);
    host.with_type_contents(datatype, &envelope, made).ok()?
}

/// A layout's data as runs.
fn whole(layout: &Layout) -> Option<Runs> {
    match layout.dense_at() {
        Some(offset) => Runs::dense(layout.bytes).shifted(offset),
        None => layout.runs().cloned(),
    }
}

/// A type inside another.
struct Inner {
    runs: Runs,
    extent: i64,
}

impl Inner {
    /// `count` of them side by side.
    fn block(&self, count: i64) -> Option<Runs> {
        self.runs
            .repeated(usize::try_from(count).ok()?, self.extent as isize)
    }
}

/// Puts a type together from what its maker was given (MPI 4.1, section 5.1.13; the large-count
/// forms give the same numbers in the same order).
fn made(session: &Session, envelope: &Envelope, contents: &Contents, depth: u32) -> Option<Runs> {
    let mut inner: HashMap<usize, Inner> = HashMap::new();
    for &datatype in &contents.datatypes {
        if let Entry::Vacant(place) = inner.entry(datatype.0) {
            let runs = read(session, datatype, depth + 1)?;
            let extent = session.host().type_layout(datatype).ok()?.extent as i64;
            place.insert(Inner { runs, extent });
        }
    }
    let of = |index: usize| inner.get(&contents.datatypes.get(index)?.0);
    let first = of(0)?;
    let integers = contents.integers.iter().map(|&number| i64::from(number));
    let numbers: Vec<i64> = integers.chain(contents.wide.iter().copied()).collect();
    let blocks = |lengths: &[i64], places: &[i64], unit: i64| {
        let pairs = lengths
            .iter()
            .zip(places)
            .map(|(&length, &at)| (first, length, at));
        pieces(pairs, unit)
    };
    match (envelope.combiner, &*numbers) {
        (Combiner::Dup | Combiner::Resized, _) => Some(first.runs.clone()),
        (Combiner::Contiguous, &[count]) => first.block(count),
        (Combiner::Vector, &[count, length, stride]) => {
            strided(first, count, length, stride.checked_mul(first.extent)?)
        }
        (Combiner::Hvector, &[count, length, stride]) => strided(first, count, length, stride),
        (Combiner::Indexed, [_, rest @ ..]) => {
            let (lengths, places) = rest.split_at(rest.len() / 2);
            blocks(lengths, places, first.extent)
        }
        (Combiner::Hindexed, [_, rest @ ..]) => {
            let (lengths, places) = rest.split_at(rest.len() / 2);
            blocks(lengths, places, 1)
        }
        (Combiner::IndexedBlock, [_, length, places @ ..]) => {
            blocks(&vec![*length; places.len()], places, first.extent)
        }
        (Combiner::HindexedBlock, [_, length, places @ ..]) => {
            blocks(&vec![*length; places.len()], places, 1)
        }
        (Combiner::Struct, [_, rest @ ..]) => {
            let (lengths, places) = rest.split_at(rest.len() / 2);
            let members: Option<Vec<_>> = (0..lengths.len())
                .map(|index| Some((of(index)?, lengths[index], places[index])))
                .collect();
            pieces(members?.into_iter(), 1)
        }
        (Combiner::Subarray, _) => subarray(session, first, envelope, contents),
        _ => None,
    }
}

fn strided(inner: &Inner, count: i64, length: i64, stride: i64) -> Option<Runs> {
    let block = inner.block(length)?;
    block.repeated(usize::try_from(count).ok()?, stride as isize)
}

/// Blocks one after another in the signature, each of a type, a length and a place in `unit`s.
fn pieces<'i>(blocks: impl Iterator<Item = (&'i Inner, i64, i64)>, unit: i64) -> Option<Runs> {
    let mut builder = Builder::default();
    for (inner, length, place) in blocks {
        let by = place.checked_mul(unit)?;
        builder.append(&inner.block(length)?, by as isize)?;
    }
    builder.finish()
}

/// Part of an array: from the dimension whose elements are neighbours to the others.
fn subarray(
    session: &Session,
    inner: &Inner,
    envelope: &Envelope,
    contents: &Contents,
) -> Option<Runs> {
    let integers: Vec<i64> = contents.integers.iter().map(|&n| n.into()).collect();
    let (&order, dimensions) = if envelope.large > 0 {
        (integers.get(1)?, &*contents.wide)
    } else {
        let [_, dimensions @ .., order] = &*integers else {
            return None;
        };
        (order, dimensions)
    };
    let n = usize::try_from(*integers.first()?).ok()?;
    if dimensions.len() != n.checked_mul(3)? {
        return None;
    }
    let (sizes, rest) = dimensions.split_at(n);
    let (lengths, starts) = rest.split_at(n);
    let c_order = order == i64::from(session.host().constants().order_c);
    let mut runs = inner.runs.clone();
    let (mut stride, mut offset) = (inner.extent, 0i64);
    for step in 0..n {
        let d = if c_order { n - 1 - step } else { step };
        runs = runs.repeated(usize::try_from(lengths[d]).ok()?, stride as isize)?;
        offset = offset.checked_add(starts[d].checked_mul(stride)?)?;
        stride = stride.checked_mul(sizes[d])?;
    }
    runs.shifted(offset as isize)
}

/// The runs of a committed type, found by packing memory in which each byte tells its place, one
/// digit of it at a time.
fn probe(session: &Session, datatype: Datatype, facts: &TypeLayout) -> Option<Runs> {
    let reach = usize::try_from(facts.true_extent).ok()?;
    if reach > PROBE_BYTES_MAX || facts.bytes > PROBE_BYTES_MAX {
        return None;
    }
    let mut places = vec![0u32; facts.bytes];
    let mut memory = vec![0u8; reach];
    let mut packed = vec![0u8; facts.bytes];
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
        unsafe {
            let (to, comm) = (packed.as_mut_ptr(), session.self_comm);
            let host = session.host();
            host.pack(element, 1, datatype, to, facts.bytes, comm)
                .ok()?;
        }
        for (place, &byte) in places.iter_mut().zip(&packed) {
            *place |= u32::from(byte) << digit;
        }
    }
    let runs = Runs::of_places(places.into_iter().map(|place| place as isize))?;
    runs.shifted(facts.true_lower_bound)
}
