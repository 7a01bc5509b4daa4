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
//! Keys and bounds are checked against the owner's registrations, for private memory too, as a
//! device would. Every operation is complete when posted, and a failed one is refused by the post;
//! only with a modelled latency or bandwidth do operations travel, fail in their completion, and
//! break their (peer, rail) like a queue pair. Puts and gets of 8 aligned bytes are single accesses.
//!
//! A peer's death shows where its private memory is used; mapped memory outlives it, so whoever
//! waits must watch its peers ([`ferrorail_shm::is_alive`]).
//!
//! Modules: `rails` (which there are), `fabric` (the calls), `peer` (peers, their mappings and
//! lanes), `keys` (the shared table that keys are checked in), `lanes` (lanes ended and
//! begun anew), `faults` (what may befall a modelled rail), `operation` (the copies, and the one
//! place every operation passes), `model` (latency and bandwidth), `carrier` (the thread that carries
//! modelled operations out), `multicast` (groups), `wire` (what peers exchange).
//!
//! [`AtomicScope::Global`]: ferrorail_fabric::AtomicScope::Global
//! [`Capabilities::private_memory`]: ferrorail_fabric::Capabilities::private_memory

mod carrier;
mod fabric;
mod faults;
mod keys;
mod lanes;
mod late;
mod model;
mod multicast;
mod operation;
mod peer;
mod rails;
mod refusals;
mod wire;

pub use fabric::connection;
use ferrorail_base::config::{Settings, ShmKind};
use ferrorail_base::sync::AtomicBool;
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{FabricError, LaneId, RailInfo};
use ferrorail_shm::{Cma, Segment, cma_allow};
use keys::{KeyTable, TABLE_BYTES};
use model::Model;
use operation::Refusal;
use peer::{Failure, Mappings, Peer};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use wire::{Object, ProcessImage};

/// One process's attachment to its loopback rails. See the [module documentation](self).
#[derive(Debug)]
pub struct LoopbackFabric {
    core: Arc<Core>,
    refused: Vec<String>,
    carrier: Option<JoinHandle<()>>,
}

/// What the fabric shares with the thread of its model.
#[derive(Debug)]
struct Core {
    process: ProcessId,
    image: ProcessImage,
    shm: ShmKind,
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
        let (rails, refused) = rails::choose(settings)?;
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
            shm: settings.shm,
            model: Model::new(settings, &rails)?,
            rails,
            keys,
            objects: Mutex::default(),
            private_memory: AtomicBool::new(attach),
            peers: boxcar::Vec::new(),
            index: Mutex::default(),
            mappings: Mappings::default(),
        });
        let carrier = carrier::start(&core)?;
        Ok(Self {
            core,
            refused,
            carrier,
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
    /// Whether a rail's card was pulled.
    fn is_gone(&self, rail: usize) -> bool {
        self.model.as_ref().is_some_and(|model| model.is_gone(rail))
    }

    #[inline]
    fn peer(&self, peer: PeerId) -> Result<&Peer, Refusal> {
        self.peers.get(peer.index()).ok_or(Refusal::Unknown("peer"))
    }
}

/// Whether this process may use cross-memory attach at all: the call exists and no seccomp profile
/// or Yama mode forbids it. What holds for one peer is found out when connecting to it.
fn attach_allowed(pid: u32, (address, value): (u64, u64)) -> bool {
    cma_allow();
    Cma::named(pid).is_some_and(|process| process.reads(address, value))
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

/// The error of a lane that broke.
#[cold]
fn broken(core: &Core, peer: PeerId, rail: usize, failure: Failure) -> FabricError {
    let process = core.peers.get(peer.index());
    match failure.of_path {
        true => FabricError::LaneDown {
            lane: LaneId {
                peer,
                rail: RailId(rail as u8),
            },
            rail: rail_name(core, rail),
            peer: process.map_or(format!("peer {peer}"), |peer| {
                format!("process {}", peer.process.pid)
            }),
            status: failure.status,
        },
        false => match process {
            Some(peer) => failed(core, peer, rail, failure.status),
            None => refused(core, peer, RailId(rail as u8), Refusal::Unknown("peer")),
        },
    }
}

fn rail_name(core: &Core, rail: usize) -> String {
    let info = core.rails.get(rail);
    info.map_or_else(|| rail.to_string(), |info| info.name.clone())
}
