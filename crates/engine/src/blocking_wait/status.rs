//! A rank's status cell: ranks that wait long show the tag of their operation there for others who do, and those that
//! take part in nothing more say so. Nothing of that costs a call that does not wait.

use crate::tag::contradicts;
use crate::team::map::Map;
use crate::team::resume::{NEVER, Phase};

/// Status cells from here on are of ranks that take part in nothing more. Those of such as may go on
/// without the team say with which call ([`resume`](crate::team::resume)).
const STOPPED: u64 = 0xfd << PHASE_SHIFT;
const PHASE_SHIFT: u32 = 56;
const CALL: u64 = (1 << PHASE_SHIFT) - 1;

/// What a rank's status cell says to one who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStatus {
    /// It takes part in nothing more.
    Gone,
    /// It is in the same operation, with other arguments.
    Other,
    /// Nothing that matters.
    Unremarkable,
}

/// What `status` says to one who waits in the operation of `tag`.
pub(crate) fn status_of(status: u64, tag: Option<u64>) -> PeerStatus {
    match tag {
        _ if status >= STOPPED => PeerStatus::Gone,
        Some(tag) if contradicts(status, tag) => PeerStatus::Other,
        _ => PeerStatus::Unremarkable,
    }
}

/// Says on this rank's status cell that it is in, or was in, the operation of `tag`.
pub(crate) fn show(map: &Map, tag: u64) {
    map.segment().flags().show(map.node_rank, tag);
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
pub(crate) fn stopped(status: u64, phase: Phase) -> Option<u64> {
    match status {
        NEVER => Some(NEVER),
        status if status >= stop_status(phase, 0) => Some(status & CALL),
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

    #[test]
    fn a_status_tells_who_has_gone_and_who_is_in_another_call() {
        let one = tag(OP, Collective::Bcast, Rank(0), 40);
        let other = tag(OP, Collective::Bcast, Rank(0), 0);
        for phase in [Phase::Noticed, Phase::Chosen] {
            for call in [0, 7, NEVER] {
                let status = stop_status(phase, call);
                assert_eq!(status_of(status, Some(one)), PeerStatus::Gone);
                assert_eq!(stopped(status, Phase::Noticed), Some(call));
                let chosen = phase == Phase::Chosen || call == NEVER;
                assert_eq!(stopped(status, Phase::Chosen), chosen.then_some(call));
            }
            assert_eq!(stopped(one, phase), None);
        }
        assert_eq!(status_of(other, Some(one)), PeerStatus::Other);
        let later = tag(OP + 1, Collective::Bcast, Rank(0), 0);
        for status in [0, one, later] {
            assert_eq!(status_of(status, Some(one)), PeerStatus::Unremarkable);
        }
        assert_eq!(status_of(other, None), PeerStatus::Unremarkable);
    }
}
