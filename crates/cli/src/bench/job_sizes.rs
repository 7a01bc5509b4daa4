//! Measuring with fewer ranks than the job has: some of them, while the others sleep.

use super::operation::Place;
use super::wrong_data::WrongData;
use anyhow::{Result, bail};
use ferrorail_mpi_abi::{Comm, Host, RequestList};
use serde::Deserialize;
use std::ffi::c_int;
use std::thread;
use std::time::Duration;

/// How many ranks take part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobSizes {
    /// All of the job.
    #[default]
    Whole,
    /// 2, 4, 8 and so on, and all.
    Doubling,
    /// Those of these that the job has ranks for; all of the job if it has too few for any.
    UpTo(Vec<usize>),
    /// These.
    Given(Vec<usize>),
}

impl JobSizes {
    /// For a job of `ranks`.
    ///
    /// # Errors
    /// If the job has too few, or a size is below `least`.
    pub fn resolve(&self, ranks: usize, least: usize) -> Result<Vec<usize>> {
        let sizes = match self {
            Self::Whole => vec![ranks],
            Self::Doubling => {
                let doubling = std::iter::successors(Some(2), |size| Some(size * 2));
                let smaller = doubling.take_while(|&size| size < ranks);
                smaller.chain([ranks]).collect()
            }
            Self::UpTo(sizes) => match sizes.iter().filter(|&&size| size <= ranks).copied() {
                fitting if fitting.clone().next().is_some() => fitting.collect(),
                _ => vec![ranks],
            },
            Self::Given(sizes) => sizes.clone(),
        };
        if let Some(size) = sizes
            .iter()
            .find(|&&size| size < least.max(1) || size > ranks)
        {
            bail!("a job of {ranks} ranks cannot measure with {size} of them, root included");
        }
        Ok(sizes)
    }
}

/// Tag of the message that ends the others' sleep.
const TAG: c_int = 1;
/// How often they look: seldom, as they may share cores with ranks that are measured.
const LOOK: Duration = Duration::from_millis(2);

/// The ranks that are measured.
#[derive(Clone, Copy)]
pub struct Team {
    /// Their communicator.
    pub comm: Comm,
    /// Another, in which they are a closed ring.
    pub ring: Comm,
    /// This rank among them.
    pub place: Place,
}

impl Team {
    /// The ranks of `comm`. Collective.
    fn new(host: &Host, comm: Comm, place: Place) -> Result<Self> {
        let (ranks, closed) = (place.size as c_int, 1);
        let mut ring = Comm(0);
        let create = host.functions().cart_create;
        // SAFETY: the arrays have an entry for the dimension, and `ring` is as large as any handle.
        let code = unsafe { create(comm, 1, &ranks, &closed, 0, &mut ring) };
        host.check("MPI_Cart_create", code)?;
        Ok(Self { comm, ring, place })
    }
}

/// All ranks of a job.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    host: &'a Host,
    /// All of them.
    pub all: Team,
}

impl<'a> Job<'a> {
    /// The job of this process.
    pub fn new(host: &'a Host, root: usize) -> Result<Self> {
        let comm = host.predefined().comm_world;
        let place = Place {
            rank: host.comm_rank(comm)? as usize,
            size: host.comm_size(comm)? as usize,
            root,
        };
        let all = Team::new(host, comm, place)?;
        Ok(Self { host, all })
    }

    /// What the ranks that `takes_part` names do together, rank 0 being one of them; `None` at the others,
    /// which sleep. Collective.
    ///
    /// # Errors
    /// Those of `act`; wrong data is known to all ranks of the job.
    pub fn with<R>(
        &self,
        takes_part: impl Fn(usize) -> bool,
        act: impl FnOnce(Team) -> Result<R>,
    ) -> Result<Option<R>> {
        let all = 0..self.all.place.size;
        let mut part = all.filter(|&rank| takes_part(rank));
        let mine = part.clone().position(|rank| rank == self.all.place.rank);
        let size = part.clone().count();
        if size == self.all.place.size {
            return act(self.all).map(Some);
        }
        let root = part.position(|rank| rank == self.all.place.root);
        let others = |rank: &usize| !takes_part(*rank);
        let comm = self.split(mine.is_some())?;
        let Some(rank) = mine else {
            self.sleep()?;
            return Ok(None);
        };
        let place = Place {
            rank,
            size,
            root: root.unwrap_or(0),
        };
        let team = Team::new(self.host, comm, place)?;
        let outcome = act(team);
        let is_wrong = match &outcome {
            Ok(_) => false,
            Err(error) if error.is::<WrongData>() => true,
            // The job is aborted.
            Err(_) => return outcome.map(Some),
        };
        self.host.barrier(comm)?;
        self.wake(others, is_wrong)?;
        self.host.free_comm(team.ring)?;
        self.host.free_comm(comm)?;
        outcome.map(Some)
    }

    fn split(&self, takes_part: bool) -> Result<Comm> {
        let color = match takes_part {
            true => 0,
            false => self.host.constants().undefined,
        };
        let Team { comm, place, .. } = self.all;
        let mut part = Comm(0);
        let split = self.host.functions().comm_split;
        // SAFETY: `part` is live and as large as any handle.
        let code = unsafe { split(comm, color, place.rank as c_int, &mut part) };
        self.host.check("MPI_Comm_split", code)?;
        Ok(part)
    }

    /// Rank 0 tells those that did not take part that the others are done.
    fn wake(&self, others: impl Fn(&usize) -> bool, is_wrong: bool) -> Result<()> {
        let Team { comm, place, .. } = self.all;
        if place.rank != 0 {
            return Ok(());
        }
        let word = [u8::from(is_wrong)];
        let mut requests = RequestList::with_capacity(self.host.kind(), place.size);
        for rank in (0..place.size).filter(others) {
            // SAFETY: the word outlives the requests.
            unsafe {
                self.host
                    .start_send(&word, rank as u32, TAG, comm, &mut requests)?;
            }
        }
        Ok(self.host.wait_all(&mut requests)?)
    }

    fn sleep(&self) -> Result<()> {
        let mut word = [0];
        let mut requests = RequestList::with_capacity(self.host.kind(), 1);
        // SAFETY: the word is not touched until the request is complete; an error ends the job.
        unsafe {
            self.host
                .start_receive(&mut word, 0, TAG, self.all.comm, &mut requests)?;
        }
        while !self.host.test_all(&mut requests)? {
            thread::sleep(LOOK);
        }
        match word {
            [0] => Ok(()),
            _ => Err(WrongData::elsewhere().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_jobs_are_those_that_the_job_has() {
        let sizes = |sizes: &JobSizes, ranks| sizes.resolve(ranks, 1).unwrap();
        assert_eq!(sizes(&JobSizes::Whole, 6), [6]);
        assert_eq!(sizes(&JobSizes::Doubling, 8), [2, 4, 8]);
        assert_eq!(sizes(&JobSizes::Doubling, 6), [2, 4, 6]);
        assert_eq!(sizes(&JobSizes::Doubling, 2), [2]);
        assert_eq!(sizes(&JobSizes::UpTo(vec![4, 8, 16]), 9), [4, 8]);
        assert_eq!(sizes(&JobSizes::UpTo(vec![4, 8, 16]), 3), [3]);
        let given = JobSizes::Given(vec![3, 2]);
        assert_eq!(sizes(&given, 3), [3, 2]);
        assert!(given.resolve(2, 1).is_err(), "too few ranks");
        assert!(given.resolve(3, 3).is_err(), "without the root");
        assert!(JobSizes::Given(vec![0]).resolve(3, 0).is_err());
    }
}
