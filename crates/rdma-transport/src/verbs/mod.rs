//! Rails over RDMA devices: [`VerbsTransport`].
//!
//! From the outside in: `device` surveys ports, with what `sysfs`, `speed` and `gid` tell of their
//! places, data rates and addresses; `choice` picks rails among them; `rail` opens one. `reach`
//! judges, with the help of `route`, which ends can talk to each other. `peer` holds one `lane` per
//! rail to each process ever talked to, connected through the bytes of `wire`; `lane` accounts for
//! operations, `work_request` posts them on its `queue_pair`, `completion` polls what became of
//! them, `retired` destroys queue pairs that ended. `wake_events` wakes threads that sleep until a
//! peer has written. `multicast` is groups, with queue
//! pairs of their own. `handles`, `channel` and `completion_queue` own the C objects.
//!
//! Queue pairs are made when a peer is opened, never before. A rail's index may differ
//! between processes (one may lack a rail that another has); its *plane* does not, so keys in
//! regions and addresses on the wire go by plane.

mod async_events;
mod channel;
mod choice;
mod completion;
mod completion_queue;
mod device;
mod error;
mod gid;
mod handles;
mod lane;
mod local_side;
mod multicast;
mod order;
mod peer;
mod queue_pair;
mod rail;
mod reach;
mod regions;
mod request;
mod retired;
mod route;
mod speed;
mod sysfs;
mod transport;
mod wake_events;
mod wire;
mod work_request;

pub use choice::{Choice, Pick, Port, State};
pub use rail::Bounds;
pub use reach::{Link, PortAddress};
pub use transport::VerbsTransport;

use ferrorail_base::config::Settings;
use ferrorail_fabric::Connections;

/// Whether libibverbs can be loaded and at least one port carries data. Opens nothing that it does
/// not close again.
pub fn is_available() -> bool {
    let active = |one: &device::Surveyed| one.port.state == State::Active;
    ferrorail_delay_load::verbs().is_ok()
        && device::survey(None).is_ok_and(|ports| ports.iter().any(active))
}

/// What a connection over `rails` rails takes on devices with the usual limits.
pub fn usual_connection(rails: u8) -> Connections {
    let lane = rail::USUAL_SIZE.bytes() + size_of::<lane::Lane>() as u64;
    Connections {
        peers: 1,
        queue_pairs: rails.into(),
        bytes: u64::from(rails) * lane,
    }
}

/// All ports of this host, and which of them `settings` make rails (`FERRORAIL_RAILS`,
/// `FERRORAIL_GID_INDEX`), without opening those. `None` where nothing can be known, without
/// libibverbs or RDMA.
pub fn ports(settings: &Settings) -> Option<(Vec<Port>, Choice)> {
    ferrorail_delay_load::verbs().ok()?;
    let surveyed = device::survey(settings.gid_index).ok()?;
    let ports: Vec<Port> = surveyed.into_iter().map(|one| one.port).collect();
    let choice = choice::choose(&ports, &settings.rails);
    Some((ports, choice))
}
