//! What a program may ask of a window (MPI 4.1, sections 12.2.2 and 12.2.7).

use super::{Entry, find};
use crate::error::CallError;
use crate::runtime::{self, Session};
use ferrorail_base::Rank;
use ferrorail_engine::{Memory, Window};
use ferrorail_mpi_abi::AbiKind;
use libc::{c_int, c_void};

/// Predefined attributes; programs get the addresses of all but the base.
pub struct Attributes {
    base: usize,
    size: isize,
    unit: c_int,
    flavour: c_int,
    model: c_int,
}

impl Attributes {
    /// Those of `window`.
    pub fn of(session: &Session, window: &Window) -> Self {
        let constants = session.host().window_constants();
        let spec = window.spec();
        Self {
            base: base(session, window),
            size: spec.bytes as isize,
            unit: spec.unit as c_int,
            flavour: constants.flavors[match spec.memory {
                Memory::Create { .. } => 0,
                Memory::Allocate => 1,
                Memory::Dynamic => 2,
                Memory::Shared { .. } => 3,
            }],
            model: constants.unified,
        }
    }

    fn value(&self, session: &Session, key: c_int) -> Option<*const c_void> {
        let constants = session.host().window_constants();
        Some(if key == constants.base {
            self.base as *const c_void
        } else if key == constants.size {
            (&raw const self.size).cast()
        } else if key == constants.disp_unit {
            (&raw const self.unit).cast()
        } else if key == constants.create_flavor {
            (&raw const self.flavour).cast()
        } else if key == constants.model {
            (&raw const self.model).cast()
        } else {
            return None;
        })
    }
}

/// `MPI_Win_get_attr`: predefined keys of our windows; all else is the host's, and not counted.
///
/// # Safety
/// The program's arguments.
pub unsafe fn attribute(
    window: usize,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
    forward: impl FnOnce() -> c_int,
) -> c_int {
    let own = runtime::with_local(|local| {
        let session = runtime::session_of(local)?;
        let handle = session.host().window(window);
        // SAFETY: the program does not free a window that it asks about.
        let entry = unsafe { find(&local.recent_windows, handle) }?;
        let found = entry.attributes.value(session, key)?;
        Some((found, session.host().constants().success))
    });
    let Some((found, success)) = own else {
        return forward();
    };
    // SAFETY: the program's output arguments.
    unsafe {
        value.cast::<*const c_void>().write_unaligned(found);
        *flag = 1;
    }
    success
}

/// What Fortran programs get for an attribute whose C value is `value`.
///
/// # Safety
/// [`attribute`] found `value` for `key`.
pub unsafe fn attribute_value(key: c_int, value: *const c_void) -> isize {
    let Some(session) = runtime::session() else {
        return value as isize;
    };
    let constants = session.host().window_constants();
    // SAFETY: the caller's contract; see `Attributes::value`.
    unsafe {
        if key == constants.base {
            value as isize
        } else if key == constants.size {
            *value.cast::<isize>()
        } else {
            *value.cast::<c_int>() as isize
        }
    }
}

/// `MPI_Win_shared_query`: address, length and unit of the memory of `rank`, or, for
/// `MPI_PROC_NULL`, of the lowest rank that has some. Memory that this process cannot load and store
/// counts as none, in windows of any kind (MPI 4.1, section 12.2.3).
pub fn shared_query(
    session: &Session,
    entry: &Entry,
    rank: c_int,
) -> Result<(*mut c_void, isize, c_int), CallError> {
    let window = &entry.window;
    let found = match entry.target(session, rank)? {
        Some(rank) => window.mapped(rank).map(|found| {
            let (address, bytes, unit) = found;
            (visible(session, window, address, bytes), bytes, unit)
        }),
        None => {
            let onesided = entry.onesided();
            let mut all = (0..onesided.size()).map(Rank);
            let first = all.find(|rank| onesided.target(*rank).bytes > 0);
            first.and_then(|rank| window.mapped(rank))
        }
    };
    let (address, bytes, unit) = found.unwrap_or((0, 0, 1));
    Ok((address as *mut c_void, bytes as isize, unit as c_int))
}

/// The address of `bytes` bytes of a window that shares memory, as the host would say it: ranks without
/// memory have one in Open MPI if parts follow one another, and else in no library.
fn visible(session: &Session, window: &Window, address: usize, bytes: u64) -> usize {
    let named = match window.spec().memory {
        Memory::Shared { apart } => session.host().kind() == AbiKind::OpenMpi && !apart,
        _ => true,
    };
    match bytes > 0 || named {
        true => address,
        false => 0,
    }
}

/// The address of this rank's memory, as the program is told.
pub(super) fn base(session: &Session, window: &Window) -> usize {
    visible(session, window, window.base(), window.spec().bytes)
}
