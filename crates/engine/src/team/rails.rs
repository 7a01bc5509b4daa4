//! Opening a team's rails: those that every rank has, and which of them are near.

mod unused;

use super::map::{Map, TeamRails};
use super::measure::policy;
use crate::EngineError;
use crate::agree::agree;
use crate::numa_local::{self, Site};
use crate::rails::{Rails, RailsKind, verbs_available};
use ferrorail_base::config::FabricChoice;
use ferrorail_base::{RailId, Rank};
use ferrorail_bootstrap::Oob;
use ferrorail_coll::leaders::Leaders;
use ferrorail_fabric::RailInfo;
use ferrorail_fabric::stripe::Planner;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::OnceLock;
use unused::unused;

/// What a rank tells the others of its rails.
#[derive(Serialize, Deserialize)]
struct Opened {
    host: String,
    /// Plane and name of each rail.
    rails: Vec<(u8, String)>,
    refused: Vec<String>,
    /// Where the rank runs, if its rails are near to somewhere.
    numa_node: Option<u32>,
    local_address: Vec<u8>,
}

impl Opened {
    fn has(&self, plane: u8) -> bool {
        self.rails.iter().any(|rail| rail.0 == plane)
    }
}

/// Opens the rails of the team. Collective.
pub(super) fn open(
    oob: &mut dyn Oob,
    map: &Map,
    host_keys: &[u64],
) -> Result<Option<TeamRails>, EngineError> {
    if map.topology.node_count() == 1 {
        return Ok(None);
    }
    let one_host = host_keys.iter().all(|key| *key == host_keys[0]);
    let kinds: &[RailsKind] = match map.settings.fabric {
        FabricChoice::Verbs => &[RailsKind::Verbs],
        FabricChoice::Loopback => &[RailsKind::Loopback],
        FabricChoice::Auto if one_host => &[RailsKind::Verbs, RailsKind::Loopback],
        FabricChoice::Auto => &[RailsKind::Verbs],
    };
    if kinds == [RailsKind::Loopback] && !one_host {
        let reason = "FERRORAIL_FABRIC=loopback, but the ranks are on several hosts";
        return Err(map.refused("opening rails", reason));
    }
    let mut result = Err(EngineError::Internal("no fabric to try".into()));
    for &kind in kinds {
        result = try_rails(oob, map, kind, kinds.len() > 1);
        if result.is_ok() {
            break;
        }
    }
    result.map(Some)
}

fn try_rails(
    oob: &mut dyn Oob,
    map: &Map,
    kind: RailsKind,
    probing: bool,
) -> Result<TeamRails, EngineError> {
    let opened = if probing && kind == RailsKind::Verbs && !verbs_available() {
        Err("no RDMA device with an active port".to_owned())
    } else {
        map.context.rails(kind).map_err(|error| error.to_string())
    };
    let named = |rail: &RailInfo| (rail.plane, rail.name.clone());
    let attributes = opened.as_ref().map(|fabric| fabric.attributes());
    let mine = attributes.map_err(String::clone).map(|mine| Opened {
        host: ferrorail_shm::host_name(),
        rails: mine.rails.iter().map(named).collect(),
        refused: mine.refused.clone(),
        numa_node: map.context.numa_node_for(&mine.rails),
        local_address: mine.address.clone(),
    });
    let all = agree(oob, "opening rails", mine)?;
    if map.rank == Rank(0) {
        map.context.warn_once(unused(&all));
    }
    let fabric = opened.map_err(EngineError::Internal)?;
    let local = common(map, &all)?;
    if !fabric.attributes().same_host_only {
        let reached = reach(map, &fabric, &local, &all);
        agree(oob, "reaching the other ranks", reached)?;
    }
    let site = |rail: &RailId| {
        let info = &fabric.attributes().rails[rail.index()];
        Site {
            numa_node: info.numa_node,
            bandwidth_mb_s: info.bandwidth_mb_s,
        }
    };
    let sites: Vec<Site> = local.iter().map(site).collect();
    let numa_local = numa_local::numa_local(&sites, all[map.rank.index()].numa_node);
    let lanes = numa_local::lanes(&sites, &leaders(map, &all, local.len() as u8));
    tracing::debug!("NUMA-local rails {numa_local:#010b}, rails by port {lanes:?}");
    let (settings, infos) = (&map.settings, &fabric.attributes().rails);
    Ok(TeamRails {
        planner: Planner::new(
            policy(settings.stripe_policy(), infos, &local),
            settings.stripe_threshold,
            settings.stripe_bytes_min,
        ),
        fabric,
        local,
        numa_local,
        lanes,
        front: OnceLock::new(),
        whole: OnceLock::new(),
    })
}

/// The rails that every rank has opened.
fn common(map: &Map, all: &[Opened]) -> Result<Vec<RailId>, EngineError> {
    let mine = &all[map.rank.index()].rails;
    let local: Vec<RailId> = (0..mine.len())
        .filter(|&rail| all.iter().all(|one| one.has(mine[rail].0)))
        .map(|rail| RailId(rail as u8))
        .collect();
    if local.is_empty() {
        return Err(map.refused("opening rails", "no rail is open on every rank"));
    }
    Ok(local)
}

/// Whether some rail leads to each rank of another node, as far as this side can tell. Rails that do
/// not are said once for each pair of nodes, by the leader of the first.
fn reach(map: &Map, fabric: &Rails, local: &[RailId], all: &[Opened]) -> Result<(), String> {
    let plane = |rail: &RailId| fabric.attributes().rails[rail.index()].plane;
    let planes = local.iter().fold(0, |all, rail| all | 1 << plane(rail));
    let mut known = HashSet::new();
    for (peer, opened) in all.iter().enumerate() {
        let peer = Rank(peer as u32);
        // The ranks of a host have the same address.
        if map.topology.same_node(peer, map.rank) || !known.insert(&opened.local_address) {
            continue;
        }
        let reach = fabric
            .could_reach(&opened.local_address)
            .map_err(|e| e.to_string())?;
        if reach.planes & planes == 0 {
            let refused = reach.refused.join("; ");
            return Err(format!("no rail leads to rank {peer}: {refused}"));
        }
        let says = map.topology.is_leader(map.rank) && map.node < map.topology.node_of(peer);
        match says {
            true => map.context.warn_once(reach.refused),
            false => map.context.know(reach.refused),
        }
    }
    Ok(())
}

/// Where the leader of each port runs, on this node.
fn leaders(map: &Map, all: &[Opened], rails: u8) -> Vec<Option<u32>> {
    let ports = map.settings.ports.unwrap_or(rails);
    let wanted = map.settings.leaders.unwrap_or(ports);
    let leaders = Leaders::new(wanted, map.topology.node_size_min(), ports);
    let ranks = map.topology.ranks_of(map.node);
    let leader = |port: u8| ranks[usize::from(port / leaders.ports)];
    (0..ports)
        .map(|port| all[leader(port).index()].numa_node)
        .collect()
}
