//! Connecting lazily: a schedule's first run connects the peers it names. The first that carries data has the whole
//! segment registered: before that there are barriers only, which take its front.

use super::connected::Peers;
use super::link::Link;
use super::map::{Map, TeamRails};
use super::measure;
use super::state::{Life, State};
use crate::EngineError;
use crate::blocking_wait::{Blocked, BlockingWait};
use ferrorail_base::{PeerId, Rank};
use ferrorail_bootstrap::OobError;
use ferrorail_fabric::RemoteRegion;

/// Connects each rank to those that `peers_of` names for it, which are always the same for `which`, and has all
/// registered what `which` needs. At the same call on all ranks, before that has done anything; they know afterwards
/// that all could, or the team is of no use to any.
///
/// # Errors
/// [`EngineError::Unconnected`] on all ranks. Others as [`connect`].
pub(crate) fn connect_all(
    map: &Map,
    state: &mut State,
    which: Peers,
    peers_of: &dyn Fn(Rank) -> Vec<Rank>,
    blocking_wait: &mut BlockingWait<'_>,
) -> Result<(), EngineError> {
    let sets = &mut state.connected.sets;
    if map.rails.is_none() || sets.contains(&Peers::All) || !sets.insert(which) {
        return Ok(());
    }
    let extends = which.exchange_data() && !state.connected.whole;
    state.connected.whole |= extends;
    if !state.connected.add_pairs(map, peers_of) && !extends {
        return Ok(());
    }
    let ready = match extends {
        true => extend(map, state, blocking_wait)?,
        false => Ok(()),
    };
    let here = match connect_if(ready, map, state, &peers_of(map.rank), blocking_wait)? {
        Ok(()) => true,
        Err(error) => {
            tracing::info!("connecting: {error}");
            // One line for all: where a limit is too low it is for all ranks.
            if map.rank == Rank(0) {
                warn(map, &error.to_string());
            }
            false
        }
    };
    let everywhere = attempt(blocking_wait, "the other ranks", |keep_on| {
        state.oob().agree_while(here, keep_on)
    })?;
    match everywhere {
        true => Ok(()),
        false => {
            if here && map.rank == Rank(0) {
                warn(map, "another rank, which says more with FERRORAIL_LOG=info");
            }
            state.life = Life::Unconnected;
            Err(EngineError::Unconnected)
        }
    }
}

fn warn(map: &Map, reason: &str) {
    map.context.warn_once_about("connecting", || {
        format!("collectives of a communicator are left to the host MPI: {reason}")
    });
}

/// Has the whole of this node's segment registered and tells the ranks that are connected, as they tell this one.
/// What this rank could not do is for [`connect_if`]; it returns errors of the exchange.
fn extend(
    map: &Map,
    state: &mut State,
    blocking_wait: &mut BlockingWait<'_>,
) -> Result<Result<(), EngineError>, EngineError> {
    let Some(rails) = &map.rails else {
        return Ok(Ok(()));
    };
    let mut ready = map.register_whole(rails);
    let linked = |&rank: &Rank| state.links[rank.index()].is_some();
    let linked: Vec<Rank> = map.others().filter(linked).collect();
    if linked.is_empty() {
        return Ok(ready);
    }
    let mine = match &ready {
        Ok(()) => rails.region().description.clone(),
        Err(_) => Vec::new(),
    };
    let mine = vec![mine; linked.len()];
    let theirs = exchange(state, &linked, &mine, blocking_wait)?;
    for (&peer, description) in linked.iter().zip(&theirs) {
        let link = state.links[peer.index()].as_mut();
        let link = link.expect("those linked were asked for");
        match import(rails, peer, link.peer, description) {
            Ok(segment) => {
                link.front = Some(std::mem::replace(&mut link.segment, segment));
            }
            Err(error) => ready = Err(error),
        }
    }
    Ok(ready)
}

/// What `peer` has registered of its segment, as it describes it.
fn import(
    rails: &TeamRails,
    peer: Rank,
    id: PeerId,
    description: &[u8],
) -> Result<RemoteRegion, EngineError> {
    match description {
        [] => Err(refused(peer, "it could not register the node segment")),
        _ => Ok(rails.fabric.import(id, description)?),
    }
}

/// Connects to those of `peers` that are on other nodes and not connected yet.
///
/// Naming is mutual, as schedules are, and a pair's connection state changes on both sides in the
/// same operation, so both take part or neither does.
///
/// Who is in another call, with a schedule that names others, waits for a rank that does not wait for
/// it: `blocking_wait` says for how long.
pub(crate) fn connect(
    map: &Map,
    state: &mut State,
    peers: &[Rank],
    blocking_wait: &mut BlockingWait<'_>,
) -> Result<(), EngineError> {
    connect_if(Ok(()), map, state, peers, blocking_wait)?
}

/// As [`connect`], of a rank that is `ready`, or else tells its peers that it cannot. Returns why it could not, as far
/// as its peers know that.
///
/// # Errors
/// What broke an exchange off: peers still wait in it, until this rank says to all that it has given up.
fn connect_if(
    ready: Result<(), EngineError>,
    map: &Map,
    state: &mut State,
    peers: &[Rank],
    blocking_wait: &mut BlockingWait<'_>,
) -> Result<Result<(), EngineError>, EngineError> {
    let Some(rails) = &map.rails else {
        return Ok(ready);
    };
    let peers: Vec<Rank> = peers
        .iter()
        .copied()
        .filter(|&peer| !map.topology.same_node(peer, map.rank))
        .filter(|&peer| state.links[peer.index()].is_none())
        .collect();
    if peers.is_empty() {
        return Ok(ready);
    }
    if ready.is_err() {
        let nothing = vec![Vec::new(); peers.len()];
        exchange(state, &peers, &nothing, blocking_wait)?;
        exchange(state, &peers, &nothing, blocking_wait)?;
        return Ok(ready);
    }
    let mut ids = Vec::with_capacity(peers.len());
    let mut addresses = Vec::with_capacity(peers.len());
    for peer in &peers {
        let opened = rails.fabric.open_peer(map.processes[peer.index()]);
        // An empty address tells the peer that this side failed, so that it does not wait.
        let (id, address) = match opened {
            Ok((id, address)) => (Ok(id), introduction(rails, &address)),
            Err(error) => (Err(error), Vec::new()),
        };
        ids.push(id);
        addresses.push(address);
    }
    let theirs = exchange(state, &peers, &addresses, blocking_wait)?;
    let link = |((&peer, id), theirs): ((&Rank, Result<PeerId, _>), &Vec<u8>)| {
        id.map_err(EngineError::from)
            .and_then(|id| link(map, rails, peer, id, theirs))
    };
    let linked: Vec<_> = peers.iter().zip(ids).zip(&theirs).map(link).collect();
    // The planes that this side reaches the peer by: none if it failed.
    let planes = |linked: &Result<Link, _>| vec![linked.as_ref().map_or(0, |link| link.planes)];
    let ready: Vec<_> = linked.iter().map(planes).collect();
    // Nobody may send before the other side is ready to receive, nor where the other cannot.
    let theirs = exchange(state, &peers, &ready, blocking_wait)?;
    let mut outcome = Ok(());
    for ((&peer, linked), theirs) in peers.iter().zip(linked).zip(&theirs) {
        // A pair is linked on both sides or on none, so that both try again or neither does.
        match linked.and_then(|link| settle(rails, peer, link, theirs)) {
            Ok(link) => state.links[peer.index()] = Some(link),
            Err(error) => outcome = Err(error),
        }
    }
    if outcome.is_ok() {
        measure::weigh(map, state, &peers);
    }
    Ok(outcome)
}

/// Sends each of `peers` its part of `outgoing`, and returns what they sent.
fn exchange(
    state: &mut State,
    peers: &[Rank],
    outgoing: &[Vec<u8>],
    blocking_wait: &mut BlockingWait<'_>,
) -> Result<Vec<Vec<u8>>, EngineError> {
    let ranks = format!("one of {} ranks to connect to", peers.len());
    attempt(blocking_wait, &ranks, |keep_on| {
        state.oob().exchange_while(peers, outgoing, keep_on)
    })
}

/// What `exchange` returns, as long as the blocking wait lasts.
fn attempt<T>(
    blocking_wait: &mut BlockingWait<'_>,
    waiting_for: &str,
    exchange: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, OobError>,
) -> Result<T, EngineError> {
    let mut given_up = None;
    let mut keep_on = || match blocking_wait.idle(Blocked::Rail, || waiting_for.to_owned()) {
        Ok(_) => true,
        Err(error) => {
            given_up = Some(error);
            false
        }
    };
    let outcome = exchange(&mut keep_on);
    match given_up {
        Some(error) => Err(error),
        None => Ok(outcome?),
    }
}

/// What a peer is told to connect to this rank at `address`: that, after its length, and what is registered here.
fn introduction(rails: &TeamRails, address: &[u8]) -> Vec<u8> {
    let length = (address.len() as u32).to_le_bytes();
    [&length, address, &rails.region().description].concat()
}

/// The address and the description in an [`introduction`]; nothing in anything else.
fn introduced(theirs: &[u8]) -> (&[u8], &[u8]) {
    theirs
        .split_first_chunk()
        .and_then(|(&length, rest)| rest.split_at_checked(u32::from_le_bytes(length) as usize))
        .unwrap_or_default()
}

/// Connects this side to `peer`, which said `theirs`.
fn link(
    map: &Map,
    rails: &TeamRails,
    peer: Rank,
    id: PeerId,
    theirs: &[u8],
) -> Result<Link, EngineError> {
    let (address, description) = introduced(theirs);
    let reach = rails.fabric.connect(id, address)?;
    let segment = import(rails, peer, id, description)?;
    // The team's creation has said what could be known then; a line for each pair is enough.
    if map.rank < peer {
        map.context.warn_once(reach.refused);
    }
    Ok(Link {
        peer: id,
        segment,
        front: None,
        planes: reach.planes,
        rail_weights: measure::nominal(rails, u8::MAX),
    })
}

/// Keeps to the planes that lead both ways; both sides come to the same.
fn settle(
    rails: &TeamRails,
    peer: Rank,
    mut link: Link,
    theirs: &[u8],
) -> Result<Link, EngineError> {
    let theirs = match theirs {
        [0] | [] => return Err(refused(peer, "it could not connect to this rank")),
        theirs => theirs[0],
    };
    let planes = link.planes & theirs;
    let every_rail = ((1u16 << rails.local.len()) - 1) as u8;
    if rails.missing_rails(planes) == every_rail {
        return Err(refused(peer, "no rail leads both there and back"));
    }
    if planes != link.planes {
        rails.fabric.keep_planes(link.peer, planes)?;
    }
    link.planes = planes;
    link.rail_weights = measure::nominal(rails, planes);
    Ok(link)
}

/// Why this rank and `peer` cannot connect.
fn refused(peer: Rank, reason: &str) -> EngineError {
    EngineError::Refused {
        act: "connecting",
        rank: peer,
        reason: reason.to_owned(),
    }
}
