//! The layouts of a team's node segments.

use ferrorail_base::{NodeId, Topology};
use ferrorail_shm::{NodeGeometry, NodeLayout};
use std::collections::BTreeSet;

/// One layout for each number of ranks that a node has, by that number.
#[derive(Debug)]
pub(crate) struct Layouts(Vec<NodeLayout>);

impl Layouts {
    /// Those of a team of which each node's has its own number of ranks, and is as `alike` else.
    pub fn new(topology: &Topology, alike: NodeGeometry) -> Self {
        let nodes = (0..topology.node_count()).map(NodeId);
        let numbers: BTreeSet<u32> = nodes.map(|node| ranks_of(topology, node)).collect();
        let of_number = |local_ranks| {
            NodeLayout::of(NodeGeometry {
                local_ranks,
                ..alike
            })
        };
        Self(numbers.into_iter().map(of_number).collect())
    }

    /// The only node's.
    pub fn of_one(layout: NodeLayout) -> Self {
        Self(vec![layout])
    }

    /// The layout of the segment of `node`.
    #[inline]
    pub fn of(&self, topology: &Topology, node: NodeId) -> &NodeLayout {
        if let [alike] = &self.0[..] {
            return alike;
        }
        let ranks = ranks_of(topology, node);
        let key = |layout: &NodeLayout| layout.geometry().local_ranks;
        let found = self.0.binary_search_by_key(&ranks, key);
        &self.0[found.expect("a number of ranks that a node has")]
    }

    /// That of the node with the most ranks.
    pub fn largest(&self) -> &NodeLayout {
        self.0.last().expect("a team has a node")
    }
}

fn ranks_of(topology: &Topology, node: NodeId) -> u32 {
    topology.ranks_of(node).len() as u32
}
