//! Whom a schedule takes for a node: the ranks of the node, or those of this rank's domain.
//!
//! Schedules over domains name ranks by their numbers there. All that they share lies in the segment of the node, where
//! ranks have the numbers of that.

use crate::team::map::Map;
use ferrorail_base::{NodeRank, Rank, Topology};

/// See the module documentation.
#[derive(Clone, Copy)]
pub(super) struct Neighbours<'a> {
    map: &'a Map,
    /// Where the schedule goes by them.
    domains: Option<&'a Topology>,
}

impl<'a> Neighbours<'a> {
    /// Of a schedule that goes `by_domains` or does not.
    #[inline]
    pub fn new(map: &'a Map, by_domains: bool) -> Self {
        Self {
            map,
            domains: map.domains.as_ref().filter(|_| by_domains),
        }
    }

    /// Who has the scratch that is `Node` for `rank`, on its node.
    #[inline]
    pub fn leader_of(&self, rank: Rank) -> NodeRank {
        match self.domains {
            None => NodeRank(0),
            Some(domains) => {
                let leader = domains.leader_of(domains.node_of(rank));
                self.map.topology.node_rank_of(leader)
            }
        }
    }

    /// The one that the schedule calls `of`, on its node.
    #[inline]
    pub fn of(&self, of: NodeRank) -> NodeRank {
        match self.domains {
            None => of,
            Some(domains) => {
                let ranks = domains.ranks_of(domains.node_of(self.map.rank));
                self.map.topology.node_rank_of(ranks[of.index()])
            }
        }
    }

    /// The first of them that `is` so, on its node.
    #[inline]
    pub fn find(&self, mut is: impl FnMut(NodeRank) -> bool) -> Option<NodeRank> {
        match self.domains {
            None => {
                let ranks = self.map.segment().geometry().local_ranks;
                (0..ranks).map(NodeRank).find(|&rank| is(rank))
            }
            Some(domains) => {
                let topology = &self.map.topology;
                let ranks = domains.ranks_of(domains.node_of(self.map.rank));
                let mut ranks = ranks.iter().map(|&rank| topology.node_rank_of(rank));
                ranks.find(|&rank| is(rank))
            }
        }
    }
}
