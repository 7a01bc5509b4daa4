//! Whether ranks want a team for a communicator, on which they have to agree.

use crate::device;
use crate::nonblocking::helper;
use crate::parked::Purpose;
use crate::reason;
use crate::session::Session;
use ferrorail_base::config::Settings;
use ferrorail_mpi_abi::Comm;
use libc::c_int;

/// Whether a rank wants teams: the least of all ranks' wishes counts.
const OFF: c_int = 0;
const BYPASSED: c_int = 1;
const DEVICES: c_int = 2;
const THREADLESS: c_int = 3;
const WANTED: c_int = 4;

/// The wish of this rank.
pub fn wish(session: &Session, settings: &Settings, purpose: Purpose) -> c_int {
    if !settings.enable {
        OFF
    } else if session.bypass.is_some() {
        BYPASSED
    } else if settings.device_memory && device::memory_possible(session.host()) {
        DEVICES
    } else if purpose == Purpose::Nonblocking
        && let Err(error) = helper::start()
    {
        tracing::debug!("no thread for non-blocking collectives: {error}");
        THREADLESS
    } else {
        WANTED
    }
}

/// Why `comm` gets no team if `wish` is what its ranks agree on.
pub fn unwanted(session: &Session, wish: c_int, comm: Comm) -> Option<&'static str> {
    match wish {
        OFF => Some(reason::SWITCHED_OFF),
        BYPASSED => {
            say_bypassed(session, comm);
            Some(reason::BYPASSED)
        }
        DEVICES => {
            say_devices(session);
            Some(reason::DEVICE_MEMORY)
        }
        THREADLESS => Some(reason::NO_THREAD),
        _ => None,
    }
}

fn say_bypassed(session: &Session, comm: Comm) {
    let host = session.host();
    // Mostly all ranks have it, and then one of them speaks.
    let all = match session.bypass {
        Some(_) => host.predefined().comm_world,
        None => comm,
    };
    if host.comm_rank(all) != Ok(0) {
        return;
    }
    let file = session
        .bypass
        .as_deref()
        .unwrap_or("a library on some rank");
    session.context.warn_once_about("bypass", || {
        format!(
            "collectives and windows are left to the host MPI: {file} answers PMPI_* before \
             libferrorail.so; put it behind in LD_PRELOAD"
        )
    });
}

/// Calls may bring buffers in device memory.
fn say_devices(session: &Session) {
    let host = session.host();
    if host.comm_rank(host.predefined().comm_world) == Ok(0) {
        session.context.warn_once_about("devices", || {
            "a GPU driver is loaded, so buffers may be in device memory: communicators first used \
             from now on are left to the host MPI; if MPI gets no such buffers, set \
             FERRORAIL_DEVICE_MEMORY=none"
                .into()
        });
    }
}
