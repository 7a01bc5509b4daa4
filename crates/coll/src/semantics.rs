//! What collectives mean, in tokens that stand for the contents of blocks.

use crate::schedule::Protocol;
use ferrorail_base::Rank;

/// One rank of one operation, as far as its buffers depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The rank.
    pub rank: Rank,
    /// Ranks of the team.
    pub size: u32,
    /// Root, 0 where there is none.
    pub root: Rank,
    /// Parts of the vector ([`Cut::parts`](crate::algorithm::Cut::parts)).
    pub parts: u32,
}

impl Instance {
    /// Whether this rank is the root.
    pub fn is_root(&self) -> bool {
        self.rank == self.root
    }
}

/// What a block holds in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// One block of some rank.
    Token(u32),
    /// Part `part` of the vectors of ranks `first..end`, reduced.
    Reduced {
        /// Part.
        part: u32,
        /// First rank.
        first: u32,
        /// One past the last.
        end: u32,
    },
}

/// How the buffers of a rank lie when its operation is in place (`MPI_IN_PLACE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Apart: in place means nothing at this rank.
    Apart,
    /// `Send` begins at this block of `Recv`.
    SendInRecv(u32),
    /// `Recv` begins at this block of `Send`.
    RecvInSend(u32),
}

/// What a collective means, as tokens: a token stands for the contents of one block. In a
/// reduction token `part * size + rank` is that part of the rank's vector.
#[derive(Clone, Copy, Debug)]
pub struct Semantics {
    /// Tokens in `Send` when the operation starts.
    pub send: fn(&Instance) -> Vec<u32>,
    /// Tokens in `Recv` when it starts; all other blocks are undefined.
    pub start: fn(&Instance) -> Vec<u32>,
    /// Contents of `Recv` when it ends.
    pub recv: fn(&Instance) -> Vec<Content>,
    /// Buffers of an operation in place.
    pub in_place: fn(&Instance) -> Overlap,
    /// Protocols that an operation in place can have.
    pub in_place_protocols: &'static [Protocol],
    /// Whether a rank that has finished knows that every rank has entered.
    pub synchronising: bool,
    /// Whether every rank ends with the same bits, thus the same bracketing of reductions.
    pub uniform: bool,
}
