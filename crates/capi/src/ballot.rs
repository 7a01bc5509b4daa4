//! How ranks find that all say the same, in a collective of the host that takes the least of each word.

use libc::c_int;

/// Two words and their opposites: the least of all ranks' tells whether they say the same.
pub type Ballot = [c_int; 4];

/// What a rank says; zeros are nothing.
pub fn ballot([a, b]: [c_int; 2]) -> Ballot {
    [a, b, -a, -b]
}

/// Whether all ranks say the same, and something, given the least of their ballots.
pub fn is_unanimous([a, b, not_a, not_b]: Ballot) -> bool {
    (a, b) != (0, 0) && (a, b) == (-not_a, -not_b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(ballots: &[Ballot]) -> Ballot {
        let smaller = |a: Ballot, b: &Ballot| std::array::from_fn(|at| a[at].min(b[at]));
        ballots.iter().fold([c_int::MAX; 4], smaller)
    }

    #[test]
    fn only_what_all_ranks_say_counts() {
        let of = |a, b| ballot([a, b]);
        let none = of(0, 0);
        assert!(is_unanimous(least(&[of(7, 9), of(7, 9), of(7, 9)])));
        assert!(is_unanimous(least(&[of(c_int::MAX, 0)])));
        for ballots in [
            [of(7, 9), of(7, 8)],
            [of(7, 9), of(9, 7)],
            [of(7, 9), none],
            [none, none],
        ] {
            assert!(!is_unanimous(least(&ballots)), "{ballots:?}");
        }
    }
}
