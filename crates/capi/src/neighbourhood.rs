//! Whom a rank exchanges blocks with in a neighbourhood collective (MPI 4.1, section 8.6).

use ferrorail_mpi_abi::Topology;

/// The blocks of a rank, in an order in which those that two ranks have for each other match: the first that one sends to the
/// other is the first that this one receives from it, and so on.
#[derive(Debug, PartialEq, Eq)]
pub struct Neighbourhood {
    /// What is sent to others, by destination.
    pub sent: Vec<Edge>,
    /// What is received from others, by source.
    pub received: Vec<Edge>,
    /// What the rank has for itself: numbers of a block that is sent and of the one that it becomes.
    pub own: Vec<(usize, usize)>,
    /// Whether two ranks have two blocks for each other, as all ranks know: in a grid that is two ranks wide somewhere, and
    /// closed there.
    pub doubled: bool,
    /// Whether there is nothing but one block for each rank at most.
    is_plain: bool,
    /// Entries of arrays about what is sent and what is received; those of neighbours that do not exist count.
    pub entries: (usize, usize),
}

/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The rank at its other end.
    pub rank: u32,
    /// Its number among the blocks as the program has them.
    pub index: usize,
}

impl Neighbourhood {
    /// That of `rank` in `topology`.
    pub fn of(rank: u32, topology: &Topology) -> Self {
        // What goes down in a dimension comes from above: that matters where both neighbours are the same rank.
        let of_sender = |index: usize| match topology.is_grid {
            true => index ^ 1,
            false => index,
        };
        let is_own = |edge: &Edge| edge.rank == rank;
        let mut sent = by_rank(&topology.destinations, |index| index);
        let mut received = by_rank(&topology.sources, of_sender);
        let own_sent = sent.extract_if(.., |edge| is_own(edge));
        let own_received = received.extract_if(.., |edge| is_own(edge));
        let pair = |(from, into): (Edge, Edge)| (from.index, into.index);
        let doubles = |edges: &[Edge]| edges.windows(2).any(|pair| pair[0].rank == pair[1].rank);
        let own: Vec<_> = own_sent.zip(own_received).map(pair).collect();
        Self {
            doubled: topology.is_grid && doubles(&sent),
            is_plain: own.is_empty() && !doubles(&sent) && !doubles(&received),
            sent,
            received,
            own,
            entries: (topology.destinations.len(), topology.sources.len()),
        }
    }

    /// What is sent, if a call is one exchange of one block for each rank at most.
    #[inline(always)]
    pub fn only_sent(&self) -> Option<&[Edge]> {
        self.is_plain.then_some(&*self.sent)
    }
}

/// The blocks for, or from, `ranks`, by rank, and those of one rank by `order`.
fn by_rank(ranks: &[i32], order: impl Fn(usize) -> usize) -> Vec<Edge> {
    let edge = |(index, &rank)| {
        // `MPI_PROC_NULL` is negative.
        let rank = u32::try_from(rank).ok()?;
        Some(Edge { rank, index })
    };
    let mut edges: Vec<_> = ranks.iter().enumerate().filter_map(edge).collect();
    edges.sort_by_key(|edge| (edge.rank, order(edge.index)));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(edges: &[Edge]) -> Vec<(u32, usize)> {
        edges.iter().map(|edge| (edge.rank, edge.index)).collect()
    }

    /// That of rank 0.
    fn grid(neighbours: &[i32]) -> Neighbourhood {
        let topology = Topology {
            sources: neighbours.to_vec(),
            destinations: neighbours.to_vec(),
            is_grid: true,
        };
        Neighbourhood::of(0, &topology)
    }

    #[test]
    fn neighbours_beyond_the_end_of_a_grid_have_entries_but_no_blocks() {
        let corner = grid(&[-1, 4, -1, 1]);
        assert_eq!(edges(&corner.sent), [(1, 3), (4, 1)]);
        assert_eq!(edges(&corner.received), [(1, 3), (4, 1)]);
        assert_eq!(corner.entries, (4, 4));
        assert!(corner.own.is_empty() && !corner.doubled);
        assert_eq!(corner.only_sent(), Some(&*corner.sent));
    }

    #[test]
    fn what_goes_down_in_a_ring_of_two_comes_from_above() {
        let ring = grid(&[1, 1]);
        assert_eq!(edges(&ring.sent), [(1, 0), (1, 1)]);
        assert_eq!(edges(&ring.received), [(1, 1), (1, 0)]);
        assert!(ring.own.is_empty() && ring.doubled);
    }

    #[test]
    fn a_ring_of_one_rank_is_not_doubled() {
        let both = grid(&[0, 0, 1, 3]);
        assert_eq!(edges(&both.sent), [(1, 2), (3, 3)]);
        assert_eq!(edges(&both.received), [(1, 2), (3, 3)]);
        assert_eq!(both.own, [(0, 1), (1, 0)]);
        assert!(!both.doubled);
    }

    #[test]
    fn several_edges_of_a_graph_between_two_ranks_match_in_order() {
        let topology = Topology {
            sources: vec![2, 0, 2],
            destinations: vec![1, 0, 1, 1],
            is_grid: false,
        };
        let graph = Neighbourhood::of(0, &topology);
        assert_eq!(edges(&graph.sent), [(1, 0), (1, 2), (1, 3)]);
        assert_eq!(edges(&graph.received), [(2, 0), (2, 2)]);
        assert_eq!(graph.own, [(1, 1)]);
        assert_eq!(graph.entries, (4, 3));
        // Others do not know.
        assert!(!graph.doubled && graph.only_sent().is_none());
    }
}
