//! What the loopback rails do for each call of [`Transport`].

use super::keys::{self, Key, PeerKeys};
use super::operation::{Refusal, execute, resolve};
use super::peer::{Link, Peer};
use super::refusals::FAULT;
use super::wire::{Address, Description, Object};
use super::{LoopbackTransport, set_up};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Ordering, fence};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    Attributes, Connections, EventSource, Events, FabricError, LaneId, LaneState, LocalRegion,
    Memory, Op, RAILS_MAX, RailCounters, Reach, RemoteRegion, SharedBacking, Statistics, Ticket,
    Tracking, Transition, Transport,
};
use ferrorail_shm::{Cma, Segment, SegmentHandle};
use std::io;

impl Transport for LoopbackTransport {
    fn attributes(&self) -> &Attributes {
        &self.core.attributes
    }

    fn statistics(&self) -> Statistics {
        let core = &*self.core;
        let mut rails = vec![RailCounters::default(); core.attributes.rails.len()];
        let mut peers = 0;
        for (_, peer) in core.peers.iter() {
            peers += u64::from(peer.link().is_some());
            for (counters, lane) in rails.iter_mut().zip(&peer.lanes) {
                counters.messages += lane.posted.load(Ordering::Relaxed);
                counters.bytes += lane.bytes.load(Ordering::Relaxed);
            }
        }
        Statistics {
            rails,
            connections: connection().times(peers),
        }
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
        if (0..core.attributes.rails.len()).all(|rail| core.is_gone(rail)) {
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
        let mut rkeys = [0; RAILS_MAX];
        for (index, rail) in core.attributes.rails.iter().enumerate() {
            if !core.is_gone(index) {
                // By plane, which is what both sides have in common.
                rkeys[usize::from(rail.plane)] = key.on(rail.plane);
            }
        }
        let mut region = LocalRegion {
            range,
            lkeys: rkeys,
            rkeys,
            backing,
            handle: key.handle(),
            description: Vec::new(),
        };
        let description = Description {
            region: RemoteRegion::of(&region),
            image: core.image,
            object,
        };
        region.description = description.to_wire();
        Ok(region)
    }

    fn import(&self, peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        let core = &*self.core;
        let refuse = |refusal| core.refused(first_lane(peer), &refusal);
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

    fn release(&self, memory: Memory) {
        let core = &*self.core;
        match memory {
            Memory::Local(region) => {
                core.keys.revoke(Key::from_handle(region.handle));
                if let Some(model) = &core.model {
                    model.forget_region(&region);
                    model.give_back(region.range.bytes);
                }
            }
            Memory::Remote(peer, region) => {
                if let Ok(peer) = core.peer(peer) {
                    peer.release(&region);
                }
            }
        }
    }

    fn open_peer(&self, process: ProcessId) -> Result<(PeerId, Vec<u8>), FabricError> {
        let core = &*self.core;
        if process.host != core.process.host {
            let hint = "loopback rails reach processes of this host only; FERRORAIL_FABRIC=verbs";
            return Err(set_up("opening a peer", "a process of another host", hint));
        }
        let mut index = core.index.lock();
        let peer = *index
            .entry(process)
            .or_insert_with(|| PeerId(core.peers.push(Peer::new(process)) as u32));
        drop(index);
        let address = Address {
            process: core.process,
            image: core.image,
            gate: peer.0,
            probe: core.keys.probe(),
            generations: core.generations(peer),
            keys: core.keys.handle().to_wire(),
        };
        Ok((peer, address.to_wire()))
    }

    fn connect(&self, peer: Option<PeerId>, address: &[u8]) -> Result<Reach, FabricError> {
        let core = &*self.core;
        let reach = Reach {
            planes: core.attributes.planes(),
            refused: Vec::new(),
        };
        let Some(id) = peer else {
            return Ok(reach);
        };
        let peer = core
            .peer(id)
            .map_err(|refusal| core.refused(first_lane(id), &refusal))?;
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
            return same.then_some(reach).ok_or_else(second);
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
        let wanted = !same_process && core.attributes.private_memory.load(Ordering::Relaxed);
        let named = wanted.then(|| Cma::named(pid)).flatten();
        let attach = named.filter(|process| process.reads(at, value));
        if !same_process && attach.is_none() {
            core.attributes
                .private_memory
                .store(false, Ordering::Relaxed);
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
        Ok(reach)
    }

    #[inline]
    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        _tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        let core = &*self.core;
        let id = LaneId { peer, rail };
        let refuse = |refusal| core.refused(id, &refusal);
        let known = core.peer(peer).map_err(refuse)?;
        let info = core.attributes.rails.get(rail.index());
        let plane = info.ok_or_else(|| refuse(Refusal::Unknown("rail")))?.plane;
        let lane = &known.lanes[rail.index()];
        let operation = match resolve(op, plane) {
            Err(refusal @ Refusal::NoKey) if core.model.is_some() => {
                let broken = core.breakage(peer, refusal.to_string(), None);
                lane.breakage.set(broken.clone());
                return Err(core.broken(id, broken));
            }
            other => other.map_err(refuse)?,
        };
        let sequence = match &core.model {
            None => {
                // SAFETY: the caller's promise.
                unsafe { execute(&operation, known, plane) }.map_err(refuse)?;
                lane.count(operation.local.bytes)
            }
            Some(model) => {
                // Who does an operation again, or sends a part of a region, knows its keys only.
                let region = Key::from_handle(op.local.region.lkeys[usize::from(plane)].into());
                model.post(core, id, lane, (region, operation))?
            }
        };
        Ok(Ticket {
            peer,
            rail,
            sequence,
        })
    }

    #[inline]
    fn lane(&self, id: LaneId) -> LaneState {
        let core = &*self.core;
        let Some((lane, _)) = self.known(id) else {
            let status = Refusal::Unknown("peer or rail").to_string();
            return LaneState {
                completed: 0,
                breakage: Some(core.breakage(id.peer, status, Some(0))),
            };
        };
        let completed = match &core.model {
            None => lane.visible(),
            Some(_) => {
                // A complete put is visible to everyone, not still in this core's store buffer.
                fence(Ordering::SeqCst);
                lane.completed.load(Ordering::Acquire)
            }
        };
        LaneState {
            completed,
            breakage: lane.breakage.get(),
        }
    }

    fn change_lane(&self, lane: LaneId, to: Transition) -> Result<u64, FabricError> {
        self.change(lane, to)
    }

    #[inline]
    fn progress(&self) -> Result<usize, FabricError> {
        match &self.core.model {
            None => Ok(0),
            Some(model) => model.progress(&self.core),
        }
    }

    fn events(&self, source: EventSource) -> Result<Events<'_>, FabricError> {
        Ok(Events {
            descriptors: Vec::new(),
            ports_down: match source {
                EventSource::Wake => 0,
                EventSource::Device => self.core.ports_down(),
            },
        })
    }
}

/// What errors that concern no rail of `peer` in particular name.
fn first_lane(peer: PeerId) -> LaneId {
    LaneId {
        peer,
        rail: RailId(0),
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
