//! What failover does for each call of [`Endpoint`], and how it connects.

use super::Failover;
use super::address::Address;
use super::control_block::{ControlBlock, PEERS};
use super::pair::{LaneState, Pair, Phase, Role, Wired};
use ferrorail_base::sync::Ordering;
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    Attributes, Endpoint, EventSource, FabricError, Kind, LocalRegion, Memory, Multicast, Op,
    Reach, RemoteRegion, SharedBacking, Statistics, Ticket, Tracking,
};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

impl Failover {
    /// What the rails are.
    pub fn attributes(&self) -> &Attributes {
        self.inner.attributes()
    }

    /// Groups, which have no failover: who uses them expects losses. Each rail carries its own.
    pub fn groups(&self) -> Arc<dyn Multicast> {
        self.inner.clone()
    }

    /// Traffic, failures and connections so far.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.inner.statistics();
        for (counters, events) in statistics.rails.iter_mut().zip(&self.events) {
            counters.failures = events.failures.load(Ordering::Relaxed);
            counters.readmissions = events.readmissions.load(Ordering::Relaxed);
            counters.resent = events.resent.load(Ordering::Relaxed);
        }
        let wired = |(_, pair): &(usize, &Pair)| pair.wired.get().is_some();
        let peers = self.peers.iter().filter(wired).count() as u64;
        let rails = match self.immediate {
            true => 0,
            false => self.rails().len() as u64,
        };
        statistics.connections.bytes += peers * super::pair_bytes(rails);
        statistics
    }

    /// The region of `peer` with that [`LocalRegion::description`].
    ///
    /// # Errors
    /// As [`ferrorail_fabric::Transport::import`].
    pub fn import(&self, peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        self.inner.import(peer, description)
    }

    /// The entry of `process` in the peer table, made if need be, and what it needs to connect to this
    /// process.
    ///
    /// # Errors
    /// As [`ferrorail_fabric::Transport::open_peer`].
    pub fn open_peer(&self, process: ProcessId) -> Result<(PeerId, Vec<u8>), FabricError> {
        let mut control_blocks = self.control_blocks.lock();
        let mut known = self.peers.iter().map(|(_, pair)| pair);
        let next = self.peers.count();
        let (peer, inner) = if known.any(|pair| pair.process == process) {
            // The answer may have to wait for a lane that is being connected anew.
            drop(control_blocks);
            self.inner.open_peer(process)?
        } else {
            if control_blocks.len() == next / PEERS {
                // First: the transport below does not take a peer back.
                control_blocks.push(Arc::new(ControlBlock::open(self.inner(), self.shm)?));
            }
            let (peer, inner) = self.inner.open_peer(process)?;
            let role = Role::between(self.process, process);
            let control_block = control_blocks[next / PEERS].clone();
            let detector = self.detector();
            self.peers
                .push(Pair::new(peer, process, role, control_block, detector));
            (peer, inner)
        };
        let (control_block, offset_in_block) = self.pair(peer)?.peer_entry();
        let address = Address {
            planes: self.planes,
            offset_in_block: offset_in_block as u32,
            host: &ferrorail_shm::host_name(),
            fabric: &inner,
            control_block: &control_block.region.description,
        };
        Ok((peer, address.to_wire()))
    }

    /// What connecting to the process with these [`Attributes::address`] would come to, as far as this
    /// side can tell.
    ///
    /// # Errors
    /// [`FabricError::BadPeerData`] if it is no address of such rails.
    pub fn could_reach(&self, address: &[u8]) -> Result<Reach, FabricError> {
        self.inner.connect(None, address)
    }

    /// Connects to `peer` with the address that it made for this process; what that came to. Idempotent.
    ///
    /// # Errors
    /// As [`ferrorail_fabric::Transport::connect`]; [`FabricError::Unreachable`] if all lanes of a connected peer have
    /// failed, which none can bring back.
    pub fn connect(&self, peer: PeerId, address: &[u8]) -> Result<Reach, FabricError> {
        let pair = self.pair(peer)?;
        let unusable = FabricError::BadPeerData {
            what: "address of rails with failover",
        };
        let address = Address::from_wire(address).ok_or(unusable)?;
        let mut recovery = pair.recovery.lock();
        if let Some(wired) = pair.wired.get() {
            // Lanes may be in later generations than either side knew when the address was written.
            return match pair.unreachable.get() {
                Some(_) => Err(self.unreachable(pair)),
                None => Ok(wired.reach.clone()),
            };
        }
        pair.host.get_or_init(|| address.host.to_owned());
        let reach = self.inner.connect(Some(peer), address.fabric)?;
        let wired = Wired {
            control_block: self.inner.import(peer, address.control_block)?,
            offset_in_block: address.offset_in_block as usize,
            reach: reach.clone(),
        };
        let planes = address.planes & self.planes & reach.planes;
        let mut up = 0;
        for (index, rail) in self.rails().iter().enumerate() {
            if planes & 1 << rail.plane == 0 {
                continue;
            }
            if !self.immediate {
                pair.journals[index].lock().reserve();
            }
            match self.breakage(self.lane(pair, index)) {
                None => up |= 1 << index,
                Some(broken) => self.begin_down(pair, &mut recovery, index, &broken.status),
            }
        }
        pair.planes.store(planes, Ordering::Release);
        pair.up.store(up, Ordering::Release);
        pair.wired.get_or_init(|| wired);
        Ok(reach)
    }

    /// Uses no other planes than `planes` to `peer`, because the peer reaches this process over
    /// those. Before the first operation to it.
    ///
    /// # Errors
    /// [`FabricError::BadPeerData`] if there is no such peer.
    pub fn keep_planes(&self, peer: PeerId, planes: u8) -> Result<(), FabricError> {
        let pair = self.pair(peer)?;
        let _connecting = pair.recovery.lock();
        let planes = planes & pair.planes.fetch_and(planes, Ordering::AcqRel);
        for (index, rail) in self.rails().iter().enumerate() {
            if planes & 1 << rail.plane == 0 {
                pair.up.fetch_and(!(1 << index), Ordering::AcqRel);
            }
        }
        if pair.up.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        let kept = |index: &usize| planes & 1 << self.plane(*index) != 0;
        let broken = (0..self.rails().len())
            .filter(kept)
            .find_map(|index| self.breakage(self.lane(pair, index)));
        let reason = broken.map_or_else(|| "no plane is left".into(), |broken| broken.status);
        Err(FabricError::NoRails { reason })
    }
}

impl Endpoint for Failover {
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
        self.inner.release(Memory::Local(region));
    }

    fn abandon(&self, region: LocalRegion) {
        for (_, pair) in self.peers.iter() {
            // Operations change between journal and account under this lock.
            let mut recovery = pair.recovery.lock();
            for (rail, lane) in (0..self.rails().len()).zip(&mut recovery.lanes) {
                pair.journals[rail].lock().abandon(&region);
                if let Phase::Failed(owed) = &mut lane.phase {
                    owed.pending.retain(|entry| !entry.uses(&region));
                }
            }
        }
        self.deregister(region);
    }

    fn release(&self, peer: PeerId, region: RemoteRegion) {
        self.inner.release(Memory::Remote(peer, region));
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

    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        let pair = self.pair(ticket.peer)?;
        if pair.wired.get().is_none() {
            // Nothing takes over before the peer is connected.
            return ticket.outcome(self.inner());
        }
        let rail = ticket.rail.index();
        if pair.is_up(rail) {
            match self.inner.lane(ticket.lane()).outcome(ticket.sequence) {
                // A reset lane counts what its earlier generations lost as complete.
                Ok(true) if ticket.sequence <= pair.failed_to[rail].load(Ordering::Acquire) => {}
                Ok(complete) => return Ok(complete),
                Err(_) => self.mark_down(ticket.lane()),
            }
        }
        self.account(pair, ticket)
    }

    #[inline]
    fn out_of_use(&self, peer: PeerId) -> u8 {
        let pair = self.peers.get(peer.index());
        pair.filter(|pair| pair.wired.get().is_some())
            .map_or(0, |pair| self.all_rails & !pair.postable())
    }

    fn check(&self, peer: PeerId) -> Result<(), FabricError> {
        let pair = self.pair(peer)?;
        match pair.unreachable.get().is_some() {
            true => Err(self.unreachable(pair)),
            false => {
                self.keep_alive(pair);
                self.untracked(peer)
            }
        }
    }

    fn owes(&self, peer: PeerId) -> bool {
        let owes = |state: &LaneState| matches!(state.phase, Phase::Failed(_));
        self.pair(peer).is_ok_and(|pair| {
            // Who brings lanes back may hold it for seconds, and knows what they owe.
            let recovery = pair.recovery.try_lock();
            recovery.is_none_or(|recovery| recovery.lanes.iter().any(owes))
        })
    }

    fn untracked(&self, peer: PeerId) -> Result<(), FabricError> {
        let lost = self.pair(peer)?.lost.lock().take();
        lost.map_or(Ok(()), Err)
    }

    fn progress(&self) -> Result<usize, FabricError> {
        let seen = self.drive()?;
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let due = calls.is_multiple_of(self.calls_per_look.load(Ordering::Relaxed));
        if due || self.attention.load(Ordering::Relaxed) > 0 {
            self.look_around();
            if let Some(failure) = self.device_failure.lock().take() {
                return Err(failure);
            }
        }
        Ok(seen)
    }

    fn wake_events(&self) -> Result<Vec<BorrowedFd<'_>>, FabricError> {
        Ok(self.inner.events(EventSource::Wake)?.descriptors)
    }
}
