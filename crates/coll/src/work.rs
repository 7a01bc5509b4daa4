//! What an algorithm states of its cost, for the shape of a team, in closed form.

use crate::leaders::Leaders;
use ferrorail_base::Topology;
use serde::{Deserialize, Serialize};

/// A team, as far as costs depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// N, from 1.
    pub ranks: u32,
    /// V, from 1.
    pub nodes: u32,
    /// q: ranks of the largest node.
    pub node_size: u32,
    /// k of the multi-port model, from 1.
    pub ports: u8,
    /// Rails of a node, from 1.
    pub rails: u8,
    /// L: leaders of a node that algorithms of several leaders have, from 1.
    pub leaders: u8,
}

impl Shape {
    /// `nodes` of `node_size` ranks, with as many leaders as that allows.
    pub fn even(nodes: u32, node_size: u32, ports: u8, rails: u8) -> Self {
        Self {
            ranks: nodes * node_size,
            nodes,
            node_size,
            ports,
            rails,
            leaders: Leaders::new(ports, node_size, ports).count as u8,
        }
    }

    /// The shape with at most `leaders` leaders of a node, in a team on `topology`.
    pub fn led_by(self, topology: &Topology, leaders: u8) -> Self {
        let leaders = Leaders::new(leaders, topology.node_size_min(), self.ports);
        Self {
            leaders: leaders.count as u8,
            ..self
        }
    }

    /// The shape of a team with as many leaders of a node as ports allow.
    pub fn of(topology: &Topology, ports: u8, rails: u8) -> Self {
        Self {
            ranks: topology.size(),
            nodes: topology.node_count(),
            node_size: topology.node_size_max(),
            ports,
            rails,
            leaders: 1,
        }
        .led_by(topology, ports)
    }

    /// The leaders of a node.
    pub fn node_leaders(&self) -> Leaders {
        Leaders {
            count: self.leaders.into(),
            ports: self.ports / self.leaders,
        }
    }

    /// Most ranks that are on other nodes than one, exact where nodes have one size.
    pub(crate) fn ranks_elsewhere(&self) -> u64 {
        let even = self.nodes * self.node_size == self.ranks;
        u64::from(self.ranks - if even { self.node_size } else { 1 })
    }

    /// `count` waits in shared memory, or none where every rank has its node to itself.
    pub(crate) fn syncs(&self, count: u64) -> u64 {
        if self.node_size > 1 { count } else { 0 }
    }
}

/// What the slowest rank does, in closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Rounds with puts: startups that follow each other.
    pub rounds: u64,
    /// Blocks through the busiest port: longest message of each round, summed.
    pub port_blocks: u64,
    /// Ports in use; 0 stands for all.
    pub ports: u8,
    /// Ranks of a node that use its rails at the same time.
    pub node_sharers: u32,
    /// Waits for other ranks of the node.
    pub node_syncs: u64,
    /// Blocks copied or reduced by one rank.
    pub copy_blocks: u64,
}

impl Work {
    /// As [`copies`](Self::copies), where all ranks of a node use its rails.
    pub(crate) const fn flat(shape: &Shape, copy_blocks: u64) -> Self {
        Self {
            node_sharers: shape.node_size,
            ..Self::copies(copy_blocks)
        }
    }

    /// As [`copies`](Self::copies), where leaders use the rails.
    pub(crate) const fn led(leaders: Leaders, copy_blocks: u64) -> Self {
        Self {
            ports: leaders.ports,
            node_sharers: leaders.count,
            ..Self::copies(copy_blocks)
        }
    }

    /// Copies of so many blocks, and nothing else.
    pub(crate) const fn copies(copy_blocks: u64) -> Self {
        Self {
            rounds: 0,
            port_blocks: 0,
            ports: 0,
            node_sharers: 1,
            node_syncs: 0,
            copy_blocks,
        }
    }
}
