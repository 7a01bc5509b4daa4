//! Barrier: nobody leaves before everybody has entered (MPI 4.1, section 6.3).
//!
//! | name | rounds | protocols |
//! |---|---|---|
//! | `dissemination` | ⌈log_{k+1} N⌉ | scratch |
//! | `smp_dissemination` | ⌈log_{k+1} V⌉ | scratch |
//!
//! Messages carry no block. N ranks on V nodes, k ports.

use crate::algorithm::{Algorithm, Cut, RankOrder, Request, SCRATCH};
use crate::collective::Collective;
use crate::cost::{Shape, Work};
use crate::schedule::{Protocol, Schedule};
use crate::semantics::{Overlap, Semantics};

pub mod dissemination;
pub mod smp_dissemination;

/// No data at all.
pub(crate) const SEMANTICS: Semantics = Semantics {
    send: |_| Vec::new(),
    start: |_| Vec::new(),
    recv: |_| Vec::new(),
    in_place: |_| Overlap::Apart,
    in_place_protocols: SCRATCH,
    synchronising: true,
    uniform: true,
};

const fn row(
    name: &'static str,
    smp_aware: bool,
    build: fn(&Request<'_>) -> Schedule,
    work: fn(&Shape, Protocol) -> Work,
    description: &'static str,
) -> Algorithm {
    Algorithm {
        name,
        collective: Collective::Barrier,
        description,
        protocols: SCRATCH,
        smp_aware,
        cut: Cut::Blocks,
        rank_order: RankOrder::Always,
        multicast: false,
        all_pairs: false,
        build,
        work,
    }
}

/// Every barrier algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row(
        "dissemination",
        false,
        dissemination::build,
        dissemination::work,
        "everyone notifies k others in each round, farther ones each time",
    ),
    row(
        "smp_dissemination",
        true,
        smp_dissemination::build,
        smp_dissemination::work,
        "node barrier, dissemination between leaders, node release",
    ),
];
