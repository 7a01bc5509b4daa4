//! Ranks that are threads of one process.

use super::world::World;
use super::{Oob, OobError};
use crate::probe;
use ferrorail_base::Rank;
use std::sync::Arc;

/// One rank of a world whose ranks live in this process, for tests and for worlds of one.
///
/// Leaving it, or dropping it, waits for nobody: calls of the others that need this rank then fail instead of waiting.
pub struct InProcess {
    world: Arc<World>,
    rank: Rank,
    host_keys: Arc<[u64]>,
}

impl InProcess {
    /// A world of `size` ranks on one host, by rank.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn world(size: u32) -> Vec<Self> {
        Self::with_host_keys(&vec![probe::host_key(); size as usize])
    }

    /// A world in which rank i has host key `keys[i]`: ranks with different keys count as being on
    /// different hosts.
    ///
    /// # Panics
    /// If `keys` is empty.
    pub fn with_host_keys(keys: &[u64]) -> Vec<Self> {
        let size = u32::try_from(keys.len()).expect("ranks are counted in 32 bits");
        let world = World::new(size);
        let host_keys: Arc<[u64]> = keys.into();
        (0..size)
            .map(|rank| Self {
                world: world.clone(),
                rank: Rank(rank),
                host_keys: host_keys.clone(),
            })
            .collect()
    }
}

impl Oob for InProcess {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.host_keys.len() as u32
    }

    fn host_key(&self) -> u64 {
        self.host_keys[self.rank.index()]
    }

    fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, OobError> {
        let all = self.world.allgather(self.rank, mine.to_vec(), &|| true)?;
        Ok(all.to_vec())
    }

    fn exchange(&mut self, peers: &[Rank], outgoing: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, OobError> {
        self.world
            .exchange(self.rank, peers, outgoing.to_vec(), &|| true)
    }

    fn maximum(&mut self, phase: u8, mine: u64) -> Result<Option<u64>, OobError> {
        Ok(self.world.maximum(self.rank, phase, mine))
    }

    fn leave(&mut self) -> Result<bool, OobError> {
        Ok(self.world.leave(self.rank, "has left"))
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.world.leave(self.rank, "has left");
    }
}
