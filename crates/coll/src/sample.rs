//! How much the exhaustive tests take: all with TEST_EXTENT=all, as in `scripts/test full`.

/// Teams of up to this many ranks are tested in every size.
const SMALL: u32 = 12;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn takes_all() -> bool {
    variable("TEST_EXTENT") == "all"
}

/// All sizes from 1 to `SMALL` and `last`, and of those between a quarter, which RANDOM_SEED draws.
pub fn sizes(last: u32) -> impl Iterator<Item = u32> {
    let all = takes_all();
    let drawn = variable("RANDOM_SEED").parse().unwrap_or(0) % 4;
    (1..=last).filter(move |&size| all || size <= SMALL || size == last || size % 4 == drawn)
}

/// A third of so many random cases.
pub fn cases(all: u32) -> u32 {
    if takes_all() { all } else { all / 3 }
}
