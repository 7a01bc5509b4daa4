//! Rails over RDMA devices: [`VerbsFabric`].
//!
//! From the outside in: `device` surveys ports and picks rails, `gid` picks their addresses, `rail`
//! opens one; `peer` holds one `lane` per rail to each process ever talked to, connected through
//! the bytes of `wire`; `lane` accounts for operations, `work_request` posts them on its
//! `queue_pair`, `completion` polls what became of them. `handles` owns the C objects.
//!
//! Queue pairs are made when a peer's address is asked for, never before. A rail's index may differ
//! between processes (one may lack a rail that another has); its *plane* does not, so keys in
//! regions and addresses on the wire go by plane.

mod completion;
mod device;
mod end;
mod error;
mod fabric;
mod gid;
mod handles;
mod lane;
mod lanes;
mod peer;
mod queue_pair;
mod rail;
mod wire;
mod work_request;

pub use fabric::VerbsFabric;

/// Whether libibverbs can be loaded and at least one port is up. Opens nothing that it does not
/// close again.
pub fn is_available() -> bool {
    ferrorail_delay_load::verbs().is_ok()
        && device::survey().is_ok_and(|ports| ports.iter().any(|port| port.active))
}
