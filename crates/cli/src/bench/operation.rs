//! The collectives that are measured: their arguments, and what they must deliver.

use super::buffers::contents;
use super::{capitalized, find};
use std::ops::Range;
use std::sync::LazyLock;

/// Bytes of the elements that reductions add: `MPI_INT`.
pub const ELEMENT_BYTES: usize = 4;

/// Which C prototype it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Barrier,
    Bcast,
    /// All-gather, all-to-all.
    Blocks,
    /// Gather, scatter.
    RootedBlocks,
    Gatherv,
    Scatterv,
    Allgatherv,
    Alltoallv,
    Reduce,
    /// Reductions without a root.
    Fold,
    ReduceScatter,
}

/// Blocks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    None,
    One,
    PerRank,
    OneAtRoot,
    PerRankAtRoot,
    PerNeighbour,
}

/// Contents of the receive buffer afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Nothing,
    /// The root's block.
    OfRoot,
    /// This rank's block of the root's.
    ShareOfRoot,
    /// Everyone's block.
    OfAll,
    /// This rank's block of everyone's.
    SharesOfAll,
    /// The blocks of both neighbours in a ring.
    OfNeighbours,
    /// Those of theirs that are for this rank.
    SharesOfNeighbours,
    /// Sum of all vectors.
    Sum,
    /// This rank's block of that sum.
    ShareOfSum,
    /// Sum up to this rank.
    SumUpTo,
    /// Sum up to the rank before.
    SumBefore,
}

/// One collective.
#[derive(Debug)]
pub struct Operation {
    /// As in settings and statistics.
    pub name: &'static str,
    /// Whether it is the non-blocking form, awaited at once.
    pub is_nonblocking: bool,
    /// Its arguments.
    pub form: Form,
    send: Extent,
    recv: Extent,
    outcome: Outcome,
}

/// Where an operation runs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// This rank.
    pub rank: usize,
    /// Ranks.
    pub size: usize,
    /// Root.
    pub root: usize,
}

const fn row(
    name: &'static str,
    form: Form,
    (send, recv): (Extent, Extent),
    outcome: Outcome,
) -> Operation {
    Operation {
        name,
        is_nonblocking: false,
        form,
        send,
        recv,
        outcome,
    }
}

/// Every collective that the library offers or will offer.
pub const OPERATIONS: &[Operation] = {
    use Extent::{None, One, OneAtRoot, PerRank, PerRankAtRoot};
    use Form::*;
    use Outcome::*;
    &[
        row("barrier", Barrier, (None, None), Nothing),
        row("bcast", Bcast, (None, One), OfRoot),
        row("gather", RootedBlocks, (One, PerRankAtRoot), OfAll),
        row("gatherv", Gatherv, (One, PerRankAtRoot), OfAll),
        row("scatter", RootedBlocks, (PerRankAtRoot, One), ShareOfRoot),
        row("scatterv", Scatterv, (PerRankAtRoot, One), ShareOfRoot),
        row("allgather", Blocks, (One, PerRank), OfAll),
        row("allgatherv", Allgatherv, (One, PerRank), OfAll),
        row("alltoall", Blocks, (PerRank, PerRank), SharesOfAll),
        row("alltoallv", Alltoallv, (PerRank, PerRank), SharesOfAll),
        row("allreduce", Fold, (One, One), Sum),
        row("reduce", Reduce, (One, OneAtRoot), Sum),
        row("reduce_scatter", ReduceScatter, (PerRank, One), ShareOfSum),
        row("reduce_scatter_block", Fold, (PerRank, One), ShareOfSum),
        row("scan", Fold, (One, One), SumUpTo),
        row("exscan", Fold, (One, One), SumBefore),
    ]
};

/// Their non-blocking forms: `iallreduce` and so on. None of those among neighbours: Open MPI 4.1 mixes up blocks of theirs in a ring
/// of two ranks.
pub fn nonblocking() -> &'static [Operation] {
    static ALL: LazyLock<Vec<Operation>> = LazyLock::new(|| {
        let form = |operation: &Operation| Operation {
            // Once in the process.
            name: format!("i{}", operation.name).leak(),
            is_nonblocking: true,
            ..*operation
        };
        OPERATIONS.iter().map(form).collect()
    });
    &ALL
}

/// Those among the two neighbours of a rank in a ring.
pub const NEIGHBOURS: &[Operation] = &[
    row(
        "neighbor_allgather",
        Form::Blocks,
        (Extent::One, Extent::PerNeighbour),
        Outcome::OfNeighbours,
    ),
    row(
        "neighbor_alltoall",
        Form::Blocks,
        (Extent::PerNeighbour, Extent::PerNeighbour),
        Outcome::SharesOfNeighbours,
    ),
];

impl Operation {
    /// The operation called `name`.
    ///
    /// # Errors
    /// One line with the nearest name.
    pub fn named(name: &str) -> anyhow::Result<&'static Self> {
        let is_named = |operation: &&Self| operation.name == name;
        match NEIGHBOURS.iter().chain(nonblocking()).find(is_named) {
            Some(operation) => Ok(operation),
            None => find("benchmark", name, OPERATIONS, |operation| operation.name),
        }
    }

    /// Its C name without `MPI_`.
    pub fn symbol(&self) -> String {
        capitalized(self.name)
    }

    /// Whether one rank is special, so that it need not wait for the others.
    pub fn is_rooted(&self) -> bool {
        use Form::{Bcast, Gatherv, Reduce, RootedBlocks, Scatterv};
        matches!(
            self.form,
            Bcast | Gatherv | Reduce | RootedBlocks | Scatterv
        )
    }

    /// Whether it is one among neighbours.
    pub fn is_among_neighbours(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::OfNeighbours | Outcome::SharesOfNeighbours
        )
    }

    /// Whether it adds elements.
    pub fn reduces(&self) -> bool {
        matches!(self.form, Form::Reduce | Form::Fold | Form::ReduceScatter)
    }

    /// Bytes of the send and the receive buffer for blocks, or a vector, of `bytes`.
    pub fn lengths(&self, place: Place, bytes: usize) -> (usize, usize) {
        let at_root = |length| if place.rank == place.root { length } else { 0 };
        let length = |extent| match extent {
            Extent::None => 0,
            Extent::One => bytes,
            Extent::PerRank => bytes * place.size,
            Extent::OneAtRoot => at_root(bytes),
            Extent::PerRankAtRoot => at_root(bytes * place.size),
            Extent::PerNeighbour => 2 * bytes,
        };
        (length(self.send), length(self.recv))
    }

    /// What the receive buffer holds afterwards; `None` where that is undefined. Every rank has
    /// filled its send buffer (the root of a broadcast: its receive buffer) with its
    /// [`contents`] of `round`.
    pub fn expected(&self, place: Place, bytes: usize, round: u64) -> Option<Vec<u8>> {
        let Place { rank, size, root } = place;
        let own = rank * bytes;
        let mut result = vec![0; self.lengths(place, bytes).1];
        match self.outcome {
            Outcome::Nothing => {}
            Outcome::OfRoot => contents(&mut result, root, round, 0),
            Outcome::ShareOfRoot => contents(&mut result, root, round, own),
            Outcome::OfAll | Outcome::SharesOfAll => {
                let first = if self.outcome == Outcome::OfAll {
                    0
                } else {
                    own
                };
                for (from, block) in result.chunks_mut(bytes.max(1)).enumerate() {
                    contents(block, from, round, first);
                }
            }
            Outcome::OfNeighbours | Outcome::SharesOfNeighbours => {
                // What goes up comes from below.
                let share = match self.outcome {
                    Outcome::SharesOfNeighbours => bytes,
                    _ => 0,
                };
                let (below, above) = result.split_at_mut(bytes);
                contents(below, (rank + size - 1) % size, round, share);
                contents(above, (rank + 1) % size, round, 0);
            }
            Outcome::Sum => add(&mut result, 0..size, round, 0),
            Outcome::ShareOfSum => add(&mut result, 0..size, round, own),
            Outcome::SumUpTo => add(&mut result, 0..rank + 1, round, 0),
            Outcome::SumBefore if rank == 0 => return None,
            Outcome::SumBefore => add(&mut result, 0..rank, round, 0),
        }
        Some(result)
    }
}

/// The sum of what `ranks` hold from byte `first` on.
fn add(result: &mut [u8], ranks: Range<usize>, round: u64, first: usize) {
    let mut operand = vec![0; result.len()];
    for rank in ranks {
        contents(&mut operand, rank, round, first);
        let pairs = result
            .as_chunks_mut::<ELEMENT_BYTES>()
            .0
            .iter_mut()
            .zip(operand.as_chunks::<ELEMENT_BYTES>().0);
        for (sum, more) in pairs {
            *sum = (i32::from_ne_bytes(*sum) + i32::from_ne_bytes(*more)).to_ne_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 8;

    fn expected(name: &str, rank: usize) -> Option<Vec<u8>> {
        let operation = Operation::named(name).unwrap();
        let place = Place {
            rank,
            size: 3,
            root: 1,
        };
        operation.expected(place, BYTES, 7)
    }

    fn block(rank: usize, first: usize) -> Vec<u8> {
        let mut block = vec![0; BYTES];
        contents(&mut block, rank, 7, first);
        block
    }

    #[test]
    fn blocks_go_where_the_standard_says() {
        assert_eq!(expected("bcast", 2), Some(block(1, 0)));
        assert_eq!(expected("scatterv", 2), Some(block(1, 2 * BYTES)));
        assert_eq!(expected("gather", 0), Some(vec![]));
        let all = [block(0, 0), block(1, 0), block(2, 0)].concat();
        assert_eq!(expected("gather", 1), Some(all.clone()));
        assert_eq!(expected("allgatherv", 2), Some(all));
        let shares = [block(0, BYTES), block(1, BYTES), block(2, BYTES)].concat();
        assert_eq!(expected("alltoall", 1), Some(shares));
        assert_eq!(expected("barrier", 1), Some(vec![]));
        let around = [block(2, 0), block(1, 0)].concat();
        assert_eq!(expected("neighbor_allgather", 0), Some(around));
        let shares = [block(2, BYTES), block(1, 0)].concat();
        assert_eq!(expected("neighbor_alltoall", 0), Some(shares));
    }

    #[test]
    fn reductions_add() {
        let sum = |blocks: &[Vec<u8>]| {
            let element = |at: usize| {
                let of =
                    |block: &Vec<u8>| i32::from_ne_bytes(block[at..at + 4].try_into().unwrap());
                blocks.iter().map(of).sum::<i32>().to_ne_bytes()
            };
            Some([element(0), element(4)].concat())
        };
        let all = [block(0, 0), block(1, 0), block(2, 0)];
        assert_eq!(expected("allreduce", 0), sum(&all));
        assert_eq!(expected("reduce", 1), sum(&all));
        assert_eq!(expected("reduce", 0), Some(vec![]));
        assert_eq!(expected("scan", 1), sum(&all[..2]));
        assert_eq!(expected("exscan", 2), sum(&all[..2]));
        assert_eq!(expected("exscan", 0), None);
        let shares = [block(0, BYTES), block(1, BYTES), block(2, BYTES)];
        assert_eq!(expected("reduce_scatter", 1), sum(&shares));
    }

    #[test]
    fn names_are_those_of_the_library() {
        for &collective in ferrorail_coll::Collective::ALL {
            assert!(Operation::named(collective.name()).is_ok(), "{collective}");
            let nonblocking = format!("i{}", collective.name());
            let operation = Operation::named(&nonblocking).expect("each has one");
            assert!(operation.is_nonblocking && operation.symbol().starts_with('I'));
        }
        let error = Operation::named("alreduce").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no benchmark \"alreduce\"; did you mean \"allreduce\"?"
        );
    }
}
