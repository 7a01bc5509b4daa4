//! Connecting to all ranks that are reached over rails.

use super::choose::{self, Place};
use super::placement::Placement;
use crate::EngineError;
use crate::agree::agree;
use crate::blocking_wait::BlockingWait;
use crate::team::connect::connect;
use crate::team::map::TeamRails;
use crate::team::state::State;
use ferrorail_base::{PeerId, RailId, Rank};
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::stripe::RailWeights;
use ferrorail_fabric::{AtomicScope, FabricError};

/// The ranks that are reached over rails, by the fabric's names, with what is known of the rails to them;
/// and the team rail for the words of locks.
pub(super) type Links = (Vec<(Rank, PeerId, RailWeights)>, RailId);

/// Connects to the ranks to which words go by rail, once all ranks are `ready`: to those of other nodes, and to all if
/// the CPU's and the rails' `atomics` do not exclude each other. Collective.
pub(super) fn link(
    state: &mut State,
    placement: &Placement<'_>,
    atomics: Option<AtomicScope>,
    ready: Result<(), String>,
) -> Result<Links, EngineError> {
    let act = "connecting a window's nodes";
    let Some(rails) = placement.rails else {
        agree(state.oob(), "probing a window's memory", ready)?;
        return Ok((Vec::new(), RailId(0)));
    };
    let by_rail = |&rank: &Rank| choose::words_by_rail(atomics, placement.locality(rank));
    let (mapped, far): (Vec<Rank>, Vec<Rank>) = placement
        .ranks()
        .filter(by_rail)
        .partition(|&rank| placement.is_mapped(rank));
    let mut blocking_wait = BlockingWait::new(placement.map, "win_create");
    let connected =
        connect(placement.map, state, &far, &mut blocking_wait).map_err(|error| error.to_string());
    let mut links: Vec<(Rank, PeerId, RailWeights)> = far
        .iter()
        .filter_map(|peer| {
            let link = state.links[peer.index()]?;
            Some((*peer, link.peer, link.rail_weights))
        })
        .collect();
    let said = ready.and(connected).map(|()| usable(&links));
    let words = word_rail(placement, rails, &agree(state.oob(), act, said)?)?;
    if choose::words_by_rail(atomics, Place::Own) {
        let rail_weights = RailWeights::equal(rails.local.len());
        for (rank, peer) in connect_mapped(state.oob(), placement, rails, &mapped)? {
            links.push((rank, peer, rail_weights));
        }
    }
    Ok((links, words))
}

/// Team rails that lead to all of `links`, as bits.
fn usable(links: &[(Rank, PeerId, RailWeights)]) -> u8 {
    let leads = |rail_weights: &RailWeights| {
        let weights = rail_weights.weights().iter().enumerate();
        let used = weights.filter(|(_, weight)| **weight > 0);
        used.fold(0, |bits, (rail, _)| bits | 1 << rail)
    };
    let links = links.iter().map(|link| leads(&link.2));
    links.fold(u8::MAX, |usable, leads| usable & leads)
}

/// The team rail for the words of locks, on which all must meet: the first that leads from everybody
/// to everybody.
fn word_rail(
    placement: &Placement<'_>,
    rails: &TeamRails,
    usable: &[u8],
) -> Result<RailId, EngineError> {
    let common = usable.iter().fold(u8::MAX, |common, own| common & own);
    let mut all = (0..rails.local.len() as u8).map(RailId);
    all.find(|rail| common & 1 << rail.0 != 0).ok_or_else(|| {
        placement.map.refused(
            "choosing the rail of a window's locks",
            "no rail leads from every rank to every other",
        )
    })
}

/// Connects to ranks of this node, this one included.
fn connect_mapped(
    oob: &mut dyn Oob,
    placement: &Placement<'_>,
    rails: &TeamRails,
    peers: &[Rank],
) -> Result<Vec<(Rank, PeerId)>, EngineError> {
    let processes = peers
        .iter()
        .map(|peer| placement.map.processes[peer.index()]);
    let opened = processes.map(|process| rails.fabric.open_peer(process));
    let opened: Result<Vec<_>, FabricError> = opened.collect();
    let said = opened.as_ref().map(|_| ()).map_err(ToString::to_string);
    agree(oob, "opening lanes inside nodes", said)?;
    let opened = opened?;
    let (others, mine): (Vec<Rank>, Vec<Vec<u8>>) = peers
        .iter()
        .zip(&opened)
        .filter(|(peer, _)| **peer != placement.map.rank)
        .map(|(peer, (_, address))| (*peer, address.clone()))
        .unzip();
    let theirs = oob.exchange(&others, &mine)?;
    let mut theirs = theirs.into_iter();
    let mut outcome = Ok(());
    for (peer, (id, address)) in peers.iter().zip(&opened) {
        let address = match *peer == placement.map.rank {
            true => address.clone(),
            false => theirs.next().unwrap_or_default(),
        };
        if let Err(error) = rails.fabric.connect(*id, &address) {
            outcome = Err(error.to_string());
        }
    }
    agree(oob, "connecting lanes inside nodes", outcome)?;
    let ids = opened.into_iter().map(|(id, _)| id);
    Ok(peers.iter().copied().zip(ids).collect())
}
