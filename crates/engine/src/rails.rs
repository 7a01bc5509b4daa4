//! Which transport is real: the only place that names the implementations.

use ferrorail_base::config::{FabricChoice, Settings};
use ferrorail_fabric::{Connections, FabricError, Transport};
use ferrorail_rdma_transport::failover::{Failover, pair_bytes};
use ferrorail_rdma_transport::loopback::{self, LoopbackTransport};
use ferrorail_rdma_transport::verbs::{self, VerbsTransport};
use std::sync::Arc;

/// A transport chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RailsKind {
    Verbs,
    Loopback,
}

/// The opened rails of this process: RDMA devices, or emulated ones.
pub type Rails = Failover;

/// Opens the rails that `settings` ask for.
pub(crate) fn open(kind: RailsKind, settings: &Settings) -> Result<Rails, FabricError> {
    let transport: Arc<dyn Transport> = match kind {
        RailsKind::Verbs => Arc::new(VerbsTransport::open(settings)?),
        RailsKind::Loopback => Arc::new(LoopbackTransport::open(settings)?),
    };
    let process = ferrorail_shm::process_id();
    Ok(Failover::new(transport, process, settings))
}

/// Whether verbs rails could be opened here.
pub(crate) fn verbs_available() -> bool {
    verbs::is_available()
}

/// What a connection to a process takes over `rails` rails of that kind, as a run's statistics would
/// count it on devices with the usual limits: [`Rails::statistics`] asks the same functions.
/// Loopback rails are taken to be without a model.
pub(crate) fn connection(kind: RailsKind, rails: u8) -> Connections {
    let (mut connection, journals) = match kind {
        RailsKind::Verbs => (verbs::usual_connection(rails), rails.into()),
        RailsKind::Loopback => (loopback::connection(), 0),
    };
    connection.bytes += pair_bytes(journals);
    connection
}

/// Opens the rails that a team under `settings` would use on this host, without a team: what
/// `ferrorail info` shows.
///
/// # Errors
/// As the transport's `open`.
pub fn open_rails(settings: &Settings) -> Result<Rails, FabricError> {
    let kind = match settings.fabric {
        FabricChoice::Verbs => RailsKind::Verbs,
        FabricChoice::Auto if verbs_available() => RailsKind::Verbs,
        FabricChoice::Auto | FabricChoice::Loopback => RailsKind::Loopback,
    };
    open(kind, settings)
}
