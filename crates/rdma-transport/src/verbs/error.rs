//! System errors with the advice that belongs to them.

use ferrorail_fabric::FabricError;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::io;

/// `source`, with a word on the limit of locked memory if that is the likely reason. Devices lock
/// what they register, queues included, and refuse with these codes beyond the limit.
pub fn with_memlock_hint(source: io::Error) -> io::Error {
    let memory = [libc::ENOMEM, libc::EAGAIN, libc::EPERM];
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(RLIM_INFINITY, |(soft, _)| soft);
    match source.raw_os_error() {
        Some(code) if memory.contains(&code) && limit != RLIM_INFINITY => io::Error::new(
            source.kind(),
            format!(
                "{source}; the limit of locked memory is {} KB (`ulimit -l`): RDMA needs it \
                 unlimited, e.g. by `* - memlock unlimited` in /etc/security/limits.conf",
                limit / 1024
            ),
        ),
        _ => source,
    }
}

/// Whether `error` says that a device does not do anything any more, such as a card that was pulled.
pub fn says_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::ENODEV))
}

/// What failed and why, without the object, for where that is named already.
pub fn reason(error: &FabricError) -> String {
    match error {
        FabricError::SetUp { verb, source, .. } => format!("{verb} failed: {source}"),
        FabricError::LaneDown { status, .. } => status.clone(),
        other => other.to_string(),
    }
}

/// For `map_err` on a verb that sets up `object`.
pub fn set_up(verb: &'static str, object: &str) -> impl FnOnce(io::Error) -> FabricError {
    let object = object.to_owned();
    move |source| FabricError::SetUp {
        verb,
        object,
        source: with_memlock_hint(source),
    }
}
