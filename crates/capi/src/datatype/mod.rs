//! What a datatype means in bytes: predefined ones by a table, derived ones flattened once and kept
//! with the type.
//!
//! * [`layout`]: from a handle to a [`Layout`], cached;
//! * `flatten`: how that is found out, for parts of arrays in `arrays`;
//! * [`Elements`]: elements of the program, packed and unpacked here, or by the host where a type
//!   is too irregular to be flattened;
//! * [`Packed`]: memory for packed bytes, used again by the thread's next call.

mod arrays;
mod elements;
mod flatten;
mod layout;
mod staging;

pub use elements::{Elements, is_absent};
pub use layout::Layout;
pub use staging::Packed;

use crate::session::Session;
use ferrorail_base::runs::NoRuns;
use ferrorail_base::sync::Mutex;
use ferrorail_mpi_abi::Datatype;
use libc::{c_int, c_void};
use std::collections::HashMap;

/// Layouts of types that live as long as they are here, which a thread can look up that must not call the host: predefined
/// ones that are not in the fast table (`MPI_DOUBLE_INT`), and those of [`remember`].
static KNOWN: Mutex<Option<HashMap<usize, Layout>>> = Mutex::new(None);

/// Layout of `datatype`; `None` if it may not be used for communication (null, not committed).
#[inline]
pub fn layout(session: &Session, datatype: Datatype) -> Option<Layout> {
    match session.datatypes.dense_bytes(datatype) {
        Some(bytes) => Some(Layout::plain(bytes)),
        None => derived(session, datatype),
    }
}

/// Bytes of elements that are plain bytes from their address on, of a predefined type. Anything else,
/// wrong arguments included, is left to the long way.
#[inline]
pub fn plain_bytes(session: &Session, count: i64, datatype: usize) -> Option<usize> {
    let bytes = element_bytes(session, datatype)?;
    bytes.checked_mul(usize::try_from(count).ok()?)
}

/// Bytes of an element of a predefined type whose elements are plain bytes from their address on, one after the other.
#[inline(always)]
pub fn element_bytes(session: &Session, datatype: usize) -> Option<usize> {
    let datatype = session.host().datatype(datatype);
    session.datatypes.dense_bytes(datatype)
}

/// Layout of a type that carries its facts as an attribute, or gets them now.
#[cold]
fn derived(session: &Session, datatype: Datatype) -> Option<Layout> {
    let host = session.host();
    if datatype == host.predefined().datatype_null {
        return None;
    }
    if let Some(layout) = KNOWN.lock().get_or_insert_default().get(&datatype.0) {
        return Some(layout.clone());
    }
    if let Some(layout) = kept(session, datatype) {
        return Some(layout);
    }
    let layout = flatten::examine(session, datatype)?;
    if let NoRuns::NoMemory(_) = layout.no_runs() {
        // The host packs this time; the next may find memory.
        return Some(layout);
    }
    if host.type_envelope(datatype).ok()?.combiner.is_predefined() {
        remember(datatype, layout.clone());
    } else {
        keep(session, datatype, layout.clone());
    }
    Some(layout)
}

/// Has the layout of a type at hand that is not freed before [`forget`].
pub fn remember(datatype: Datatype, layout: Layout) {
    let mut known = KNOWN.lock();
    known.get_or_insert_default().insert(datatype.0, layout);
}

/// Whether the type, whose [`layout`] was found, is predefined, so that it is never freed, or one of [`remember`].
pub fn is_at_hand(datatype: Datatype) -> bool {
    let mut known = KNOWN.lock();
    known.get_or_insert_default().contains_key(&datatype.0)
}

/// The type is about to be freed.
pub fn forget(datatype: Datatype) {
    let mut known = KNOWN.lock();
    known.get_or_insert_default().remove(&datatype.0);
}

/// The layout that hangs on its type.
fn kept(session: &Session, datatype: Datatype) -> Option<Layout> {
    let host = session.host();
    let address = host
        .type_attribute(datatype, session.type_key)
        .ok()
        .flatten()?;
    // SAFETY: the value is a leaked `Layout`, freed with the type, as none ever takes another's place.
    Some(unsafe { &*(address as *const Layout) }.clone())
}

/// Hangs `layout` on its type. Without, the type is examined again at its next use.
fn keep(session: &Session, datatype: Datatype, layout: Layout) {
    // Of several threads that examined the type at once one alone keeps what it found: the host deletes a value that
    // another takes the place of, and somebody may be reading it.
    static ONE_KEEPS: Mutex<()> = Mutex::new(());
    let _one = ONE_KEEPS.lock();
    if kept(session, datatype).is_some() {
        return;
    }
    let address = Box::into_raw(Box::new(layout));
    let kept = session
        .host()
        .set_type_attribute(datatype, session.type_key, address as usize);
    if kept.is_err() {
        // SAFETY: the host did not take it.
        drop(unsafe { Box::from_raw(address) });
    }
}

/// Delete callback of the datatype attribute. A call that uses the type meanwhile has its own
/// reference to the description.
pub unsafe extern "C" fn on_type_free(
    _datatype: usize,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: the value was leaked from a box when the attribute was set, and is deleted once.
    drop(unsafe { Box::from_raw(value.cast::<Layout>()) });
    0
}
