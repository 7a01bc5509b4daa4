//! Connecting to all ranks that are reached over rails.

use super::choose;
use super::ground::{Ground, refused};
use crate::EngineError;
use crate::agree::agree;
use crate::run::Patience;
use crate::team::State;
use crate::team::connect::connect;
use crate::team::map::TeamRails;
use ferrorail_base::{PeerId, RailId, Rank};
use ferrorail_bootstrap::Oob;
use ferrorail_fabric::stripe::Balance;
use ferrorail_fabric::{AtomicScope, Fabric};

/// Ranks to which atomics go by rail: those of other nodes, and all if the CPU's and the rails'
/// atomics do not exclude each other.
pub(super) fn peers_by_rail(ground: &Ground<'_>, atomics: Option<AtomicScope>) -> Vec<Rank> {
    let by_rail = |&rank: &Rank| choose::words_by_rail(atomics, ground.whereabouts(rank));
    ground.ranks().filter(by_rail).collect()
}

/// Connects to `peers`; the fabric's names and what is known of the rails, by peer.
pub(super) fn link(
    state: &mut State,
    ground: &Ground<'_>,
    peers: &[Rank],
) -> Result<Vec<(Rank, PeerId, Balance)>, EngineError> {
    let Some(rails) = ground.rails else {
        return Ok(Vec::new());
    };
    let (far, near): (Vec<Rank>, Vec<Rank>) =
        peers.iter().partition(|&&peer| !ground.is_near(peer));
    let mut patience = Patience::new(ground.map, "win_create");
    let connected =
        connect(ground.map, state, &far, &mut patience).map_err(|error| error.to_string());
    agree(state.oob(), "connecting a window's nodes", connected)?;
    let mut links: Vec<(Rank, PeerId, Balance)> = far
        .iter()
        .filter_map(|peer| {
            let link = state.links[peer.index()]?;
            Some((*peer, link.peer, link.balance))
        })
        .collect();
    let balance = Balance::equal(rails.local.len());
    for (rank, peer) in connect_near(state.oob(), ground, rails, &near)? {
        links.push((rank, peer, balance));
    }
    Ok(links)
}

/// Connects to ranks of this node, this one included.
fn connect_near(
    oob: &mut dyn Oob,
    ground: &Ground<'_>,
    rails: &TeamRails,
    peers: &[Rank],
) -> Result<Vec<(Rank, PeerId)>, EngineError> {
    let open = |peer: &Rank| {
        let id = rails.fabric.open_peer(ground.map.processes[peer.index()])?;
        Ok((id, rails.fabric.address_for(id)?))
    };
    let opened: Result<Vec<_>, ferrorail_fabric::FabricError> = peers.iter().map(open).collect();
    let said = opened.as_ref().map(|_| ()).map_err(ToString::to_string);
    agree(oob, "opening lanes inside nodes", said)?;
    let opened = opened?;
    let others: Vec<Rank> = peers
        .iter()
        .copied()
        .filter(|&p| p != ground.map.rank)
        .collect();
    let mine: Vec<Vec<u8>> = peers
        .iter()
        .zip(&opened)
        .filter(|(peer, _)| **peer != ground.map.rank)
        .map(|(_, (_, address))| address.clone())
        .collect();
    let theirs = oob.exchange(&others, &mine)?;
    let mut theirs = theirs.into_iter();
    let mut outcome = Ok(());
    for (peer, (id, address)) in peers.iter().zip(&opened) {
        let address = match *peer == ground.map.rank {
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

/// The team rail for the words of locks, on which all must meet: the first that leads from everybody
/// to everybody.
pub(super) fn word_rail(
    oob: &mut dyn Oob,
    ground: &Ground<'_>,
    links: &[(Rank, PeerId, Balance)],
) -> Result<RailId, EngineError> {
    let act = "choosing the rail of a window's locks";
    let mut usable = u8::MAX;
    for (_, _, balance) in links {
        for (rail, weight) in balance.weights().iter().enumerate() {
            if *weight == 0 {
                usable &= !(1 << rail);
            }
        }
    }
    let all = agree(oob, act, Ok(usable))?;
    let usable = all.into_iter().fold(u8::MAX, |common, own| common & own);
    let rails = ground.rails.map_or(1, |rails| rails.local.len());
    (0..rails as u8)
        .find(|rail| usable & 1 << rail != 0)
        .map(RailId)
        .ok_or_else(|| {
            refused(
                ground.map,
                act,
                "no rail leads from every rank to every other",
            )
        })
}
