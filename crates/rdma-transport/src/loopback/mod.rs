//! Loopback rails: the transport of a machine without RDMA.
//!
//! All ranks are processes of one host (or fabrics of one process, in tests). An operation is
//! carried out by the process that posts it:
//!
//! * memory in a **shared object** is mapped when it is imported, so a put is a copy, a
//!   notification a store, and a remote atomic a CPU instruction ([`AtomicScope::Global`]);
//! * **private** memory is reached by cross-memory attach (`process_vm_writev`), where the kernel
//!   allows it ([`Attributes::private_memory`]); notification words and atomics are refused
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
//! Modules: `rails` (which there are), `transport` (the calls), `peer` (peers, their mappings and
//! lanes), `keys` (the shared table that keys are checked in), `lanes` (lanes ended and
//! begun anew), `faults` (what may befall a modelled rail), `operation` (the copies, and the one
//! place every operation passes), `model` (latency and bandwidth), `flight` (an operation
//! on its way there), `late` (those that a network holds back), `carrier` (the thread that carries
//! modelled operations out), `multicast` (groups), `wire` (what peers exchange).
//!
//! [`AtomicScope::Global`]: ferrorail_fabric::AtomicScope::Global
//! [`Attributes::private_memory`]: ferrorail_fabric::Attributes::private_memory

mod carrier;
mod faults;
mod flight;
mod keys;
mod lanes;
mod late;
mod model;
mod multicast;
mod operation;
mod peer;
mod rails;
mod refusals;
mod transport;
mod wire;

use ferrorail_base::config::{Settings, ShmKind};
use ferrorail_base::sync::{AtomicBool, Mutex};
use ferrorail_base::{PeerId, ProcessId};
use ferrorail_fabric::{AtomicScope, Attributes, Breakage, FabricError, LaneId};
use ferrorail_shm::{Cma, Segment, cma_allow};
use keys::{KeyTable, TABLE_BYTES};
use model::Model;
use operation::Refusal;
use peer::{Mappings, Peer};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
pub use transport::connection;
use wire::ProcessImage;

/// One process's attachment to its loopback rails. See the [module documentation](self).
#[derive(Debug)]
pub struct LoopbackTransport {
    core: Arc<Core>,
    carrier: Option<JoinHandle<()>>,
}

/// What the fabric shares with the thread of its model.
#[derive(Debug)]
struct Core {
    process: ProcessId,
    image: ProcessImage,
    shm: ShmKind,
    attributes: Attributes,
    keys: KeyTable,
    peers: boxcar::Vec<Peer>,
    index: Mutex<HashMap<ProcessId, PeerId>>,
    mappings: Mappings,
    model: Option<Model>,
}

impl LoopbackTransport {
    /// Opens the rails that `settings` ask for.
    ///
    /// # Errors
    /// [`FabricError::NoRails`] if `FERRORAIL_RAILS` names none that exists;
    /// [`FabricError::SetUp`] if the kernel refuses a shared page or a thread.
    pub fn open(settings: &Settings) -> Result<Self, FabricError> {
        Self::open_as(ferrorail_shm::process_id(), settings)
    }

    /// [`LoopbackTransport::open`] under another identity, so that several fabrics of one process can
    /// be peers of each other.
    ///
    /// # Errors
    /// As [`LoopbackTransport::open`].
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
        let model = Model::new(settings, &rails)?;
        let core = Arc::new(Core {
            process,
            image,
            shm: settings.shm,
            attributes: Attributes {
                name: "loopback",
                atomics: AtomicScope::Global,
                same_host_only: true,
                inline_bytes_max: usize::MAX,
                private_memory: AtomicBool::new(attach),
                immediate: model.is_none(),
                address: Vec::new(),
                rails,
                refused,
            },
            model,
            keys,
            peers: boxcar::Vec::new(),
            index: Mutex::default(),
            mappings: Mappings::default(),
        });
        let carrier = carrier::start(&core)?;
        Ok(Self { core, carrier })
    }
}

impl Drop for LoopbackTransport {
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

impl Core {
    /// The error of an operation that was refused when it was posted.
    #[cold]
    fn refused(&self, lane: LaneId, refusal: &Refusal) -> FabricError {
        self.broken(lane, self.breakage(lane.peer, refusal.to_string(), Some(0)))
    }

    /// What breaks a lane to `peer`: the rail, or operation `refused` if that was wrong.
    #[cold]
    fn breakage(&self, peer: PeerId, status: String, refused: Option<u64>) -> Breakage {
        let known = self.peers.get(peer.index());
        let pid = |known: &Peer| known.link().map_or(known.process.pid, |link| link.pid);
        Breakage {
            status,
            refused,
            peer: known.map_or_else(
                || format!("peer {peer}"),
                |known| format!("process {}", pid(known)),
            ),
        }
    }

    /// The error of a lane that broke.
    #[cold]
    fn broken(&self, lane: LaneId, breakage: Breakage) -> FabricError {
        breakage.error(lane, &self.rail_name(lane.rail.index()))
    }

    fn rail_name(&self, rail: usize) -> String {
        let info = self.attributes.rails.get(rail);
        info.map_or_else(|| rail.to_string(), |info| info.name.clone())
    }
}
