//! Ranks of a node that copy through a shared segment, by `memcpy`, as Qian and Afsahi's `shm_p2p` and
//! k-`memcpy` do (2008, section 4.2).

use super::{Carrier, Transfer};
use crate::bench::buffers::contents;
use crate::bench::job_sizes::Team;
use crate::bench::shared::{self, wait};
use anyhow::{Result, anyhow, bail};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_engine::raw::Segment;
use ferrorail_mpi_abi::Host;

/// Bytes of a flag's part of the segment.
const FLAG_BYTES: usize = 64;
const PAGE: usize = 4096;

/// Memory that all ranks of the team share: a flag, and a part of each.
pub struct Shared {
    team: Team,
    segment: Segment,
    /// Bytes of a part.
    part: usize,
    /// This rank's own message, and what it received.
    own: Vec<u8>,
    received: Vec<u8>,
}

impl Shared {
    /// Of ranks of one host. Collective.
    ///
    /// # Errors
    /// If memory cannot be shared.
    pub fn open(host: &Host, team: Team, bytes: usize) -> Result<Self> {
        let part = bytes.next_multiple_of(PAGE);
        let length = PAGE + part * team.place.size;
        let segment = shared::segment(host, team, length)?;
        let segment = segment.map_err(|problem| anyhow!("among ranks of one host: {problem}"))?;
        Ok(Self {
            team,
            segment,
            part,
            own: vec![1; bytes],
            received: vec![0; bytes],
        })
    }

    fn part_of(&self, rank: usize, bytes: usize) -> MemoryRange {
        self.segment.range().slice(PAGE + rank * self.part, bytes)
    }

    /// Copies this rank's message into a part.
    fn copy_in(&self, part: usize, bytes: usize) {
        let from = MemoryRange::new(self.own.as_ptr(), bytes);
        // SAFETY: both have so many bytes; the flag keeps others from them meanwhile.
        unsafe { from.copy_to(self.part_of(part, bytes)) }
    }

    /// Copies a part out.
    fn copy_out(&mut self, part: usize, bytes: usize) {
        let to = MemoryRange::new(self.received.as_mut_ptr(), bytes);
        // SAFETY: as above.
        unsafe { self.part_of(part, bytes).copy_to(to) }
    }

    /// The message of the buffer's owner, announced by its flag, which the receiver resets.
    fn one_way(&mut self, sender: usize, bytes: usize) -> Result<()> {
        let at = sender * FLAG_BYTES;
        if self.team.place.rank == sender {
            wait(|| Ok(self.segment.word(at).load(Ordering::Acquire) == 0))?;
            self.copy_in(sender, bytes);
            self.segment.word(at).store(1, Ordering::Release);
        } else {
            wait(|| Ok(self.segment.word(at).load(Ordering::Acquire) == 1))?;
            self.copy_out(sender, bytes);
            self.segment.word(at).store(0, Ordering::Release);
        }
        Ok(())
    }
}

impl Carrier for Shared {
    fn carry(&mut self, transfer: Transfer, bytes: usize, iterations: usize) -> Result<()> {
        for iteration in 0..iterations {
            match transfer {
                Transfer::SharedBuffer => self.one_way(iteration % 2, bytes)?,
                Transfer::Copies(_) => {
                    self.copy_in(self.team.place.rank, bytes);
                    // So that every copy is made.
                    std::hint::black_box(&self.segment);
                }
                _ => bail!("shared memory carries no puts"),
            }
        }
        Ok(())
    }

    fn check(&mut self, transfer: Transfer, bytes: usize, round: u64) -> Result<bool> {
        let rank = self.team.place.rank;
        contents(&mut self.own, rank, round, 0);
        self.carry(transfer, bytes, 2)?;
        let mut expected = vec![0; bytes];
        match transfer {
            Transfer::SharedBuffer => contents(&mut expected, 1 - rank, round, 0),
            _ => {
                contents(&mut expected, rank, round, 0);
                self.copy_out(rank, bytes);
            }
        }
        Ok(self.received[..bytes] == expected)
    }
}
