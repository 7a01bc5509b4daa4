//! The ranks of a window and where they are.

use super::choose::{self, Place};
use super::spec::Memory;
use crate::EngineError;
use crate::team::map::{Map, TeamRails};
use ferrorail_base::{NodeId, NodeRank, Rank, Topology};
use std::borrow::Cow;

/// The ranks of a window and where they are. Virtual nodes do not divide shared memory.
pub(super) struct Placement<'a> {
    pub map: &'a Map,
    pub topology: Cow<'a, Topology>,
    pub node: NodeId,
    pub node_rank: NodeRank,
    pub rails: Option<&'a TeamRails>,
}

impl<'a> Placement<'a> {
    pub fn new(map: &'a Map, memory: Memory) -> Result<Self, EngineError> {
        let mut rails = map.rails.as_ref();
        if let Memory::Shared { .. } = memory {
            if !map.is_on_one_host() {
                return Err(map.refused("sharing memory", "the ranks are on several hosts"));
            }
            rails = None;
        }
        let topology = choose::nodes(memory, &map.topology);
        Ok(Self {
            map,
            node: topology.node_of(map.rank),
            node_rank: topology.node_rank_of(map.rank),
            topology,
            rails,
        })
    }

    pub fn is_mapped(&self, rank: Rank) -> bool {
        self.topology.same_node(rank, self.map.rank)
    }

    /// Where `rank` is, as this process sees it.
    pub fn locality(&self, rank: Rank) -> Place {
        match rank == self.map.rank {
            true => Place::Own,
            false if self.is_mapped(rank) => Place::Node,
            false => Place::Far,
        }
    }

    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.topology.size()).map(Rank)
    }
}
