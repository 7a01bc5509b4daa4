//! One-sided communication: windows, and the locks of passive-target synchronisation.
//!
//! [`window`] holds windows: how memory of other ranks is reached, operations, epochs.
//!
//! [`lock`] holds the lock algorithms, each written once against the words that one contender of
//! one lock can reach ([`lock::LockSite`], [`lock::RemoteWord`]): a single word at the target, and
//! a mailbox of every contender. The same text runs over a fabric's atomics, over CPU atomics in
//! shared memory, under loom and in virtual time.
//!
//! [`lock::LockAlgorithm`] lists them, [`lock::AnyLock`] is a contender's part in a lock of any of them.
//!
//! Operations are futures, so that a non-blocking lock call can start an acquisition and leave it
//! to the progress of the library. This crate knows neither verbs nor the network.

pub mod lock;
#[cfg(not(loom))]
pub mod window;
