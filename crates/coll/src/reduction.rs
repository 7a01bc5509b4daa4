//! What the reductions have in common: their meaning, and steps that combine in rank order.
//!
//! Token p N + r stands for part p of rank r's vector.

use crate::algorithm::{Request, SCRATCH};
use crate::builder::ScheduleBuilder;
use crate::schedule::{Schedule, Span};
use crate::semantics::{Content, Instance, Overlap, Semantics};

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

/// The whole operation for a team of one, which needs no scratch.
pub(crate) fn alone(request: &Request<'_>) -> Option<Schedule> {
    (request.topology.size() == 1).then(|| {
        let mut builder = ScheduleBuilder::new(request.topology, request.rank);
        builder.copy(Span::send(0, 1), Span::recv(0, 1));
        builder.finish(0)
    })
}
