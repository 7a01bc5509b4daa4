//! How much a run of tests takes of cases that differ in little: all with TEST_EXTENT=all, as in
//! `scripts/test full`, else a part that RANDOM_SEED draws.

use std::ops::Range;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Whether tests take all that they could.
pub fn takes_all() -> bool {
    variable("TEST_EXTENT") == "all"
}

/// Which of `parts` equal parts of its cases a run takes that does not take all.
pub fn drawn(parts: usize) -> usize {
    let seed: u64 = variable("RANDOM_SEED").parse().unwrap_or_default();
    (seed % parts as u64) as usize
}

/// Every third of `all`; of lists that differ in `number`, each begins elsewhere.
pub fn third<T>(all: &[T], number: usize) -> impl Iterator<Item = &T> {
    let first = (drawn(3) + number) % 3;
    let (first, step) = if takes_all() { (0, 1) } else { (first, 3) };
    all.iter().skip(first).step_by(step)
}

/// Of so many seeds one of `parts` equal parts, side by side.
pub fn part_of_seeds(parts: u64, count: u64) -> Range<u64> {
    if takes_all() {
        return 0..count;
    }
    let part = count.div_ceil(parts);
    let first = count.min(part * drawn(parts as usize) as u64);
    first..count.min(first + part)
}
