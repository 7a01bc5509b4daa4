//! Connecting lazily: a schedule's first run connects the peers it names.

use super::map::Map;
use super::{Link, State, measure};
use crate::EngineError;
use ferrorail_base::Rank;
use ferrorail_fabric::Fabric;

/// Connects to those of `peers` that are on other nodes and not connected yet.
///
/// Naming is mutual, as schedules are, and a pair's connection state changes on both sides in the
/// same operation, so both take part or neither does.
pub(crate) fn connect(map: &Map, state: &mut State, peers: &[Rank]) -> Result<(), EngineError> {
    let Some(rails) = &map.rails else {
        return Ok(());
    };
    let peers: Vec<Rank> = peers
        .iter()
        .copied()
        .filter(|&peer| !map.topology.same_node(peer, map.rank))
        .filter(|&peer| state.links[peer.index()].is_none())
        .collect();
    if peers.is_empty() {
        return Ok(());
    }
    let mut ids = Vec::with_capacity(peers.len());
    let mut addresses = Vec::with_capacity(peers.len());
    for peer in &peers {
        let opened = rails
            .fabric
            .open_peer(map.processes[peer.index()])
            .and_then(|id| Ok((id, rails.fabric.address_for(id)?)));
        // An empty address tells the peer that this side failed, so that it does not wait.
        let (id, address) = match opened {
            Ok((id, address)) => (Ok(id), address),
            Err(error) => (Err(error), Vec::new()),
        };
        ids.push(id);
        addresses.push(address);
    }
    let theirs = state.oob().exchange(&peers, &addresses)?;
    let mut outcome = Ok(());
    let mut ready = Vec::with_capacity(peers.len());
    for ((peer, id), address) in peers.iter().zip(ids).zip(&theirs) {
        let linked = id.and_then(|id| {
            rails.fabric.connect(id, address)?;
            let segment = rails.fabric.import(id, &rails.descriptions[peer.index()])?;
            Ok(Link {
                peer: id,
                segment,
                balance: measure::nominal(rails),
            })
        });
        ready.push(vec![u8::from(linked.is_ok())]);
        match linked {
            Ok(link) => state.links[peer.index()] = Some(link),
            Err(error) => outcome = Err(EngineError::from(error)),
        }
    }
    // Nobody may send before the other side is ready to receive.
    let theirs = state.oob().exchange(&peers, &ready)?;
    outcome?;
    match peers
        .iter()
        .zip(&theirs)
        .find(|(_, ready)| ready.as_slice() != [1])
    {
        None => {
            measure::weigh(map, state, &peers);
            Ok(())
        }
        Some((&rank, _)) => Err(EngineError::Refused {
            act: "connecting",
            rank,
            reason: format!("it could not connect to rank {}", map.rank),
        }),
    }
}
