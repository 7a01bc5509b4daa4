//! What ferrorail has of MPI between `MPI_Init` and `MPI_Finalize`.

use crate::presence::World;
use crate::progress::Progress;
use crate::runtime::Runtime;
use ferrorail_engine::Context;
use ferrorail_mpi_abi::{Comm, DatatypeTable, Host};
use libc::c_int;
use std::sync::Arc;

/// What exists from the first wrapped call after `MPI_Init` until `MPI_Finalize`.
pub struct Session {
    /// The host and settings.
    pub runtime: &'static Runtime,
    /// The engine's share.
    pub context: Arc<Context>,
    /// A private communicator of this process alone, which returns errors.
    pub self_comm: Comm,
    /// Keeps the host going while a rank waits in here.
    pub progress: Progress,
    /// The ranks of the world.
    pub world: World,
    /// Key of the entries that communicators carry.
    pub comm_key: c_int,
    /// Key of the settings that communicators carry.
    pub settings_key: c_int,
    /// Key of the facts that datatypes carry.
    pub type_key: c_int,
    /// The file that answers calls of `PMPI_*` in ferrorail's place, if there is one: a tool in front
    /// would then call past ferrorail.
    pub bypass: Option<String>,
    /// Sizes of predefined datatypes.
    pub datatypes: DatatypeTable,
}

impl Session {
    /// The MPI library.
    #[inline]
    pub fn host(&self) -> &'static Host {
        &self.runtime.host
    }
}
