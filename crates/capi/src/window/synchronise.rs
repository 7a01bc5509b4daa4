//! Synchronisation calls (MPI 4.1, section 12.5).

use super::Entry;
use crate::error::{CallError, Wrong};
use crate::session::Session;
use crate::thread::Inside;
use ferrorail_base::Rank;
use ferrorail_engine::{LockMode, OneSided, WindowError};
use libc::c_int;

/// Refuses bits that are none of `known`.
fn check_assertion(assert: c_int, known: &[c_int]) -> Result<(), CallError> {
    let known = known.iter().fold(0, |all, bit| all | bit);
    match assert & !known {
        0 => Ok(()),
        _ => Err(Wrong::Assertion.into()),
    }
}

/// `MPI_Win_fence`.
pub fn fence(session: &Session, entry: &Entry, assert: c_int) -> Result<(), CallError> {
    let bits = session.host().window_constants();
    let known = [bits.nostore, bits.noput, bits.noprecede, bits.nosucceed];
    check_assertion(assert, &known)?;
    Ok(entry.onesided().fence(assert & bits.nosucceed != 0)?)
}

/// The window's ranks of a group.
fn ranks(session: &Session, entry: &Entry, group: usize) -> Result<Vec<Rank>, CallError> {
    let _inside = Inside::enter();
    let host = session.host();
    let group = host.group(group);
    // Of this one the host would say so to the error handler of MPI_COMM_WORLD.
    if group == host.predefined().group_null {
        return Err(Wrong::Group.into());
    }
    let ranks = host.ranks_in(entry.group(host)?, group)?;
    let size = entry.onesided().size();
    match ranks.iter().all(|&rank| rank < size) {
        true => Ok(ranks.into_iter().map(Rank).collect()),
        false => Err(Wrong::Group.into()),
    }
}

/// `MPI_Win_post`.
pub fn post(
    session: &Session,
    entry: &Entry,
    group: usize,
    assert: c_int,
) -> Result<(), CallError> {
    let bits = session.host().window_constants();
    check_assertion(assert, &[bits.nocheck, bits.nostore, bits.noput])?;
    let origins = ranks(session, entry, group)?;
    Ok(entry.onesided().post(&origins)?)
}

/// `MPI_Win_start`.
pub fn start(
    session: &Session,
    entry: &Entry,
    group: usize,
    assert: c_int,
) -> Result<(), CallError> {
    check_assertion(assert, &[session.host().window_constants().nocheck])?;
    let targets = ranks(session, entry, group)?;
    Ok(entry.onesided().start(&targets)?)
}

/// `MPI_Win_test`.
///
/// # Safety
/// `flag` is the program's.
pub unsafe fn test(entry: &Entry, flag: *mut c_int) -> Result<(), CallError> {
    let over = entry.onesided().test()?;
    // SAFETY: the caller's contract.
    unsafe { *flag = c_int::from(over) };
    Ok(())
}

/// `MPI_Win_lock`.
#[inline]
pub fn lock(
    session: &Session,
    entry: &Entry,
    kind: c_int,
    rank: c_int,
    assert: c_int,
) -> Result<(), CallError> {
    let bits = session.host().window_constants();
    let mode = if kind == bits.lock_exclusive {
        LockMode::Exclusive
    } else if kind == bits.lock_shared {
        LockMode::Shared
    } else {
        return Err(Wrong::LockType.into());
    };
    check_assertion(assert, &[bits.nocheck])?;
    at(session, entry, rank, |window, target| {
        window.lock(target, mode, assert != 0)
    })
}

/// `MPI_Win_lock_all`.
pub fn lock_all(session: &Session, entry: &Entry, assert: c_int) -> Result<(), CallError> {
    check_assertion(assert, &[session.host().window_constants().nocheck])?;
    Ok(entry.onesided().lock_all(assert != 0)?)
}

/// What a call does to one target, if it has one.
#[inline]
pub fn at(
    session: &Session,
    entry: &Entry,
    rank: c_int,
    act: impl FnOnce(&OneSided, Rank) -> Result<(), WindowError>,
) -> Result<(), CallError> {
    match entry.target(session, rank)? {
        Some(target) => Ok(act(entry.onesided(), target)?),
        None => Ok(()),
    }
}
