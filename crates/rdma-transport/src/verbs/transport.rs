//! [`VerbsTransport`]: regions, peers, and the seam's operations turned into lanes' ones.

mod open;

use super::async_events::{AsyncEvents, PortState};
use super::completion::poll;
use super::lane::Lane;
use super::peer::{Peer, could_reach};
use super::rail::Rail;
use super::regions::Regions;
use super::wire;
use super::work_request::Operation;
use crate::breakages::Failures;
use ferrorail_base::sync::{Mutex, Ordering};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    Attributes, Breakage, Connections, EventSource, Events, FabricError, LaneId, LaneState,
    LocalRegion, Memory, Op, Reach, RemoteRegion, SharedBacking, Statistics, Ticket, Tracking,
    Transition, Transport,
};
use std::collections::HashMap;
use std::io;

/// This process's attachment to its RDMA rails.
#[derive(Debug)]
pub struct VerbsTransport {
    attributes: Attributes,
    // In the order in which they are released.
    peers: boxcar::Vec<Peer>,
    regions: Regions,
    processes: Mutex<HashMap<ProcessId, PeerId>>,
    events: AsyncEvents,
    rails: Vec<Rail>,
    failures: Failures,
}

/// What the ids of completions have room for.
const PEERS_MAX: u32 = 1 << 24;

impl VerbsTransport {
    /// Posts more of what there was no room for on a rail.
    #[cold]
    fn go_on(&self, index: usize, rail: &Rail) {
        for (_, peer) in self.peers.iter() {
            if let Some(lane) = peer.lane(index) {
                self.tell_if_failed(lane.go_on(rail));
            }
        }
    }

    /// Leaves a rail whose completions cannot be polled: nothing tells what becomes of what is posted there.
    #[cold]
    fn lose(&self, index: usize, rail: &Rail, error: &io::Error) {
        rail.mute(error);
        for (_, peer) in self.peers.iter() {
            if let Some(lane) = peer.lane(index)
                && lane.fail(error.to_string(), None)
            {
                self.failures.push(lane.error());
            }
        }
    }

    /// Keeps a failure for those who call `progress`.
    fn tell_if_failed(&self, outcome: Result<(), FabricError>) {
        if let Err(failure) = outcome {
            self.failures.push(failure);
        }
    }

    /// The rails themselves, by [`RailId`].
    pub(super) fn opened(&self) -> &[Rail] {
        &self.rails
    }

    pub(super) fn port(&self, rail: usize) -> PortState {
        self.events.port(rail)
    }

    fn peer(&self, peer: PeerId) -> Result<&Peer, FabricError> {
        let unknown = FabricError::BadPeerData { what: "peer id" };
        self.peers.get(peer.index()).ok_or(unknown)
    }

    #[inline]
    fn known_lane(&self, lane: LaneId) -> Result<(&Rail, &Lane), Breakage> {
        let LaneId { peer, rail } = lane;
        let known = self
            .peers
            .get(peer.index())
            .and_then(|peer| peer.lane(rail.index()));
        match (self.rails.get(rail.index()), known) {
            (Some(rail), Some(lane)) => Ok((rail, lane)),
            _ => Err(Breakage {
                status: "no such connection".to_owned(),
                refused: Some(0),
                peer: format!("peer {peer}"),
            }),
        }
    }

    /// [`Self::known_lane`] for what must have one.
    #[inline]
    fn wanted_lane(&self, lane: LaneId) -> Result<(&Rail, &Lane), FabricError> {
        let known = self.known_lane(lane);
        known.map_err(|unknown| unknown.error(lane, &lane.rail.to_string()))
    }
}

impl Transport for VerbsTransport {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn statistics(&self) -> Statistics {
        let peers = self.peers.iter().map(|(_, peer)| peer.connections());
        Statistics {
            rails: self.rails.iter().map(Rail::counters).collect(),
            connections: peers.fold(Connections::default(), Connections::plus),
        }
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

    fn import(&self, _peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        match description.try_into() {
            Ok(wire) => Ok(RemoteRegion::from_wire(wire)),
            Err(_) => Err(FabricError::BadPeerData {
                what: "description of a verbs region",
            }),
        }
    }

    fn release(&self, memory: Memory) {
        if let Memory::Local(region) = memory {
            self.regions.deregister(&region);
        }
    }

    fn open_peer(&self, process: ProcessId) -> Result<(PeerId, Vec<u8>), FabricError> {
        let mut processes = self.processes.lock();
        if let Some(&peer) = processes.get(&process) {
            drop(processes);
            return Ok((peer, self.peer(peer)?.address(&self.rails)?));
        }
        // Pushed under the lock: the next index is the count.
        let id = PeerId(self.peers.count() as u32);
        if id.0 >= PEERS_MAX {
            let reason = format!("more than {PEERS_MAX} peers");
            return Err(FabricError::NoRails { reason });
        }
        let peer = Peer::new(id, process);
        // First: who fails leaves no entry.
        let address = peer.address(&self.rails)?;
        self.peers.push(peer);
        processes.insert(process, id);
        Ok((id, address))
    }

    fn connect(&self, peer: Option<PeerId>, address: &[u8]) -> Result<Reach, FabricError> {
        match peer {
            Some(peer) => self.peer(peer)?.connect(&self.rails, address),
            None => Ok(could_reach(&self.rails, &wire::unpack(address)?)),
        }
    }

    #[inline]
    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        let (opened, lane) = self.wanted_lane(LaneId { peer, rail })?;
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

    #[inline]
    fn lane(&self, lane: LaneId) -> LaneState {
        match self.known_lane(lane) {
            Ok((_, lane)) => lane.state(),
            Err(unknown) => LaneState {
                completed: 0,
                breakage: Some(unknown),
            },
        }
    }

    fn change_lane(&self, lane: LaneId, to: Transition) -> Result<u64, FabricError> {
        let (rail, lane) = self.wanted_lane(lane)?;
        match to {
            Transition::End => lane.end(rail),
            Transition::Reset => return lane.renew(rail),
            Transition::Connect(token) => lane.reconnect(token)?,
        }
        Ok(0)
    }

    fn progress(&self) -> Result<usize, FabricError> {
        let mut seen = 0;
        for (index, rail) in self.rails.iter().enumerate() {
            if rail.is_mute() {
                continue;
            }
            let polled = poll(rail, |completion| {
                let peer = self.peers.get(completion.id.peer.index());
                if let Some(lane) = peer.and_then(|peer| peer.lane(index)) {
                    let done = lane.complete(rail, completion.id, completion.failure);
                    self.tell_if_failed(done);
                }
            });
            match polled {
                Ok(taken) => seen += taken,
                Err(error) => self.lose(index, rail, &error),
            }
            if rail.unfinished.load(Ordering::Relaxed) > 0 {
                self.go_on(index, rail);
            }
        }
        self.failures.pop().map_or(Ok(seen), Err)
    }

    fn events(&self, source: EventSource) -> Result<Events<'_>, FabricError> {
        if source == EventSource::Device {
            return Ok(Events {
                ports_down: self.events.down(),
                descriptors: self.events.descriptors(),
            });
        }
        // A peer may use any rail, another one than it means to after a failure.
        let used = || self.rails.iter().filter(|rail| !rail.is_gone());
        let all = used().all(|rail| rail.wake_events.is_some());
        let mut events = Events::default();
        for rail in used().filter(|_| all) {
            if let Some(wake_events) = &rail.wake_events {
                wake_events.arm(&rail.info.name)?;
                events.descriptors.push(wake_events.descriptor());
            }
        }
        Ok(events)
    }
}
