//! The host's window behind a window of ours: the handle on which a program hangs things.
//!
//! Open MPI 4.1 names the shared memory of most windows by the number of their communicator, which
//! communicators without a common process may share, as the parts of a split do. Windows that such
//! parts make at the same time take each other's memory away, and fail. Windows that *share* memory
//! are named by a process as well, so they serve on one host; elsewhere, and where the program chose a
//! component that cannot make those (`osc=ucx`), a window that fails is tried again from communicators
//! whose numbers differ.
//!
//! Some hosts make no window across hosts at all: Open MPI 4.1 over TCP. There the handle is that of a window of this rank
//! alone, and ferrorail itself answers for the group.

use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_mpi_abi::{AbiKind, BareWindow, Comm, Host, Info, MpiError, Win};
use libc::c_int;

/// How often a window is tried for.
const ATTEMPTS: u32 = 8;

/// Bits of a rank that an attempt looks at.
const DIGIT: u32 = 2;

/// Whether the host has failed to make a window of ranks on several hosts before.
static MAKES_NONE: AtomicBool = AtomicBool::new(false);

/// What stands for a window of ferrorail's.
pub(super) struct Made {
    /// The host's handle.
    pub window: Win,
    /// A communicator of the ranks, if the host's window has this one alone: to be freed after it.
    pub ranks: Option<Comm>,
}

/// A bare window of the host on all ranks of `comm`, or on none. Collective.
///
/// # Errors
/// The host's.
pub(super) fn make(
    host: &Host,
    comm: Comm,
    info: Info,
    on_one_host: bool,
) -> Result<Made, MpiError> {
    let kind = match host.comm_size(comm)? {
        1 => BareWindow::Allocated,
        _ if on_one_host && host.kind() == AbiKind::OpenMpi => BareWindow::Shared,
        _ => BareWindow::Dynamic,
    };
    let mut used = vec![host.private_comm(comm)?];
    let outcome = match on_one_host {
        true => attempts(host, comm, info, kind, &mut used),
        false => across_hosts(host, comm, info, kind, &mut used),
    };
    for private in used {
        host.free_comm(private)?;
    }
    outcome
}

/// [`attempts`], unless the host has failed before on all ranks of `comm`, and else handles of each rank alone.
fn across_hosts(
    host: &Host,
    comm: Comm,
    info: Info,
    kind: BareWindow,
    used: &mut Vec<Comm>,
) -> Result<Made, MpiError> {
    let mine = MAKES_NONE.load(Ordering::Relaxed);
    if host.allreduce_min(c_int::from(mine), used[0])? == 0 {
        if let Ok(made) = attempts(host, comm, info, kind, used) {
            return Ok(made);
        }
        MAKES_NONE.store(true, Ordering::Relaxed);
    }
    alone(host, info, used)
}

/// A window of each rank alone, on all or on none; a communicator of `used`, all of the same ranks, goes with it.
/// Collective.
fn alone(host: &Host, info: Info, used: &mut Vec<Comm>) -> Result<Made, MpiError> {
    let mine = host.private_comm(host.predefined().comm_self)?;
    let made = host.bare_window(mine, info, BareWindow::Allocated);
    host.free_comm(mine)?;
    if host.allreduce_min(c_int::from(made.is_ok()), used[0])? == 0 {
        let elsewhere = || elsewhere(host, "MPI_Win_allocate on another rank");
        return Err(made.err().unwrap_or_else(elsewhere));
    }
    tracing::debug!("the host MPI makes no window across hosts: its handles are of one rank");
    Ok(Made {
        window: made?,
        ranks: Some(used.swap_remove(0)),
    })
}

/// The error of a rank where all went well.
fn elsewhere(host: &Host, call: &'static str) -> MpiError {
    MpiError::of_class(call, host.constants().errors.other)
}

/// A window over the ranks of `comm`, of which `used` has a copy, on all or on none; more copies are added. Collective.
fn attempts(
    host: &Host,
    comm: Comm,
    info: Info,
    kind: BareWindow,
    used: &mut Vec<Comm>,
) -> Result<Made, MpiError> {
    let mut first = None;
    for attempt in 0..ATTEMPTS {
        let kind = if attempt == 0 {
            kind
        } else {
            BareWindow::Dynamic
        };
        if attempt > 0 {
            used.push(host.private_comm(comm)?);
        }
        let private = used[used.len() - 1];
        let made = host.bare_window(private, info, kind);
        if host.allreduce_min(c_int::from(made.is_ok()), private)? == 1 {
            return made.map(|window| Made {
                window,
                ranks: None,
            });
        }
        // Freeing is collective, and some rank has nothing to free: what was made is left behind.
        if let Err(error) = made {
            tracing::debug!("attempt {attempt} at a window of the host: {error}");
            first.get_or_insert(error);
        }
        // All are kept until the end, so that the next has another number.
        let world = host.comm_rank(host.predefined().comm_world)?;
        let lowest = host.allreduce_min(world as c_int, private)?;
        for _ in 0..skipped(lowest as u32, attempt) {
            used.push(host.private_comm(comm)?);
        }
    }
    Err(first.unwrap_or_else(|| elsewhere(host, "MPI_Win_create_dynamic on another rank")))
}

/// How many numbers a communicator whose lowest rank in the world is `lowest` leaves out after a failed
/// attempt: two that share no process differ in some digit.
const fn skipped(lowest: u32, attempt: u32) -> u32 {
    lowest >> (DIGIT * attempt) & ((1 << DIGIT) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_world_skip_differently_once() {
        let skips = |lowest| (0..ATTEMPTS).map(move |attempt| skipped(lowest, attempt));
        for (one, other) in [(0, 1), (0, 2), (3, 7), (5, 21), (100, 40_000)] {
            assert!(!skips(one).eq(skips(other)), "{one} and {other}");
            assert!(skips(one).all(|skip| skip < 4));
        }
    }
}
