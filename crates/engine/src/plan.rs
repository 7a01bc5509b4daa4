//! Plans: which algorithm runs for a size, with its schedule, chosen once per team and size class.
//!
//! A choice is made only from what every rank knows (architecture invariant 1): the collective, the
//! team, the size class, and the settings agreed at team creation.

use crate::stats::{CallKey, Stats};
use crate::team::map::Map;
use ferrorail_base::units::size_class;
use ferrorail_coll::select::Query;
use ferrorail_coll::{Algorithm, Collective, Landing, Request, Schedule};

/// One size class's choice.
pub(crate) struct Plan {
    pub collective: Collective,
    pub algorithm: &'static Algorithm,
    pub landing: Landing,
    pub schedule: Schedule,
    /// Whether every peer the schedule names is connected.
    pub connected: bool,
    /// Whether the payload may ride in the flag's cache line: one node, all ranks see each other.
    pub inline: bool,
    pub calls: u64,
    pub bytes: u64,
}

/// The plans of a team.
#[derive(Default)]
pub(crate) struct Plans {
    by_class: Vec<Option<Box<Plan>>>,
}

impl Plans {
    /// The plan for messages of `bytes` bytes. The caller gives it back with [`Plans::put_back`].
    pub fn take(&mut self, map: &Map, collective: Collective, bytes: usize) -> Box<Plan> {
        let class = size_class(bytes as u64) as usize;
        if self.by_class.len() <= class {
            self.by_class.resize_with(class + 1, || None);
        }
        self.by_class[class]
            .take()
            .unwrap_or_else(|| Box::new(Plan::new(map, collective, class as u32)))
    }

    /// Keeps `plan` for the next call of its size and counts this one.
    pub fn put_back(&mut self, mut plan: Box<Plan>, bytes: usize) {
        plan.calls += 1;
        plan.bytes += bytes as u64;
        self.by_class[size_class(bytes as u64) as usize] = Some(plan);
    }

    /// Adds the counts since the last time to `stats`.
    pub fn flush_counts(&mut self, stats: &Stats) {
        for (class, plan) in self.by_class.iter_mut().enumerate() {
            let Some(plan) = plan else { continue };
            let key = CallKey {
                collective: plan.collective.name(),
                algorithm: plan.algorithm.name,
                landing: landing_name(plan.landing),
                size_class_bytes: 1 << class,
            };
            stats.called(
                key,
                std::mem::take(&mut plan.calls),
                std::mem::take(&mut plan.bytes),
            );
        }
    }
}

impl Plan {
    fn new(map: &Map, collective: Collective, class: u32) -> Self {
        let topology = &map.topology;
        let query = Query {
            collective,
            bytes: 1u64 << class.min(62),
            ranks: topology.size(),
            nodes: topology.node_count(),
            node_size_max: topology.node_size_max(),
            rails: map
                .rails
                .as_ref()
                .map_or(1, |rails| rails.local.len() as u8),
            ports: map.ports(),
            zero_copy: map.zero_copy,
        };
        let forced = map.settings.algorithm.get(collective.name());
        // An unknown name was reported when the settings were read.
        let forced = forced.and_then(|name| ferrorail_coll::find(collective, name).ok());
        let (algorithm, landing) = match forced {
            Some(algorithm) => (algorithm, forced_landing(map, algorithm, query.bytes)),
            None => {
                let choice = map.table().choose(&query);
                (choice.algorithm, choice.landing)
            }
        };
        let request = Request {
            topology,
            rank: map.rank,
            ports: map.ports(),
            landing,
        };
        let schedule = (algorithm.build)(&request);
        tracing::debug!(
            collective = collective.name(),
            bytes_max = query.bytes,
            algorithm = algorithm.name,
            landing = landing_name(landing),
            "chosen"
        );
        Self {
            collective,
            algorithm,
            landing,
            schedule,
            connected: false,
            inline: topology.node_count() == 1
                && algorithm.smp_aware
                && landing == Landing::Scratch,
            calls: 0,
            bytes: 0,
        }
    }
}

/// Where a forced algorithm lands: in user memory from this size on, where that is possible.
const ZERO_COPY_BYTES_MIN: u64 = 32 << 10;

fn forced_landing(map: &Map, algorithm: &Algorithm, bytes: u64) -> Landing {
    let wanted = map.settings.zero_copy == Some(true) || bytes >= ZERO_COPY_BYTES_MIN;
    if wanted && map.zero_copy && algorithm.supports(Landing::Recv) {
        Landing::Recv
    } else {
        algorithm.landings[0]
    }
}

/// As statistics and tuning tables spell it.
fn landing_name(landing: Landing) -> &'static str {
    match landing {
        Landing::Scratch => "scratch",
        Landing::Recv => "recv",
    }
}
