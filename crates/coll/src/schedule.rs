//! A schedule: what one rank does in one collective, as data.
//!
//! An algorithm is a pure function from (topology, rank, ports, protocol, root) to a [`Schedule`].
//! The same value is run by the engine, verified symbolically, costed and drawn. Steps run in
//! order; a round is a group of steps that the paper counts as one communication step.
//!
//! # Buffers
//!
//! All positions are in blocks; the executor turns them into bytes.
//!
//! | buffer | what it is | who may write it |
//! |---|---|---|
//! | `Send` | this rank's contribution, user memory | nobody |
//! | `Recv` | this rank's result, user memory | own copies; puts of peers under [`Protocol::Rendezvous`] |
//! | `Scratch` | this rank's symmetric scratch of the operation's channel | own copies, puts of peers |
//! | `Node` | the scratch of the node's leader: the leader's `Scratch` and its node's `Node` are the same memory | copies of local ranks, puts of peers |
//!
//! Scratch holds nothing defined when an operation starts.
//!
//! # Cut vectors
//!
//! A broadcast or a reduction moves one vector, which its algorithm may cut into parts
//! ([`Cut::PerRank`](crate::algorithm::Cut)): block i of `Send` and `Recv` is then part i. The
//! executor cuts between elements, so parts may differ in length, alike on all ranks. Every block
//! of scratch has room for the longest part; puts between scratch move that much per block. A copy
//! of a cut vector has `Send` or `Recv` on one side at least, which gives its lengths; a reduction
//! in scratch says which part it reduces.

use ferrorail_base::{NodeRank, Rank, Topology};
use serde::{Deserialize, Serialize};

/// A memory that steps name. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// The caller's contribution.
    Send,
    /// The caller's result.
    Recv,
    /// This rank's own scratch.
    Scratch,
    /// The scratch of this rank's node leader, mapped by the whole node.
    Node,
}

/// A run of consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Memory.
    pub buffer: Buffer,
    /// First block.
    pub first: u32,
    /// Number of blocks.
    pub count: u32,
}

impl Span {
    /// `count` blocks of `buffer` from `first`.
    pub const fn new(buffer: Buffer, first: u32, count: u32) -> Self {
        Self {
            buffer,
            first,
            count,
        }
    }

    /// Blocks of `Send`.
    pub const fn send(first: u32, count: u32) -> Self {
        Self::new(Buffer::Send, first, count)
    }

    /// Blocks of `Recv`.
    pub const fn recv(first: u32, count: u32) -> Self {
        Self::new(Buffer::Recv, first, count)
    }

    /// Blocks of `Scratch`.
    pub const fn scratch(first: u32, count: u32) -> Self {
        Self::new(Buffer::Scratch, first, count)
    }

    /// Blocks of `Node`.
    pub const fn node(first: u32, count: u32) -> Self {
        Self::new(Buffer::Node, first, count)
    }
}

/// How messages reach their receivers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// In scratch: no address exchange, one extra copy. Puts read and write `Scratch` or `Node`;
    /// those to a rank of the same node may read user memory.
    #[default]
    Eager,
    /// In the receiver's own buffer, which it announces first: the RTR is also the
    /// permission to send. Puts write `Recv`; they read `Recv`, `Send`, or what a node gathered in
    /// scratch, which is used for nothing else.
    Rendezvous,
}

impl Protocol {
    /// As statistics and tuning tables spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Rendezvous => "rendezvous",
        }
    }
}

/// Index of an arrival flag at the receiver, unique per operation there; below the limit of the team's size.
pub type Slot = u32;

/// Number of arrival slots that schedules of a team of `size` may use.
pub(crate) const fn slot_limit(size: u32) -> u32 {
    2 * size + 32
}

/// First arrival slot of RTRs in a team of `size`.
pub const fn rtr_base(size: u32) -> u32 {
    slot_limit(size) / 2
}

/// Number of arrival slots that every rank of a team has per channel, where algorithms that are
/// [`all_pairs`](field@crate::Algorithm::all_pairs) may run or not. Without them a rank announces its buffer to few others:
/// those of its node, leaders, or those of an exchange; and sends no more messages in one operation than there are
/// slots. Both are tested.
pub fn slots(topology: &Topology, all_pairs: bool) -> u32 {
    let (limit, nodes) = (slot_limit(topology.size()), topology.node_count());
    let few = rtr_base(topology.size()) + 2 * nodes + topology.node_size_max() + EXCHANGE_RTRS;
    match all_pairs {
        true => limit,
        false => few.min(limit),
    }
}

/// RTRs of a rank in a Standard Exchange with corrections and k up to 8, beyond those that leaders and nodes account for.
const EXCHANGE_RTRS: u32 = 160;

/// Number of arrival slots of a channel for barriers only, in a team of `size`.
pub const fn barrier_slots(size: u32) -> u32 {
    if slot_limit(size) < BARRIER_SLOTS {
        slot_limit(size)
    } else {
        BARRIER_SLOTS
    }
}

/// k messages in each of ⌈log_{k+1} N⌉ rounds, with k up to 8: 40 for 32000 ranks, 56 for a million.
const BARRIER_SLOTS: u32 = 64;

/// Phases of node signals lie in `1..=PHASE_MAX`.
pub const PHASE_MAX: u8 = 250;

/// One action of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Writes `from` (here) to `into` (the peer's memory), then raises arrival flag `slot` there.
    /// Goes through shared memory to a peer of the same node, over rails otherwise. Spans of no
    /// blocks only raise the flag.
    Put {
        /// Target.
        to: Rank,
        /// Port of the multi-port model, below k.
        port: u8,
        /// The target's arrival flag.
        slot: Slot,
        /// Source blocks, local.
        from: Span,
        /// Destination blocks, in the target's buffers.
        into: Span,
    },
    /// As [`Step::Reduce`] and a [`Step::Put`] of its result, which is written to scratch of the peer, a rank of the same
    /// node, and nowhere else.
    PutReduced {
        /// Target.
        to: Rank,
        /// Port of the multi-port model, below k.
        port: u8,
        /// The target's arrival flag.
        slot: Slot,
        /// The left operand, local.
        left: Span,
        /// The right operand, local; as many blocks.
        right: Span,
        /// Destination blocks, as many, in the target's buffers.
        into: Span,
        /// As in [`Step::Reduce`].
        like: Option<u32>,
    },
    /// Waits for the put that raises `slot` here.
    Await {
        /// Its origin.
        from: Rank,
        /// Its port at the origin.
        port: u8,
        /// Arrival flag.
        slot: Slot,
        /// Its length in blocks.
        blocks: u32,
    },
    /// Tells `to` where this rank's `Recv` is, raising `slot` there. Only under [`Protocol::Rendezvous`].
    SendRtr {
        /// Future origin of puts.
        to: Rank,
        /// The target's arrival flag.
        slot: Slot,
    },
    /// Waits for the RTR of `from`; puts to its `Recv` may follow.
    AwaitRtr {
        /// Announcing rank.
        from: Rank,
        /// Arrival flag.
        slot: Slot,
    },
    /// Sends `from` to the leaders of all other nodes in one multicast. Only leaders send and receive
    /// multicasts; the n-th of one is what the n-th [`Step::AwaitMulticast`] of it receives everywhere.
    Multicast {
        /// Source blocks, local.
        from: Span,
    },
    /// Waits for the next multicast of `from`, the leader of another node. It lands here at any time
    /// from its being sent, as far as this operation has begun: no RTR is needed.
    AwaitMulticast {
        /// Its origin.
        from: Rank,
        /// Destination blocks, local; as many as are sent.
        into: Span,
    },
    /// Local copy; also from and into `Node`.
    Copy {
        /// Source blocks.
        from: Span,
        /// Destination blocks, as many.
        into: Span,
    },
    /// Local reduction of each block of `left` with its block of `right`, written to its block of `into`, which
    /// may be one of the operands.
    Reduce {
        /// The left operand: the contribution of lower ranks.
        left: Span,
        /// The right operand; as many blocks.
        right: Span,
        /// The result; as many blocks.
        into: Span,
        /// The first block of `Send` whose length these blocks have, where none is user memory: blocks of
        /// scratch do not say how much of their room is in use.
        like: Option<u32>,
    },
    /// Raises this rank's node flag to `phase` (1 ..= [`PHASE_MAX`], rising within an operation):
    /// all its earlier steps are visible to local ranks that see it.
    NodeSignal {
        /// New value.
        phase: u8,
    },
    /// Waits until local rank `of` has signalled at least `phase`.
    NodeAwait {
        /// Whom to wait for.
        of: NodeRank,
        /// Least value.
        phase: u8,
    },
    /// Waits until every local rank has signalled at least `phase`.
    NodeAwaitAll {
        /// Least value.
        phase: u8,
    },
}

/// What one rank does in one operation.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Steps in order.
    pub steps: Vec<Step>,
    /// For each round, the index one past its last step; never falling, the last equals
    /// `steps.len()`. All ranks have the same number of rounds; where one is idle its round is
    /// empty. A round without puts on any rank does not count in the cost model.
    pub round_ends: Vec<u32>,
    /// Blocks of scratch that must exist at every rank: largest `first + count` of `Scratch` and
    /// `Node` spans over all ranks.
    pub scratch_blocks: u32,
    /// Whether a put goes over the rail of its port, as other ranks of the node drive the others.
    /// Otherwise, and where there are more rails than ports, rails are taken as they come.
    pub own_rails: bool,
}

impl Schedule {
    /// Steps of each round.
    pub fn rounds(&self) -> impl Iterator<Item = &[Step]> {
        let starts = std::iter::once(0).chain(self.round_ends.iter().copied());
        starts
            .zip(&self.round_ends)
            .map(|(start, &end)| &self.steps[start as usize..end as usize])
    }

    /// Ranks this one puts or announces to, or awaits, without repetition, ascending. Multicasts need no
    /// connection.
    pub fn peers(&self) -> Vec<Rank> {
        let mut peers: Vec<Rank> = self
            .steps
            .iter()
            .filter_map(|step| match *step {
                Step::Put { to, .. } | Step::PutReduced { to, .. } | Step::SendRtr { to, .. } => {
                    Some(to)
                }
                Step::Await { from, .. } | Step::AwaitRtr { from, .. } => Some(from),
                _ => None,
            })
            .collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}
