//! Fewer ranks than the job has, spread evenly over its virtual nodes: the communicator of those has nodes of
//! its own size.

use super::contender::Contender;
use super::mpi_functions::mpi_functions;
use anyhow::Result;
use ferrorail_mpi_abi::{Comm, Host, Info};
use std::ffi::{CStr, CString};

const NODE_SIZE: &str = "FERRORAIL_NODE_SIZE";
const KEY: &CStr = c"ferrorail_node_size";

mpi_functions! {
    Infos {
        create = "Info_create" (info: *mut Info);
        free = "Info_free" (info: *mut Info);
    }
}

mpi_functions! {
    Keys {
        set = "Comm_set_info" (comm: Comm, info: Info);
    }
}

/// Gives `comm` nodes of `node_size` ranks, as `contenders` see it: those whose nodes are virtual, and
/// have no size in their own settings. Collective.
///
/// # Errors
/// The MPI library's.
pub fn tell(host: &Host, comm: Comm, node_size: usize, contenders: &[Contender]) -> Result<()> {
    if std::env::var_os(NODE_SIZE).is_none() {
        return Ok(());
    }
    let of_host = |name: &str| host.function(&format!("PMPI_{name}"));
    // SAFETY: these are the host's functions.
    let infos = unsafe { Infos::load(host, of_host)? };
    let mut info = Info(0);
    // SAFETY: `info` is live and as large as any handle.
    unsafe { infos.create(&mut info)? };
    let value = CString::new(node_size.to_string())?;
    host.set_info_value(info, KEY, &value)?;
    for contender in contenders {
        let own = contender
            .variant
            .iter()
            .flat_map(|variant| &variant.settings);
        if own.into_iter().any(|(name, _)| name == NODE_SIZE) {
            continue;
        }
        let Some(instance) = &contender.instance else {
            continue;
        };
        let of_library = |name: &str| instance.symbol(&format!("MPI_{name}"));
        // SAFETY: the library has the MPI function of that name there, if any.
        if let Ok(keys) = unsafe { Keys::load(host, of_library) } {
            // SAFETY: both handles are live.
            unsafe { keys.set(comm, info)? };
        }
    }
    // SAFETY: made above, given back once.
    unsafe { infos.free(&mut info) }
}
