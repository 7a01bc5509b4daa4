//! What the reductions have in common: their meaning, and steps that combine in rank order.
//!
//! Token p N + r stands for part p of rank r's vector.

use crate::algorithm::SCRATCH;
use crate::builder::ScheduleBuilder;
use crate::leaders::Leaders;
use crate::schedule::{Buffer, Span};
use crate::semantics::{Content, Instance, Overlap, Semantics};
use ferrorail_base::NodeRank;

/// Reduces `spans`, in rank order, into `into`, which is none of them but may be the first or second.
pub(crate) fn fold(
    builder: &mut ScheduleBuilder<'_>,
    spans: impl IntoIterator<Item = Span>,
    into: Span,
) {
    fold_like(builder, None, spans, into);
}

/// As [`fold`], in scratch, of blocks as long as those of `Send` from `like`.
pub(crate) fn fold_like(
    builder: &mut ScheduleBuilder<'_>,
    like: Option<u32>,
    spans: impl IntoIterator<Item = Span>,
    into: Span,
) {
    fold_through(builder, like, spans, into, into);
}

/// As [`fold_like`], with all but the last result in `through`, which may be the first or second of `spans`. So `into`
/// may be any of them, as it is where a contribution lies in place.
pub(crate) fn fold_through(
    builder: &mut ScheduleBuilder<'_>,
    like: Option<u32>,
    spans: impl IntoIterator<Item = Span>,
    through: Span,
    into: Span,
) {
    let mut spans = spans.into_iter().peekable();
    let Some(mut reduced) = spans.next() else {
        return;
    };
    while let Some(right) = spans.next() {
        let result = match spans.peek() {
            Some(_) => through,
            None => into,
        };
        builder.reduce_like(like, reduced, right, result);
        reduced = result;
    }
    if reduced != into {
        builder.copy(reduced, into);
    }
}

/// Copies or reductions that a fold of `vectors` takes.
pub(crate) const fn folded(vectors: u64) -> u64 {
    match vectors {
        0 | 1 => vectors,
        _ => vectors - 1,
    }
}

/// The parts of vectors that one rank reduces, of several vectors that follow each other in a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    buffer: Buffer,
    /// First part, and how many.
    pub first: u32,
    pub count: u32,
    /// Parts of a vector; 1 where it is not cut.
    parts: u32,
}

impl Slice {
    /// Of vectors that are not cut.
    pub const fn whole(buffer: Buffer) -> Self {
        Self {
            buffer,
            first: 0,
            count: 1,
            parts: 1,
        }
    }

    /// What leader `leader` reduces of its node's vectors of `parts` parts.
    pub fn led_by(leaders: Leaders, leader: u32, parts: u32) -> Self {
        let share = leaders.share(leader, parts);
        Self {
            buffer: Buffer::Node,
            first: share.start,
            count: share.len() as u32,
            parts,
        }
    }

    /// Those of vector `index`.
    pub fn vector(&self, index: u32) -> Span {
        Span::new(self.buffer, index * self.parts + self.first, self.count)
    }

    /// What combines in blocks of scratch says how long it is, if vectors are cut.
    pub fn like(&self) -> Option<u32> {
        (self.parts > 1).then_some(self.first)
    }

    /// Waits for the vectors of this rank's node and reduces them into the first, in the first round.
    pub fn reduce_node(&self, builder: &mut ScheduleBuilder<'_>) {
        builder.node_await_gather();
        let locals: Vec<NodeRank> = (0..builder.node_size() as u32).map(NodeRank).collect();
        self.reduce_of(builder, &locals);
        builder.end_round();
    }

    /// Reduces the vectors of these ranks of the node into that of the first.
    pub fn reduce_of(&self, builder: &mut ScheduleBuilder<'_>, ranks: &[NodeRank]) {
        let vectors = ranks.iter().map(|&rank| self.vector(rank.0));
        fold_like(builder, self.like(), vectors, self.vector(ranks[0].0));
    }
}

/// Every rank contributes its whole vector.
pub(crate) fn contributions(at: &Instance) -> Vec<u32> {
    (0..at.parts).map(|p| p * at.size + at.rank.0).collect()
}

/// The whole vector, reduced over ranks `0..end`.
pub(crate) fn reduced(at: &Instance, end: u32) -> Vec<Content> {
    let content = |part| Content::Reduced {
        part,
        first: 0,
        end,
    };
    (0..at.parts).map(content).collect()
}

/// `Semantics` of a reduction of whole vectors, as far as they agree.
pub(crate) const fn semantics(recv: fn(&Instance) -> Vec<Content>) -> Semantics {
    Semantics {
        send: contributions,
        start: |_| Vec::new(),
        recv,
        in_place: |_| Overlap::SendInRecv(0),
        in_place_protocols: SCRATCH,
        synchronising: false,
        uniform: false,
    }
}
