//! How much the exhaustive tests take.

use ferrorail_test_extent::{drawn, takes_all};

/// Teams of up to this many ranks are tested in every size.
const SMALL: u32 = 12;

/// All sizes from 1 to `SMALL` and `last`, and of those between an eighth, which RANDOM_SEED draws.
pub fn sizes(last: u32) -> impl Iterator<Item = u32> {
    let (all, drawn) = (takes_all(), drawn(8) as u32);
    (1..=last).filter(move |&size| all || size <= SMALL || size == last || size % 8 == drawn)
}

/// One of these, which RANDOM_SEED draws.
pub fn one_of(values: &[u32]) -> &[u32] {
    match takes_all() {
        true => values,
        false => &values[drawn(values.len())..][..1],
    }
}

/// A sixth of so many random cases.
pub fn cases(all: u32) -> u32 {
    if takes_all() { all } else { all / 6 }
}
