//! Values of reductions: which contributions, in which order and bracketing.

use super::Fault;
use ferrorail_base::Rank;
use std::ops::Range;

/// A reduced value: `left ∘ right`.
struct Value {
    part: u32,
    left: u32,
    right: u32,
    /// The contributing ranks, where they are consecutive and were reduced in rank order.
    run: Option<(u32, u32)>,
    /// The result made before this one with the same left operand, or [`NONE`].
    sibling: u32,
}

/// No result.
const NONE: u32 = u32::MAX;

/// Every reduced value of an execution. A token below `size * size` is a contribution, as no vector
/// has more parts or blocks than there are ranks; one from there on is a result, equal to another
/// exactly if contributions and bracketing are.
pub(super) struct Values {
    size: u32,
    leaves: u32,
    results: Vec<Value>,
    /// For each result, a bit for each rank that contributes.
    ranks: Vec<u64>,
    /// For each token the last result of which it is the left operand, or [`NONE`].
    last: Vec<u32>,
}

impl Values {
    pub fn new(size: u32) -> Self {
        Self {
            size,
            leaves: size * size,
            results: Vec::new(),
            ranks: Vec::new(),
            last: Vec::new(),
        }
    }

    fn result(&self, token: u32) -> Option<usize> {
        token.checked_sub(self.leaves).map(|index| index as usize)
    }

    /// Part, or block of `Send`, that `token` stands for.
    pub fn part(&self, token: u32) -> u32 {
        match self.result(token) {
            None => token / self.size,
            Some(result) => self.results[result].part,
        }
    }

    /// Contributing ranks of `token`, in order of reduction.
    pub fn contributions(&self, token: u32) -> Vec<u32> {
        let (mut found, mut left) = (Vec::new(), vec![token]);
        while let Some(token) = left.pop() {
            match self.result(token) {
                None => found.push(token % self.size),
                Some(result) => {
                    left.extend([self.results[result].right, self.results[result].left])
                }
            }
        }
        found
    }

    /// Whether `token` is the reduction of `part` over `ranks`, in rank order where that is asked for.
    pub fn is(&self, token: u32, part: u32, ranks: &Range<u32>, rank_order: bool) -> bool {
        let run = Some((ranks.start, ranks.end));
        if self.part(token) != part {
            return false;
        }
        if rank_order || self.run(token) == run {
            return self.run(token) == run;
        }
        (0..self.words()).all(|word| self.word(token, word) == word_of(ranks, word))
    }

    /// `left ∘ right`.
    pub fn combine(&mut self, left: u32, right: u32) -> Result<u32, Fault> {
        if self.last.len() <= left as usize {
            let tokens = self.leaves as usize + self.results.len();
            self.last.resize(tokens, NONE);
        }
        let mut known = self.last[left as usize];
        while known != NONE {
            let value = &self.results[known as usize];
            if value.right == right {
                return Ok(self.leaves + known);
            }
            known = value.sibling;
        }
        let (part, other) = (self.part(left), self.part(right));
        if part != other {
            let (left, right) = (part, other);
            return Err(Fault::ReducedParts { left, right });
        }
        for word in 0..self.words() {
            let (left_ranks, right_ranks) = (self.word(left, word), self.word(right, word));
            if left_ranks & right_ranks != 0 {
                return Err(self.reduced_twice(left, right));
            }
            self.ranks.push(left_ranks | right_ranks);
        }
        let run = match (self.run(left), self.run(right)) {
            (Some((first, middle)), Some((next, end))) if middle == next => Some((first, end)),
            _ => None,
        };
        let index = self.results.len() as u32;
        self.results.push(Value {
            part,
            left,
            right,
            run,
            sibling: std::mem::replace(&mut self.last[left as usize], index),
        });
        Ok(self.leaves + index)
    }

    /// The first contribution of `right` that `left` has too.
    fn reduced_twice(&self, left: u32, right: u32) -> Fault {
        let left = self.contributions(left);
        let mut right = self.contributions(right).into_iter();
        let twice = right.find(|rank| left.contains(rank));
        Fault::ReducedTwice(Rank(twice.expect("they share a contribution")))
    }

    fn run(&self, token: u32) -> Option<(u32, u32)> {
        match self.result(token) {
            None => Some((token % self.size, token % self.size + 1)),
            Some(result) => self.results[result].run,
        }
    }

    fn words(&self) -> u32 {
        self.size.div_ceil(u64::BITS)
    }

    /// Bits of ranks from `word * 64` on that contribute to `token`.
    fn word(&self, token: u32, word: u32) -> u64 {
        match self.result(token) {
            None => word_of(&(token % self.size..token % self.size + 1), word),
            Some(result) => self.ranks[result * self.words() as usize + word as usize],
        }
    }
}

/// Bits of `ranks` from `word * 64` on.
fn word_of(ranks: &Range<u32>, word: u32) -> u64 {
    let below = |end: u32| match end.saturating_sub(word * u64::BITS) {
        bits @ 0..u64::BITS => (1 << bits) - 1,
        _ => u64::MAX,
    };
    below(ranks.end) & !below(ranks.start)
}
