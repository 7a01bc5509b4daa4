//! Scan and exclusive scan: rank r receives the reduction of ranks 0..=r, or 0..r (MPI 4.1,
//! section 6.11).
//!
//! | name | rounds | volume |
//! |---|---|---|
//! | `recursive_doubling` | ⌈log_{k+1} N⌉ | ⌈log_{k+1} N⌉ vectors |
//! | `smp_linear` | V-1 | V-1 vectors |
//! | `chain` | N-1 | N-1 vectors |
//!
//! Both are written once: `INCLUSIVE` says whether a rank's own contribution is in its result.
//! All keep rank order on every team. An exclusive scan gives rank 0 nothing; its buffer is not
//! touched.

use crate::algorithm::{Algorithm, Cut};
use crate::collective::Collective;
use crate::reduction::{reduced, semantics};
use crate::semantics::{Overlap, Semantics};

pub mod chain;
pub mod recursive_doubling;
pub mod smp_linear;

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

const fn rows<const INCLUSIVE: bool>(collective: Collective) -> [Algorithm; 3] {
    [
        Algorithm::new(
            collective,
            "recursive_doubling",
            recursive_doubling::build::<INCLUSIVE>,
            recursive_doubling::work::<INCLUSIVE>,
        )
        .cut(Cut::Whole)
        .about("partial results of k+1 times as many ranks after each round"),
        Algorithm::new(
            collective,
            "smp_linear",
            smp_linear::build::<INCLUSIVE>,
            smp_linear::work::<INCLUSIVE>,
        )
        .smp_aware()
        .cut(Cut::Whole)
        .about("everyone reduces what precedes it in its node, nodes pass on their total"),
        Algorithm::new(
            collective,
            "chain",
            chain::build::<INCLUSIVE>,
            chain::work::<INCLUSIVE>,
        )
        .cut(Cut::Whole)
        .about("each adds its own to what comes from the rank before, and passes it on"),
    ]
}

/// Every scan algorithm.
pub const ALGORITHMS: &[Algorithm] = &rows::<true>(Collective::Scan);

/// Every exclusive scan algorithm.
pub const EXCLUSIVE_ALGORITHMS: &[Algorithm] = &rows::<false>(Collective::Exscan);
