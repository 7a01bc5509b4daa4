//! Connecting lazily: a schedule's first run connects the peers it names.

use super::map::{Map, TeamRails};
use super::{Link, State, measure};
use crate::EngineError;
use crate::run::{Blocked, Patience};
use ferrorail_base::{PeerId, Rank};
use ferrorail_fabric::{Fabric, FabricError};

/// Connects to those of `peers` that are on other nodes and not connected yet.
///
/// Naming is mutual, as schedules are, and a pair's connection state changes on both sides in the
/// same operation, so both take part or neither does.
///
/// Who is in another call, with a schedule that names others, waits for a rank that does not wait for
/// it: `patience` says for how long.
pub(crate) fn connect(
    map: &Map,
    state: &mut State,
    peers: &[Rank],
    patience: &mut Patience<'_>,
) -> Result<(), EngineError> {
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
    let theirs = exchange(state, &peers, &addresses, patience)?;
    let mut outcome = Ok(());
    let mut ready = Vec::with_capacity(peers.len());
    for ((&peer, id), address) in peers.iter().zip(ids).zip(&theirs) {
        let linked = id.and_then(|id| link(map, rails, peer, id, address));
        // The planes that this side reaches the peer by: none if it failed.
        ready.push(vec![linked.as_ref().map_or(0, |link| link.planes)]);
        match linked {
            Ok(link) => state.links[peer.index()] = Some(link),
            Err(error) => outcome = Err(EngineError::from(error)),
        }
    }
    // Nobody may send before the other side is ready to receive, nor where the other cannot.
    let theirs = exchange(state, &peers, &ready, patience)?;
    outcome?;
    for (&peer, theirs) in peers.iter().zip(&theirs) {
        let link = state.links[peer.index()].as_mut();
        let link = link.expect("all are linked where nothing failed");
        settle(rails, peer, link, theirs)?;
    }
    measure::weigh(map, state, &peers);
    Ok(())
}

/// Sends each of `peers` its part of `outgoing`, and returns what they sent.
fn exchange(
    state: &mut State,
    peers: &[Rank],
    outgoing: &[Vec<u8>],
    patience: &mut Patience<'_>,
) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut given_up = None;
    let waiting_for = || format!("one of {} ranks to connect to", peers.len());
    let mut keep_on = || match patience.idle(Blocked::Rail, waiting_for) {
        Ok(_) => true,
        Err(error) => {
            given_up = Some(error);
            false
        }
    };
    let incoming = state.oob().exchange_while(peers, outgoing, &mut keep_on);
    match given_up {
        Some(error) => Err(error),
        None => Ok(incoming?),
    }
}

/// Connects this side to `peer`.
fn link(
    map: &Map,
    rails: &TeamRails,
    peer: Rank,
    id: PeerId,
    address: &[u8],
) -> Result<Link, FabricError> {
    rails.fabric.connect(id, address)?;
    let segment = rails.fabric.import(id, &rails.descriptions[peer.index()])?;
    let reach = rails.fabric.reach(id)?;
    // The team's creation has said what could be known then; a line for each pair is enough.
    if map.rank < peer {
        map.context.warn_once(reach.refused);
    }
    Ok(Link {
        peer: id,
        segment,
        planes: reach.planes,
        balance: measure::nominal(rails, u8::MAX),
    })
}

/// Keeps to the planes that lead both ways.
fn settle(
    rails: &TeamRails,
    peer: Rank,
    link: &mut Link,
    theirs: &[u8],
) -> Result<(), EngineError> {
    let refused = |reason: &str| EngineError::Refused {
        act: "connecting",
        rank: peer,
        reason: reason.to_owned(),
    };
    let theirs = match theirs {
        [0] | [] => return Err(refused("it could not connect to this rank")),
        theirs => theirs[0],
    };
    let planes = link.planes & theirs;
    let every_rail = ((1u16 << rails.local.len()) - 1) as u8;
    if rails.beyond(planes) == every_rail {
        return Err(refused("no rail leads both there and back"));
    }
    if planes != link.planes {
        rails.fabric.keep_planes(link.peer, planes)?;
    }
    link.planes = planes;
    link.balance = measure::nominal(rails, planes);
    Ok(())
}
