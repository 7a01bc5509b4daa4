//! Making a team: every step is agreed on before the next, so that all ranks succeed or all fail.

use super::map::Map;
use super::{State, Team, memory, rails};
use crate::agree::gather;
use crate::clock::Clock;
use crate::plan::Plans;
use crate::proof::Proof;
use crate::run::checked::Ledger;
use crate::run::{Bounce, Meter};
use crate::shared_settings::SharedSettings;
use crate::{Context, EngineError};
use ferrorail_base::config::Settings;
use ferrorail_base::{ProcessId, Topology};
use ferrorail_bootstrap::Oob;
use ferrorail_coll::select::Table;
use ferrorail_shm::WaitPolicy;
use std::sync::{Arc, Mutex};

/// Records of checked messages number them with 16 bits, two per rank; and with more ranks the
/// cells of arrival flags take gigabytes of each node.
pub(crate) const SIZE_MAX: u32 = 32_000;

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
                "{} ranks exceed the {SIZE_MAX} that a team may have",
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
            let rails = rails::open(&mut *oob, &map, &keys)?;
            memory::open(&mut *oob, &mut map, rails)?;
        }
        log_team(&map);
        let size = map.topology.size() as usize;
        let state = State {
            oob: Some(oob),
            clock: Clock::default(),
            proof: Proof::default(),
            plans: Plans::default(),
            links: vec![None; size],
            announced: vec![None; size],
            tickets: Vec::new(),
            ledger: Ledger::default(),
            bounce: Bounce::default(),
            meter: Meter::default(),
            broken: None,
            inquiry: None,
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
pub(crate) fn load_table(settings: &SharedSettings) -> Result<Option<Table>, EngineError> {
    match &settings.tuning {
        None => Ok(None),
        Some(Err(reason)) => Err(EngineError::Selection(reason.clone())),
        Some(Ok(text)) => Table::from_json(text)
            .map(Some)
            .map_err(|error| EngineError::Selection(format!("FERRORAIL_TUNING: {error}"))),
    }
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
