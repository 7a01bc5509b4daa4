//! Barrier: nobody leaves before everybody has entered (MPI 4.1, section 6.3).
//!
//! | name | rounds | protocols |
//! |---|---|---|
//! | `dissemination` | ⌈log_{k+1} N⌉ | scratch |
//! | `smp_dissemination` | ⌈log_{k+1} V⌉ | scratch |
//!
//! Messages carry no block. N ranks on V nodes, k ports.

use crate::algorithm::{Algorithm, Build, ClosedForm, SCRATCH};
use crate::collective::Collective;
use crate::semantics::{Overlap, Semantics};

pub mod dissemination;

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

const fn row(name: &'static str, build: Build, work: ClosedForm) -> Algorithm {
    Algorithm::new(Collective::Barrier, name, build, work)
}

/// Every barrier algorithm.
pub const ALGORITHMS: &[Algorithm] = &[
    row("dissemination", dissemination::build, dissemination::work)
        .about("everyone notifies k others in each round, farther ones each time"),
    row(
        "smp_dissemination",
        dissemination::build_smp,
        dissemination::work_smp,
    )
    .smp_aware()
    .by_domains()
    .about("node barrier, dissemination between leaders, node release"),
];
