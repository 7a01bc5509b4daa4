//! Attributes of a window (MPI 4.1, section 12.2.7), and where its memory is for the program.

use ferrorail_engine::{Memory, Window};
use ferrorail_mpi_abi::{AbiKind, Host};
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
    pub fn of(host: &Host, window: &Window) -> Self {
        let constants = host.window_constants();
        let spec = window.spec();
        Self {
            base: base(host, window),
            size: spec.bytes as isize,
            // The attribute has no form for larger ones.
            unit: c_int::try_from(spec.unit).unwrap_or(c_int::MAX),
            flavour: constants.flavors[match spec.memory {
                Memory::Create { .. } => 0,
                Memory::Allocate => 1,
                Memory::Dynamic => 2,
                Memory::Shared { .. } => 3,
            }],
            model: constants.unified,
        }
    }

    pub(super) fn value(&self, host: &Host, key: c_int) -> Option<*const c_void> {
        let constants = host.window_constants();
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

/// The address of `bytes` bytes of a window that shares memory, as the host would say it: ranks without
/// memory have one in Open MPI if parts follow one another, and else in no library.
pub(super) fn visible(host: &Host, window: &Window, address: usize, bytes: u64) -> usize {
    let named = match window.spec().memory {
        Memory::Shared { apart } => host.kind() == AbiKind::OpenMpi && !apart,
        _ => true,
    };
    match bytes > 0 || named {
        true => address,
        false => 0,
    }
}

/// The address of this rank's memory, as the program is told.
pub(super) fn base(host: &Host, window: &Window) -> usize {
    visible(host, window, window.base(), window.spec().bytes)
}
