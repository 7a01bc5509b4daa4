//! What collectives take without MPI: for each a plain program with nothing but the copies, sums and waits that it needs,
//! for even blocks and `MPI_INT`, ranks of one host, and a length that all know. What a library can hope for.
//!
//! * `memory`: what its ranks share; * `slots`: through that memory; * `attach`: straight out of each other's buffers;
//! * `sum`: adding.

mod attach;
mod memory;
mod slots;
mod sum;

use super::job_sizes::Team;
use super::operation::{Operation, Place};
use super::shared;
use anyhow::{Context, Result, bail};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Ordering, spin_loop};
use ferrorail_engine::raw::{Cma, cma_allow, cores_of};
use ferrorail_mpi_abi::Host;
use memory::{Shared, Word};
use nix::sched::sched_getcpu;
use std::time::{Duration, Instant};

/// How data gets from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Copied into shared memory by one, out of it by others.
    Slots,
    /// Copied by the system, out of a buffer into a buffer.
    Attach,
    /// As [`Way::Slots`], where ranks are as many groups as there are cores: who comes last of a group adds its vectors.
    Combine,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Slots, Self::Attach, Self::Combine];

    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slots => "plain_slots",
            Self::Attach => "plain_attach",
            Self::Combine => "plain_combine",
        }
    }

    /// Whether there is such a program of `operation`.
    pub fn is_about(self, operation: &Operation) -> bool {
        match (Kind::of(operation), self) {
            (None, _) | (Some(Kind::Barrier), Self::Attach) => false,
            (Some(kind), Self::Combine) => kind == Kind::Allreduce,
            _ => true,
        }
    }
}

/// What is computed. Forms with lengths are those without: here all lengths are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Barrier,
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Allreduce,
    Reduce,
    ReduceScatter,
    Scan,
    Exscan,
}

impl Kind {
    fn of(operation: &Operation) -> Option<Self> {
        Some(match operation.name {
            "barrier" => Self::Barrier,
            "bcast" => Self::Bcast,
            "gather" | "gatherv" => Self::Gather,
            "scatter" | "scatterv" => Self::Scatter,
            "allgather" | "allgatherv" => Self::Allgather,
            "alltoall" | "alltoallv" => Self::Alltoall,
            "allreduce" => Self::Allreduce,
            "reduce" => Self::Reduce,
            "reduce_scatter" | "reduce_scatter_block" => Self::ReduceScatter,
            "scan" => Self::Scan,
            "exscan" => Self::Exscan,
            _ => return None,
        })
    }

    /// Whether each rank waits for every other.
    fn is_exchange(self) -> bool {
        use Kind::{Allgather, Allreduce, Alltoall, Barrier, ReduceScatter};
        matches!(
            self,
            Allgather | Allreduce | Alltoall | Barrier | ReduceScatter
        )
    }
}

/// What is copied or added at once, in bytes: it stays in a core's own cache.
const PIECE: usize = 64 << 10;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Waits that end while a core would be given away and back, in polls.
const POLLS: u32 = 400;
/// Yields between looks at the clock.
const YIELDS_PER_LOOK: u32 = 4096;
/// A peer that does not come for so long has failed.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A rank of a plain program.
pub struct Plain {
    way: Way,
    kind: Kind,
    place: Place,
    shared: Shared,
    processes: Vec<Cma>,
    /// Cores that the ranks share, and whether each rank has one.
    cores: usize,
    has_cores: bool,
    /// The last operation; a call is one for each piece.
    op: u64,
    /// Room for a piece that was read.
    piece: Vec<u64>,
    /// Bytes of the last call.
    bytes: Option<usize>,
}

/// A call's buffers, with blocks of so many bytes.
#[derive(Clone, Copy)]
struct Buffers {
    send: MemoryRange,
    recv: MemoryRange,
    bytes: usize,
}

/// A part of each block.
#[derive(Clone, Copy)]
struct Piece {
    offset: usize,
    bytes: usize,
}

impl Buffers {
    /// Of block `index` that is sent.
    fn sent(&self, index: usize, piece: Piece) -> MemoryRange {
        self.send
            .slice(index * self.bytes + piece.offset, piece.bytes)
    }

    /// Of block `index` that is received.
    fn received(&self, index: usize, piece: Piece) -> MemoryRange {
        self.recv
            .slice(index * self.bytes + piece.offset, piece.bytes)
    }
}

impl Plain {
    /// The rank's part in `operation` by `way`. Collective.
    ///
    /// # Errors
    /// The MPI library's; if ranks are on several hosts, or cannot share memory.
    pub fn open(host: &Host, team: Team, operation: &Operation, way: Way) -> Result<Self> {
        let kind = Kind::of(operation).context("no plain program of it")?;
        let size = team.place.size;
        cma_allow();
        let ids = shared::processes(host, team)?;
        if ids.iter().any(|id| id.host != ids[0].host) {
            bail!("plain programs are for ranks of one host");
        }
        let segment = shared::segment(host, team, Shared::bytes(size))?;
        let pids: Vec<u32> = ids.iter().map(|id| id.pid).collect();
        let cores = cores_of(&pids) as usize;
        let shared = Shared::new(segment.map_err(anyhow::Error::msg)?, size);
        let processes = ids.into_iter().map(Cma::of).collect();
        Ok(Self::new(
            (kind, way),
            team.place,
            shared,
            (processes, cores),
        ))
    }

    /// The rank at `place`, whose `processes` share so many cores.
    fn new(
        (kind, way): (Kind, Way),
        place: Place,
        shared: Shared,
        (processes, cores): (Vec<Cma>, usize),
    ) -> Self {
        Self {
            way,
            kind,
            place,
            shared,
            processes,
            cores,
            has_cores: place.size <= cores,
            op: 0,
            piece: vec![0; PIECE / size_of::<u64>()],
            bytes: None,
        }
    }

    /// Calls it with blocks, or a vector, of `bytes`. Calls of other lengths are not under way.
    ///
    /// # Errors
    /// If a peer does not come, or the system refuses its memory.
    ///
    /// # Safety
    /// The buffers are those that the operation has for such blocks, and nobody else uses them.
    pub unsafe fn call(
        &mut self,
        operation: &Operation,
        bytes: usize,
        (send, recv): (*const u8, *mut u8),
    ) -> Result<()> {
        let (sent, received) = operation.lengths(self.place, bytes);
        let buffers = Buffers {
            send: MemoryRange::new(send, sent),
            recv: MemoryRange::new(recv, received),
            bytes,
        };
        if self.bytes.replace(bytes) != Some(bytes) {
            let blocks = match self.kind {
                Kind::Alltoall | Kind::ReduceScatter => self.place.size,
                _ => 1,
            };
            let few = self.kind.is_exchange() && bytes > slots::MANY_BYTES_MAX;
            self.shared.divide(blocks * bytes.min(PIECE), few);
        }
        // SAFETY: the caller's contract; ranks wait for each other before they touch what another uses.
        unsafe {
            match self.way {
                Way::Slots => self.by_slots(&buffers),
                Way::Combine => self.by_groups(&buffers),
                Way::Attach => self.by_attach(&buffers),
            }
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let Place { rank, size, .. } = self.place;
        (1..size).map(move |distance| (rank + distance) % size)
    }

    fn is_root(&self) -> bool {
        self.place.rank == self.place.root
    }

    /// Waits until `is_there`. In an exchange `has_come` says of a rank that it waits like this one, so that a core on
    /// which all have come is kept.
    fn until(&self, has_come: impl Fn(usize) -> bool, is_there: impl Fn() -> bool) -> Result<()> {
        if self.has_cores {
            return shared::wait(|| Ok(is_there()));
        }
        let mut start = None;
        let mut yields = 0u32;
        while !is_there() {
            if self.is_idle_here(&has_come) && (0..POLLS).any(|_| polled(&is_there)) {
                return Ok(());
            }
            std::thread::yield_now();
            yields += 1;
            if yields.is_multiple_of(YIELDS_PER_LOOK)
                && start.get_or_insert_with(Instant::now).elapsed() > TIME_LIMIT
            {
                bail!("a rank did not come within {} s", TIME_LIMIT.as_secs());
            }
        }
        Ok(())
    }

    /// Whether all ranks that may be on this core have come.
    fn is_idle_here(&self, has_come: impl Fn(usize) -> bool) -> bool {
        let here = sched_getcpu().map_or(0, |core| core as u64 + 1);
        let core_of = |rank| self.shared.word(Word::Core, rank);
        if core_of(self.place.rank).load(Ordering::Relaxed) != here {
            core_of(self.place.rank).store(here, Ordering::Relaxed);
        }
        self.others()
            .all(|rank| core_of(rank).load(Ordering::Relaxed) != here || has_come(rank))
    }

    /// Waits for the message of `rank` in the operation under way.
    fn await_message(&self, rank: usize) -> Result<()> {
        let (shared, op) = (&self.shared, self.op);
        let has_come = |rank| self.kind.is_exchange() && shared.is_raised(rank, op);
        self.until(has_come, || shared.is_raised(rank, op))
    }

    /// Waits until `rank` has said as much in `word`, as those do that this rank's core is of no use to.
    fn await_word(&self, word: Word, rank: usize) -> Result<()> {
        let (shared, op) = (&self.shared, self.op);
        let has_come = |rank| self.kind.is_exchange() && shared.has(word, rank, op);
        self.until(has_come, || shared.has(word, rank, op))
    }

    /// Says in `word` that this rank has come as far as the operation under way.
    fn say(&self, word: Word) {
        self.shared.say(word, self.place.rank, self.op);
    }

    /// Says `word`, and waits until all have.
    fn meet(&self, word: Word) -> Result<()> {
        self.say(word);
        self.others()
            .try_for_each(|rank| self.await_word(word, rank))
    }
}

fn polled(is_there: impl Fn() -> bool) -> bool {
    spin_loop();
    is_there()
}

#[cfg(test)]
mod tests;
