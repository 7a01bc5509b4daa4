//! What one call of a collective is to the engine.

use crate::choice;
use crate::plan::PlanKey;
use crate::reducer::Reducer;
use crate::run::{BlockList, Side};
use crate::ways::Ways;
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

/// One call of a collective, with what is sent and received as its entry knows it: where these are blocks of one length, no
/// more than that is in the code of its short calls.
#[derive(Clone, Copy)]
pub(super) struct Call<'a, S = Side<'a>, R = Side<'a>> {
    pub collective: Collective,
    pub root: Rank,
    /// The contribution; only read where this rank contributes.
    pub send: S,
    /// The result; only written where this rank receives.
    pub recv: R,
    /// Length of the longest block, as far as all ranks know it; 0 where they do not.
    pub bytes: usize,
    /// Of a reduction, what it does.
    pub reducer: Option<&'a Reducer<'a>>,
}

impl<S, R> Call<'_, S, R> {
    /// One that neither has a root nor reduces.
    #[inline(always)]
    pub const fn new(collective: Collective, send: S, recv: R, bytes: usize) -> Self {
        Self {
            collective,
            root: Rank(0),
            send,
            recv,
            bytes,
            reducer: None,
        }
    }

    /// What is chosen for it.
    #[inline(always)]
    pub fn key(&self) -> PlanKey {
        let in_rank_order = self.reducer.is_some_and(|reducer| !reducer.commutes);
        PlanKey::new(self.collective, self.root, self.bytes).in_rank_order(in_rank_order)
    }
}

impl<'a, S: BlockList, R: BlockList> Call<'a, S, R> {
    /// What is chosen for it if this rank knows of no long block; others may.
    #[inline(always)]
    pub fn short_key(&self, ways: &Ways) -> PlanKey {
        match choice::by_length(self.collective) {
            true => (self.key()).with_attach_percent(ways.of_vectors(self.collective)),
            false => self.key(),
        }
    }

    /// Length of the longest block that all ranks, or else this one, know of.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        match choice::by_length(self.collective) {
            true => self.send.longest().max(self.recv.longest()),
            false => self.bytes,
        }
    }

    /// Of one of `rank` in a team of two ranks, the longer of the blocks that these have for each other.
    #[inline(always)]
    pub fn pair_bytes(&self, rank: Rank) -> usize {
        let (sent, received) = (pair_block(&self.send, rank), pair_block(&self.recv, rank));
        // What else the root has there is its own block.
        match self.collective {
            Collective::Gatherv if rank == self.root => received,
            Collective::Scatterv if rank == self.root => sent,
            _ => sent.max(received),
        }
    }

    /// The same, as those see it who take calls of all entries.
    #[inline(always)]
    pub fn general(self) -> Call<'a>
    where
        S: Into<Side<'a>>,
        R: Into<Side<'a>>,
    {
        Call {
            collective: self.collective,
            root: self.root,
            send: self.send.into(),
            recv: self.recv.into(),
            bytes: self.bytes,
            reducer: self.reducer,
        }
    }
}

/// Bytes of the block in `side` that `rank` and the only other one have in common, if there is one.
#[inline(always)]
fn pair_block(side: &impl BlockList, rank: Rank) -> usize {
    match side.count() {
        0 => 0,
        _ => side.block_of(1 - rank.0).bytes,
    }
}
