//! Private communicators of the host, for messages between ranks of teams.
//!
//! Hosts have few communicators (MPICH some two thousand), so teams share them: a team takes one that
//! all its ranks have already, with tags of its own, and makes one of its own ranks only where there is
//! none. The world's serves all communicators made from it.

use ferrorail_base::sync::{AtomicU64, Mutex, Ordering};
use ferrorail_mpi_abi::{Comm, Group, Host, MpiError, RequestList};
use libc::c_int;
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use zerocopy::IntoBytes;

/// Kinds of messages of a team, each with a tag of its own.
#[derive(Clone, Copy)]
pub enum Kind {
    /// The length of a content.
    Length,
    /// What is exchanged.
    Content,
    /// That a rank is done with the team.
    Leave,
    /// Answers.
    Answer,
    /// That a rank has given up.
    Gone,
    /// Numbers of which the greatest is wanted.
    Maximum,
}

/// Tags of a team.
const TAGS: c_int = Kind::Maximum as c_int + 1;

/// Private communicators that a rank proposes at most.
const PROPOSALS: usize = 6;

/// What a rank says first: a number for the team and a name for a new communicator, which count if it is
/// rank 0, and which of those it has reach all ranks.
type Proposal = [u64; 2 + PROPOSALS];

/// Why a team gets no private communicator.
#[derive(Debug, thiserror::Error)]
pub enum NoPrivateComm {
    /// The host failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// Rank 0 has too many teams.
    #[error("all tags are in use")]
    NoTags,
}

/// One communicator; freed when no team uses it.
struct PrivateComm {
    host: &'static Host,
    /// The same on all its ranks, and no other's on any.
    name: u64,
    comm: Comm,
    group: Group,
}

impl Drop for PrivateComm {
    fn drop(&mut self) {
        self.host.free_group(self.group);
        if let Err(error) = self.host.free_comm(self.comm) {
            tracing::debug!("private communicator: {error}");
        }
    }
}

/// A communicator, and what ranks of a team are there.
type Reaching = (Arc<PrivateComm>, Vec<u32>);

/// A team's share of a private communicator.
pub struct Private {
    shared: Arc<PrivateComm>,
    /// Ranks there by rank of the team.
    ranks: Vec<u32>,
    /// This one's in the team.
    rank: u32,
    tag: c_int,
    /// The team's number, at its rank 0.
    _number: Option<Number>,
}

/// A number that no other team has whose rank 0 is this process; given back on drop.
struct Number(u64);

/// All of this process, the oldest first.
static ALL: Mutex<Vec<Weak<PrivateComm>>> = Mutex::new(Vec::new());

/// Numbers in use.
static NUMBERS: Mutex<Option<HashSet<u64>>> = Mutex::new(None);

/// The next number to try: one that was given back rests, as some rank may still wait for a message.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The next part of a name.
static NEXT_NAME: AtomicU64 = AtomicU64::new(1);

impl Private {
    /// For a team of the ranks of `comm`. Collective.
    ///
    /// # Errors
    /// [`NoPrivateComm`], perhaps on some ranks only.
    pub fn join(host: &'static Host, comm: Comm) -> Result<Self, NoPrivateComm> {
        let group = host.comm_group(comm)?;
        let joined = Self::join_group(host, comm, group);
        host.free_group(group);
        joined
    }

    fn join_group(host: &'static Host, comm: Comm, group: Group) -> Result<Self, NoPrivateComm> {
        // Held until the choice is made: nobody else may give up what is proposed.
        let known = reaching(host, group)?;
        let world = host.predefined().comm_world;
        let numbers = host.largest_tag() as u64 / TAGS as u64 / u64::from(host.comm_size(world)?);
        let rank = host.comm_rank(comm)?;
        let number = (rank == 0).then(|| Number::take(numbers)).flatten();
        let mut mine: Proposal = [0; 2 + PROPOSALS];
        mine[0] = number.as_ref().map_or(u64::MAX, |number| number.0);
        let part = NEXT_NAME.fetch_add(1, Ordering::Relaxed);
        mine[1] = u64::from(host.comm_rank(world)? + 1) << 32 | part & u64::from(u32::MAX);
        for (word, (shared, _)) in mine[2..].iter_mut().zip(&known) {
            *word = shared.name;
        }
        let all = exchange(host, comm, &mine)?;
        if all[0][0] == u64::MAX {
            return Err(NoPrivateComm::NoTags);
        }
        let (shared, ranks) = match common(&all) {
            Some(name) => known
                .into_iter()
                .find(|(shared, _)| shared.name == name)
                .expect("proposed by this rank"),
            None => {
                let shared = make(host, comm, all[0][1])?;
                (shared, (0..all.len() as u32).collect())
            }
        };
        // Two teams of a process differ in the number, or in the process that is rank 0.
        let members = u64::from(host.comm_size(shared.comm)?);
        let tag = (all[0][0] * members + u64::from(ranks[0])) * TAGS as u64;
        if tag + TAGS as u64 > host.largest_tag() as u64 {
            return Err(NoPrivateComm::NoTags);
        }
        Ok(Self {
            shared,
            ranks,
            rank,
            tag: tag as c_int,
            _number: number,
        })
    }

    /// This rank of the team.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the team.
    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The library.
    pub fn host(&self) -> &'static Host {
        self.shared.host
    }

    /// A list with room for `capacity` requests.
    pub fn requests(&self, capacity: usize) -> RequestList {
        RequestList::with_capacity(self.host().kind(), capacity)
    }

    /// [`Host::start_send`] to rank `to` of the team.
    ///
    /// # Errors
    /// The host's.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn start_send(
        &self,
        bytes: &[u8],
        to: u32,
        kind: Kind,
        requests: &mut RequestList,
    ) -> Result<(), MpiError> {
        let (to, comm) = (self.ranks[to as usize], self.shared.comm);
        // SAFETY: the caller's contract.
        unsafe { (self.host()).start_send(bytes, to, self.tag(kind), comm, requests) }
    }

    /// [`Host::start_receive`] from rank `from` of the team.
    ///
    /// # Errors
    /// The host's.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn start_receive(
        &self,
        bytes: &mut [u8],
        from: u32,
        kind: Kind,
        requests: &mut RequestList,
    ) -> Result<(), MpiError> {
        let (from, comm) = (self.ranks[from as usize], self.shared.comm);
        // SAFETY: the caller's contract.
        unsafe { (self.host()).start_receive(bytes, from, self.tag(kind), comm, requests) }
    }

    /// Whether a message has come from any rank.
    pub fn has_message(&self, kind: Kind) -> bool {
        self.host().has_message(self.shared.comm, self.tag(kind))
    }

    /// Receives a message of any rank into `bytes`, if one is there.
    ///
    /// # Errors
    /// The host's.
    pub fn receive_any(&self, kind: Kind, bytes: &mut [u8]) -> Result<bool, MpiError> {
        if !self.has_message(kind) {
            return Ok(false);
        }
        let (host, comm) = (self.host(), self.shared.comm);
        let any = host.constants().any_source.cast_unsigned();
        let mut requests = self.requests(1);
        // SAFETY: the bytes live until the message, which is there, has been received.
        unsafe { host.start_receive(bytes, any, self.tag(kind), comm, &mut requests)? };
        host.wait_all(&mut requests)?;
        Ok(true)
    }

    fn tag(&self, kind: Kind) -> c_int {
        self.tag + kind as c_int
    }
}

impl Number {
    /// One below `numbers`, if any is free.
    fn take(numbers: u64) -> Option<Self> {
        let mut taken = NUMBERS.lock();
        let taken = taken.get_or_insert_default();
        let next = (0..numbers).map(|_| NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) % numbers);
        let mut free = next.filter(|number| taken.insert(*number));
        free.next().map(Self)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(taken) = &mut *NUMBERS.lock() {
            taken.remove(&self.0);
        }
    }
}

/// Those of this process that have all members of `group`, which are these ranks there.
fn reaching(host: &Host, group: Group) -> Result<Vec<Reaching>, MpiError> {
    let alive: Vec<Arc<PrivateComm>> = {
        let mut all = ALL.lock();
        all.retain(|shared| shared.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    };
    let mut known = Vec::new();
    for shared in alive {
        let ranks = host.translate_ranks(group, shared.group)?;
        if let Some(ranks) = ranks.into_iter().collect() {
            known.push((shared, ranks));
        }
    }
    known.truncate(PROPOSALS);
    Ok(known)
}

/// Everybody's proposal.
fn exchange(host: &Host, comm: Comm, mine: &Proposal) -> Result<Vec<Proposal>, MpiError> {
    let mut all: Vec<Proposal> = vec![[0; _]; host.comm_size(comm)? as usize];
    host.allgather_bytes(mine.as_bytes(), all.as_mut_bytes(), comm)?;
    Ok(all)
}

/// The first proposal of rank 0 that all make.
fn common(all: &[Proposal]) -> Option<u64> {
    let of_rank_0 = all.first()?[2..].iter().copied().filter(|&name| name != 0);
    let by_all = |name: &u64| all.iter().all(|proposal| proposal[2..].contains(name));
    of_rank_0.into_iter().find(by_all)
}

/// A new one, of the ranks of `comm`. Collective; the host may have no more, which it says to nobody
/// else.
fn make(host: &'static Host, comm: Comm, name: u64) -> Result<Arc<PrivateComm>, MpiError> {
    let private = host.without_handler(comm, || host.private_comm(comm))?;
    let group = host.comm_group(private)?;
    let shared = Arc::new(PrivateComm {
        host,
        name,
        comm: private,
        group,
    });
    ALL.lock().push(Arc::downgrade(&shared));
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_once_and_given_back() {
        let taken: Vec<Number> = (0..5).filter_map(|_| Number::take(5)).collect();
        assert_eq!(taken.len(), 5);
        assert!(Number::take(5).is_none());
        drop(taken);
        assert!(Number::take(5).is_some());
    }

    #[test]
    fn ranks_choose_what_all_have() {
        let propose = |names: &[u64]| {
            let mut proposal: Proposal = [0; 2 + PROPOSALS];
            proposal[2..2 + names.len()].copy_from_slice(names);
            proposal
        };
        let all = [propose(&[5, 7, 9]), propose(&[9, 7]), propose(&[1, 7, 9])];
        assert_eq!(common(&all), Some(7));
        assert_eq!(common(&[propose(&[5]), propose(&[])]), None);
        assert_eq!(common(&[propose(&[]), propose(&[])]), None);
    }
}
