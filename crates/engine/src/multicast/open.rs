//! Setting up the multicasts of a team, at the first call that wants them.

use super::{Leader, MulticastRow, trial};
use crate::EngineError;
use crate::agree::agree;
use crate::team::State;
use crate::team::map::{Map, TeamRails};
use ferrorail_base::RailId;
use ferrorail_base::config::ChecksumChoice;
use ferrorail_fabric::Multicast;
use ferrorail_fabric::multicast::faults::with_faults;
use ferrorail_fabric::multicast::{Group, GroupId};
use ferrorail_multicast::wire::HEADER_BYTES;
use ferrorail_multicast::{Checksum, Config, Timers};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

/// Datagrams that a leader's receive queue holds on each rail, if the device bears as many.
const DEPTH: u32 = 512;

/// Seconds after which a leader that is waited for and says nothing is given up, where
/// `FERRORAIL_PEER_TIMEOUT` is not set. A thread of each process answers while the program computes.
const SILENCE_MAX_S: u64 = 600;

/// What all ranks of a team know of its multicasts, once somebody has wanted them.
pub(crate) enum Multicasts {
    /// They work. Leaders have an end of them.
    Ready(Option<Arc<Leader>>),
    /// They do not.
    Refused,
}

impl Multicasts {
    /// This rank's end, if it leads a node of a team that has them.
    #[inline]
    pub fn leader(&self) -> Option<&Arc<Leader>> {
        match self {
            Self::Ready(leader) => leader.as_ref(),
            Self::Refused => None,
        }
    }
}

/// Whether the team has multicasts, which is the same on all ranks. The first call sets them up and tries
/// them: collective, at the same call on all ranks.
///
/// # Errors
/// If the ranks cannot agree.
#[cold]
pub(crate) fn open(map: &Map, state: &mut State) -> Result<bool, EngineError> {
    if let Some(known) = map.multicasts.get() {
        return Ok(matches!(known, Multicasts::Ready(_)));
    }
    let multicasts = match try_open(map, state) {
        Ok(leader) => Multicasts::Ready(leader),
        Err(EngineError::Refused { reason, rank, .. }) => {
            map.context.warn_once_about("multicast", || {
                format!(
                    "nodes pass messages on along trees, as rank {rank} has no multicast: {reason}"
                )
            });
            let refused = MulticastRow {
                refused: 1,
                ..MulticastRow::default()
            };
            map.context.stats().add_multicast(&refused);
            Multicasts::Refused
        }
        Err(error) => return Err(error),
    };
    let multicasts = map.multicasts.get_or_init(|| multicasts);
    Ok(matches!(multicasts, Multicasts::Ready(_)))
}

fn try_open(map: &Map, state: &mut State) -> Result<Option<Arc<Leader>>, EngineError> {
    let leads = map.topology.is_leader(map.rank);
    let begun = Instant::now();
    // A trial that fails takes its time: what one team of a process has found holds for its others.
    let known = map.context.stats().multicast().refused > 0;
    let name = match known {
        true => Err("another communicator has found so".to_owned()),
        false => Ok(random()),
    };
    let names: Vec<[u64; 3]> = agree(state.oob(), "naming a multicast group", name)?;
    let [first, second, session] = names[0];
    let mut group = [0; 16];
    group[..8].copy_from_slice(&first.to_le_bytes());
    group[8..].copy_from_slice(&second.to_le_bytes());
    let joined = match leads {
        true => join(map, GroupId(group)),
        false => Ok(Vec::new()),
    };
    let (mut groups, said) = match joined {
        Ok(groups) => {
            let addresses: Vec<_> = groups.iter().map(|group| group.address()).collect();
            let limits = groups.iter().map(|group| group.limits());
            let bytes = limits.clone().map(|limits| limits.bytes).min();
            let depth = limits.map(|limits| limits.depth).min();
            (groups, Ok((addresses, bytes, depth)))
        }
        Err(reason) => (Vec::new(), Err(reason)),
    };
    tracing::debug!("multicast groups joined after {:?}", begun.elapsed());
    let all = agree(state.oob(), "joining a multicast group", said)?;
    let leaders = || {
        let nodes = (0..map.topology.node_count()).map(ferrorail_base::NodeId);
        nodes.map(|node| &all[map.topology.leader_of(node).index()])
    };
    let bytes = leaders().filter_map(|said| said.1).min().unwrap_or(0);
    let depth = leaders().filter_map(|said| said.2).min().unwrap_or(0);
    let (me, members) = (map.node.0, map.topology.node_count());
    let mut introduce = || -> Result<(), String> {
        for (rail, group) in groups.iter_mut().enumerate() {
            let addresses: Vec<_> = leaders().map(|said| said.0[rail].clone()).collect();
            group
                .set_members(me, &addresses)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    let introduced = introduce();
    agree(
        state.oob(),
        "introducing the members of a multicast group",
        introduced,
    )?;
    let tried = groups.iter_mut().try_for_each(|group| {
        match trial::hears_everybody(&mut **group, session, me, members) {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err("its multicasts do not reach all nodes, or theirs do not reach it".into())
            }
            Err(error) => Err(error.to_string()),
        }
    });
    tracing::debug!("multicast tried after {:?}", begun.elapsed());
    agree(state.oob(), "trying multicast", tried)?;
    let config = config(map, session, bytes, depth);
    let made = match leads {
        true => start(map, config, groups).map(Some),
        false => Ok(None),
    };
    let said = made.as_ref().map(|_| ()).map_err(ToString::to_string);
    agree(state.oob(), "starting multicast", said)?;
    made
}

/// Numbers that no other team draws.
fn random() -> [u64; 3] {
    use std::collections::hash_map::RandomState;
    use std::hash::{BuildHasher, Hasher};
    [0; 3].map(|_: u64| RandomState::new().build_hasher().finish())
}

/// Joins on every rail of the team, or on those that can.
fn join(map: &Map, id: GroupId) -> Result<Vec<Box<dyn Group>>, String> {
    let rails = rails(map)?;
    if map.topology.node_count() > trial::MEMBERS_MAX {
        return Err(format!("more than {} nodes", trial::MEMBERS_MAX));
    }
    let faults = &map.context.settings().multicast_faults;
    let multicast = with_faults(Arc::clone(&rails.fabric) as Arc<dyn Multicast>, faults);
    let join = |rail: &RailId| multicast.join(*rail, id, DEPTH);
    let joined: Result<Vec<_>, _> = rails.local.iter().map(join).collect();
    joined.map_err(|error| error.to_string())
}

fn rails(map: &Map) -> Result<&TeamRails, String> {
    map.rails.as_ref().ok_or_else(|| "no rails".to_owned())
}

fn config(map: &Map, session: u64, datagram_bytes: usize, depth: u32) -> Config {
    let settings = &map.settings;
    let (me, members) = (map.node.0, map.topology.node_count());
    let seconds = map.context.settings().peer_timeout_s;
    let config = Config {
        channels: settings.bcast_channels,
        fragment_bytes: datagram_bytes.saturating_sub(HEADER_BYTES),
        channel_bytes: settings.bcast_eager_bytes as usize,
        rails: map.rail_count(),
        checksum: match settings.bcast_checksum() {
            _ if !settings.bcast_reliable => Checksum::None,
            ChecksumChoice::Crc32c => Checksum::Crc32c,
            ChecksumChoice::Additive => Checksum::Additive,
            ChecksumChoice::None => Checksum::None,
        },
        reliable: settings.bcast_reliable,
        timers: Timers {
            peer_timeout: NonZeroU64::new(seconds.unwrap_or(SILENCE_MAX_S) * 1_000_000_000),
            ..Timers::default()
        },
        ..Config::new(session, members, me)
    };
    // What receive queues hold beside what the protocol says to and fro.
    let control = config.queue_depth() - config.window;
    Config {
        window: depth.saturating_sub(control).clamp(2, 1 << 14),
        ..config
    }
}

fn start(
    map: &Map,
    config: Config,
    groups: Vec<Box<dyn Group>>,
) -> Result<Arc<Leader>, EngineError> {
    let unstarted =
        |error| EngineError::Selection(format!("no thread that drives multicasts: {error}"));
    let service = map.context.multicast_service().map_err(unstarted)?;
    let leader = Leader::new(&map.context, config, groups, service.waker())?;
    let leader = Arc::new(leader);
    service.add(&leader);
    Ok(leader)
}
