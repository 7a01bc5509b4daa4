//! Hints of a window (MPI 4.1, section 12.2.7).
//!
//! The host keeps them with the bare window, but that may be of another kind than the program asked for,
//! which forgets hints that mean nothing to it. Those of the standard are remembered here, and added to
//! what the host says, with the standard's defaults where it has some.

use ferrorail_base::sync::Mutex;
use ferrorail_mpi_abi::{Host, Info};
use std::ffi::{CStr, CString};

/// The standard's hints, and those that ferrorail looks at.
const KNOWN: [&CStr; 14] = [
    c"no_locks",
    c"accumulate_ordering",
    c"accumulate_ops",
    c"mpi_accumulate_granularity",
    c"same_size",
    c"same_disp_unit",
    c"alloc_shared_noncontig",
    c"acc_single_intrinsic",
    c"ferrorail_lock",
    c"ferrorail_pscw",
    c"ferrorail_lock_request",
    c"ferrorail_service_threads",
    c"ferrorail_registration",
    c"ferrorail_scattered",
];

/// The defaults of hints on order and operations (MPI 4.1, section 12.2.1), which ferrorail's windows keep.
const DEFAULTS: [(&CStr, &CStr); 2] = [
    (c"accumulate_ordering", c"rar,raw,war,waw"),
    (c"accumulate_ops", c"same_op_no_op"),
];

/// What the program said of each hint.
#[derive(Default)]
pub struct Hints(Mutex<[Option<CString>; KNOWN.len()]>);

impl Hints {
    /// Those given when the window was made.
    pub fn of(host: &Host, info: Info) -> Self {
        let hints = Self::default();
        hints.add(host, info);
        hints
    }

    pub(super) fn add(&self, host: &Host, info: Info) {
        let mut hints = self.0.lock();
        for (hint, key) in hints.iter_mut().zip(KNOWN) {
            let given = host.info_value(info, key);
            if let Some(given) = given.and_then(|value| CString::new(value).ok()) {
                *hint = Some(given);
            }
        }
    }

    /// Adds to `info` what the program said and the host does not know, then defaults.
    pub(super) fn complete(&self, host: &Host, info: Info) {
        let hints = self.0.lock();
        let given = KNOWN.iter().zip(hints.iter());
        let given = given.filter_map(|(&key, hint)| Some((key, hint.as_deref()?)));
        for (key, hint) in given.chain(DEFAULTS) {
            if host.info_value(info, key).is_none()
                && let Err(error) = host.set_info_value(info, key, hint)
            {
                tracing::debug!("{key:?}: {error}");
            }
        }
    }
}
