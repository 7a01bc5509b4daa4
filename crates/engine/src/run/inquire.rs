//! Asking a rank of another node what it is in: who has waited long reads the card on which the other,
//! if it waits long too, says so (see [`mark`]).

use super::mark::{self, Told};
use crate::EngineError;
use crate::team::State;
use crate::team::map::Map;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::{Fabric, FabricError, LocalSlice, RemoteSlice, Ticket};

/// A card that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inquiry {
    of: Rank,
    ticket: Ticket,
}

/// Reads the card of `rank`, a connected one of another node, and looks at it when it is asked the next
/// time. `mark` is that of the operation in which `rank` is waited for.
///
/// # Errors
/// [`EngineError::PeerGaveUp`], [`EngineError::Mismatch`], or a rail's failure.
pub(crate) fn inquire(
    map: &Map,
    state: &mut State,
    rank: Rank,
    mark: Option<u64>,
) -> Result<(), EngineError> {
    let Some(rails) = &map.rails else {
        return Ok(());
    };
    if let Some(Inquiry { of, ticket }) = state.inquiry {
        if !rails.fabric.is_complete(ticket)? {
            return Ok(());
        }
        state.inquiry = None;
        let answer = map.segment().inquiry(map.node_rank).load(Ordering::Acquire);
        match mark::told(answer, mark) {
            Told::Gone => return Err(EngineError::PeerGaveUp { rank: of }),
            Told::Other if of == rank => {
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
        offset: map.card_offset(rank),
    };
    let into = LocalSlice {
        region: rails.region(),
        offset: map.segment().layout().inquiry(map.node_rank),
        bytes: 8,
    };
    // Where this one does not lead to the peer, another takes it over.
    let rail = rails.local(RailId(0));
    // SAFETY: both words are in registered segments; nobody else reads or writes this rank's.
    match unsafe { rails.fabric.get(link.peer, rail, from, into) } {
        Ok(ticket) => state.inquiry = Some(Inquiry { of: rank, ticket }),
        Err(FabricError::WouldBlock) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
