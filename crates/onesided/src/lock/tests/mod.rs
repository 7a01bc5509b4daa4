//! Locks under loom, in virtual time and on threads.

mod atomic_site;
#[cfg(not(loom))]
mod contention;
#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod misuse;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod virtual_time;
