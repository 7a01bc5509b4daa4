//! [`VerbsFabric`]: regions, peers, and the seam's operations turned into lanes' ones.

mod open;

use super::async_events::AsyncEvents;
use super::completion::poll;
use super::error::set_up;
use super::lane::Lane;
use super::peer::{Peer, could_reach, process_address};
use super::rail::Rail;
use super::regions::Regions;
use super::wire;
use super::work_request::Operation;
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    Capabilities, Connections, Fabric, FabricError, LocalRegion, Op, RailCounters, RailInfo, Reach,
    RemoteRegion, SharedBacking, Ticket, Tracking,
};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// This process's attachment to its RDMA rails.
#[derive(Debug)]
pub struct VerbsFabric {
    refused: Vec<String>,
    // In the order in which they are released.
    peers: boxcar::Vec<Peer>,
    regions: Regions,
    processes: Mutex<HashMap<ProcessId, PeerId>>,
    events: AsyncEvents,
    rails: Vec<Rail>,
    infos: Vec<RailInfo>,
    capabilities: Capabilities,
    /// Failures of lanes since the last call of `progress`.
    failures: Mutex<Vec<FabricError>>,
    has_failures: AtomicBool,
}

/// What the ids of completions have room for.
const PEERS_MAX: u32 = 1 << 24;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VerbsFabric {
    /// Posts more of what there was no room for on a rail.
    #[cold]
    fn go_on(&self, index: usize, rail: &Rail) {
        for (_, peer) in self.peers.iter() {
            if let Some(lane) = peer.lane(index) {
                self.tell_if_failed(lane.go_on(rail));
            }
        }
    }

    /// Keeps a failure for those who call `progress`.
    fn tell_if_failed(&self, outcome: Result<(), FabricError>) {
        if let Err(failure) = outcome {
            locked(&self.failures).push(failure);
            self.has_failures.store(true, Ordering::Relaxed);
        }
    }

    /// What their devices say by themselves.
    pub(super) fn events(&self) -> &AsyncEvents {
        &self.events
    }

    /// The rails themselves, by [`RailId`].
    pub(super) fn opened(&self) -> &[Rail] {
        &self.rails
    }

    fn peer(&self, peer: PeerId) -> Result<&Peer, FabricError> {
        let unknown = FabricError::BadPeerData { what: "peer id" };
        self.peers.get(peer.index()).ok_or(unknown)
    }

    #[inline]
    pub(super) fn lane(&self, peer: PeerId, rail: RailId) -> Result<(&Rail, &Lane), FabricError> {
        let lane = self
            .peers
            .get(peer.index())
            .and_then(|peer| peer.lane(rail.index()));
        match (self.rails.get(rail.index()), lane) {
            (Some(rail), Some(lane)) => Ok((rail, lane)),
            _ => Err(FabricError::Completion {
                rail: format!("{rail}"),
                peer: format!("peer {peer}"),
                status: "no such connection".to_owned(),
            }),
        }
    }
}

impl Fabric for VerbsFabric {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn rails(&self) -> &[RailInfo] {
        &self.infos
    }

    fn refused(&self) -> &[String] {
        &self.refused
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn counters(&self, rail: RailId) -> RailCounters {
        self.rails[rail.index()].counters()
    }

    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        // SAFETY: the caller's promise.
        unsafe { self.regions.register(&self.rails, address, bytes, backing) }
    }

    fn deregister(&self, region: LocalRegion) {
        self.regions.deregister(&region);
    }

    fn describe(&self, region: &LocalRegion) -> Vec<u8> {
        RemoteRegion::of(region).to_wire().to_vec()
    }

    fn import(&self, _peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        match description.try_into() {
            Ok(wire) => Ok(RemoteRegion::from_wire(wire)),
            Err(_) => Err(FabricError::BadPeerData {
                what: "description of a verbs region",
            }),
        }
    }

    fn release(&self, _peer: PeerId, _region: RemoteRegion) {}

    fn open_peer(&self, process: ProcessId) -> Result<PeerId, FabricError> {
        let mut processes = locked(&self.processes);
        if let Some(&peer) = processes.get(&process) {
            return Ok(peer);
        }
        // Pushed under the lock: the next index is the count.
        let peer = PeerId(self.peers.count() as u32);
        if peer.0 >= PEERS_MAX {
            let reason = format!("more than {PEERS_MAX} peers");
            return Err(FabricError::NoRails { reason });
        }
        self.peers.push(Peer::new(peer, process));
        processes.insert(process, peer);
        Ok(peer)
    }

    fn address_for(&self, peer: PeerId) -> Result<Vec<u8>, FabricError> {
        self.peer(peer)?.address(&self.rails)
    }

    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<(), FabricError> {
        self.peer(peer)?.connect(&self.rails, address)
    }

    fn local_address(&self) -> Vec<u8> {
        wire::pack(&process_address(
            &self.rails,
            self.rails.iter().map(Rail::own_address),
        ))
    }

    fn could_reach(&self, process_address: &[u8]) -> Result<Reach, FabricError> {
        Ok(could_reach(&self.rails, &wire::unpack(process_address)?))
    }

    fn connections(&self) -> Connections {
        let peers = self.peers.iter().map(|(_, peer)| peer.connections());
        peers.fold(Connections::default(), Connections::plus)
    }

    fn reach(&self, peer: PeerId) -> Result<Reach, FabricError> {
        Ok(self.peer(peer)?.reach())
    }

    #[inline]
    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        let (opened, lane) = self.lane(peer, rail)?;
        let plane = usize::from(opened.info.plane);
        let operation = Operation::of(op, plane, tracking == Tracking::Tracked);
        // SAFETY: the caller's promise.
        let sequence = unsafe { lane.post(opened, &operation) }?;
        if lane.has_failed() {
            self.tell_if_failed(Err(lane.error()));
        }
        Ok(Ticket {
            peer,
            rail,
            sequence,
        })
    }

    fn wake_descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let wake_descriptors = self.rails.iter().map(|rail| rail.wake_events.as_ref());
        // A peer may use any rail, another one than it means to after a failure.
        let all: Option<Vec<_>> = wake_descriptors
            .map(|wake_events| Some(wake_events?.descriptor()))
            .collect();
        all.unwrap_or_default()
    }

    fn arm(&self) -> Result<(), FabricError> {
        for rail in &self.rails {
            if let Some(wake_events) = &rail.wake_events {
                wake_events.arm(&rail.info.name)?;
            }
        }
        Ok(())
    }

    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        let (_, lane) = self.lane(ticket.peer, ticket.rail)?;
        lane.is_complete(ticket.sequence)
    }

    fn progress(&self) -> Result<usize, FabricError> {
        let mut seen = 0;
        for (index, rail) in self.rails.iter().enumerate() {
            let polled = poll(rail, |completion| {
                let peer = self.peers.get(completion.id.peer.index());
                if let Some(lane) = peer.and_then(|peer| peer.lane(index)) {
                    let done = lane.complete(rail, completion.id, completion.failure);
                    self.tell_if_failed(done);
                }
            });
            seen += polled.map_err(set_up("ibv_poll_cq", &rail.info.name))?;
            if rail.unfinished.load(Ordering::Relaxed) > 0 {
                self.go_on(index, rail);
            }
        }
        if !self.has_failures.load(Ordering::Relaxed) {
            return Ok(seen);
        }
        // Several may fail in one pass; each is told, one a call.
        let mut failures = locked(&self.failures);
        let failure = failures.pop();
        self.has_failures
            .store(!failures.is_empty(), Ordering::Relaxed);
        failure.map_or(Ok(seen), Err)
    }
}
