//! What failover does for each call of [`Fabric`].

use super::Failover;
use super::address::Address;
use super::control_block::{ControlBlock, PEERS};
use super::pair::{Pair, Role, Wired};
use ferrorail_base::sync::Ordering;
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    Capabilities, Connections, Fabric, FabricError, Kind, Lanes, LocalRegion, Op, RailCounters,
    RailInfo, Reach, RemoteRegion, SharedBacking, Ticket, Tracking,
};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError};

impl<F: Lanes> Fabric for Failover<F> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn rails(&self) -> &[RailInfo] {
        self.inner.rails()
    }

    fn refused(&self) -> &[String] {
        self.inner.refused()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn counters(&self, rail: RailId) -> RailCounters {
        let events = &self.events[rail.index()];
        RailCounters {
            failures: events.failures.load(Ordering::Relaxed),
            readmissions: events.readmissions.load(Ordering::Relaxed),
            resent: events.resent.load(Ordering::Relaxed),
            ..self.inner.counters(rail)
        }
    }

    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.inner.register(address, bytes, backing) }
    }

    fn deregister(&self, region: LocalRegion) {
        self.inner.deregister(region);
    }

    fn describe(&self, region: &LocalRegion) -> Vec<u8> {
        self.inner.describe(region)
    }

    fn import(&self, peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        self.inner.import(peer, description)
    }

    fn release(&self, peer: PeerId, region: RemoteRegion) {
        self.inner.release(peer, region);
    }

    fn open_peer(&self, process: ProcessId) -> Result<PeerId, FabricError> {
        let mut control_blocks = self
            .control_blocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let next = self.peers.count();
        if control_blocks.len() == next / PEERS {
            // What follows may be a known peer, which needs no room.
            let mut known = self.peers.iter().map(|(_, pair)| pair);
            if let Some(pair) = known.find(|pair| pair.process == process) {
                return Ok(pair.id);
            }
            // First: the fabric below does not take a peer back.
            control_blocks.push(Arc::new(ControlBlock::open(&self.inner, self.shm)?));
        }
        let peer = self.inner.open_peer(process)?;
        if peer.index() == next {
            let role = Role::between(self.process, process);
            let control_block = control_blocks[next / PEERS].clone();
            self.peers.push(Pair::new(
                peer,
                process,
                role,
                control_block,
                self.detector(),
            ));
        }
        Ok(peer)
    }

    fn address_for(&self, peer: PeerId) -> Result<Vec<u8>, FabricError> {
        let pair = self.pair(peer)?;
        let (control_block, offset_in_block) = pair.peer_entry();
        let inner = self.inner.address_for(peer)?;
        let address = Address {
            planes: self.planes,
            offset_in_block: offset_in_block as u32,
            host: &ferrorail_shm::host_name(),
            fabric: &inner,
            control_block: &self.inner.describe(&control_block.region),
        };
        Ok(address.to_wire())
    }

    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<(), FabricError> {
        let pair = self.pair(peer)?;
        let unusable = FabricError::BadPeerData {
            what: "address of rails with failover",
        };
        let address = Address::from_wire(address).ok_or(unusable)?;
        let mut recovery = pair.recovery();
        if pair.wired.get().is_some() {
            // Lanes may be in later generations than either side knew when the address was written.
            return Ok(());
        }
        pair.host.get_or_init(|| address.host.to_owned());
        self.inner.connect(peer, address.fabric)?;
        let wired = Wired {
            control_block: self.inner.import(peer, address.control_block)?,
            offset_in_block: address.offset_in_block as usize,
        };
        let planes = address.planes & self.planes & self.inner.reach(peer)?.planes;
        let mut up = 0;
        for (index, rail) in self.inner.rails().iter().enumerate() {
            if planes & 1 << rail.plane == 0 {
                continue;
            }
            if !self.inner.is_immediate() {
                pair.journal(index).reserve();
            }
            match self.inner.breakage(self.lane(pair, index)) {
                None => up |= 1 << index,
                Some(broken) => self.begin_down(pair, &mut recovery, index, &broken.status),
            }
        }
        pair.planes.store(planes, Ordering::Release);
        pair.up.store(up, Ordering::Release);
        pair.wired.get_or_init(|| wired);
        Ok(())
    }

    fn connections(&self) -> Connections {
        let wired = |(_, pair): &(usize, &Pair)| pair.wired.get().is_some();
        let peers = self.peers.iter().filter(wired).count() as u64;
        let rails = match self.inner.is_immediate() {
            true => 0,
            false => self.inner.rails().len() as u64,
        };
        let mut all = self.inner.connections();
        all.bytes += peers * super::pair_bytes(rails);
        all
    }

    fn local_address(&self) -> Vec<u8> {
        self.inner.local_address()
    }

    fn could_reach(&self, ends: &[u8]) -> Result<Reach, FabricError> {
        self.inner.could_reach(ends)
    }

    fn reach(&self, peer: PeerId) -> Result<Reach, FabricError> {
        self.inner.reach(peer)
    }

    fn keep_planes(&self, peer: PeerId, planes: u8) -> Result<(), FabricError> {
        let pair = self.pair(peer)?;
        let _connecting = pair.recovery();
        let planes = planes & pair.planes.fetch_and(planes, Ordering::AcqRel);
        for (index, rail) in self.inner.rails().iter().enumerate() {
            if planes & 1 << rail.plane == 0 {
                pair.up.fetch_and(!(1 << index), Ordering::AcqRel);
            }
        }
        if pair.up.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        let kept = |index: &usize| planes & 1 << self.plane(*index) != 0;
        let broken = (0..self.inner.rails().len())
            .filter(kept)
            .find_map(|index| self.inner.breakage(self.lane(pair, index)));
        let reason = broken.map_or_else(|| "no plane is left".into(), |broken| broken.status);
        Err(FabricError::NoRails { reason })
    }

    #[inline]
    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        let pair = self.pair(peer)?;
        if pair.wired.get().is_none() {
            // SAFETY: the caller's contract is the callee's.
            return unsafe { self.inner.post(peer, rail, op, tracking) };
        }
        if let Kind::FetchAdd {
            behind: Some(before),
            ..
        } = op.kind
        {
            // SAFETY: as above.
            return unsafe { self.post_behind(pair, before, op) };
        }
        // SAFETY: as above.
        unsafe { self.post_on_any(pair, rail, op, tracking) }
    }

    fn wake_descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.inner.wake_descriptors()
    }

    fn arm(&self) -> Result<(), FabricError> {
        self.inner.arm()
    }

    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        let pair = self.pair(ticket.peer)?;
        let rail = ticket.rail.index();
        if pair.is_up(rail) || pair.wired.get().is_none() {
            match self.inner.is_complete(ticket) {
                // A reset lane counts what its earlier generations lost as complete.
                Ok(true) if ticket.sequence <= pair.failed_to[rail].load(Ordering::Acquire) => {}
                Err(error) if self.is_broken(ticket.lane(), &error) => {
                    self.mark_down(ticket.lane())
                }
                other => return other,
            }
        }
        self.account(pair, ticket)
    }

    #[inline]
    fn out_of_use(&self, peer: PeerId) -> u8 {
        let pair = self.peers.get(peer.index());
        pair.filter(|pair| pair.wired.get().is_some())
            .map_or(0, |pair| !pair.postable())
    }

    fn check(&self, peer: PeerId) -> Result<(), FabricError> {
        let pair = self.pair(peer)?;
        match pair.unreachable.get().is_some() {
            true => Err(self.unreachable(pair)),
            false => {
                self.keep_alive(pair);
                Ok(())
            }
        }
    }

    fn progress(&self) -> Result<usize, FabricError> {
        let seen = self.drive()?;
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let due = calls.is_multiple_of(self.calls_per_look.load(Ordering::Relaxed));
        if due || self.attention.load(Ordering::Relaxed) > 0 {
            self.look_around();
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(failure) = failure.take() {
                return Err(failure);
            }
        }
        Ok(seen)
    }
}
