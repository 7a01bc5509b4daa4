//! Making a team: every step is agreed on before the next, so that all ranks succeed or all fail.

use super::fibers::Turns;
use super::map::Map;
use super::state::State;
use super::{Team, memory, rails};
use crate::agree::{agree, gather};
use crate::barrier_order::BarrierOrder;
use crate::choice;
use crate::shared_settings::{SharedSettings, Tuning};
use crate::{Context, EngineError};
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{AtomicU64, Claim};
use ferrorail_base::{ProcessId, Rank, Topology};
use ferrorail_bootstrap::Oob;
use ferrorail_shm::WaitPolicy;
use std::sync::{Arc, OnceLock};

/// Records of checked messages number them with 16 bits, two per rank; and with more ranks the
/// cells of arrival flags take gigabytes of each node.
pub const SIZE_MAX: u32 = 32_000;

/// The step in which ranks of several nodes get what they exchange messages on. The host may have no
/// more of that.
pub const PREPARING: &str = "preparing out-of-band messages";

impl Team {
    /// Makes a team of the ranks of `oob`, with `settings` of rank 0 where ranks must agree.
    /// Collective: all ranks get a team, or all an error.
    ///
    /// # Errors
    /// [`EngineError::Refused`] names the step and rank; the caller then leaves the communicator to
    /// the host MPI.
    pub fn create(
        context: &Arc<Context>,
        settings: &Settings,
        oob: Box<dyn Oob>,
    ) -> Result<Self, EngineError> {
        let (team, _) = Self::create_with_spares(context, settings, oob, 0)?;
        Ok(*team)
    }

    /// [`Team::create`], and parked teams of the same ranks (see [`Team::adopt`]) at little more than the cost of the
    /// one: as many as the node's leader says with `spares`, or fewer, alike on all ranks and in the same order.
    ///
    /// # Errors
    /// As [`Team::create`].
    pub fn create_with_spares(
        context: &Arc<Context>,
        settings: &Settings,
        mut oob: Box<dyn Oob>,
        spares: usize,
    ) -> Result<(Box<Self>, Vec<Self>), EngineError> {
        let rank = oob.rank();
        let (settings, tuning, processes, keys) = introduce(&mut *oob, context, settings)?;
        if !settings.enable {
            return Err(EngineError::SwitchedOff {
                setting: "FERRORAIL_ENABLE",
            });
        }
        if oob.size() > SIZE_MAX {
            return Err(EngineError::TooManyRanks {
                ranks: oob.size(),
                most: SIZE_MAX,
            });
        }
        let tuning = tuning.table()?;
        let topology = Topology::from_host_keys(&keys, settings.node_size);
        let host_pids: Vec<u32> = processes
            .iter()
            .zip(&keys)
            .filter(|&(_, &key)| key == keys[rank.index()])
            .map(|(process, _)| process.pid)
            .collect();
        let (sharing, cores) = context.sharing(&host_pids);

        let mut wait = WaitPolicy::for_host(sharing, cores, context.settings().spin);
        if sharing as usize != host_pids.len() {
            // Ranks of other teams may be on the same core.
            wait.spin_idle = 0;
        }

        let mut map = Map {
            context: context.clone(),
            rank,
            node: topology.node_of(rank),
            node_rank: topology.node_rank_of(rank),
            processes,
            tuning: tuning.map(Arc::new),
            has_cores: sharing <= cores,
            wait,
            drivers_wait: wait,
            domains: None,
            zero_copy: false,
            all_pairs: true,
            node_memory: None,
            barrier_order: BarrierOrder::new(sharing, cores),
            multicasts: OnceLock::new(),
            rails: None,
            settings,
            topology,
        };
        let mut segments = Vec::new();
        if map.topology.size() > 1 {
            if map.topology.node_count() > 1 {
                let prepared = oob.prepare_exchange();
                agree(&mut *oob, PREPARING, prepared.map_err(|e| e.to_string()))?;
            }
            map.rails = rails::open(&mut *oob, &map, &keys)?;
            let max = map.settings.queue_pairs_max;
            map.all_pairs = choice::all_pairs_fit(&map.topology, map.rail_count(), max);
            segments = memory::open(&mut *oob, &mut map, spares)?;
        }
        tracing::debug!(
            ranks = map.topology.size(),
            nodes = map.topology.node_count(),
            domains = (map.domains.as_ref()).map_or(1, |domains| map.topology.parts_max(domains)),
            rails = map.rails.as_ref().map_or(0, |rails| rails.local.len()),
            zero_copy = map.zero_copy,
            "team made"
        );
        let parked = |segment| Self::of(map.of_one_node(segment), None);
        let spares = segments.into_iter().map(parked).collect();
        Ok((Self::boxed(map, oob), spares))
    }

    /// In a box, and apart from the caller, whose stack the host's calls lie on: threads may have stacks of 64 KB, of which
    /// a team would take a tenth for each time that it is handed up.
    #[inline(never)]
    fn boxed(map: Map, oob: Box<dyn Oob>) -> Box<Self> {
        Box::new(Self::of(map, Some(oob)))
    }

    /// Nothing was done on it.
    fn of(map: Map, oob: Option<Box<dyn Oob>>) -> Self {
        let state = State::new(oob, &map);
        Self {
            map,
            state: Claim::new(state),
            calls: AtomicU64::new(0),
            turns: Turns::default(),
        }
    }
}

/// Who is there and on which host, and rank 0's settings, which are in force at every rank.
fn introduce(
    oob: &mut dyn Oob,
    context: &Context,
    own: &Settings,
) -> Result<(SharedSettings, Tuning, Vec<ProcessId>, Vec<u64>), EngineError> {
    let place = (context.process, oob.host_key());
    let mine = (SharedSettings::of(own), place);
    let all = gather(oob, "introduction", &mine)?;
    let (mut all, places): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let alike = all.iter().all(|other| other.tuning == all[0].tuning);
    let settings = all.swap_remove(0);
    if settings != mine.0 {
        context.warn_once_about("settings of rank 0", || {
            "FERRORAIL_ settings of this rank differ from those of rank 0, which are in force"
                .into()
        });
    }
    let mut tuning = Tuning::of(own);
    if !alike {
        // Rank 0's alone travels.
        let mine: Vec<_> = (oob.rank() == Rank(0))
            .then_some(tuning)
            .into_iter()
            .collect();
        let said = gather(oob, "sending the table of FERRORAIL_TUNING", &mine)?;
        let missing = || EngineError::Internal("rank 0 sent no table".into());
        tuning = said.into_iter().flatten().next().ok_or_else(missing)?;
    }
    let (processes, keys) = places.into_iter().unzip();
    Ok((settings, tuning, processes, keys))
}
