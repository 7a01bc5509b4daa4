//! [`Network`] as a fabric with lanes.

use super::network::{Network, RAILS, What, address, outcome};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Mutex, MutexGuard};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    AtomicScope, Breakage, Capabilities, Fabric, FabricError, LaneId, Lanes, LocalRegion,
    LocalSlice, Notification, RAILS_MAX, RailCounters, RailInfo, RemoteRegion, RemoteSlice,
    SharedBacking, Ticket, Tracking,
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

    fn post(&self, peer: PeerId, rail: RailId, what: What) -> Result<Ticket, FabricError> {
        let sequence = self.network().post(self.side, rail, what)?;
        Ok(Ticket {
            peer,
            rail,
            sequence,
        })
    }
}

fn here(slice: &LocalSlice<'_>) -> usize {
    address(slice.region.range, slice.offset)
}

fn there(slice: &RemoteSlice<'_>) -> usize {
    slice.region.address as usize + slice.offset
}

fn put(from: &LocalSlice<'_>, to: &RemoteSlice<'_>, flag: Option<(usize, u64)>) -> What {
    What::Put {
        from: here(from),
        to: there(to),
        bytes: from.bytes,
        flag,
    }
}

fn atomic(
    at: &RemoteSlice<'_>,
    (compare, value): (Option<u64>, u64),
    into: &LocalSlice<'_>,
) -> What {
    What::Atomic {
        at: there(at),
        compare,
        value,
        into: here(into),
    }
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

    unsafe fn put(
        &self,
        peer: PeerId,
        rail: RailId,
        from: LocalSlice<'_>,
        to: RemoteSlice<'_>,
        _: Tracking,
    ) -> Result<Ticket, FabricError> {
        self.post(peer, rail, put(&from, &to, None))
    }

    unsafe fn put_notify(
        &self,
        peer: PeerId,
        rail: RailId,
        from: LocalSlice<'_>,
        to: RemoteSlice<'_>,
        notification: Notification<'_>,
        _: Tracking,
    ) -> Result<Ticket, FabricError> {
        let flag = (there(&notification.word), notification.value);
        self.post(peer, rail, put(&from, &to, Some(flag)))
    }

    unsafe fn get(
        &self,
        peer: PeerId,
        rail: RailId,
        from: RemoteSlice<'_>,
        into: LocalSlice<'_>,
    ) -> Result<Ticket, FabricError> {
        let what = What::Get {
            from: there(&from),
            into: here(&into),
            bytes: into.bytes,
        };
        self.post(peer, rail, what)
    }

    unsafe fn fetch_add(
        &self,
        peer: PeerId,
        rail: RailId,
        at: RemoteSlice<'_>,
        add: u64,
        into: LocalSlice<'_>,
    ) -> Result<Ticket, FabricError> {
        self.post(peer, rail, atomic(&at, (None, add), &into))
    }

    unsafe fn fetch_add_behind(
        &self,
        _: Ticket,
        _: RemoteSlice<'_>,
        _: u64,
        _: LocalSlice<'_>,
    ) -> Result<Option<Ticket>, FabricError> {
        Ok(None)
    }

    unsafe fn compare_swap(
        &self,
        peer: PeerId,
        rail: RailId,
        at: RemoteSlice<'_>,
        compare: u64,
        swap: u64,
        into: LocalSlice<'_>,
    ) -> Result<Ticket, FabricError> {
        self.post(peer, rail, atomic(&at, (Some(compare), swap), &into))
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
