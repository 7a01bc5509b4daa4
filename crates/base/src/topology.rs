//! Which rank lives on which node, as pure data that every rank computes alike.

use crate::{NodeId, NodeRank, Rank};

/// The node map of one team.
///
/// Nodes are numbered by their lowest rank; within a node, ranks keep their order. The leader of a
/// node is its lowest rank. Ranks of a node need not be consecutive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topology {
    node_of: Vec<NodeId>,
    node_rank_of: Vec<NodeRank>,
    nodes: Vec<Vec<Rank>>,
}

impl Topology {
    /// Groups ranks by `key` (equal keys share memory), then cuts each group into virtual nodes of
    /// `node_size` ranks where that is given (`FERRORAIL_NODE_SIZE`); the last one may be smaller.
    ///
    /// # Panics
    /// If `keys` is empty or `node_size` is `Some(0)`.
    pub fn from_host_keys(keys: &[u64], node_size: Option<u32>) -> Self {
        assert!(!keys.is_empty(), "a team has at least one rank");
        let node_size = node_size.map_or(usize::MAX, |q| q as usize);
        assert!(node_size > 0, "a node has at least one rank");
        let mut hosts: Vec<Vec<Rank>> = Vec::new();
        let mut index = std::collections::HashMap::new();
        for (rank, &key) in keys.iter().enumerate() {
            let host = *index.entry(key).or_insert_with(|| {
                hosts.push(Vec::new());
                hosts.len() - 1
            });
            hosts[host].push(Rank(rank as u32));
        }
        let nodes = hosts.iter().flat_map(|ranks| ranks.chunks(node_size));
        let mut nodes: Vec<Vec<Rank>> = nodes.map(<[Rank]>::to_vec).collect();
        nodes.sort_by_key(|ranks| ranks[0]);
        Self::from_nodes(nodes)
    }

    /// Its nodes divided: ranks of a node stay together that have the same `key`, as many as `size` if that is given.
    #[must_use]
    pub fn divided(&self, key: impl Fn(Rank) -> u32, size: Option<u32>) -> Self {
        let of = |rank| u64::from(self.node_of(rank).0) << 32 | u64::from(key(rank));
        let keys: Vec<u64> = (0..self.size()).map(Rank).map(of).collect();
        Self::from_host_keys(&keys, size)
    }

    /// Consecutive nodes of the given sizes: `[2, 1]` is ranks 0, 1 on node 0 and rank 2 on node 1.
    ///
    /// # Panics
    /// If there is no node or an empty one.
    pub fn from_sizes(sizes: &[u32]) -> Self {
        assert!(
            !sizes.is_empty() && sizes.iter().all(|&q| q > 0),
            "nodes are not empty"
        );
        let mut next = 0;
        let nodes = sizes
            .iter()
            .map(|&q| {
                let ranks = (next..next + q).map(Rank).collect();
                next += q;
                ranks
            })
            .collect();
        Self::from_nodes(nodes)
    }

    fn from_nodes(nodes: Vec<Vec<Rank>>) -> Self {
        let size = nodes.iter().map(Vec::len).sum();
        let mut node_of = vec![NodeId(0); size];
        let mut node_rank_of = vec![NodeRank(0); size];
        for (node, ranks) in nodes.iter().enumerate() {
            for (node_rank, rank) in ranks.iter().enumerate() {
                node_of[rank.index()] = NodeId(node as u32);
                node_rank_of[rank.index()] = NodeRank(node_rank as u32);
            }
        }
        Self {
            node_of,
            node_rank_of,
            nodes,
        }
    }

    /// Number of ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// Number of nodes.
    #[inline]
    pub fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The node of `rank`.
    #[inline]
    pub fn node_of(&self, rank: Rank) -> NodeId {
        self.node_of[rank.index()]
    }

    /// `rank`'s index within its node.
    #[inline]
    pub fn node_rank_of(&self, rank: Rank) -> NodeRank {
        self.node_rank_of[rank.index()]
    }

    /// The ranks of `node`, ascending.
    #[inline]
    pub fn ranks_of(&self, node: NodeId) -> &[Rank] {
        &self.nodes[node.index()]
    }

    /// The leader of `node`: its lowest rank.
    #[inline]
    pub fn leader_of(&self, node: NodeId) -> Rank {
        self.nodes[node.index()][0]
    }

    /// Whether `rank` leads its node.
    #[inline]
    pub fn is_leader(&self, rank: Rank) -> bool {
        self.node_rank_of(rank) == NodeRank(0)
    }

    /// Whether both ranks live on one node.
    #[inline]
    pub fn same_node(&self, a: Rank, b: Rank) -> bool {
        self.node_of(a) == self.node_of(b)
    }

    /// Ranks of the largest node.
    pub fn node_size_max(&self) -> u32 {
        self.nodes.iter().map(Vec::len).max().unwrap_or(0) as u32
    }

    /// Into how many nodes of `parts`, each of which has ranks of one node here, one of these is divided at most.
    pub fn parts_max(&self, parts: &Self) -> u32 {
        let leads = |rank: &&Rank| parts.is_leader(**rank);
        let divided = |ranks: &Vec<Rank>| ranks.iter().filter(leads).count();
        self.nodes.iter().map(divided).max().unwrap_or(0) as u32
    }

    /// Ranks of the smallest node.
    pub fn node_size_min(&self) -> u32 {
        self.nodes.iter().map(Vec::len).min().unwrap_or(0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_nodes_cut_hosts() {
        let topology = Topology::from_host_keys(&[9, 9, 9, 9, 9], Some(2));
        assert_eq!(topology, Topology::from_sizes(&[2, 2, 1]));
        assert_eq!(topology.leader_of(NodeId(2)), Rank(4));
        assert!(topology.is_leader(Rank(2)) && !topology.is_leader(Rank(3)));
    }

    #[test]
    fn interleaved_hosts_keep_rank_order() {
        let topology = Topology::from_host_keys(&[5, 7, 5, 7, 5], None);
        assert_eq!(topology.node_count(), 2);
        assert_eq!(topology.ranks_of(NodeId(0)), [Rank(0), Rank(2), Rank(4)]);
        assert_eq!(topology.node_rank_of(Rank(3)), NodeRank(1));
        assert_eq!((topology.node_size_max(), topology.node_size_min()), (3, 2));
        let cut = Topology::from_host_keys(&[5, 7, 5, 7, 5], Some(2));
        assert_eq!(cut.ranks_of(NodeId(2)), [Rank(4)]);
        assert_eq!(cut.ranks_of(NodeId(1)), [Rank(1), Rank(3)]);
    }
}
