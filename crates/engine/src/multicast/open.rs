//! Setting up the multicasts of a team, at the first call that wants them.

use super::{Leader, trial};
use crate::EngineError;
use crate::agree::agree;
use crate::team::map::Map;
use crate::team::state::State;
use ferrorail_base::config::ChecksumChoice;
use ferrorail_base::{NodeId, RailId};
use ferrorail_fabric::multicast::faults::with_faults;
use ferrorail_fabric::multicast::{Group, GroupId};
use ferrorail_fabric::{Multicast, MulticastError};
use ferrorail_multicast::wire::HEADER_BYTES;
use ferrorail_multicast::{Checksum, Config, Timers};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

/// Datagrams that a leader's receive queue holds on each rail, if the device bears as many.
const DEPTH: u32 = 512;

/// Datagrams of data that may be under way towards a leader: more make queues longer, and broadcasts no sooner.
const WINDOW_MAX: u32 = 96;

/// What a round trip is taken for until one is measured: much, or the first messages are asked for too early.
const FIRST_ROUND_TRIP_NS: u64 = 5_000_000;

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
            map.context.stats().multicast.lock().refused += 1;
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
    let known = map.context.stats().multicast.lock().refused > 0;
    let name = match known {
        true => Err("another communicator has found so".to_owned()),
        false => Ok(random()),
    };
    let names: Vec<[u64; 3]> = agree(state.oob(), "naming a multicast group", name)?;
    let [first, second, session] = names[0];
    let group = GroupId(zerocopy::transmute!([first, second]));
    let mut joined = match leads {
        true => join(map, group),
        false => Ok(Joined::default()),
    };
    let said = joined.as_ref().map(Joined::say).map_err(String::clone);
    tracing::debug!("multicast groups joined after {:?}", begun.elapsed());
    let all = agree(state.oob(), "joining a multicast group", said)?;
    let nodes = (0..map.topology.node_count()).map(NodeId);
    let leaders = nodes.map(|node| &all[map.topology.leader_of(node).index()]);
    let leaders: Vec<&Said> = leaders.collect();
    let introduced = match &mut joined {
        Ok(joined) if leads => joined.introduce(map.node.0, &leaders),
        _ => Ok(()),
    };
    let act = "introducing the members of a multicast group";
    agree(state.oob(), act, introduced)?;
    let mut groups = joined.map_or_else(|_| Vec::new(), Joined::into_groups);
    let members = map.topology.node_count();
    let try_path = |group: &mut Box<dyn Group>| match trial::hears_everybody(
        &mut **group,
        session,
        map.node.0,
        members,
    ) {
        Ok(true) => Ok(()),
        Ok(false) => Err("its multicasts do not reach all nodes, or theirs do not reach it".into()),
        Err(error) => Err(error.to_string()),
    };
    let tried = groups.iter_mut().try_for_each(try_path);
    tracing::debug!("multicast tried after {:?}", begun.elapsed());
    agree(state.oob(), "trying multicast", tried)?;
    let config = config(map, session, groups.len() as u8, &leaders);
    let made = match leads {
        true => start(map, config, groups).map(Some),
        false => Ok(None),
    };
    let said = made.as_ref().map(|_| ()).map_err(ToString::to_string);
    agree(state.oob(), "starting multicast", said)?;
    made
}

/// A leader's memberships, one for each rail of the team; none where the rail carries no groups.
#[derive(Default)]
struct Joined(Vec<Option<Box<dyn Group>>>);

/// What a leader says of its memberships.
#[derive(Serialize, Deserialize)]
struct Said {
    /// Its address on each rail, if it has one there.
    addresses: Vec<Option<Vec<u8>>>,
    /// Longest datagram of all.
    bytes: usize,
    /// Shortest receive queue.
    depth: u32,
}

impl Joined {
    fn say(&self) -> Said {
        let groups = || self.0.iter().flatten();
        let limits = || groups().map(|group| group.limits());
        let address = |group: &Option<Box<dyn Group>>| group.as_ref().map(|group| group.address());
        Said {
            addresses: self.0.iter().map(address).collect(),
            bytes: limits().map(|limits| limits.bytes).min().unwrap_or(0),
            depth: limits().map(|limits| limits.depth).min().unwrap_or(0),
        }
    }

    /// Leaves the rails on which some leader is not a member, and makes the others known on the rest.
    fn introduce(&mut self, me: u32, leaders: &[&Said]) -> Result<(), String> {
        for (rail, membership) in self.0.iter_mut().enumerate() {
            let addresses = leaders.iter().map(|said| said.addresses[rail].clone());
            match (addresses.collect::<Option<Vec<_>>>(), &mut *membership) {
                (Some(addresses), Some(group)) => group
                    .set_members(me, &addresses)
                    .map_err(|error| error.to_string())?,
                _ => *membership = None,
            }
        }
        match self.0.iter().flatten().count() {
            0 => Err("no rail carries multicast on every node".into()),
            _ => Ok(()),
        }
    }

    fn into_groups(self) -> Vec<Box<dyn Group>> {
        self.0.into_iter().flatten().collect()
    }
}

/// Numbers that no other team draws.
fn random() -> [u64; 3] {
    use std::collections::hash_map::RandomState;
    use std::hash::{BuildHasher, Hasher};
    [0; 3].map(|_: u64| RandomState::new().build_hasher().finish())
}

/// Joins on every rail of the team that carries groups.
fn join(map: &Map, id: GroupId) -> Result<Joined, String> {
    let rails = map.rails.as_ref().ok_or("no rails")?;
    if map.topology.node_count() > trial::MEMBERS_MAX {
        return Err(format!("more than {} nodes", trial::MEMBERS_MAX));
    }
    let faults = &map.context.settings().multicast_faults;
    let multicast = with_faults(rails.fabric.groups(), faults);
    let mut refusal = None;
    let mut join = |rail: &RailId| {
        let refused = |error: MulticastError| refusal = Some(error.to_string());
        multicast.join(*rail, id, DEPTH).map_err(refused).ok()
    };
    let groups: Vec<_> = rails.local.iter().map(&mut join).collect();
    match (groups.iter().flatten().count(), refusal) {
        (0, Some(refusal)) => Err(refusal),
        _ => Ok(Joined(groups)),
    }
}

fn config(map: &Map, session: u64, rails: u8, leaders: &[&Said]) -> Config {
    let least = |of: fn(&Said) -> usize| leaders.iter().map(|said| of(said)).min().unwrap_or(0);
    let (datagram_bytes, depth) = (least(|said| said.bytes), least(|said| said.depth as usize));
    let settings = &map.settings;
    let (me, members) = (map.node.0, map.topology.node_count());
    let seconds = map.context.settings().peer_timeout_s;
    let config = Config {
        channels: settings.bcast_channels,
        fragment_bytes: datagram_bytes.saturating_sub(HEADER_BYTES),
        channel_bytes: settings.bcast_eager_bytes as usize,
        rails,
        checksum: match settings.bcast_checksum {
            _ if !settings.bcast_reliable => Checksum::None,
            ChecksumChoice::Crc32c => Checksum::Crc32c,
            ChecksumChoice::Additive => Checksum::Additive,
            ChecksumChoice::None => Checksum::None,
        },
        reliable: settings.bcast_reliable,
        timers: Timers {
            initial_round_trip: FIRST_ROUND_TRIP_NS,
            peer_timeout: NonZeroU64::new(seconds.unwrap_or(SILENCE_MAX_S) * 1_000_000_000),
            ..Timers::default()
        },
        ..Config::new(session, members, me)
    };
    // What receive queues hold beside what the protocol says to and fro.
    let control = config.queue_depth() - config.window;
    Config {
        window: (depth as u32).saturating_sub(control).clamp(2, WINDOW_MAX),
        ..config
    }
}

fn start(
    map: &Map,
    config: Config,
    groups: Vec<Box<dyn Group>>,
) -> Result<Arc<Leader>, EngineError> {
    let unstarted = |source| EngineError::Thread {
        purpose: "drives multicasts",
        source,
    };
    let service = map.context.multicast_service().map_err(unstarted)?;
    let nodes = (0..map.topology.node_count()).map(NodeId);
    let leaders = nodes.map(|node| map.topology.leader_of(node)).collect();
    let leader = Leader::new(&map.context, config, groups, leaders, service.waker())?;
    let leader = Arc::new(leader);
    service.add(&leader);
    Ok(leader)
}
