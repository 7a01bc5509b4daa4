//! Asking a rank of another node what it is in: who has waited long reads the status cell in which the other,
//! if it waits long too, says so (see [`status`](super::status)).

use super::status::{PeerStatus, status_of};
use crate::EngineError;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::{Endpoint, FabricError, LocalSlice, Op, RemoteSlice, Tracking};

/// Reads the status cell of `rank`, a connected one of another node, and looks at it when it is asked the next
/// time. `tag` is that of the operation in which `rank` is waited for.
///
/// # Errors
/// [`EngineError::PeerGaveUp`], [`EngineError::Mismatch`], or a rail's failure.
pub(crate) fn probe_peer(
    map: &Map,
    state: &mut State,
    rank: Rank,
    tag: Option<u64>,
) -> Result<(), EngineError> {
    let Some(rails) = &map.rails else {
        return Ok(());
    };
    if let Some((of, ticket)) = state.probe {
        if !rails.fabric.is_complete(ticket)? {
            return Ok(());
        }
        state.probe = None;
        let answer = map.segment().probe(map.node_rank).load(Ordering::Acquire);
        match status_of(answer, tag) {
            PeerStatus::Gone => return Err(EngineError::PeerGaveUp { rank: of }),
            PeerStatus::Other if of == rank => {
                return Err(EngineError::Mismatch { rank: Some(of) });
            }
            _ => {}
        }
    }
    let Some(link) = &state.links[rank.index()] else {
        return Ok(());
    };
    let from = RemoteSlice {
        region: &link.segment,
        offset: map.status_offset(rank),
    };
    let into = LocalSlice {
        region: rails.region(),
        offset: map.segment().layout().probe(map.node_rank),
        bytes: 8,
    };
    // Where this one does not lead to the peer, another takes it over.
    let rail = rails.local(RailId(0));
    // SAFETY: both words are in registered segments; nobody else reads or writes this rank's.
    match unsafe {
        rails
            .fabric
            .post(link.peer, rail, &Op::get(from, into), Tracking::Tracked)
    } {
        Ok(ticket) => state.probe = Some((rank, ticket)),
        Err(FabricError::WouldBlock) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
