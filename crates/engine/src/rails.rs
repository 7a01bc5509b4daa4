//! Which fabric is real: the only place that names the implementations.

use ferrorail_base::config::{FabricChoice, Settings};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::multicast::DatagramLimits;
use ferrorail_fabric::{
    Capabilities, Connections, Fabric, FabricError, Group, GroupId, LocalRegion, Multicast,
    MulticastError, Op, RailCounters, RailInfo, Reach, RemoteRegion, SharedBacking, Ticket,
    Tracking,
};
use ferrorail_rdma_transport::failover::{Failover, Watchdog, pair_bytes};
use ferrorail_rdma_transport::loopback::{self, LoopbackFabric};
use ferrorail_rdma_transport::verbs::{self, VerbsFabric};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A fabric chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RailsKind {
    Verbs,
    Loopback,
}

/// The opened rails of this process.
// There is one per process, behind an `Arc`: the variants' sizes do not matter.
#[allow(clippy::large_enum_variant)]
pub enum Rails {
    /// RDMA devices.
    Verbs(Failover<VerbsFabric>),
    /// Emulated rails.
    Loopback(Failover<LoopbackFabric>),
}

macro_rules! delegate {
    ($self:ident, $fabric:ident => $call:expr) => {
        match $self {
            Rails::Verbs($fabric) => $call,
            Rails::Loopback($fabric) => $call,
        }
    };
}

impl Rails {
    pub(crate) fn open(kind: RailsKind, settings: &Settings) -> Result<Self, FabricError> {
        let process = ferrorail_shm::process_id();
        match kind {
            RailsKind::Verbs => {
                let fabric = VerbsFabric::open(settings)?;
                Ok(Self::Verbs(Failover::new(fabric, process, settings)))
            }
            RailsKind::Loopback => {
                let fabric = LoopbackFabric::open(settings)?;
                Ok(Self::Loopback(Failover::new(fabric, process, settings)))
            }
        }
    }

    /// A thread that looks after the rails, if they need that.
    pub(crate) fn watchdog(self: &Arc<Self>) -> Result<Option<Watchdog>, FabricError> {
        let this = &**self;
        if !delegate!(this, f => f.needs_watchdog()) {
            return Ok(None);
        }
        let rails = Arc::clone(self);
        let watchdog = Watchdog::start(move |wake| {
            let rails = &*rails;
            delegate!(rails, f => f.tend_and_sleep(wake))
        });
        watchdog.map(Some).map_err(|source| FabricError::SetUp {
            verb: "pthread_create",
            object: "the thread that looks after the rails".into(),
            source,
        })
    }

    /// Whether verbs rails could be opened here.
    pub(crate) fn verbs_available() -> bool {
        verbs::is_available()
    }
}

impl Multicast for Rails {
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>> {
        delegate!(self, f => f.multicast_rails())
    }

    fn join(
        &self,
        rail: RailId,
        group: GroupId,
        depth: u32,
    ) -> Result<Box<dyn Group>, MulticastError> {
        delegate!(self, f => f.join(rail, group, depth))
    }
}

impl Fabric for Rails {
    fn name(&self) -> &'static str {
        delegate!(self, f => f.name())
    }

    fn rails(&self) -> &[RailInfo] {
        delegate!(self, f => f.rails())
    }

    fn refused(&self) -> &[String] {
        delegate!(self, f => f.refused())
    }

    fn capabilities(&self) -> Capabilities {
        delegate!(self, f => f.capabilities())
    }

    fn counters(&self, rail: RailId) -> RailCounters {
        delegate!(self, f => f.counters(rail))
    }

    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        // SAFETY: the caller's contract is the callee's.
        unsafe { delegate!(self, f => f.register(address, bytes, backing)) }
    }

    fn deregister(&self, region: LocalRegion) {
        delegate!(self, f => f.deregister(region))
    }

    fn describe(&self, region: &LocalRegion) -> Vec<u8> {
        delegate!(self, f => f.describe(region))
    }

    fn import(&self, peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        delegate!(self, f => f.import(peer, description))
    }

    fn release(&self, peer: PeerId, region: RemoteRegion) {
        delegate!(self, f => f.release(peer, region))
    }

    fn open_peer(&self, process: ProcessId) -> Result<PeerId, FabricError> {
        delegate!(self, f => f.open_peer(process))
    }

    fn address_for(&self, peer: PeerId) -> Result<Vec<u8>, FabricError> {
        delegate!(self, f => f.address_for(peer))
    }

    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<(), FabricError> {
        delegate!(self, f => f.connect(peer, address))
    }

    fn connections(&self) -> Connections {
        delegate!(self, f => f.connections())
    }

    fn local_address(&self) -> Vec<u8> {
        delegate!(self, f => f.local_address())
    }

    fn could_reach(&self, ends: &[u8]) -> Result<Reach, FabricError> {
        delegate!(self, f => f.could_reach(ends))
    }

    fn reach(&self, peer: PeerId) -> Result<Reach, FabricError> {
        delegate!(self, f => f.reach(peer))
    }

    fn keep_planes(&self, peer: PeerId, planes: u8) -> Result<(), FabricError> {
        delegate!(self, f => f.keep_planes(peer, planes))
    }

    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        // SAFETY: the caller's contract is the callee's.
        unsafe { delegate!(self, f => f.post(peer, rail, op, tracking)) }
    }

    fn wake_descriptors(&self) -> Vec<BorrowedFd<'_>> {
        delegate!(self, f => f.wake_descriptors())
    }

    fn arm(&self) -> Result<(), FabricError> {
        delegate!(self, f => f.arm())
    }

    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        delegate!(self, f => f.is_complete(ticket))
    }

    fn out_of_use(&self, peer: PeerId) -> u8 {
        delegate!(self, f => f.out_of_use(peer))
    }

    fn check(&self, peer: PeerId) -> Result<(), FabricError> {
        delegate!(self, f => f.check(peer))
    }

    fn progress(&self) -> Result<usize, FabricError> {
        delegate!(self, f => f.progress())
    }
}

/// What a connection to a process takes over `rails` rails of `fabric`, as a run's statistics would
/// count it on devices with the usual limits: [`Fabric::connections`] asks the same functions.
/// Loopback rails are taken to be without a model.
pub(crate) fn connection(fabric: RailsKind, rails: u8) -> Connections {
    let (mut connection, journals) = match fabric {
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
/// As the fabric's `open`.
pub fn open_rails(settings: &Settings) -> Result<Rails, FabricError> {
    let kind = match settings.fabric {
        FabricChoice::Verbs => RailsKind::Verbs,
        FabricChoice::Auto if Rails::verbs_available() => RailsKind::Verbs,
        FabricChoice::Auto | FabricChoice::Loopback => RailsKind::Loopback,
    };
    Rails::open(kind, settings)
}
