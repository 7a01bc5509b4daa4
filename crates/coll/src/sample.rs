//! How many sizes of teams the exhaustive tests take.

/// Teams of up to this many ranks are tested in every size.
const SMALL: u32 = 12;

/// All sizes from 1 to `SMALL` and `last`, and of those between a quarter, which RANDOM_SEED draws; all with
/// TEST_EXTENT=all, as in `scripts/test full`.
pub fn sizes(last: u32) -> impl Iterator<Item = u32> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let all = variable("TEST_EXTENT") == "all";
    let drawn = variable("RANDOM_SEED").parse().unwrap_or(0) % 4;
    (1..=last).filter(move |&size| all || size <= SMALL || size == last || size % 4 == drawn)
}
