//! Who else is on a core, where ranks share some.

use ferrorail_base::NodeRank;
use ferrorail_base::sync::{AtomicU32, Ordering};

/// On which core each rank of a node waited last. Ranks that were started without being bound to cores move now and then,
/// so this is what was true when they said so.
#[derive(Clone, Copy, Debug)]
pub struct Cores<'a> {
    /// Counted from 1; 0 of a rank that has not waited yet.
    of_ranks: &'a [AtomicU32],
}

impl<'a> Cores<'a> {
    pub(crate) fn new(of_ranks: &'a [AtomicU32]) -> Self {
        Self { of_ranks }
    }

    /// Whether the core of `own`, the caller, is of no use to the other ranks: those that may be there wait for others, as
    /// `is_blocked` says. To give it away would then take two context switches in vain.
    #[inline]
    pub fn is_idle(self, own: NodeRank, is_blocked: impl Fn(NodeRank) -> bool) -> bool {
        let Ok(core) = nix::sched::sched_getcpu() else {
            return false;
        };
        self.is_idle_core(core as u32 + 1, own, is_blocked)
    }

    #[inline]
    fn is_idle_core(self, core: u32, own: NodeRank, is_blocked: impl Fn(NodeRank) -> bool) -> bool {
        let said = &self.of_ranks[own.index()];
        // The words share lines: who stays where it was leaves them in all caches.
        if said.load(Ordering::Relaxed) != core {
            said.store(core, Ordering::Relaxed);
        }
        let mut ranks = (0..).map(NodeRank).zip(self.of_ranks);
        ranks.all(|(rank, of_rank)| {
            let is_elsewhere = || ![0, core].contains(&of_rank.load(Ordering::Relaxed));
            rank == own || is_elsewhere() || is_blocked(rank)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_idle_if_all_that_may_be_there_are_blocked() {
        let words: [AtomicU32; 4] = Default::default();
        let cores = Cores::new(&words);
        let all = |_| true;
        let none = |_| false;
        assert!(cores.is_idle_core(7, NodeRank(0), all));
        // Nobody else has said where it is.
        assert!(!cores.is_idle_core(7, NodeRank(0), none));
        for rank in 1..4 {
            assert!(cores.is_idle_core(8, NodeRank(rank), all));
        }
        assert!(
            cores.is_idle_core(7, NodeRank(0), none),
            "the others are on core 8"
        );
        let but_3 = |rank| rank != NodeRank(3);
        assert!(!cores.is_idle_core(8, NodeRank(1), but_3));
        assert!(
            cores.is_idle_core(8, NodeRank(3), but_3),
            "itself is not asked"
        );
        // One that moves says so.
        assert!(cores.is_idle_core(9, NodeRank(3), all));
        assert!(cores.is_idle_core(8, NodeRank(1), but_3));
        assert!(cores.is_idle(NodeRank(2), all));
    }
}
