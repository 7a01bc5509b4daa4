//! The signal upon which a rank says what it waits for (`FERRORAIL_WAIT_SIGNAL`).

use ferrorail_base::sync::{AtomicU32, Ordering};
use ferrorail_engine::waiting;
use libc::c_int;
use std::{mem, ptr};

/// Rank of this process in the world.
static RANK: AtomicU32 = AtomicU32::new(0);

/// Longest line in bytes.
const LINE_BYTES: usize = 256;

extern "C" fn on_signal(_signal: c_int) {
    let mut line = [0; LINE_BYTES];
    let length = waiting::describe(RANK.load(Ordering::Relaxed), &mut line);
    // SAFETY: write is safe in a handler, and errno is put back as it was.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length);
        *libc::__errno_location() = errno;
    }
}

/// Has `signal` answered by the process of `rank`.
///
/// # Errors
/// Why not: the program has taken it already, or nobody may.
pub fn answer(signal: c_int, rank: u32) -> Result<(), &'static str> {
    RANK.store(rank, Ordering::Relaxed);
    let handler: extern "C" fn(c_int) = on_signal;
    // SAFETY: both structures are live, and zeros are a valid one; the handler does only what handlers may.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let mut before: libc::sigaction = mem::zeroed();
        // That of a signal that cannot be taken may be asked for.
        libc::sigaction(signal, ptr::null(), &raw mut before);
        if before.sa_sigaction != libc::SIG_DFL {
            return Err("the program handles or ignores this signal");
        }
        action.sa_sigaction = handler as usize;
        // Threads with small stacks may have another for handlers.
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        match libc::sigaction(signal, &raw const action, ptr::null_mut()) {
            0 => Ok(()),
            _ => Err("no process may handle this signal"),
        }
    }
}
