//! [`Network`] as a fabric with lanes.

use super::network::{Network, RAILS, What, address, outcome};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Mutex, MutexGuard};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    AtomicScope, Breakage, Capabilities, Fabric, FabricError, Kind, LaneId, Lanes, LocalRegion,
    LocalSlice, Op, RAILS_MAX, RailCounters, RailInfo, RemoteRegion, RemoteSlice, SharedBacking,
    Ticket, Tracking,
};
use std::sync::Arc;
use std::time::Instant;

/// One side's rails.
#[derive(Debug)]
pub struct Virtual {
    side: usize,
    network: Arc<Mutex<Network>>,
    rails: Vec<RailInfo>,
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
            rails: (0..RAILS).map(rail).collect(),
            began: Instant::now(),
        }
    }

    fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap()
    }
}

fn here(slice: &LocalSlice<'_>) -> usize {
    address(slice.region.range, slice.offset)
}

fn there(slice: &RemoteSlice<'_>) -> usize {
    slice.region.address as usize + slice.offset
}

impl Fabric for Virtual {
    fn name(&self) -> &'static str {
        "virtual"
    }

    fn rails(&self) -> &[RailInfo] {
        &self.rails
    }

    fn refused(&self) -> &[String] {
        &[]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomics: AtomicScope::Global,
            private_memory: true,
            same_host_only: false,
            inline_bytes_max: 0,
        }
    }

    fn counters(&self, _: RailId) -> RailCounters {
        RailCounters::default()
    }

    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        Ok(LocalRegion {
            range: MemoryRange::new(address, bytes),
            lkeys: [0; RAILS_MAX],
            rkeys: [0; RAILS_MAX],
            backing,
            handle: 0,
        })
    }

    fn deregister(&self, _: LocalRegion) {}

    fn describe(&self, region: &LocalRegion) -> Vec<u8> {
        RemoteRegion::of(region).to_wire().to_vec()
    }

    fn import(&self, _: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        Ok(RemoteRegion::from_wire(description.try_into().unwrap()))
    }

    fn release(&self, _: PeerId, _: RemoteRegion) {}

    fn open_peer(&self, _: ProcessId) -> Result<PeerId, FabricError> {
        Ok(PeerId(0))
    }

    fn address_for(&self, _: PeerId) -> Result<Vec<u8>, FabricError> {
        Ok(Vec::new())
    }

    fn connect(&self, _: PeerId, _: &[u8]) -> Result<(), FabricError> {
        let mut network = self.network();
        for rail in 0..RAILS {
            let other = network.lanes[1 - self.side][rail].number;
            network.reconnect(self.side, rail, other);
        }
        Ok(())
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

    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        let rail = ticket.rail.index();
        let network = self.network();
        outcome(&network.lanes[self.side][rail], rail, ticket.sequence)
    }

    fn progress(&self) -> Result<usize, FabricError> {
        match self.network().failures[self.side].pop() {
            Some(failure) => Err(failure),
            None => Ok(0),
        }
    }
}

impl Lanes for Virtual {
    fn is_immediate(&self) -> bool {
        false
    }

    fn completed(&self, lane: LaneId) -> u64 {
        self.network().lanes[self.side][lane.rail.index()].completed
    }

    fn breakage(&self, lane: LaneId) -> Option<Breakage> {
        let failure = self.network().lanes[self.side][lane.rail.index()].failure?;
        Some(Breakage {
            status: failure.into(),
            refused: None,
        })
    }

    fn end_lane(&self, lane: LaneId) {
        self.network().end(self.side, lane.rail.index());
    }

    fn reset_lane(&self, lane: LaneId) -> Result<u64, FabricError> {
        Ok(self.network().reset(self.side, lane.rail.index()))
    }

    fn reconnect_lane(&self, lane: LaneId, token: u64) -> Result<(), FabricError> {
        self.network()
            .reconnect(self.side, lane.rail.index(), token);
        Ok(())
    }

    fn now(&self) -> Instant {
        self.began + self.network().now
    }

    fn ports_down(&self) -> u8 {
        self.network().down(self.side)
    }
}
