//! What this process waits for, for whoever wonders why a job does not end: long waits note it here, and calls that
//! are handed to the host MPI. It is read by a signal handler. And when
//! waiting is in vain.

use crate::EngineError;
use ferrorail_base::config::Settings;
use ferrorail_base::{ProcessId, Rank};
use std::io::Write;
use std::ptr;
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A note that is older is of a wait that has ended: waits renew theirs.
const FRESH: Duration = Duration::from_secs(2);

struct Notes {
    awaited: Option<(String, Instant)>,
    /// Calls that are under way in the host, of all threads, the latest last.
    in_host: Vec<HostCall>,
}

/// A call that is under way in the host.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HostCall {
    name: &'static str,
    /// An address that no other thread has.
    thread: usize,
    /// An address on its stack.
    at: usize,
}

thread_local! {
    /// Threads differ in where this is.
    static THREAD: u8 = const { 0 };
}

/// Not counted as a lock: whoever holds it waits for nobody, and a signal handler may only try.
#[allow(clippy::disallowed_types)]
static NOTES: std::sync::Mutex<Notes> = std::sync::Mutex::new(Notes {
    awaited: None,
    in_host: Vec::new(),
});

/// For calls of the program, which wait for a signal handler no longer than it takes to write a line.
fn notes() -> std::sync::MutexGuard<'static, Notes> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<R>(act: impl FnOnce(&mut Notes) -> R) -> Option<R> {
    match NOTES.try_lock() {
        Ok(mut notes) => Some(act(&mut notes)),
        Err(TryLockError::Poisoned(notes)) => Some(act(&mut notes.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Says what is being waited for, such as `rank 3 in allreduce`. To be renewed every second while the wait lasts.
pub(crate) fn note(awaited: String) {
    with(|notes| notes.awaited = Some((awaited, Instant::now())));
}

/// The first of `processes`, by rank, that is on the host of `rank` and dead.
pub(crate) fn dead_peer(
    processes: &[ProcessId],
    rank: Rank,
    collective: &'static str,
) -> Option<EngineError> {
    let host = processes[rank.index()].host;
    let is_dead = |process: &ProcessId| process.host == host && !ferrorail_shm::is_alive(*process);
    let dead = processes.iter().position(is_dead)?;
    Some(EngineError::PeerDied {
        rank: Rank(dead as u32),
        pid: processes[dead].pid,
        collective,
    })
}

/// Whether who has `waited` so long for `waiting_for` may go on.
///
/// # Errors
/// [`EngineError::PeerTimeout`] if `FERRORAIL_PEER_TIMEOUT` is over.
pub(crate) fn check_timeout(
    settings: &Settings,
    waited: Duration,
    waiting_for: String,
    collective: &'static str,
) -> Result<(), EngineError> {
    match settings.peer_timeout_s {
        Some(seconds) if waited >= Duration::from_secs(seconds) => Err(EngineError::PeerTimeout {
            waiting_for,
            seconds,
            collective,
        }),
        _ => Ok(()),
    }
}

/// A call that the host MPI runs, until this is dropped.
pub struct InHost(HostCall);

impl InHost {
    /// The call is called `name`. In a function of its own, whose place on the stack is below the caller's.
    #[inline(never)]
    pub fn enter(name: &'static str) -> Self {
        let at = (&raw const name).addr();
        let thread = THREAD.with(|own| ptr::from_ref(own).addr());
        let call = HostCall { name, thread, at };
        let in_host = &mut notes().in_host;
        // Stacks grow downwards: a call whose part is in use again was left by a jump.
        in_host.retain(|other| other.thread != thread || other.at > at);
        in_host.push(call);
        Self(call)
    }
}

impl Drop for InHost {
    fn drop(&mut self) {
        // Those of several threads end in any order.
        notes().in_host.retain(|call| *call != self.0);
    }
}

/// Writes one line on what `rank` of the world waits for to `line`, as far as it has room; returns its length.
/// Allocates nothing, so that a signal handler may call it.
pub fn describe(rank: u32, line: &mut [u8]) -> usize {
    let room = line.len();
    let mut left = line;
    let written = with(|notes| {
        let awaited = notes.awaited.as_ref();
        match (
            awaited.filter(|(_, at)| at.elapsed() < FRESH),
            notes.in_host.last(),
        ) {
            (Some((awaited, _)), _) => writeln!(left, "ferrorail[{rank}] waits for {awaited}"),
            (None, Some(call)) => {
                let name = call.name;
                writeln!(left, "ferrorail[{rank}] waits in the host MPI, in {name}")
            }
            (None, None) => writeln!(left, "ferrorail[{rank}] waits in no call of ferrorail"),
        }
    });
    if written.is_none() {
        let _ = writeln!(left, "ferrorail[{rank}] waits for what it does not say");
    }
    room - left.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> String {
        let mut line = [0; 128];
        let length = describe(3, &mut line);
        String::from_utf8_lossy(&line[..length]).into_owned()
    }

    #[inline(never)]
    fn be_in_barrier() {
        let _inner = InHost::enter("barrier");
        assert_eq!(
            described(),
            "ferrorail[3] waits in the host MPI, in barrier\n"
        );
    }

    #[test]
    fn the_innermost_wait_is_told() {
        calls_that_are_over_are_told_no_more();
        let outer = InHost::enter("finalize");
        be_in_barrier();
        assert_eq!(
            described(),
            "ferrorail[3] waits in the host MPI, in finalize\n"
        );
        note("rank 5 in bcast".into());
        assert_eq!(described(), "ferrorail[3] waits for rank 5 in bcast\n");
        drop(outer);
        let mut short = [0; 20];
        assert_eq!(describe(3, &mut short), 20);
        assert_eq!(&short, b"ferrorail[3] waits f");
    }

    #[inline(never)]
    fn leave_by_a_jump(name: &'static str) {
        std::mem::forget(InHost::enter(name));
    }

    /// Calls of threads end in any order, and some are left by a jump. There is one place for all notes.
    fn calls_that_are_over_are_told_no_more() {
        let none = "ferrorail[3] waits in no call of ferrorail\n";
        let meeting = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _first = InHost::enter("barrier");
                meeting.wait();
                meeting.wait();
            });
            meeting.wait();
            let second = InHost::enter("bcast");
            meeting.wait();
            drop(second);
        });
        assert_eq!(described(), none);
        leave_by_a_jump("gather");
        drop(InHost::enter("scatter"));
        assert_eq!(described(), none);
    }
}
