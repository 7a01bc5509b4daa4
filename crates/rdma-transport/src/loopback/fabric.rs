//! What the loopback rails do for each call of [`Fabric`].

use super::keys::{self, Key, PeerKeys};
use super::operation::{Refusal, execute, resolve};
use super::peer::{Failure, Link, Peer};
use super::refusals::FAULT;
use super::wire::{Address, Description, Object};
use super::{LoopbackFabric, broken, refused, set_up};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Ordering, fence};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    AtomicScope, Capabilities, Connections, Fabric, FabricError, LocalRegion, Op, RAILS_MAX,
    RailCounters, RailInfo, RemoteRegion, SharedBacking, Ticket, Tracking,
};
use ferrorail_shm::{Cma, Segment, SegmentHandle};
use std::io;
use std::sync::PoisonError;

impl Fabric for LoopbackFabric {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn rails(&self) -> &[RailInfo] {
        &self.core.rails
    }

    fn refused(&self) -> &[String] {
        &self.refused
    }

    /// `private_memory` turns false for good when connecting finds a peer that cross-memory attach
    /// does not reach, e.g. in another container.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomics: AtomicScope::Global,
            private_memory: self.core.private_memory.load(Ordering::Relaxed),
            same_host_only: true,
            inline_bytes_max: usize::MAX,
        }
    }

    fn counters(&self, rail: RailId) -> RailCounters {
        let mut counters = RailCounters::default();
        for (_, peer) in self.core.peers.iter() {
            if let Some(lane) = peer.lanes.get(rail.index()) {
                counters.messages += lane.posted.load(Ordering::Relaxed);
                counters.bytes += lane.bytes.load(Ordering::Relaxed);
            }
        }
        counters
    }

    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        let core = &*self.core;
        let failed = |verb, source| FabricError::RegisterMemory {
            verb,
            bytes,
            source,
        };
        let object = backing
            .map(|backing| identify(backing, bytes))
            .transpose()
            .map_err(|error| failed("identifying the shared object", error))?;
        let range = MemoryRange::new(address, bytes);
        if let Some(model) = &core.model
            && model.refuses(bytes, backing.is_none())
        {
            return Err(failed("registering memory", io::Error::other(FAULT)));
        }
        if (0..core.rails.len()).all(|rail| core.is_gone(rail)) {
            let gone = io::Error::from_raw_os_error(libc::ENODEV);
            return Err(failed("registering memory", gone));
        }
        let key = core.keys.publish(range).ok_or_else(|| {
            if let Some(model) = &core.model {
                model.give_back(bytes);
            }
            let full = format!("{} regions are registered already", keys::REGIONS_MAX);
            failed("registering memory", io::Error::other(full))
        })?;
        if let Some(object) = object {
            let mut objects = core.objects.lock().unwrap_or_else(PoisonError::into_inner);
            objects.insert(key.handle(), object);
        }
        let mut rkeys = [0; RAILS_MAX];
        for (index, rail) in core.rails.iter().enumerate() {
            if !core.is_gone(index) {
                // By plane, which is what both sides have in common.
                rkeys[usize::from(rail.plane)] = key.on(rail.plane);
            }
        }
        Ok(LocalRegion {
            range,
            lkeys: rkeys,
            rkeys,
            backing,
            handle: key.handle(),
        })
    }

    fn deregister(&self, region: LocalRegion) {
        let core = &*self.core;
        core.keys.revoke(Key::from_handle(region.handle));
        if let Some(model) = &core.model {
            model.forget_region(&region);
            model.give_back(region.range.bytes);
        }
        let mut objects = core.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&region.handle);
    }

    fn describe(&self, region: &LocalRegion) -> Vec<u8> {
        let core = &*self.core;
        let objects = core.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let description = Description {
            region: RemoteRegion::of(region),
            image: core.image,
            object: objects.get(&region.handle).copied(),
        };
        description.to_wire()
    }

    fn import(&self, peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        let core = &*self.core;
        let refuse = |refusal| refused(core, peer, RailId(0), refusal);
        let peer = core.peer(peer).map_err(refuse)?;
        let what = "description of a loopback region";
        let description =
            Description::from_wire(description).ok_or(FabricError::BadPeerData { what })?;
        let mut region = description.region;
        if description.image == core.image {
            region.mapping = region.address as usize;
        } else if let Some(object) = &description.object {
            let segment = core.mappings.map(object)?;
            peer.import(&mut region, segment, object.backing.offset);
        } else if peer.link().is_some_and(|link| link.attach.is_none()) {
            return Err(refuse(Refusal::NoAttach));
        }
        Ok(region)
    }

    fn release(&self, peer: PeerId, region: RemoteRegion) {
        if let Ok(peer) = self.core.peer(peer) {
            peer.release(&region);
        }
    }

    fn open_peer(&self, process: ProcessId) -> Result<PeerId, FabricError> {
        let core = &*self.core;
        if process.host != core.process.host {
            let hint = "loopback rails reach processes of this host only; FERRORAIL_FABRIC=verbs";
            return Err(set_up("opening a peer", "a process of another host", hint));
        }
        let mut index = core.index.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = index
            .entry(process)
            .or_insert_with(|| PeerId(core.peers.push(Peer::new(process)) as u32));
        Ok(*peer)
    }

    fn address_for(&self, peer: PeerId) -> Result<Vec<u8>, FabricError> {
        let core = &*self.core;
        let address = Address {
            process: core.process,
            image: core.image,
            gate: peer.0,
            probe: core.keys.probe(),
            generations: core.generations(peer),
            keys: core.keys.handle().to_wire(),
        };
        Ok(address.to_wire())
    }

    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<(), FabricError> {
        let core = &*self.core;
        let id = peer;
        let peer = core
            .peer(id)
            .map_err(|refusal| refused(core, id, RailId(0), refusal))?;
        let unusable = || FabricError::BadPeerData {
            what: "address of a loopback process",
        };
        let address = Address::from_wire(address)
            .filter(|address| address.process == peer.process)
            .ok_or_else(unusable)?;
        if let Some(link) = peer.link() {
            let second = || FabricError::BadPeerData {
                what: "second address of one rail",
            };
            let same = link.generations == address.generations;
            return same.then_some(()).ok_or_else(second);
        }
        let handle = SegmentHandle::from_wire(&address.keys).ok_or_else(unusable)?;
        let pid = address.image.pid;
        let mut segment = Segment::attach(&handle).map_err(|error| {
            let object = format!("process {pid}");
            set_up("mapping the table of keys", &object, error)
        })?;
        segment.close();
        let same_process = address.image == core.image;
        let (at, value) = address.probe;
        let wanted = !same_process && core.private_memory.load(Ordering::Relaxed);
        let named = wanted.then(|| Cma::named(pid)).flatten();
        let attach = named.filter(|process| process.reads(at, value));
        if !same_process && attach.is_none() {
            core.private_memory.store(false, Ordering::Relaxed);
        }
        self.connect_lanes(id, &address.generations)?;
        peer.connect(Link {
            pid,
            same_process,
            attach,
            keys: PeerKeys::new(segment).ok_or_else(unusable)?,
            gate: PeerId(address.gate),
            generations: address.generations,
        });
        Ok(())
    }

    fn connections(&self) -> Connections {
        let linked = |(_, peer): &(usize, &Peer)| peer.link().is_some();
        let peers = self.core.peers.iter().filter(linked).count() as u64;
        connection().times(peers)
    }

    #[inline]
    unsafe fn post(
        &self,
        peer_id: PeerId,
        rail: RailId,
        op: &Op<'_>,
        _tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        let core = &*self.core;
        let refuse = |refusal| refused(core, peer_id, rail, refusal);
        let peer = core.peer(peer_id).map_err(refuse)?;
        let info = core.rails.get(rail.index());
        let plane = info.ok_or_else(|| refuse(Refusal::Unknown("rail")))?.plane;
        let lane = &peer.lanes[rail.index()];
        let operation = match resolve(op, plane) {
            Err(refusal @ Refusal::NoKey) if core.model.is_some() => {
                let failure = Failure::of_path(refusal.to_string());
                lane.fail(failure.clone());
                return Err(broken(core, peer_id, rail.index(), failure));
            }
            other => other.map_err(refuse)?,
        };
        let sequence = match &core.model {
            None => {
                // SAFETY: the caller's promise.
                unsafe { execute(&operation, peer, plane) }.map_err(refuse)?;
                lane.count(operation.local.bytes)
            }
            Some(model) => {
                let region = op.local.region.handle;
                model.post(core, (peer_id, rail), lane, (region, operation))?
            }
        };
        Ok(Ticket {
            peer: peer_id,
            rail,
            sequence,
        })
    }

    #[inline]
    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        let core = &*self.core;
        let refuse = |refusal| refused(core, ticket.peer, ticket.rail, refusal);
        let peer = core.peer(ticket.peer).map_err(refuse)?;
        let lane = peer.lanes.get(ticket.rail.index());
        let lane = lane.ok_or_else(|| refuse(Refusal::Unknown("rail")))?;
        // A complete put is visible to everyone, not still in this core's store buffer.
        fence(Ordering::SeqCst);
        match &core.model {
            None => Ok(true),
            Some(model) => model
                .is_complete(lane, ticket.sequence)
                .map_err(|failure| broken(core, ticket.peer, ticket.rail.index(), failure)),
        }
    }

    #[inline]
    fn progress(&self) -> Result<usize, FabricError> {
        match &self.core.model {
            None => Ok(0),
            Some(model) => model.progress(&self.core),
        }
    }
}

/// What a connection takes: an account here, and nothing anywhere else, as all memory is mapped.
pub fn connection() -> Connections {
    Connections {
        peers: 1,
        queue_pairs: 0,
        bytes: size_of::<Peer>() as u64,
    }
}

/// The object behind some memory, as peers will recognise it.
fn identify(backing: SharedBacking, bytes: usize) -> io::Result<Object> {
    let end = backing.offset.checked_add(bytes as u64);
    if end.is_none_or(|end| end > backing.object_bytes) {
        return Err(io::Error::other("the memory does not lie inside it"));
    }
    let status = nix::sys::stat::stat(&*format!("/proc/{}/fd/{}", backing.pid, backing.fd))?;
    Ok(Object {
        backing,
        device: status.st_dev,
        inode: status.st_ino,
    })
}
