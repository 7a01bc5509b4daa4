//! Making a team: every step is agreed on before the next, so that all ranks succeed or all fail.

use super::map::Map;
use super::{State, Team, memory};
use crate::agree::{agree, gather};
use crate::clock::Clock;
use crate::plan::Plans;
use crate::rails::{Rails, RailsKind};
use crate::run::checked::Ledger;
use crate::run::{Bounce, Meter};
use crate::shared_settings::SharedSettings;
use crate::{Context, EngineError};
use ferrorail_base::config::{FabricChoice, Settings};
use ferrorail_base::{ProcessId, RailId, Rank, Topology};
use ferrorail_bootstrap::Oob;
use ferrorail_coll::select::Table;
use ferrorail_fabric::Fabric;
use ferrorail_shm::WaitPolicy;
use std::sync::{Arc, Mutex};

/// Arrival slots are 16 bits wide and two per rank.
const SIZE_MAX: u32 = 32_000;

impl Team {
    /// Makes a team of the ranks of `oob`. Collective: all ranks get a team, or all an error.
    ///
    /// # Errors
    /// [`EngineError::Refused`] names the step and rank; the caller then leaves the communicator to
    /// the host MPI.
    pub fn create(context: &Arc<Context>, mut oob: Box<dyn Oob>) -> Result<Self, EngineError> {
        let rank = oob.rank();
        let (settings, processes) = introduce(&mut *oob, context.settings())?;
        if !settings.enable {
            return Err(EngineError::SwitchedOff {
                setting: "FERRORAIL_ENABLE",
            });
        }
        if oob.size() > SIZE_MAX {
            return Err(EngineError::Selection(format!(
                "{} ranks exceed the {SIZE_MAX} that arrival slots can number",
                oob.size()
            )));
        }
        let tuning = load_table(&settings)?;
        let keys = oob.host_keys()?;
        let topology = Topology::from_host_keys(&keys, settings.node_size);
        let host_pids: Vec<u32> = processes
            .iter()
            .zip(&keys)
            .filter(|&(_, &key)| key == keys[rank.index()])
            .map(|(process, _)| process.pid)
            .collect();
        let cores = ferrorail_shm::cores_of(&host_pids);

        let mut map = Map {
            context: context.clone(),
            rank,
            node: topology.node_of(rank),
            node_rank: topology.node_rank_of(rank),
            processes,
            tuning,
            wait: WaitPolicy::for_host(host_pids.len() as u32, cores, context.settings().spin),
            zero_copy: false,
            node_memory: None,
            rails: None,
            settings,
            topology,
        };
        if map.topology.size() > 1 {
            let rails = open_rails(&mut *oob, &map, &keys)?;
            memory::open(&mut *oob, &mut map, rails)?;
        }
        log_team(&map);
        let size = map.topology.size() as usize;
        let state = State {
            oob: Some(oob),
            clock: Clock::default(),
            plans: Plans::default(),
            links: vec![None; size],
            announced: vec![None; size],
            tickets: Vec::new(),
            ledger: Ledger::default(),
            bounce: Bounce::default(),
            meter: Meter::default(),
            broken: None,
            freed: false,
        };
        Ok(Self {
            map,
            state: Mutex::new(state),
        })
    }
}

/// Who is there, and rank 0's settings, which are in force at every rank.
fn introduce(
    oob: &mut dyn Oob,
    settings: &Settings,
) -> Result<(SharedSettings, Vec<ProcessId>), EngineError> {
    let mine = (SharedSettings::of(settings), ferrorail_shm::process_id());
    let all = gather(oob, "introduction", &mine)?;
    let (mut settings, processes): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let settings = settings.swap_remove(0);
    if settings != mine.0 {
        tracing::warn!(
            "FERRORAIL_ settings of this rank differ from those of rank 0, which are in force"
        );
    }
    Ok((settings, processes))
}

/// The table of `FERRORAIL_TUNING`, if that is set.
fn load_table(settings: &SharedSettings) -> Result<Option<Table>, EngineError> {
    match &settings.tuning {
        None => Ok(None),
        Some(Err(reason)) => Err(EngineError::Selection(reason.clone())),
        Some(Ok(text)) => Table::from_json(text)
            .map(Some)
            .map_err(|error| EngineError::Selection(format!("FERRORAIL_TUNING: {error}"))),
    }
}

/// Rails that every rank opened, and this process's name for each.
pub(super) struct AgreedRails {
    pub fabric: Arc<Rails>,
    pub local: Vec<RailId>,
}

fn open_rails(
    oob: &mut dyn Oob,
    map: &Map,
    host_keys: &[u64],
) -> Result<Option<AgreedRails>, EngineError> {
    if map.topology.node_count() == 1 {
        return Ok(None);
    }
    let one_host = host_keys.iter().all(|key| *key == host_keys[0]);
    let kinds: &[RailsKind] = match map.settings.fabric() {
        FabricChoice::Verbs => &[RailsKind::Verbs],
        FabricChoice::Loopback => &[RailsKind::Loopback],
        FabricChoice::Auto if one_host => &[RailsKind::Verbs, RailsKind::Loopback],
        FabricChoice::Auto => &[RailsKind::Verbs],
    };
    if kinds == [RailsKind::Loopback] && !one_host {
        return Err(EngineError::Refused {
            act: "opening rails",
            rank: map.rank,
            reason: "FERRORAIL_FABRIC=loopback, but the ranks are on several hosts".into(),
        });
    }
    let mut result = Err(EngineError::Selection("no fabric to try".into()));
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
) -> Result<AgreedRails, EngineError> {
    let opened = if probing && kind == RailsKind::Verbs && !Rails::verbs_available() {
        Err("no RDMA device with an active port".to_owned())
    } else {
        map.context.rails(kind).map_err(|error| error.to_string())
    };
    let mine = opened.as_ref().map_err(String::clone).map(|fabric| {
        let planes: Vec<u8> = fabric.rails().iter().map(|rail| rail.plane).collect();
        (planes, fabric.refused().to_vec())
    });
    let (all, refused): (Vec<_>, Vec<_>) = agree(oob, "opening rails", mine)?.into_iter().unzip();
    if map.rank == Rank(0) {
        map.context.warn_once(refused.into_iter().flatten());
    }
    let fabric = opened.map_err(EngineError::Selection)?;
    let mine = &all[map.rank.index()];
    let local: Vec<RailId> = (0..mine.len())
        .filter(|&rail| all.iter().all(|planes| planes.contains(&mine[rail])))
        .map(|rail| RailId(rail as u8))
        .collect();
    if local.is_empty() {
        return Err(EngineError::Refused {
            act: "opening rails",
            rank: map.rank,
            reason: "no rail is open on every rank".into(),
        });
    }
    if local.len() < mine.len() && map.rank == Rank(0) {
        let used = format!(
            "{} of {} rails are open on every rank",
            local.len(),
            mine.len()
        );
        map.context.warn_once([used]);
    }
    Ok(AgreedRails { fabric, local })
}

fn log_team(map: &Map) {
    tracing::debug!(
        ranks = map.topology.size(),
        nodes = map.topology.node_count(),
        rails = map.rails.as_ref().map_or(0, |rails| rails.local.len()),
        zero_copy = map.zero_copy,
        "team made"
    );
}
