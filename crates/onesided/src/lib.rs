//! One-sided communication: windows, and the locks of passive-target synchronisation.
//!
//! [`window`] holds windows: how memory of other ranks is reached, operations, epochs.
//!
//! [`lock`] holds the lock algorithms, each written once against the words that one contender of
//! one lock can reach ([`lock::LockSite`], [`lock::RemoteWord`]): a single word at the target, and
//! a mailbox of every contender. The same text runs over a fabric's atomics, over CPU atomics in
//! shared memory, under loom and in virtual time.
//!
//! * [`lock::TestAndSetLock`]: compare-and-swap until it succeeds, with exponential back-off;
//! * [`lock::McsLock`]: a queue of exclusive holders, the swap emulated by compare-and-swap;
//! * [`lock::QueueLock`]: fair reader-writer lock with at most four remote messages per
//!   acquisition and release under any contention, by fetch-and-add alone;
//! * [`lock::ServedLock`]: kept by a thread at the target, which polls or is woken;
//! * [`lock::AnyLock`]: one of them, chosen by name.
//!
//! Operations are futures, so that a non-blocking lock call can start an acquisition and leave it
//! to the progress of the library; [`lock::block_on`] runs one to its end. This crate knows
//! neither verbs nor the network.

pub mod lock;
#[cfg(not(loom))]
pub mod window;
