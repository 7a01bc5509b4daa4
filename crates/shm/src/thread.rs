//! Threads of the library: they take no signals, which are the program's.

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread in which all signals are blocked.
///
/// # Errors
/// If there can be no thread.
pub fn spawn_quietly(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut before = SigSet::empty();
    pthread_sigmask(
        SigmaskHow::SIG_BLOCK,
        Some(&SigSet::all()),
        Some(&mut before),
    )?;
    let spawned = Builder::new().name(name.into()).spawn(body);
    // Cannot fail: the set came from the same call.
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    spawned
}
