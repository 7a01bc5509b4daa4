//! A rank's status cell: ranks that wait long show the tag of their operation there for others who do, and those that
//! take part in nothing more say so. Nothing of that costs a call that does not wait.
//!
//! A rank whose program has no more use for the team says beside that which operation was its last: others may still be in
//! one of those, and in need of what it has shown.

use crate::EngineError;
use crate::tag::{contradicts, number};
use crate::team::map::Map;
use crate::team::resume::{NEVER, Phase};
use ferrorail_base::Rank;
use ferrorail_shm::Status;

/// What is shown from here on is of ranks that take part in nothing more. Those of such as may go on
/// without the team say with which call ([`resume`](crate::team::resume)).
const STOPPED: u64 = 0xfd << PHASE_SHIFT;
const PHASE_SHIFT: u32 = 56;
const CALL: u64 = (1 << PHASE_SHIFT) - 1;

/// What others have yet to do for one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Nothing that has a number.
    Unnumbered,
    /// Their part in the operation of this number.
    Operation(u64),
    /// Their part in the operation of this tag, which has the same arguments on all ranks.
    Call(u64),
}

impl Awaited {
    fn number(self) -> Option<u64> {
        match self {
            Self::Unnumbered => None,
            Self::Operation(op) => Some(op),
            Self::Call(tag) => Some(number(tag)),
        }
    }
}

/// What a rank's status cell says to one who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStatus {
    /// It had an error, and takes part in nothing more.
    Gone,
    /// Its program freed the communicator before this operation.
    Left,
    /// It is in the same operation, with other arguments.
    Other,
    /// Nothing that matters.
    Unremarkable,
}

impl PeerStatus {
    /// The error of one who waits for `rank`, if it waits in vain.
    pub fn error(self, rank: Rank) -> Option<EngineError> {
        match self {
            Self::Gone => Some(EngineError::PeerGaveUp { rank }),
            Self::Left => Some(EngineError::PeerLeft { rank }),
            Self::Other | Self::Unremarkable => None,
        }
    }
}

/// What `status` says to one who waits for what is `awaited`.
pub(crate) fn status_of(status: Status, awaited: Awaited) -> PeerStatus {
    let has_left = |last| awaited.number() > Some(last);
    match (status.shown, awaited) {
        (STOPPED.., _) => PeerStatus::Gone,
        (shown, Awaited::Call(tag)) if contradicts(shown, tag) => PeerStatus::Other,
        _ if status.left_after.is_some_and(has_left) => PeerStatus::Left,
        _ => PeerStatus::Unremarkable,
    }
}

/// Says on this rank's status cell that it is in, or was in, the operation of `tag`.
pub(crate) fn show(map: &Map, tag: u64) {
    map.segment().flags().show(map.node_rank, tag);
}

/// The operation of which `status` says that its rank is or was in it; 0 if it says none.
pub(crate) fn shown_operation(status: Status) -> u64 {
    match status.shown {
        STOPPED.. => 0,
        tag => number(tag),
    }
}

/// Says on this rank's status cell that operation `last` was the last that its program had for the team.
pub(crate) fn leave(map: &Map, last: u64) {
    map.segment().flags().leave(map.node_rank, last);
}

/// Says on this rank's status cell that it takes part in nothing more, and `call` in `phase` of what follows.
pub(crate) fn stop(map: &Map, phase: Phase, call: u64) {
    show(map, stop_status(phase, call));
}

fn stop_status(phase: Phase, call: u64) -> u64 {
    match call {
        NEVER => NEVER,
        call => (STOPPED + ((phase as u64) << PHASE_SHIFT)) | call & CALL,
    }
}

/// What a rank with this `status` says in `phase`, if it says anything. Who is in the second phase says there no
/// less than in the first.
pub(crate) fn stopped(status: Status, phase: Phase) -> Option<u64> {
    match status.shown {
        NEVER => Some(NEVER),
        shown if shown >= stop_status(phase, 0) => Some(shown & CALL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::tag;
    use ferrorail_base::Rank;
    use ferrorail_coll::Collective;

    const OP: u64 = 1000;

    fn shown(shown: u64) -> Status {
        Status {
            shown,
            left_after: None,
        }
    }

    #[test]
    fn a_status_tells_who_has_gone_and_who_is_in_another_call() {
        let one = tag(OP, Collective::Bcast, Rank(0), 40);
        let other = tag(OP, Collective::Bcast, Rank(0), 0);
        for phase in [Phase::Noticed, Phase::Chosen] {
            for call in [0, 7, NEVER] {
                let status = shown(stop_status(phase, call));
                assert_eq!(status_of(status, Awaited::Call(one)), PeerStatus::Gone);
                assert_eq!(stopped(status, Phase::Noticed), Some(call));
                let chosen = phase == Phase::Chosen || call == NEVER;
                assert_eq!(stopped(status, Phase::Chosen), chosen.then_some(call));
                assert_eq!(shown_operation(status), 0);
            }
            assert_eq!(stopped(shown(one), phase), None);
        }
        assert_eq!(
            status_of(shown(other), Awaited::Call(one)),
            PeerStatus::Other
        );
        let later = tag(OP + 1, Collective::Bcast, Rank(0), 0);
        for status in [0, one, later].map(shown) {
            assert_eq!(
                status_of(status, Awaited::Call(one)),
                PeerStatus::Unremarkable
            );
        }
        for awaited in [Awaited::Unnumbered, Awaited::Operation(OP)] {
            assert_eq!(status_of(shown(other), awaited), PeerStatus::Unremarkable);
        }
    }

    #[test]
    fn who_left_is_missed_in_later_operations_only() {
        let at = |op, bytes| tag(op, Collective::Bcast, Rank(0), bytes);
        let left = |shown, last| Status {
            shown,
            left_after: Some(last),
        };
        for was_in in [0, at(OP - 1, 0), at(OP, 40)] {
            let left = left(was_in, OP);
            for (op, status) in [(OP, PeerStatus::Unremarkable), (OP + 1, PeerStatus::Left)] {
                assert_eq!(status_of(left, Awaited::Call(at(op, 40))), status);
                assert_eq!(status_of(left, Awaited::Operation(op)), status);
            }
            assert_eq!(
                status_of(left, Awaited::Unnumbered),
                PeerStatus::Unremarkable
            );
            assert_eq!(stopped(left, Phase::Noticed), None);
            assert_eq!(shown_operation(left), number(was_in));
        }
        assert_eq!(
            status_of(left(0, 0), Awaited::Operation(1)),
            PeerStatus::Left
        );
    }

    #[test]
    fn who_was_in_another_call_is_seen_to_have_been_after_it_has_left() {
        let [one, other] = [40, 0].map(|bytes| tag(OP, Collective::Bcast, Rank(0), bytes));
        for last in [OP, OP + 7] {
            let left = Status {
                shown: other,
                left_after: Some(last),
            };
            assert_eq!(status_of(left, Awaited::Call(one)), PeerStatus::Other);
        }
    }
}
