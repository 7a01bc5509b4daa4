//! How a rank waits: spin, poke the host MPI's progress, yield, sleep.
//!
//! The caller polls what it waits for and calls [`Waiter::idle`] after each poll that failed:
//!
//! ```
//! # use ferrorail_shm::{WaitPolicy, Waiter};
//! # let policy = WaitPolicy::for_host(8, 2, None);
//! # let mut polls = 0;
//! # let mut arrived = || { polls += 1; polls > 100 };
//! # let mut progress_host = || {};
//! let mut waiter = Waiter::new(&policy);
//! while !arrived() {
//!     waiter.idle(None, &mut progress_host);
//! }
//! ```

#[cfg(not(loom))]
mod cores;
#[cfg(not(loom))]
mod crowd;
#[cfg(not(loom))]
mod descriptors;
mod doorbell;
#[cfg_attr(loom, path = "futex_loom.rs")]
mod futex;
#[cfg(not(loom))]
mod policy;
#[cfg(not(loom))]
mod spread;
#[cfg(not(loom))]
mod waiter;

#[cfg(not(loom))]
pub use cores::Cores;
#[cfg(not(loom))]
pub use descriptors::sleep_on;
pub use doorbell::{Doorbell, Ticket};
#[cfg(not(loom))]
pub use policy::WaitPolicy;
#[cfg(not(loom))]
pub use spread::spread_ranks;
#[cfg(not(loom))]
pub use waiter::Waiter;
