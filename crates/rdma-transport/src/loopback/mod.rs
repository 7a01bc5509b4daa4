//! Loopback rails: the fabric of a machine without RDMA.
//!
//! All ranks are processes of one host (or fabrics of one process, in tests). An operation is
//! carried out by the process that posts it:
//!
//! * memory in a **shared object** is mapped when it is imported, so a put is a copy, a
//!   notification a store, and a remote atomic a CPU instruction ([`AtomicScope::Global`]);
//! * **private** memory is reached by cross-memory attach (`process_vm_writev`), where the kernel
//!   allows it ([`Capabilities::private_memory`]); notification words and atomics are refused
//!   there. A region that was only announced uses the mapping if it lies inside one;
//! * memory of **this process** is used as it is.
//!
//! Keys are checked as a device would ([`keys`]). Every operation is complete when posted, and a
//! failed one is refused by the post; only with a modelled latency or bandwidth ([`model`]) do
//! operations travel, fail in their completion, and break their (peer, rail) like a queue pair.
//! Puts and gets of 8 aligned bytes are single accesses.
//!
//! * [`rails`]: which rails there are; [`peer`]: peers, their mappings and lanes; [`operation`]:
//!   the copies, and the one place every operation passes; [`wire`]: what peers exchange.

mod keys;
mod model;
mod operation;
mod peer;
mod rails;
mod wire;

use ferrorail_base::config::Settings;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicBool, Ordering, fence};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    AtomicScope, Capabilities, Fabric, FabricError, LocalRegion, LocalSlice, Notification,
    RAILS_MAX, RailCounters, RailInfo, RemoteRegion, RemoteSlice, SharedBacking, Ticket, Tracking,
};
use ferrorail_shm::{Segment, SegmentHandle, cma_allow, cma_probe};
use keys::{Key, KeyTable, PeerKeys, TABLE_BYTES};
use model::Model;
use operation::{Operation, Refusal, Remote, local, local_word};
use peer::{Link, Mappings, Peer};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use wire::{Address, Description, Object, ProcessImage};

/// One process's attachment to its loopback rails. See the [module documentation](self).
#[derive(Debug)]
pub struct LoopbackFabric {
    core: Arc<Core>,
    carrier: Option<JoinHandle<()>>,
}

/// What the fabric shares with the thread of its model.
#[derive(Debug)]
struct Core {
    process: ProcessId,
    image: ProcessImage,
    rails: Vec<RailInfo>,
    keys: KeyTable,
    /// Objects behind registered regions, by handle.
    objects: Mutex<HashMap<u64, Object>>,
    private_memory: AtomicBool,
    peers: boxcar::Vec<Peer>,
    index: Mutex<HashMap<ProcessId, PeerId>>,
    mappings: Mappings,
    model: Option<Model>,
}

impl LoopbackFabric {
    /// Opens the rails that `settings` ask for.
    ///
    /// # Errors
    /// [`FabricError::NoRails`] if `FERRORAIL_RAILS` names none that exists;
    /// [`FabricError::SetUp`] if the kernel refuses a shared page or a thread.
    pub fn open(settings: &Settings) -> Result<Self, FabricError> {
        Self::open_as(ferrorail_shm::process_id(), settings)
    }

    /// [`LoopbackFabric::open`] under another identity, so that several fabrics of one process can
    /// be peers of each other.
    ///
    /// # Errors
    /// As [`LoopbackFabric::open`].
    pub fn open_as(process: ProcessId, settings: &Settings) -> Result<Self, FabricError> {
        let rails = rails::choose(settings)?;
        let segment = Segment::create(settings.shm, TABLE_BYTES)
            .map_err(|error| set_up("creating the table of keys", "this process", error))?;
        // Peers open the descriptor through /proc, so no name need outlive a crash.
        segment.unlink();
        let keys = KeyTable::new(segment, random());
        let image = ProcessImage {
            pid: std::process::id(),
            nonce: process_nonce(),
        };
        let attach = settings.cma && attach_allowed(image.pid, keys.probe());
        let core = Arc::new(Core {
            process,
            image,
            model: Model::new(settings, rails.len()),
            rails,
            keys,
            objects: Mutex::default(),
            private_memory: AtomicBool::new(attach),
            peers: boxcar::Vec::new(),
            index: Mutex::default(),
            mappings: Mappings::default(),
        });
        let carrier = model::start(&core)?;
        Ok(Self { core, carrier })
    }

    /// Posts what `operation` makes of the rail's plane, once peer and rail are known to exist.
    ///
    /// # Safety
    /// As the method of [`Fabric`] that calls it.
    #[inline]
    unsafe fn post(
        &self,
        peer_id: PeerId,
        rail: RailId,
        operation: impl FnOnce(u8) -> Result<Operation, Refusal>,
    ) -> Result<Ticket, FabricError> {
        let core = &*self.core;
        let refuse = |refusal| refused(core, peer_id, rail, refusal);
        let peer = core.peer(peer_id).map_err(refuse)?;
        let info = core.rails.get(rail.index());
        let plane = info.ok_or_else(|| refuse(Refusal::Unknown("rail")))?.plane;
        let lane = &peer.lanes[rail.index()];
        let operation = operation(plane).map_err(refuse)?;
        let sequence = match &core.model {
            None => {
                // SAFETY: the caller's promise.
                unsafe { operation.execute(peer, plane) }.map_err(refuse)?;
                lane.count(operation.bytes())
            }
            Some(model) => model
                .post(lane, peer_id, rail, operation)?
                .map_err(refuse)?,
        };
        Ok(Ticket {
            peer: peer_id,
            rail,
            sequence,
        })
    }
}

impl Drop for LoopbackFabric {
    fn drop(&mut self) {
        if let Some(model) = &self.core.model {
            model.stop();
        }
        if let Some(carrier) = self.carrier.take() {
            // A panic there was reported by the panic hook; there is nothing left to undo.
            let _ = carrier.join();
        }
    }
}

impl Core {
    #[inline]
    fn peer(&self, peer: PeerId) -> Result<&Peer, Refusal> {
        self.peers.get(peer.index()).ok_or(Refusal::Unknown("peer"))
    }
}

impl Fabric for LoopbackFabric {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn rails(&self) -> &[RailInfo] {
        &self.core.rails
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
        let key = core.keys.publish(range).ok_or_else(|| {
            let full = format!("{} regions are registered already", keys::REGIONS_MAX);
            failed("registering memory", io::Error::other(full))
        })?;
        if let Some(object) = object {
            let mut objects = core.objects.lock().unwrap_or_else(PoisonError::into_inner);
            objects.insert(key.handle(), object);
        }
        let mut rkeys = [0; RAILS_MAX];
        for rail in &core.rails {
            // By plane, which is what both sides have in common.
            rkeys[usize::from(rail.plane)] = key.on(rail.plane);
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
        let peer = core
            .peer(peer)
            .map_err(|refusal| refused(core, peer, RailId(0), refusal))?;
        let what = "description of a loopback region";
        let description =
            Description::from_wire(description).ok_or(FabricError::BadPeerData { what })?;
        let mut region = description.region;
        if description.image == core.image {
            region.mapping = region.address as usize;
        } else if let Some(object) = &description.object {
            let segment = core.mappings.map(object)?;
            peer.import(&mut region, segment, object.backing.offset);
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

    fn address_for(&self, _peer: PeerId) -> Result<Vec<u8>, FabricError> {
        let core = &*self.core;
        let address = Address {
            process: core.process,
            image: core.image,
            probe: core.keys.probe(),
            keys: core.keys.handle().to_wire(),
        };
        Ok(address.to_wire())
    }

    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<(), FabricError> {
        let core = &*self.core;
        let peer = core
            .peer(peer)
            .map_err(|refusal| refused(core, peer, RailId(0), refusal))?;
        if peer.link().is_some() {
            return Ok(());
        }
        let unusable = || FabricError::BadPeerData {
            what: "address of a loopback process",
        };
        let address = Address::from_wire(address)
            .filter(|address| address.process == peer.process)
            .ok_or_else(unusable)?;
        let handle = SegmentHandle::from_wire(&address.keys).ok_or_else(unusable)?;
        let pid = address.image.pid;
        let segment = Segment::attach(&handle).map_err(|error| {
            let object = format!("process {pid}");
            set_up("mapping the table of keys", &object, error)
        })?;
        let same_process = address.image == core.image;
        let (at, value) = address.probe;
        let attach = !same_process
            && core.private_memory.load(Ordering::Relaxed)
            && cma_probe(pid, at, value);
        if !same_process && !attach {
            core.private_memory.store(false, Ordering::Relaxed);
        }
        peer.connect(Link {
            pid,
            same_process,
            attach,
            keys: PeerKeys::new(segment).ok_or_else(unusable)?,
        });
        Ok(())
    }

    #[inline]
    unsafe fn put(
        &self,
        peer: PeerId,
        rail: RailId,
        from: LocalSlice<'_>,
        to: RemoteSlice<'_>,
        _tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        let operation = |plane| {
            Ok(Operation::Put {
                from: local(from)?,
                to: Remote::new(to, plane, from.bytes)?,
            })
        };
        // SAFETY: the caller's promise.
        unsafe { self.post(peer, rail, operation) }
    }

    #[inline]
    unsafe fn put_notify(
        &self,
        peer: PeerId,
        rail: RailId,
        from: LocalSlice<'_>,
        to: RemoteSlice<'_>,
        notification: Notification<'_>,
        _tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        let operation = |plane| {
            Ok(Operation::PutNotify {
                from: local(from)?,
                to: Remote::new(to, plane, from.bytes)?,
                word: Remote::new(notification.word, plane, size_of::<u64>())?,
                value: notification.value,
            })
        };
        // SAFETY: the caller's promise.
        unsafe { self.post(peer, rail, operation) }
    }

    unsafe fn get(
        &self,
        peer: PeerId,
        rail: RailId,
        from: RemoteSlice<'_>,
        into: LocalSlice<'_>,
    ) -> Result<Ticket, FabricError> {
        let operation = |plane| {
            Ok(Operation::Get {
                from: Remote::new(from, plane, into.bytes)?,
                into: local(into)?,
            })
        };
        // SAFETY: the caller's promise.
        unsafe { self.post(peer, rail, operation) }
    }

    unsafe fn fetch_add(
        &self,
        peer: PeerId,
        rail: RailId,
        at: RemoteSlice<'_>,
        add: u64,
        into: LocalSlice<'_>,
    ) -> Result<Ticket, FabricError> {
        let operation = |plane| {
            Ok(Operation::FetchAdd {
                at: Remote::new(at, plane, size_of::<u64>())?,
                add,
                into: local_word(into)?,
            })
        };
        // SAFETY: the caller's promise.
        unsafe { self.post(peer, rail, operation) }
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
        let operation = |plane| {
            Ok(Operation::CompareSwap {
                at: Remote::new(at, plane, size_of::<u64>())?,
                compare,
                swap,
                into: local_word(into)?,
            })
        };
        // SAFETY: the caller's promise.
        unsafe { self.post(peer, rail, operation) }
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
                .map_err(|status| failed(core, peer, ticket.rail.index(), status)),
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

/// Whether this process may use cross-memory attach at all: the call exists and no seccomp profile
/// or Yama mode forbids it. What holds for one peer is found out when connecting to it.
fn attach_allowed(pid: u32, (address, value): (u64, u64)) -> bool {
    cma_allow();
    cma_probe(pid, address, value)
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

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn process_nonce() -> u64 {
    static NONCE: OnceLock<u64> = OnceLock::new();
    *NONCE.get_or_init(random)
}

#[cold]
fn set_up(
    verb: &'static str,
    object: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> FabricError {
    FabricError::SetUp {
        verb,
        object: object.into(),
        source: io::Error::other(source),
    }
}

#[cold]
fn refused(core: &Core, peer: PeerId, rail: RailId, refusal: Refusal) -> FabricError {
    match core.peers.get(peer.index()) {
        Some(peer) => failed(core, peer, rail.index(), refusal.to_string()),
        None => FabricError::Completion {
            rail: rail_name(core, rail.index()),
            peer: format!("peer {peer}"),
            status: refusal.to_string(),
        },
    }
}

#[cold]
fn failed(core: &Core, peer: &Peer, rail: usize, status: String) -> FabricError {
    let pid = peer.link().map_or(peer.process.pid, |link| link.pid);
    FabricError::Completion {
        rail: rail_name(core, rail),
        peer: format!("process {pid}"),
        status,
    }
}

fn rail_name(core: &Core, rail: usize) -> String {
    let info = core.rails.get(rail);
    info.map_or_else(|| rail.to_string(), |info| info.name.clone())
}
