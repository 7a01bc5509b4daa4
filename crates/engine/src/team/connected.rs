//! What all ranks of a team know to be connected.

use super::map::Map;
use ferrorail_base::Rank;
use ferrorail_coll::named::Variant;
use ferrorail_coll::{Collective, Protocol};
use std::collections::HashSet;

/// Whom each rank connects to at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peers {
    /// Those that the schedules of an algorithm name, whatever the lengths of messages.
    Schedule {
        collective: Collective,
        algorithm: Variant,
        root: Rank,
        protocol: Protocol,
    },
    /// Those among whom leaders pass quiescence on.
    Quiescence,
    /// All on other nodes.
    All,
}

impl Peers {
    /// Whether messages carry data.
    pub(super) fn exchange_data(&self) -> bool {
        match *self {
            Self::Schedule { collective, .. } => collective != Collective::Barrier,
            Self::Quiescence => false,
            Self::All => true,
        }
    }
}

/// Ranks of teams whose pairs are all looked at.
const PAIRS_MAX: u32 = 64;

/// What all ranks know to be connected.
#[derive(Default)]
pub(crate) struct Connected {
    pub(super) sets: HashSet<Peers>,
    /// Whether ranks have registered the whole of their segments.
    pub(super) whole: bool,
    /// The peers of each rank as bits, in teams of at most [`PAIRS_MAX`].
    pairs: Vec<u64>,
}

impl Connected {
    /// Adds the pairs on different nodes that `peers_of` names; whether some were not known.
    pub(super) fn add_pairs(&mut self, map: &Map, peers_of: &dyn Fn(Rank) -> Vec<Rank>) -> bool {
        let size = map.topology.size();
        if size > PAIRS_MAX {
            return true;
        }
        self.pairs.resize(size as usize, 0);
        let mut is_new = false;
        for rank in (0..size).map(Rank) {
            let far = |peer: &Rank| !map.topology.same_node(*peer, rank);
            for peer in peers_of(rank).into_iter().filter(far) {
                is_new |= self.pairs[rank.index()] & 1 << peer.0 == 0;
                self.pairs[rank.index()] |= 1 << peer.0;
            }
        }
        is_new
    }
}
