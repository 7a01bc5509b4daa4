//! Making a team: every step is agreed on before the next, so that all ranks succeed or all fail.

use super::map::{CHANNELS, Map, NodeMemory, TeamRails};
use super::{State, Team};
use crate::agree::{agree, gather};
use crate::plan::Plans;
use crate::rails::{Rails, RailsKind};
use crate::shared_settings::SharedSettings;
use crate::{Context, EngineError};
use ferrorail_base::config::{FabricChoice, ShmKind};
use ferrorail_base::sync::Ordering;
use ferrorail_base::{NodeId, ProcessId, RailId, Rank, Topology};
use ferrorail_bootstrap::Oob;
use ferrorail_coll::schedule::slot_limit;
use ferrorail_coll::select::Table;
use ferrorail_fabric::stripe::StripePolicy;
use ferrorail_fabric::{Fabric, SharedBacking};
use ferrorail_shm::{NodeLayout, NodeSegment, SegmentHandle, ShmError, WaitPolicy};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::unistd::geteuid;
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
        let settings = SharedSettings::agree(&mut *oob, context.settings())?;
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
        let processes: Vec<ProcessId> =
            gather(&mut *oob, "process exchange", &ferrorail_shm::process_id())?;
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
            map.node_memory = Some(open_segment(&mut *oob, &map, rails.as_ref())?);
            if let Some(rails) = rails {
                map.rails = Some(register(&mut *oob, &map, rails)?);
            }
            map.zero_copy = offer_zero_copy(&mut *oob, &map)?;
        }
        log_team(&map);
        let size = map.topology.size() as usize;
        let state = State {
            oob,
            op: 0,
            plans: Plans::default(),
            links: vec![None; size],
            announced: vec![None; size],
            tickets: Vec::new(),
            broken: None,
            freed: false,
        };
        Ok(Self {
            map,
            state: Mutex::new(state),
        })
    }
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
struct AgreedRails {
    fabric: Arc<Rails>,
    local: Vec<RailId>,
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
    let planes = opened.as_ref().map_err(String::clone).map(|fabric| {
        fabric
            .rails()
            .iter()
            .map(|rail| rail.plane)
            .collect::<Vec<u8>>()
    });
    let all = agree(oob, "opening rails", planes)?;
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
    if local.len() < mine.len() {
        tracing::warn!(
            "{} of {} rails are used: the others are not open on every rank",
            local.len(),
            mine.len()
        );
    }
    Ok(AgreedRails { fabric, local })
}

fn open_segment(
    oob: &mut dyn Oob,
    map: &Map,
    rails: Option<&AgreedRails>,
) -> Result<NodeMemory, EngineError> {
    let size = map.topology.size();
    let layouts: Vec<NodeLayout> = (0..map.topology.node_count())
        .map(|node| NodeLayout {
            local_ranks: map.topology.ranks_of(NodeId(node)).len() as u32,
            channels: CHANNELS,
            slots: slot_limit(size),
            rails: rails.map_or(1, |rails| rails.local.len() as u32),
            // Every schedule's scratch holds at least 64 bytes a block.
            scratch_bytes: map.settings.scratch_bytes.max(64 * 2 * u64::from(size)),
        })
        .collect();
    let layout = &layouts[map.node.index()];
    let kinds: &[ShmKind] = match map.settings.shm() {
        ShmKind::Auto => &[ShmKind::Memfd, ShmKind::Posix],
        ShmKind::Memfd => &[ShmKind::Memfd],
        ShmKind::Posix => &[ShmKind::Posix],
    };
    let mut result = Err(EngineError::Selection("no kind of segment to try".into()));
    for &kind in kinds {
        result = try_segment(oob, map, layout, kind);
        match &result {
            Ok(_) => break,
            Err(error) => tracing::debug!("{kind:?} segment: {error}"),
        }
    }
    Ok(NodeMemory {
        segment: result?,
        layouts,
    })
}

fn try_segment(
    oob: &mut dyn Oob,
    map: &Map,
    layout: &NodeLayout,
    kind: ShmKind,
) -> Result<NodeSegment, EngineError> {
    let leads = map.topology.is_leader(map.rank);
    let created = leads.then(|| NodeSegment::create(kind, *layout));
    let handle = match &created {
        None => Ok(None),
        Some(Ok(segment)) => Ok(Some(segment.segment().handle().to_wire())),
        Some(Err(error)) => Err(error.to_string()),
    };
    let handles = agree(oob, "creating the node segment", handle)?;
    let segment = match created {
        Some(created) => created.map_err(|error: ShmError| error.to_string()),
        None => {
            let leader = map.topology.leader_of(map.node);
            handles[leader.index()]
                .as_deref()
                .and_then(SegmentHandle::from_wire)
                .ok_or_else(|| "the leader sent no segment".to_owned())
                .and_then(|handle| {
                    NodeSegment::attach(&handle, *layout).map_err(|error| error.to_string())
                })
        }
    };
    agree(
        oob,
        "attaching the node segment",
        segment.as_ref().map(|_| ()).map_err(String::clone),
    )?;
    let segment = segment.map_err(EngineError::Selection)?;
    segment.segment().unlink();
    Ok(segment)
}

fn register(
    oob: &mut dyn Oob,
    map: &Map,
    AgreedRails { fabric, local }: AgreedRails,
) -> Result<TeamRails, EngineError> {
    let segment = map.segment().segment();
    let range = segment.range();
    let backing = SharedBacking {
        pid: std::process::id(),
        fd: segment.fd(),
        offset: 0,
        object_bytes: range.bytes as u64,
    };
    // SAFETY: the segment lives in the team's map beside the registration, which is dropped first.
    let region = unsafe { fabric.register(range.as_ptr(), range.bytes, Some(backing)) };
    let description = region
        .as_ref()
        .map(|region| fabric.describe(region))
        .map_err(|error| error.to_string());
    let descriptions = match agree(oob, "registering the node segment", description) {
        Ok(descriptions) => descriptions,
        Err(error) => {
            if let Ok(region) = region {
                fabric.deregister(region);
            }
            return Err(error);
        }
    };
    let rails: Vec<RailId> = (0..local.len() as u8).map(RailId).collect();
    let policy = StripePolicy::even(&rails, map.settings.stripe_threshold);
    Ok(TeamRails::new(fabric, local, policy, region?, descriptions))
}

/// Zero-copy is offered if every rank can write every other's private memory: cross-memory attach
/// inside nodes, the fabric between them, and registrations not bounded by a memlock limit.
fn offer_zero_copy(oob: &mut dyn Oob, map: &Map) -> Result<bool, EngineError> {
    if map.settings.zero_copy == Some(false) {
        return Ok(false);
    }
    let probe = ferrorail_base::sync::AtomicU64::new(0x6665_7272_6f72_6169 ^ u64::from(map.rank.0));
    let mine = (&raw const probe as u64, probe.load(Ordering::Relaxed));
    let cma = map.settings.cma;
    if cma {
        ferrorail_shm::cma_allow();
    }
    let probes = gather(oob, "cross-memory probe", &mine)?;
    let capabilities = map.rails.as_ref().map(|rails| rails.fabric.capabilities());
    let one_host = capabilities.is_some_and(|capabilities| capabilities.same_host_only);
    let reaches = |peer: Rank| {
        let (address, expect) = probes[peer.index()];
        let pid = map.processes[peer.index()].pid;
        cma && ferrorail_shm::cma_probe(pid, address, expect)
    };
    let inside = (0..map.topology.size())
        .map(Rank)
        .filter(|&peer| peer != map.rank && (one_host || map.topology.same_node(peer, map.rank)))
        .all(reaches);
    let between = capabilities.is_none_or(|capabilities| {
        capabilities.private_memory && (capabilities.same_host_only || memlock_unlimited())
    });
    let answers = gather(oob, "cross-memory probe", &(inside && between))?;
    // The probed word lived until every rank has answered.
    probe.store(0, Ordering::Relaxed);
    Ok(answers.into_iter().all(|reached| reached))
}

/// Whether registrations are bounded by the memlock limit only in theory.
fn memlock_unlimited() -> bool {
    let soft = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
    soft == RLIM_INFINITY || geteuid().is_root()
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
