//! Out-of-band exchange: how the ranks of a team talk before any rail exists.
//!
//! * [`InProcess`]: ranks that are threads of one process;
//! * [`SocketOob`]: ranks that `ferrorail run` started, through its [`Rendezvous`].
//!
//! An MPI program's ranks talk through the host MPI, which the preload library wraps as an [`Oob`]
//! of its own.

mod in_process;
mod rendezvous;
mod socket;
mod wire;
mod world;

#[cfg(test)]
mod tests;

pub use in_process::InProcess;
pub use rendezvous::Rendezvous;
pub use socket::SocketOob;

use crate::probe;
use crate::run_env::RunEnv;
use ferrorail_base::Rank;

/// An out-of-band exchange failed.
#[derive(Debug, thiserror::Error)]
#[error("out-of-band {act} failed: {reason}")]
pub struct OobError {
    /// What was attempted: `allgather`, `exchange`, …
    pub act: &'static str,
    /// Why, in words.
    pub reason: String,
    /// MPI error class to report, where the host MPI gave one.
    pub mpi_class: Option<i32>,
}

impl OobError {
    /// Of an exchange that is not the host MPI's.
    pub(crate) fn new(act: &'static str, reason: impl ToString) -> Self {
        Self {
            act,
            reason: reason.to_string(),
            mpi_class: None,
        }
    }
}

/// The ranks of one team, and slow but safe exchange among them. Every method is collective unless
/// it says otherwise and must be called by all ranks in the same order.
pub trait Oob: Send {
    /// This rank.
    fn rank(&self) -> Rank;

    /// Number of ranks.
    fn size(&self) -> u32;

    /// Ranks with equal keys share physical memory (one host, one IPC namespace). Not collective.
    fn host_key(&self) -> u64 {
        probe::host_key()
    }

    /// Everybody's `mine`, by rank. Lengths may differ.
    fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, OobError>;

    /// Makes ready for exchanges: to be called once before the first of them.
    ///
    /// # Errors
    /// Perhaps on some ranks only.
    fn prepare_exchange(&mut self) -> Result<(), OobError> {
        Ok(())
    }

    /// Sends `outgoing[i]` to `peers[i]` and returns what `peers[i]` sent here. Not collective: only
    /// the named ranks take part, and naming is mutual. `peers` has no repetition and not this rank.
    fn exchange(&mut self, peers: &[Rank], outgoing: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, OobError>;

    /// As [`Oob::exchange`], which some can break off: `keep_on` is asked now and then while nothing
    /// comes, and may wait.
    ///
    /// # Errors
    /// As [`Oob::exchange`], or if it was broken off. Nothing more may be exchanged then.
    fn exchange_while(
        &mut self,
        peers: &[Rank],
        outgoing: &[Vec<u8>],
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<u8>>, OobError> {
        let _ = keep_on;
        self.exchange(peers, outgoing)
    }

    /// Whether everybody agrees, in exchanges that can be broken off like [`Oob::exchange_while`].
    ///
    /// # Errors
    /// As there.
    fn agree_while(
        &mut self,
        agrees: bool,
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, OobError> {
        let (rank, size) = (self.rank().0, self.size());
        let mut all = agrees;
        let mut distance = 1;
        while distance < size {
            let ahead = Rank((rank + distance) % size);
            let behind = Rank((rank + size - distance) % size);
            let mut peers = vec![ahead, behind];
            peers.dedup();
            let answers = self.exchange_answers(&peers, u8::from(all), keep_on)?;
            all &= answers.iter().all(|&answer| answer == 1);
            distance *= 2;
        }
        Ok(all)
    }

    /// [`Oob::exchange_while`] of one byte with each of `peers`, which no other exchange takes for its own.
    ///
    /// # Errors
    /// As there.
    fn exchange_answers(
        &mut self,
        peers: &[Rank],
        answer: u8,
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u8>, OobError> {
        let outgoing = vec![vec![answer]; peers.len()];
        let incoming = self.exchange_while(peers, &outgoing, keep_on)?;
        Ok(incoming.into_iter().flatten().collect())
    }

    /// Tells `peers` that this rank takes part in nothing more, so that whoever of them waits for it in an exchange
    /// that can be broken off gets an error. Not collective, and waits for nobody.
    fn give_up(&mut self, peers: &[Rank]) {
        let _ = peers;
    }

    /// Says `mine` in one of two phases (0, 1), in place of what this rank said there before, and returns the
    /// [`greatest`] of what all say once it is known. Waits for nobody: to be called again until then, by
    /// each rank. This one knows at once that no rank takes part.
    ///
    /// # Errors
    /// It may never be known then.
    fn maximum(&mut self, phase: u8, mine: u64) -> Result<Option<u64>, OobError> {
        let _ = (phase, mine);
        Ok(Some(u64::MAX))
    }

    /// Says that this rank is done with the team, and tells whether every rank has said so: to be called
    /// again until it is true. This one waits for everybody.
    ///
    /// # Errors
    /// It will never be known then.
    fn leave(&mut self) -> Result<bool, OobError> {
        self.barrier().map(|()| true)
    }

    /// Waits for everybody.
    fn barrier(&mut self) -> Result<(), OobError> {
        self.allgather(&[]).map(drop)
    }
}

/// The greatest of all values, if all are there; `u64::MAX` as soon as one is that.
pub fn greatest(values: &[Option<u64>]) -> Option<u64> {
    match values.contains(&Some(u64::MAX)) {
        true => Some(u64::MAX),
        false => (values.iter()).try_fold(0, |most: u64, value| value.map(|value| value.max(most))),
    }
}

/// The world of this process: the one that `ferrorail run` started it in, or a world of one.
///
/// Collective, like opening a [`SocketOob`].
///
/// # Errors
/// If `FERRORAIL_RUN_*` variables are set but wrong, or the launcher cannot be reached.
pub fn from_env() -> Result<Box<dyn Oob>, OobError> {
    match RunEnv::from_process() {
        Ok(Some(env)) => Ok(Box::new(SocketOob::connect(&env)?)),
        Ok(None) => Ok(Box::new(InProcess::world(1).remove(0))),
        Err(error) => Err(OobError::new("connect", error)),
    }
}
