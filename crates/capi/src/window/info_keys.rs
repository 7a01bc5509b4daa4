//! Info keys of ferrorail's that a new window is given.

use crate::session::Session;
use ferrorail_base::config::WindowKeys;
use ferrorail_engine::LockAlgorithm;
use ferrorail_mpi_abi::{Comm, Info};
use std::ffi::CString;

const PREFIX: &str = "ferrorail_";
const LOCK: &str = "ferrorail_lock";

/// What they say.
pub struct Given {
    /// The lock algorithm, if one is named.
    pub lock: Option<LockAlgorithm>,
    /// Other settings.
    pub keys: WindowKeys,
}

/// Reads those of `info` for a window on `comm`, whose rank 0 says once what is wrong with them.
pub fn read(session: &Session, comm: Comm, info: Info) -> Given {
    let host = session.host();
    let value_of = |key: &str| host.info_value(info, &CString::new(key).ok()?);
    let mut problems = Vec::new();
    let name = value_of(LOCK).map(|name| name.trim().to_owned());
    let lock = name.filter(|name| !name.is_empty()).and_then(|name| {
        let known = LockAlgorithm::from_name(&name);
        if known.is_none() {
            let names = LockAlgorithm::ALL.map(LockAlgorithm::name).join(", ");
            problems.push(format!("{LOCK}={name}: not one of {names}"));
        }
        known
    });
    let (keys, wrong) = WindowKeys::read(value_of);
    problems.extend(wrong.iter().map(ToString::to_string));
    for key in host.info_keys(info) {
        let key = key.to_string_lossy();
        if key.starts_with(PREFIX) && key != LOCK && !WindowKeys::NAMES.contains(&&*key) {
            let names = WindowKeys::NAMES.join(", ");
            problems.push(format!("{key}: windows have {LOCK}, {names}"));
        }
    }
    if !problems.is_empty() && host.comm_rank(comm) == Ok(0) {
        for problem in problems {
            let line = || format!("{problem}; the info key is ignored");
            session.context.warn_once_about(&problem, line);
        }
    }
    Given { lock, keys }
}
