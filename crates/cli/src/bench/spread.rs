//! Fewer ranks than the job has, spread evenly over its virtual nodes: the communicator of those has nodes of
//! its own size.

use super::contender::Contender;
use anyhow::{Result, anyhow};
use ferrorail_mpi_abi::{Comm, Host, Info};
use std::ffi::{CStr, CString, c_int};

const NODE_SIZE: &str = "FERRORAIL_NODE_SIZE";
const KEY: &CStr = c"ferrorail_node_size";

/// `MPI_Info_create`, `MPI_Info_free`.
type OnInfo = unsafe extern "C" fn(*mut Info) -> c_int;
/// `MPI_Comm_set_info`.
type SetInfo = unsafe extern "C" fn(Comm, Info) -> c_int;

/// Gives `comm` nodes of `node_size` ranks, as `contenders` see it: those whose nodes are virtual, and
/// have no size in their own settings. Collective.
///
/// # Errors
/// The MPI library's.
pub fn tell(host: &Host, comm: Comm, node_size: usize, contenders: &[Contender]) -> Result<()> {
    if std::env::var_os(NODE_SIZE).is_none() {
        return Ok(());
    }
    let find = |name: &str| -> Result<OnInfo> {
        let address = host.function(name);
        let address = address.ok_or_else(|| anyhow!("the MPI library has no {name}"))?;
        // SAFETY: the standard defines this prototype for these names.
        Ok(unsafe { std::mem::transmute::<*mut std::ffi::c_void, OnInfo>(address.as_ptr()) })
    };
    let (create, free) = (find("PMPI_Info_create")?, find("PMPI_Info_free")?);
    let mut info = Info(0);
    // SAFETY: `info` is live and as large as any handle.
    host.check("MPI_Info_create", unsafe { create(&mut info) })?;
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
        let instance = contender.instance.as_ref();
        let Some(address) = instance.and_then(|instance| instance.symbol("MPI_Comm_set_info"))
        else {
            continue;
        };
        // SAFETY: the library has the MPI function of that name there, and both handles are live.
        let code = unsafe {
            let set = std::mem::transmute::<*mut std::ffi::c_void, SetInfo>(address.as_ptr());
            set(comm, info)
        };
        host.check("MPI_Comm_set_info", code)?;
    }
    // SAFETY: made above, given back once.
    host.check("MPI_Info_free", unsafe { free(&mut info) })?;
    Ok(())
}
