//! The meeting place of the ranks of one world: what [`super::InProcess`] calls directly and the
//! rendezvous server calls on behalf of its clients.

use super::{OobError, greatest};
use ferrorail_base::Rank;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting call asks whether its own caller is still there.
const ALIVE_INTERVAL: Duration = Duration::from_millis(200);

/// Shared by all ranks; a rank has at most one call under way.
pub(super) struct World {
    size: u32,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Contributions to the all-gather under way.
    given: Vec<Option<Vec<u8>>>,
    /// Number of completed all-gathers, and the result of the last one.
    completed: u64,
    result: Arc<Vec<Vec<u8>>>,
    /// Messages under way, by (source, dest).
    mail: HashMap<(u32, u32), VecDeque<Vec<u8>>>,
    /// What ranks have said, by phase.
    said: [Vec<Option<u64>>; 2],
    /// Why a rank has left, once it has.
    gone: Vec<Option<String>>,
}

impl World {
    pub(super) fn new(size: u32) -> Arc<Self> {
        assert!(size > 0, "a world has at least one rank");
        let state = State {
            given: vec![None; size as usize],
            completed: 0,
            result: Arc::new(Vec::new()),
            mail: HashMap::new(),
            said: [vec![None; size as usize], vec![None; size as usize]],
            gone: vec![None; size as usize],
        };
        Arc::new(Self {
            size,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// Everybody's `mine`. Fails once a rank that has not contributed has left. `alive` says
    /// whether the caller still wants the result; it is asked now and then.
    pub(super) fn allgather(
        &self,
        rank: Rank,
        mine: Vec<u8>,
        alive: &dyn Fn() -> bool,
    ) -> Result<Arc<Vec<Vec<u8>>>, OobError> {
        let mut state = self.lock();
        let ticket = state.completed;
        state.given[rank.index()] = Some(mine);
        if state.given.iter().all(Option::is_some) {
            state.result = Arc::new(state.given.iter_mut().filter_map(Option::take).collect());
            state.completed += 1;
            self.changed.notify_all();
        }
        self.wait(state, rank, "allgather", alive, |state| {
            if state.completed > ticket {
                return Ok(Some(state.result.clone()));
            }
            let missing = |rank: &usize| state.given[*rank].is_none();
            let mut ranks = (0..state.gone.len()).filter(missing);
            ranks
                .find_map(|rank| state.left(rank))
                .map_or(Ok(None), Err)
        })
    }

    /// Sends to and receives from each of `peers`. Fails once one of them has left without sending.
    pub(super) fn exchange(
        &self,
        rank: Rank,
        peers: &[Rank],
        outgoing: Vec<Vec<u8>>,
        alive: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u8>>, OobError> {
        check_peers(rank, self.size, peers, outgoing.len())?;
        let mut state = self.lock();
        for (peer, message) in peers.iter().zip(outgoing) {
            let queue = state.mail.entry((rank.0, peer.0)).or_default();
            queue.push_back(message);
        }
        self.changed.notify_all();
        self.wait(state, rank, "exchange", alive, |state| {
            let missing = |peer: &&Rank| {
                let queue = state.mail.get(&(peer.0, rank.0));
                queue.is_none_or(VecDeque::is_empty)
            };
            if let Some(peer) = peers.iter().find(missing) {
                return state.left(peer.index()).map_or(Ok(None), Err);
            }
            let take = |peer: &Rank| state.mail.get_mut(&(peer.0, rank.0))?.pop_front();
            Ok(Some(peers.iter().filter_map(take).collect()))
        })
    }

    /// See [`super::Oob::maximum`].
    pub(super) fn maximum(&self, rank: Rank, phase: u8, mine: u64) -> Option<u64> {
        let said = &mut self.lock().said[usize::from(phase)];
        said[rank.index()] = Some(mine);
        greatest(said)
    }

    /// `rank` takes no further part; the first reason stays. Returns whether everybody has left.
    pub(super) fn leave(&self, rank: Rank, reason: &str) -> bool {
        let mut state = self.lock();
        state.gone[rank.index()].get_or_insert_with(|| reason.to_owned());
        self.changed.notify_all();
        state.gone.iter().all(Option::is_some)
    }

    /// Waits until `done` gives a value or a reason for failure.
    fn wait<T>(
        &self,
        mut state: MutexGuard<'_, State>,
        rank: Rank,
        act: &'static str,
        alive: &dyn Fn() -> bool,
        mut done: impl FnMut(&mut State) -> Result<Option<T>, String>,
    ) -> Result<T, OobError> {
        let fail = |reason| OobError::new(act, reason);
        loop {
            if let Some(value) = done(&mut state).map_err(fail)? {
                return Ok(value);
            }
            if let Some(reason) = state.left(rank.index()) {
                return Err(fail(reason));
            }
            let (next, timeout) = self
                .changed
                .wait_timeout(state, ALIVE_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() && !alive() {
                return Err(fail(format!("rank {rank} has disconnected")));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock and leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn left(&self, rank: usize) -> Option<String> {
        let reason = self.gone[rank].as_ref()?;
        Some(format!("rank {rank} {reason}"))
    }
}

/// The conditions under which [`super::Oob::exchange`] may be called.
pub(super) fn check_peers(
    rank: Rank,
    size: u32,
    peers: &[Rank],
    messages: usize,
) -> Result<(), OobError> {
    let fail = |reason: String| Err(OobError::new("exchange", reason));
    if peers.len() != messages {
        return fail(format!("{messages} messages for {} peers", peers.len()));
    }
    let mut seen = vec![false; size as usize];
    for &peer in peers {
        if peer.0 >= size {
            return fail(format!("peer {peer} is outside a world of {size} ranks"));
        }
        if peer == rank {
            return fail(format!("rank {rank} names itself as a peer"));
        }
        if std::mem::replace(&mut seen[peer.index()], true) {
            return fail(format!("peer {peer} is named twice"));
        }
    }
    Ok(())
}
