//! The atomics every crate uses: the standard ones, or loom's under `--cfg loom`; and locks of which is
//! known that nobody waits while holding one.
//!
//! Clippy forbids the standard paths elsewhere, so that each lock-free primitive stays
//! model-checkable by construction.

mod lock;

pub use lock::{Claim, Claimed, Mutex, MutexGuard, assert_unlocked};

#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};

#[cfg(not(loom))]
mod real {
    pub use core::hint::spin_loop;
    pub use core::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use std::thread::yield_now;
}
#[cfg(not(loom))]
pub use real::*;
