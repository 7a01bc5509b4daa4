//! Virtual topologies of communicators (MPI 4.1, chapter 8).

use super::{Host, MpiError};
use crate::Comm;
use libc::c_int;

/// This rank's neighbours in a topology, in the order in which blocks of neighbourhood collectives have them. Where a grid
/// ends there is `MPI_PROC_NULL`.
pub struct Topology {
    /// Whom it receives from.
    pub sources: Vec<c_int>,
    /// Whom it sends to.
    pub destinations: Vec<c_int>,
    /// Whether it is a Cartesian grid: two entries for each dimension, the neighbour below before the one above.
    pub is_grid: bool,
}

impl Host {
    /// This rank's neighbours in the topology of `comm`; `None` if that has none.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn topology(&self, comm: Comm) -> Result<Option<Topology>, MpiError> {
        let [cart, graph, dist_graph] = self.constants().topologies;
        // SAFETY: the answer is live.
        let kind = self.answer("MPI_Topo_test", 0, |kind| unsafe {
            (self.functions.topo_test)(comm, kind)
        })?;
        Ok(match kind {
            _ if kind == cart => Some(self.grid(comm)?),
            _ if kind == graph => Some(self.graph(comm)?),
            _ if kind == dist_graph => Some(self.dist_graph(comm)?),
            _ => None,
        })
    }

    fn grid(&self, comm: Comm) -> Result<Topology, MpiError> {
        // SAFETY: the answer is live.
        let dimensions = self.answer("MPI_Cartdim_get", 0, |dimensions| unsafe {
            (self.functions.cartdim_get)(comm, dimensions)
        })?;
        let mut neighbours = Vec::new();
        for dimension in 0..dimensions {
            // SAFETY: the answers are live.
            let pair = self.answer("MPI_Cart_shift", [0; 2], |[below, above]| unsafe {
                (self.functions.cart_shift)(comm, dimension, 1, below, above)
            })?;
            neighbours.extend(pair);
        }
        Ok(Topology {
            sources: neighbours.clone(),
            destinations: neighbours,
            is_grid: true,
        })
    }

    fn graph(&self, comm: Comm) -> Result<Topology, MpiError> {
        let (rank, functions) = (self.comm_rank(comm)? as c_int, &self.functions);
        // SAFETY: the answer is live.
        let count = self.answer("MPI_Graph_neighbors_count", 0, |count| unsafe {
            (functions.graph_neighbors_count)(comm, rank, count)
        })?;
        let list = vec![0; count as usize];
        // SAFETY: the list has room for so many.
        let neighbours = self.answer("MPI_Graph_neighbors", list, |list| unsafe {
            (functions.graph_neighbors)(comm, rank, count, list.as_mut_ptr())
        })?;
        Ok(Topology {
            sources: neighbours.clone(),
            destinations: neighbours,
            is_grid: false,
        })
    }

    fn dist_graph(&self, comm: Comm) -> Result<Topology, MpiError> {
        let functions = &self.functions;
        // SAFETY: the answers are live.
        let [into, out, _] = self.answer(
            "MPI_Dist_graph_neighbors_count",
            [0; 3],
            |[into, out, weighted]| unsafe {
                (functions.dist_graph_neighbors_count)(comm, into, out, weighted)
            },
        )?;
        let lists = [into, into, out, out].map(|count| vec![0; count as usize]);
        // SAFETY: the lists have room for so many ranks and weights.
        let [sources, _, destinations, _] =
            self.answer("MPI_Dist_graph_neighbors", lists, |lists| unsafe {
                let [sources, weights_in, destinations, weights_out] =
                    lists.each_mut().map(Vec::as_mut_ptr);
                let neighbors = functions.dist_graph_neighbors;
                neighbors(
                    comm,
                    into,
                    sources,
                    weights_in,
                    out,
                    destinations,
                    weights_out,
                )
            })?;
        Ok(Topology {
            sources,
            destinations,
            is_grid: false,
        })
    }
}
