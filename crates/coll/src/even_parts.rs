//! Consecutive things in parts, as many in each as can be.

use std::ops::Range;

/// `items` in `parts` parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvenParts {
    /// How many things there are.
    pub items: u32,
    /// In how many parts, at least one. Where there are fewer things some are empty.
    pub parts: u32,
}

impl EvenParts {
    /// The things in part `part`.
    pub fn range(self, part: u32) -> Range<u32> {
        let cut = |part| (u64::from(self.items) * u64::from(part) / u64::from(self.parts)) as u32;
        cut(part)..cut(part + 1)
    }

    /// In which part thing `item` is.
    pub fn part_of(self, item: u32) -> u32 {
        (((u64::from(item) + 1) * u64::from(self.parts) - 1) / u64::from(self.items)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_each_thing_is_in_one() {
        for items in 1..200 {
            for parts in 1..=items {
                let even = EvenParts { items, parts };
                let mut next = 0;
                for part in 0..parts {
                    let range = even.range(part);
                    assert_eq!(range.start, next);
                    let count = range.end - range.start;
                    assert!((items / parts..=items.div_ceil(parts)).contains(&count));
                    next = range.end;
                    assert!(range.into_iter().all(|item| even.part_of(item) == part));
                }
                assert_eq!(next, items);
            }
        }
    }
}
