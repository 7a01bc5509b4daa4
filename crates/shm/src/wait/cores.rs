//! Who else is on a core, where ranks share some.

use ferrorail_base::NodeRank;
use ferrorail_base::sync::{AtomicU32, Ordering};
use std::collections::BTreeMap;

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
        here().is_some_and(|core| self.is_idle_core(core, own, is_blocked))
    }

    /// Whether `rank` waited last on the core of the caller.
    pub fn is_here(self, rank: NodeRank) -> bool {
        here() == Some(self.of_ranks[rank.index()].load(Ordering::Relaxed))
    }

    /// A core that has at least two ranks less than that of `own`, the caller, if of the ranks there this is the one to move:
    /// the last, so that a core loses one at a time.
    pub(super) fn scarce(self, own: NodeRank) -> Option<usize> {
        let scarce = self.scarce_beside(here()?, own)?;
        Some(scarce as usize - 1)
    }

    /// As [`Cores::scarce`], counted from 1, of a caller on `core`; another thread of it may say another one meanwhile.
    fn scarce_beside(self, core: u32, own: NodeRank) -> Option<u32> {
        self.say(core, own);
        let of_ranks: Vec<u32> = self
            .of_ranks
            .iter()
            .map(|of_rank| of_rank.load(Ordering::Relaxed))
            .collect();
        if of_ranks.contains(&0) || of_ranks[own.index() + 1..].contains(&core) {
            return None;
        }
        let mut ranks: BTreeMap<u32, usize> = BTreeMap::new();
        for &core in &of_ranks {
            *ranks.entry(core).or_default() += 1;
        }
        let fewest = *ranks.values().min()?;
        let scarce = ranks.iter().filter(|&(_, &ranks)| ranks == fewest);
        let scarce: Vec<u32> = scarce.map(|(&core, _)| core).collect();
        // Those that leave several full cores do not all go to the same one.
        let is_full = *ranks.get(&core)? >= fewest + 2;
        is_full.then(|| scarce[own.index() % scarce.len()])
    }

    /// Says that `own` is on this core.
    #[inline]
    fn say(self, core: u32, own: NodeRank) {
        let said = &self.of_ranks[own.index()];
        // The words share lines: who stays where it was leaves them in all caches.
        if said.load(Ordering::Relaxed) != core {
            said.store(core, Ordering::Relaxed);
        }
    }

    #[inline]
    fn is_idle_core(self, core: u32, own: NodeRank, is_blocked: impl Fn(NodeRank) -> bool) -> bool {
        self.say(core, own);
        let mut ranks = (0..).map(NodeRank).zip(self.of_ranks);
        ranks.all(|(rank, of_rank)| {
            let is_elsewhere = || ![0, core].contains(&of_rank.load(Ordering::Relaxed));
            rank == own || is_elsewhere() || is_blocked(rank)
        })
    }
}

/// The caller's core, counted from 1.
#[inline]
fn here() -> Option<u32> {
    let core = nix::sched::sched_getcpu().ok()?;
    Some(core as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_last_on_this_core_is_here() {
        let words: [AtomicU32; 3] = Default::default();
        let cores = Cores::new(&words);
        let mut here = [false; 3];
        // The system may move this thread between two looks; not every time.
        let told = (0..1000).any(|_| {
            let core = super::here().unwrap();
            cores.say(core, NodeRank(1));
            cores.say(core + 1, NodeRank(2));
            here = [0, 1, 2].map(|rank| cores.is_here(NodeRank(rank)));
            here == [false, true, false]
        });
        assert!(told, "{here:?}");
    }

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

    #[test]
    fn the_last_rank_of_a_core_with_two_more_than_another_is_to_move() {
        let scarce = |of_ranks: &[u32], own: usize| {
            let words: Vec<AtomicU32> = of_ranks.iter().map(|&core| AtomicU32::new(core)).collect();
            Cores::new(&words).scarce_beside(of_ranks[own], NodeRank(own as u32))
        };
        assert_eq!(scarce(&[1, 1, 1, 2], 2), Some(2));
        assert_eq!(scarce(&[1, 1, 1, 2], 1), None, "rank 2 is there too");
        assert_eq!(scarce(&[1, 1, 1, 2], 3), None);
        assert_eq!(scarce(&[1, 1, 2], 1), None, "as even as can be");
        assert_eq!(
            scarce(&[1, 1, 1, 1, 2, 0], 3),
            None,
            "rank 5 may be anywhere"
        );
        assert_eq!(
            scarce(&[1, 1, 1], 2),
            None,
            "of other cores nothing is known"
        );
        let full = [1, 1, 1, 2, 2, 2, 7, 9];
        assert_eq!((scarce(&full, 2), scarce(&full, 5)), (Some(7), Some(9)));
    }
}
