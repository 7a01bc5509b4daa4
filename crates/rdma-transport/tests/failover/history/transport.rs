//! [`Network`] as a transport.

use super::network::{Network, RAILS, What, address};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicBool, Mutex, MutexGuard};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::multicast::DatagramLimits;
use ferrorail_fabric::{
    AtomicScope, Attributes, Breakage, Clock, EventSource, Events, FabricError, Group, GroupId,
    Kind, LaneId, LaneState, LocalRegion, LocalSlice, Memory, Multicast, MulticastError, Op,
    RAILS_MAX, RailCounters, RailInfo, Reach, RemoteRegion, RemoteSlice, SharedBacking, Statistics,
    Ticket, Tracking, Transition, Transport,
};
use std::sync::Arc;
use std::time::Instant;

/// One side's rails.
#[derive(Debug)]
pub struct Virtual {
    side: usize,
    network: Arc<Mutex<Network>>,
    attributes: Attributes,
    began: Instant,
}

impl Virtual {
    pub fn new(side: usize, network: Arc<Mutex<Network>>) -> Self {
        let rail = |index: usize| RailInfo {
            name: format!("virtual{index}"),
            device: String::new(),
            port: 1,
            plane: index as u8,
            address: String::new(),
            bandwidth_mb_s: 1000,
            mtu_bytes: 4096,
            numa_node: None,
        };
        Self {
            side,
            network,
            attributes: Attributes {
                name: "virtual",
                rails: (0..RAILS).map(rail).collect(),
                refused: Vec::new(),
                atomics: AtomicScope::Global,
                same_host_only: false,
                inline_bytes_max: 0,
                private_memory: AtomicBool::new(true),
                immediate: false,
                address: Vec::new(),
            },
            began: Instant::now(),
        }
    }

    fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock()
    }
}

fn here(slice: &LocalSlice<'_>) -> usize {
    address(slice.region.range, slice.offset)
}

fn there(slice: &RemoteSlice<'_>) -> usize {
    slice.region.address as usize + slice.offset
}

impl Transport for Virtual {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            rails: vec![RailCounters::default(); RAILS],
            ..Statistics::default()
        }
    }

    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        let mut region = LocalRegion {
            range: MemoryRange::new(address, bytes),
            lkeys: [0; RAILS_MAX],
            rkeys: [0; RAILS_MAX],
            backing,
            handle: 0,
            description: Vec::new(),
        };
        region.description = RemoteRegion::of(&region).to_wire().to_vec();
        Ok(region)
    }

    fn import(&self, _: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        Ok(RemoteRegion::from_wire(description.try_into().unwrap()))
    }

    fn release(&self, _: Memory) {}

    fn open_peer(&self, _: ProcessId) -> Result<(PeerId, Vec<u8>), FabricError> {
        Ok((PeerId(0), Vec::new()))
    }

    fn connect(&self, _: Option<PeerId>, _: &[u8]) -> Result<Reach, FabricError> {
        let mut network = self.network();
        for rail in 0..RAILS {
            let other = network.lanes[1 - self.side][rail].number;
            network.reconnect(self.side, rail, other);
        }
        Ok(Reach {
            planes: self.attributes.planes(),
            refused: Vec::new(),
        })
    }

    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        _: Tracking,
    ) -> Result<Ticket, FabricError> {
        let (local, remote) = (here(&op.local), there(&op.remote));
        let atomic = |compare, value| What::Atomic {
            at: remote,
            compare,
            value,
            into: local,
        };
        let what = match &op.kind {
            Kind::Get => What::Get {
                from: remote,
                into: local,
                bytes: op.local.bytes,
            },
            &Kind::FetchAdd { add, .. } => atomic(None, add),
            &Kind::CompareSwap { compare, swap } => atomic(Some(compare), swap),
            put => What::Put {
                from: local,
                to: remote,
                bytes: op.local.bytes,
                flag: put.notification().map(|(word, value)| (there(word), value)),
            },
        };
        let sequence = self.network().post(self.side, rail, what)?;
        Ok(Ticket {
            peer,
            rail,
            sequence,
        })
    }

    fn lane(&self, lane: LaneId) -> LaneState {
        let lane = &self.network().lanes[self.side][lane.rail.index()];
        LaneState {
            completed: lane.completed,
            breakage: lane.failure.map(|failure| Breakage {
                status: failure.into(),
                refused: None,
                peer: "the peer".into(),
            }),
        }
    }

    fn change_lane(&self, lane: LaneId, to: Transition) -> Result<u64, FabricError> {
        let (mut network, rail) = (self.network(), lane.rail.index());
        match to {
            Transition::End => network.end(self.side, rail),
            Transition::Reset => return Ok(network.reset(self.side, rail)),
            Transition::Connect(token) => network.reconnect(self.side, rail, token),
        }
        Ok(0)
    }

    fn progress(&self) -> Result<usize, FabricError> {
        match self.network().failures[self.side].pop() {
            Some(failure) => Err(failure),
            None => Ok(0),
        }
    }

    fn events(&self, _: EventSource) -> Result<Events<'_>, FabricError> {
        Ok(Events {
            descriptors: Vec::new(),
            ports_down: self.network().down(self.side),
        })
    }
}

impl Multicast for Virtual {
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>> {
        Vec::new()
    }

    fn join(&self, _: RailId, _: GroupId, _: u32) -> Result<Box<dyn Group>, MulticastError> {
        unreachable!("no rail carries groups")
    }
}

/// The time of the network.
#[derive(Debug)]
pub struct VirtualClock(pub Arc<Virtual>);

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.0.began + self.0.network().now
    }
}
