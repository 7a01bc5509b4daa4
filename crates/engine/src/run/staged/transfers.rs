//! Pieces under way, as their origin and their target know them, and what a target answers.

use ferrorail_base::Rank;

/// What a target answers about a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The area is free for a piece; the one before has been taken.
    Granted = 1,
    /// The message has been taken, and this was its last piece.
    Taken = 2,
    /// The piece was damaged.
    Damaged = 3,
}

impl Answer {
    /// The word that says so. Words of a pair rise.
    pub const fn about(self, grant: u64) -> u64 {
        grant << 2 | self as u64
    }

    /// The grant that `word` tells of, if it tells of one.
    pub fn granted(word: u64) -> Option<u64> {
        (word & 3 == Self::Granted as u64).then_some(word >> 2)
    }
}

/// The origin that has the area.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub from: Rank,
    /// Its credit, as it asked for it.
    pub credit: u64,
    /// Number of the grant: higher than any before it, to whomever.
    pub grant: u64,
    pub phase: Phase,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// To be told that it has the credit.
    Grant,
    /// Its piece is on the way.
    Granted,
    /// To be told what became of it.
    Tell(Answer),
}

/// Pieces of a team, as both their origin and their target.
#[derive(Debug, Default)]
pub(crate) struct StagedTransfers {
    /// By rank: the last credit that this rank asked it for, or is taken to have.
    pub(super) asked: Vec<u64>,
    /// Doorbells that this rank rang.
    pub(super) rings: u64,
    /// By rank: the last credit that it asked this rank for, as far as known.
    pub(super) wanted: Vec<u64>,
    /// By rank: the last of them that is over.
    pub(super) served: Vec<u64>,
    /// How often the area has been granted.
    grants: u64,
    /// By rank: how often its present piece has come damaged.
    pub(super) damaged: Vec<u8>,
    /// The doorbell as it was last seen.
    pub(super) doorbell: u64,
    /// Whether some credit may be waiting.
    pub(super) waiting: bool,
    /// Who has the credit.
    pub(super) incoming: Option<Incoming>,
    /// Rank that was served last.
    last: u32,
    /// Pieces that came or went: who waits for them sees that they move.
    pub moved: u64,
}

impl StagedTransfers {
    /// Whether nobody is being served, and nobody waits for it.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.incoming.is_none() && !self.waiting
    }

    /// Has the next look at the doorbell find it rung.
    pub fn look_again(&mut self) {
        self.doorbell = u64::MAX;
    }

    /// Room for what is known of each of `size` ranks.
    pub(super) fn resize_to(&mut self, size: u32) {
        for credits in [&mut self.asked, &mut self.wanted, &mut self.served] {
            credits.resize(size as usize, 0);
        }
        self.damaged.resize(size as usize, 0);
    }

    /// Who has the credit: who has the area, or else the next that has asked.
    pub(super) fn present(&mut self) -> Option<Incoming> {
        if self.incoming.is_none() {
            let (from, credit) = self.next()?;
            self.grants += 1;
            self.incoming = Some(Incoming {
                from,
                credit,
                grant: self.grants,
                phase: Phase::Grant,
            });
        }
        self.incoming
    }

    /// The next rank that has asked, and its credit.
    fn next(&mut self) -> Option<(Rank, u64)> {
        let ranks = self.wanted.len() as u32;
        let after = |step| (self.last + step) % ranks;
        let asks = |rank: &u32| self.wanted[*rank as usize] > self.served[*rank as usize];
        let next = (1..=ranks).map(after).find(asks);
        self.waiting = next.is_some();
        let next = next?;
        self.last = next;
        Some((Rank(next), self.wanted[next as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_served_in_turn() {
        let mut staged = StagedTransfers::default();
        staged.resize_to(4);
        assert_eq!(staged.next(), None);
        staged.wanted = vec![0, 3, 0, 1];
        assert_eq!(staged.next(), Some((Rank(1), 3)));
        staged.served[1] = 3;
        staged.wanted[1] = 4;
        assert_eq!(staged.next(), Some((Rank(3), 1)), "the others first");
        staged.served[3] = 1;
        assert_eq!(staged.next(), Some((Rank(1), 4)));
        staged.served[1] = 4;
        assert!(!staged.is_idle());
        assert!(staged.present().is_none());
        assert!(staged.is_idle());
    }
}
