//! Values of reductions: which contributions, in which order and bracketing.

use super::Fault;
use ferrorail_base::Rank;
use std::collections::HashMap;

struct Value {
    part: u32,
    /// Contributing ranks, in order of reduction.
    ranks: Vec<u32>,
}

/// Every reduced value of an execution. A token below `size * size` is a contribution, as no vector
/// has more parts or blocks than there are ranks; one from there on is a result, equal to another
/// exactly if contributions and bracketing are.
pub(super) struct Values {
    size: u32,
    leaves: u32,
    results: Vec<Value>,
    known: HashMap<(u32, u32), u32>,
}

impl Values {
    pub fn new(size: u32) -> Self {
        Self {
            size,
            leaves: size * size,
            results: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Part, or block of `Send`, that `token` stands for.
    pub fn part(&self, token: u32) -> u32 {
        match token.checked_sub(self.leaves) {
            None => token / self.size,
            Some(result) => self.results[result as usize].part,
        }
    }

    /// Part and contributing ranks of `token`.
    pub fn contents(&self, token: u32) -> (u32, Vec<u32>) {
        match token.checked_sub(self.leaves) {
            None => (token / self.size, vec![token % self.size]),
            Some(result) => {
                let value = &self.results[result as usize];
                (value.part, value.ranks.clone())
            }
        }
    }

    /// `left ∘ right`.
    pub fn combine(&mut self, left: u32, right: u32) -> Result<u32, Fault> {
        if let Some(&token) = self.known.get(&(left, right)) {
            return Ok(token);
        }
        let (part, other) = (self.part(left), self.part(right));
        if part != other {
            let (left, right) = (part, other);
            return Err(Fault::ReducedParts { left, right });
        }
        let (_, mut ranks) = self.contents(left);
        let mut contributes = vec![false; self.size as usize];
        ranks.iter().for_each(|&r| contributes[r as usize] = true);
        for rank in self.contents(right).1 {
            if contributes[rank as usize] {
                return Err(Fault::ReducedTwice(Rank(rank)));
            }
            ranks.push(rank);
        }
        let token = self.leaves + self.results.len() as u32;
        self.results.push(Value { part, ranks });
        self.known.insert((left, right), token);
        Ok(token)
    }
}
