//! Asking a rank of another node what it is in: who has waited long reads the status cell in which the other,
//! if it waits long too, says so (see [`status`](super::status)).

use super::status::{Awaited, PeerStatus, status_of};
use crate::EngineError;
use crate::team::map::{Map, TeamRails};
use crate::team::state::State;
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::{Endpoint, Op, Tracking};
use ferrorail_shm::Status;

/// Whether what this rank has sent to the others of the team arrives, also where nothing waits for that.
///
/// # Errors
/// What became of it: a peer that waits for it waits in vain.
pub(crate) fn check_sent(rails: &TeamRails, state: &State) -> Result<(), EngineError> {
    let mut links = state.links.iter().flatten();
    links.try_for_each(|link| Ok(rails.fabric.untracked(link.peer)?))
}

/// Reads the status cell of `rank`, a connected one of another node, and looks at it when it is asked the next
/// time. It is waited for to do what is `awaited`.
///
/// # Errors
/// [`EngineError::PeerGaveUp`], [`EngineError::PeerLeft`], [`EngineError::Mismatch`], or a rail's failure.
pub(crate) fn probe_peer(
    map: &Map,
    state: &mut State,
    rank: Rank,
    awaited: Awaited,
) -> Result<(), EngineError> {
    let Some(rails) = &map.rails else {
        return Ok(());
    };
    if let Some((of, ticket)) = state.probe {
        if !rails.fabric.is_complete(ticket)? {
            return Ok(());
        }
        state.probe = None;
        let status = status_of(map.segment().probed(map.node_rank), awaited);
        if status == PeerStatus::Other && of == rank {
            return Err(EngineError::Mismatch { rank: Some(of) });
        }
        if let Some(error) = status.error(of) {
            return Err(error);
        }
    }
    let Some(link) = &state.links[rank.index()] else {
        return Ok(());
    };
    let (layout, local) = map.layout_of(rank);
    let from = link.at(layout.status(local));
    let probe = map.segment().layout().probe(map.node_rank);
    let into = rails.slice(probe, Status::BYTES);
    // Where this rail does not lead to the peer, another takes it over.
    // SAFETY: both cells are in registered segments; nobody else reads or writes this rank's.
    let posted = unsafe { rails.post(link, RailId(0), &Op::get(from, into), Tracking::Tracked) }?;
    state.probe = posted.map(|ticket| (rank, ticket));
    Ok(())
}
