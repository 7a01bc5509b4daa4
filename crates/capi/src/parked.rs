//! Teams of freed communicators that wait for another communicator of the same ranks.
//!
//! Programs duplicate and free communicators in loops, and duplicate one many times. Who makes a second team of
//! the same ranks makes some more at once, which are parked as well. Whether a parked team is used again is agreed on
//! in the one collective of the host that each first use of a communicator takes anyway: every rank says
//! which team it would take, and all take it or none does.

use crate::ballot::{Ballot, ballot};
use ferrorail_base::config::Settings;
use ferrorail_base::sync::Mutex;
use ferrorail_engine::Team;
use libc::c_int;
use std::sync::Arc;

/// Used teams kept, the latest.
const TEAMS_MAX: usize = 16;

/// Most teams that are made at once.
const BATCH_MAX: usize = 64;

/// Keys of which it is remembered how many teams were made.
const KEYS_MAX: usize = 16;

/// Bytes of node memory kept, of all ranks of a node together, if they were all used.
const BYTES_MAX: u64 = 256 << 20;

/// What a communicator must have for a team to serve it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Its members by their ranks in `MPI_COMM_WORLD`.
    pub ranks: Vec<u32>,
    /// This rank's settings for it, where they are not those of the process; rank 0's were in force.
    pub settings: Option<Box<Settings>>,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a communicator has a team for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Blocking collectives.
    Blocking,
    /// Non-blocking ones, which run in fibers.
    Nonblocking,
}

/// One of them.
pub struct Parked {
    identity: u64,
    key: Key,
    /// Bytes of node memory; 0 if it was never used.
    bytes: u64,
    /// Not used by any communicator.
    pub team: Arc<Team>,
}

static PARKED: Mutex<Vec<Parked>> = Mutex::new(Vec::new());

/// How many teams were made for the latest keys.
static MADE: Mutex<Vec<(Key, usize)>> = Mutex::new(Vec::new());

/// Keeps `team`, which the caller has no use for, if it may serve another communicator; false if not.
pub fn keep(team: &Arc<Team>, key: &Key) -> bool {
    // A window may use it longer than its communicator lives.
    if Arc::strong_count(team) > 1 {
        return false;
    }
    let Some(identity) = team.park() else {
        return false;
    };
    add(identity, key.clone(), team.clone());
    true
}

/// Keeps teams that were made for communicators of `key` yet to come.
pub fn keep_spares(teams: Vec<Team>, key: &Key) {
    // The first is taken first.
    for team in teams.into_iter().rev() {
        if let Some(identity) = team.identity() {
            add(identity, key.clone(), Arc::new(team));
        }
    }
}

fn add(identity: u64, key: Key, team: Arc<Team>) {
    let parked = Parked {
        identity,
        key,
        bytes: team.node_bytes(),
        team,
    };
    let mut all = PARKED.lock();
    all.push(parked);
    let mut room = (TEAMS_MAX, BYTES_MAX, BATCH_MAX);
    let mut surplus = Vec::new();
    for index in (0..all.len()).rev() {
        let (teams, bytes, spares) = &mut room;
        let left = match all[index].bytes {
            0 => spares.checked_sub(1).map(|left| *spares = left),
            used => (bytes.checked_sub(used).zip(teams.checked_sub(1)))
                .map(|left| (*bytes, *teams) = left),
        };
        if left.is_none() {
            surplus.push(all.remove(index));
        }
    }
    drop(all);
    // Unmapping takes a while.
    drop(surplus);
}

/// How many teams to make beside one that a communicator of `key` needs: as many as were made before, so that the
/// number of times that some are made grows with the logarithm of how many are needed.
pub fn spares_wanted(key: &Key) -> usize {
    let mut made = MADE.lock();
    let known = made.iter().position(|(other, _)| other == key);
    let before = known.map_or(0, |index| made.remove(index).1);
    let spares = before.min(BATCH_MAX - 1);
    made.push((key.clone(), before + 1 + spares));
    if made.len() > KEYS_MAX {
        made.remove(0);
    }
    spares
}

/// Takes out the team that was parked last of those for `key`.
pub fn take(key: &Key) -> Option<Parked> {
    let mut all = PARKED.lock();
    let index = all.iter().rposition(|parked| parked.key == *key)?;
    Some(all.remove(index))
}

/// Drops all.
pub fn clear() {
    let all = std::mem::take(&mut *PARKED.lock());
    drop(all);
}

/// What a rank says of the team it would take: two halves of its identity.
pub fn ballot_of(mine: Option<&Parked>) -> Ballot {
    const HALF: u32 = ferrorail_engine::IDENTITY_BITS / 2;
    let identity = mine.map_or(0, |parked| parked.identity);
    let low = (identity & ((1 << HALF) - 1)) as c_int;
    ballot([low, (identity >> HALF) as c_int])
}
