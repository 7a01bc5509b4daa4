//! The program's calls that test and await requests. The host's, but for one thing: while collectives of ours are under
//! way, they go on here, and who waits does so for these as well as for what the host has. Ranks of the node wake up who
//! sleeps, so there is no sleep while something of the host's is awaited, which would come unseen.

use super::helper::Waiting;
use super::queue::{any_active, go_on};
use super::request::{any_open, complete, is_open, with_errors};
use crate::lifetime;
use crate::panic_guard::around;
use crate::session::Session;
use crate::thread::Inside;
use ferrorail_base::fiber::Driver;
use ferrorail_mpi_abi::{AbiKind, Functions, Request};
use libc::{c_int, c_void};
use std::cell::Cell;

/// Runs `forward`, the host's call that tests some requests.
#[inline]
pub fn test(forward: impl FnOnce() -> c_int) -> c_int {
    match any_open() {
        false => forward(),
        true => waited_for(Driver::Program, |_| {}, forward),
    }
}

/// Runs `forward`, the host's call that waits until `request`, the address of one, is complete.
///
/// # Safety
/// The program's argument.
#[inline]
pub unsafe fn one(request: *const c_void, forward: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { all(1, request, forward) }
}

/// Runs `forward`, the host's call that waits until all of the `count` requests from `first` on are complete.
///
/// # Safety
/// The program's arguments.
#[inline]
pub unsafe fn all(count: c_int, first: *const c_void, forward: impl FnOnce() -> c_int) -> c_int {
    if !any_open() {
        return forward();
    }
    let before = |session: &Session| {
        for index in 0..count.max(0) as usize {
            // SAFETY: the caller's contract.
            let request = || unsafe { request_at(session, first, index) };
            wait_until(session, Driver::Waiting, || !is_open(request()));
            wait_until(session, Driver::Program, || {
                // SAFETY: as above. What the host will complain of is complete as well.
                let is_complete = unsafe { session.host().is_complete(request()) };
                is_complete.unwrap_or(true)
            });
        }
    };
    waited_for(Driver::Waiting, before, forward)
}

/// Runs `forward`, the host's call that waits until any of the `count` requests from `first` on is complete; or `test`, the
/// one that returns with what is complete, until it says with which code. Only the host knows which requests are active.
///
/// # Safety
/// The program's arguments.
#[inline]
pub unsafe fn any(
    (count, first): (c_int, *const c_void),
    forward: impl FnOnce() -> c_int,
    mut test: impl FnMut(&Functions) -> Option<c_int>,
) -> c_int {
    if !any_open() || count <= 0 {
        return forward();
    }
    let found = Cell::new(None);
    let before = |session: &Session| {
        let all = 0..count as usize;
        // SAFETY: the caller's contract.
        let request = |index| unsafe { request_at(session, first, index) };
        let null = session.host().predefined().request_null;
        let active = all.filter(|&index| request(index) != null);
        if active.clone().next().is_none() {
            return;
        }
        let has_host_s = || active.clone().any(|index| !is_open(request(index)));
        wait_until(session, Driver::Waiting, has_host_s);
        wait_until(session, Driver::Program, || {
            found.set(test(session.host().functions()));
            found.get().is_some()
        });
    };
    waited_for(Driver::Waiting, before, || {
        found.get().unwrap_or_else(forward)
    })
}

/// Goes on with ours, does `before` and then the host's call, and reports what failed.
#[cold]
fn waited_for(
    driver: Driver,
    before: impl FnOnce(&Session),
    forward: impl FnOnce() -> c_int,
) -> c_int {
    let wait = || {
        let session = lifetime::session()?;
        let _inside = Inside::enter();
        step(session, driver);
        before(session);
        Some(session)
    };
    let mut failed = None;
    let code = around(None, wait, forward, |session, code| {
        failed = session;
        code
    });
    // The program's error handler may throw.
    failed.map_or(code, |session| with_errors(session, code))
}

/// Goes on with all of ours that are under way.
fn step(session: &Session, driver: Driver) {
    go_on(driver);
    complete(session);
}

/// Goes on with ours until `done`, or until nothing of ours is under way: then the host's call waits. As a
/// [`Driver::Waiting`] for something of ours, and else for something of the host's.
fn wait_until(session: &Session, driver: Driver, mut done: impl FnMut() -> bool) {
    if done() {
        return;
    }
    let is_ours = driver == Driver::Waiting;
    // Open MPI yields the core itself when it is asked.
    let idles = is_ours || session.host().kind() != AbiKind::OpenMpi;
    let _waiting = Waiting::begin();
    while let Some(queue) = any_active() {
        let mut wait = queue.team().driver_wait(is_ours);
        loop {
            if idles {
                wait.idle();
            }
            step(session, driver);
            if done() {
                return;
            }
            if queue.is_idle() {
                break;
            }
        }
    }
    // What the helper has ended meanwhile.
    complete(session);
}

/// The `index`-th request from `first` on.
///
/// # Safety
/// The program has one there.
unsafe fn request_at(session: &Session, first: *const c_void, index: usize) -> Request {
    // SAFETY: the caller's contract.
    Request(unsafe { session.host().handle_in(first, index) })
}
