//! The futex system call on words shared between processes (never `FUTEX_PRIVATE_FLAG`).

use ferrorail_base::sync::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, at most `timeout`; returns early on wake-ups and signals.
pub(super) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the kernel reads an aligned, mapped word and a relative time-out. Every outcome
    // (woken, changed, timed out, interrupted) means the same here: poll again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
        );
    }
}

/// Wakes everybody who sleeps on `word`.
pub(super) fn wake_all(word: &AtomicU32) {
    // SAFETY: the kernel only takes the address of an aligned, mapped word.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
