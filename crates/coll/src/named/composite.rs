//! The native baselines of the papers: two algorithms, of which the size of a block says which runs.

use super::Variant;
use crate::collective::Collective;
use crate::registry::find;

/// Two algorithms, of which the size of a block says which runs, on one port.
#[derive(Debug, PartialEq, Eq)]
pub struct Composite {
    /// Stable name in settings.
    pub name: &'static str,
    /// What it computes.
    pub collective: Collective,
    /// One line for people.
    pub description: &'static str,
    /// The largest block that `small` is for.
    pub small_bytes_max: u64,
    /// Name of the algorithm up to that size.
    pub small: &'static str,
    /// Name of the algorithm above it.
    pub large: &'static str,
}

/// The native baselines.
pub(super) const COMPOSITES: &[Composite] = &[
    Composite {
        name: "tree_then_ring",
        collective: Collective::Allgather,
        description: "native baseline: tree gather and broadcast up to 32 KB, ring above, one port",
        small_bytes_max: 32 << 10,
        small: "tree_gather_broadcast",
        large: "ring",
    },
    Composite {
        name: "tree_then_direct",
        collective: Collective::Gather,
        description: "native baseline: tree up to 4 KB, a message of each rank to the root above, one port",
        small_bytes_max: 4 << 10,
        small: "tree",
        large: "direct",
    },
    Composite {
        name: "pairwise_then_permission",
        collective: Collective::Alltoall,
        description: "native baseline: pairwise up to 8 KB, permission to send above, one port",
        small_bytes_max: 8 << 10,
        small: "pairwise",
        large: "permission_to_send",
    },
];

impl Composite {
    /// What runs for blocks of `bytes`.
    ///
    /// # Panics
    /// Never: tests look its parts up.
    pub fn at(&self, bytes: u64) -> Variant {
        let name = match bytes <= self.small_bytes_max {
            true => self.small,
            false => self.large,
        };
        Variant {
            algorithm: find(self.collective, name).expect("a part of a composite exists"),
            ports: Some(1),
            domains: false,
        }
    }
}

/// The composites of `collective`.
pub fn composites(collective: Collective) -> impl Iterator<Item = &'static Composite> {
    COMPOSITES
        .iter()
        .filter(move |composite| composite.collective == collective)
}
