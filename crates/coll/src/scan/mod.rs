//! Scan and exclusive scan: rank r receives the reduction of ranks 0..=r, or 0..r (MPI 4.1,
//! section 6.11).
//!
//! | name | rounds | volume |
//! |---|---|---|
//! | `recursive_doubling` | ⌈log_{k+1} N⌉ | ⌈log_{k+1} N⌉ vectors |
//! | `smp_linear` | V-1 | V-1 vectors |
//! | `chain` | N-1 | N-1 vectors |
//!
//! All keep rank order on every team. An exclusive scan gives rank 0 nothing; its buffer is not
//! touched.

use crate::algorithm::{Algorithm, Cut, RankOrder, Request, SCRATCH};
use crate::collective::Collective;
use crate::cost::{Shape, Work};
use crate::reduction::{reduced, semantics};
use crate::schedule::{Protocol, Schedule};
use crate::semantics::{Overlap, Semantics};

pub mod chain;
pub mod recursive_doubling;
pub mod smp_linear;

/// Whether a rank's own contribution is in its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Inclusive,
    Exclusive,
}

pub(crate) const SEMANTICS: Semantics = semantics(|at| reduced(at, at.rank.0 + 1));

pub(crate) const EXCLUSIVE_SEMANTICS: Semantics = Semantics {
    in_place: |at| {
        if at.rank.0 == 0 {
            Overlap::Apart
        } else {
            Overlap::SendInRecv(0)
        }
    },
    ..semantics(|at| {
        if at.rank.0 == 0 {
            Vec::new()
        } else {
            reduced(at, at.rank.0)
        }
    })
};

const fn row(
    collective: Collective,
    name: &'static str,
    smp_aware: bool,
    build: fn(&Request<'_>) -> Schedule,
    work: fn(&Shape, Protocol) -> Work,
    description: &'static str,
) -> Algorithm {
    Algorithm {
        name,
        collective,
        description,
        protocols: SCRATCH,
        smp_aware,
        cut: Cut::Whole,
        rank_order: RankOrder::Always,
        multicast: false,
        all_pairs: false,
        build,
        work,
    }
}

const DOUBLING: &str = "partial results of k+1 times as many ranks after each round";
const LINEAR: &str = "everyone reduces what precedes it in its node, nodes pass on their total";
const CHAIN: &str = "each adds its own to what comes from the rank before, and passes it on";

/// Every scan algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row(
        Collective::Scan,
        "recursive_doubling",
        false,
        recursive_doubling::build_inclusive,
        recursive_doubling::work_inclusive,
        DOUBLING,
    ),
    row(
        Collective::Scan,
        "smp_linear",
        true,
        smp_linear::build_inclusive,
        smp_linear::work_inclusive,
        LINEAR,
    ),
    row(
        Collective::Scan,
        "chain",
        false,
        chain::build_inclusive,
        chain::work_inclusive,
        CHAIN,
    ),
];

/// Every exclusive scan algorithm.
pub const EXCLUSIVE_ALGORITHMS: &[Algorithm] = &[
    row(
        Collective::Exscan,
        "recursive_doubling",
        false,
        recursive_doubling::build_exclusive,
        recursive_doubling::work_exclusive,
        DOUBLING,
    ),
    row(
        Collective::Exscan,
        "smp_linear",
        true,
        smp_linear::build_exclusive,
        smp_linear::work_exclusive,
        LINEAR,
    ),
    row(
        Collective::Exscan,
        "chain",
        false,
        chain::build_exclusive,
        chain::work_exclusive,
        CHAIN,
    ),
];
