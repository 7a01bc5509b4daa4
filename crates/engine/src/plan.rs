//! Plans: which algorithm runs for a size, with its schedule, chosen once per team and size class.
//!
//! A choice is made only from what every rank knows (architecture invariant 1): the collective, the
//! team, the size class, the settings agreed at team creation, and what ranks have found out together ([`Found`]).

mod found;
mod short;

pub(crate) use found::{Found, selector};
pub(crate) use short::{Short, ShortWays};

use crate::choice::{ChosenBy, Left, by_length};
use crate::collective::eager::form::Form;
use crate::selection::Selector;
use crate::sequence::ChannelRequest;
use crate::stats::{CallRow, Stats};
use crate::team::map::Map;
use ferrorail_base::Rank;
use ferrorail_base::units::size_class;
use ferrorail_coll::cost::{Model, predict_in_pieces};
use ferrorail_coll::named::Variant;
use ferrorail_coll::select::NOT_MEASURED;
use ferrorail_coll::{Buffer, Collective, Protocol, Schedule, Step};
use std::collections::HashMap;

/// What a plan is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey {
    collective: Collective,
    root: Rank,
    class: u32,
    in_rank_order: bool,
    /// As [`Query::attach_percent`](ferrorail_coll::select::Query::attach_percent).
    attach_percent: u32,
}

impl PlanKey {
    /// For a call of `bytes` bytes per block.
    #[inline]
    pub fn new(collective: Collective, root: Rank, bytes: usize) -> Self {
        Self {
            collective,
            root,
            class: size_class(bytes as u64),
            in_rank_order: false,
            attach_percent: NOT_MEASURED,
        }
    }

    /// Where the plan is looked for first.
    #[inline]
    fn place(&self) -> usize {
        // A program calls few collectives, each with few sizes that follow each other and few roots.
        let sum = 7 * self.collective as u32 + self.class + 3 * self.root.0;
        sum as usize % RECENT
    }

    /// Length of the longest blocks of the class.
    fn bytes(&self) -> u64 {
        1 << self.class.min(62)
    }

    /// For a reduction whose operands may not change places, if so.
    #[inline]
    pub fn in_rank_order(self, in_rank_order: bool) -> Self {
        Self {
            in_rank_order,
            ..self
        }
    }

    /// For a call of which long messages take `attach_percent` by cross-memory attach.
    pub fn with_attach_percent(self, attach_percent: u32) -> Self {
        Self {
            attach_percent,
            ..self
        }
    }

    /// What its plan is chosen by, of what ranks have `found` and what they have measured.
    pub fn found(&self, found: Found) -> Found {
        Found {
            attach_percent: self.attach_percent,
            ..found
        }
    }
}

/// The choice for one key.
pub(crate) struct Plan {
    pub key: PlanKey,
    pub protocol: Protocol,
    /// The algorithm as it was chosen.
    pub variant: Variant,
    by: ChosenBy,
    /// Why the host MPI runs it instead, if it does.
    pub left: Option<Left>,
    pub route: Route,
    /// Of a vector form of which no rank knows all lengths: the way into user memory of the
    /// blocks that have no room in scratch, which take `route`.
    pub large: Option<Route>,
    /// Parts the algorithm cuts a vector into.
    pub parts: u32,
    /// Whether every peer the schedule names is connected.
    pub connected: bool,
    /// How the payload rides in the flag's cache line: on one node all ranks see each other. None if the host runs it, so
    /// that no short way is taken.
    pub eager: Option<Form>,
    /// The room of the last call: programs make many calls of one size.
    pub room: Option<Room>,
    /// Of a vector form of which no rank knows all lengths, after the first call.
    pub lengths: Option<Lengths>,
    calls: u64,
    bytes: u64,
    /// Operations that ran the schedule: none for an eager call, one for each piece of another.
    pub runs: u64,
}

/// The channels of operations on blocks of `bytes` bytes of elements of `unit` bytes, and the piece of each block that
/// one moves at a time.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub bytes: usize,
    pub unit: usize,
    pub channels: ChannelRequest,
    pub piece: usize,
}

/// Which way blocks go of which no rank knows all lengths, and the channels of an operation on them.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    pub channels: ChannelRequest,
    /// Longest block that goes through scratch as a whole.
    pub whole: usize,
    /// Longest piece of one, where all goes in pieces.
    pub piece: usize,
    /// Longest block of a node's ranks that does not go straight into user memory, by what they have measured.
    pub in_segment: usize,
}

/// A schedule and what it needs of the user's memory.
pub(crate) struct Route {
    pub schedule: Schedule,
    /// Whether puts read the user's contribution, which then must be registered.
    pub registers_send: bool,
    /// Whether peers write, or puts read, the user's result.
    pub registers_recv: bool,
    /// Whether targets in this node should share long copies: this rank is nobody's target itself, and cores would be
    /// idle, or its copies wait for each other.
    pub offers: bool,
    /// Whether what the schedule takes for nodes are the domains of the node.
    pub domains: bool,
}

/// Places for plans that are found without a search.
const RECENT: usize = 64;

/// The plans of a team.
pub(crate) struct Plans {
    /// The plan of each key that was used last of those with the same place: programs call the same few things
    /// again and again.
    recent: [Option<Box<Plan>>; RECENT],
    others: HashMap<PlanKey, Box<Plan>>,
    /// What is chosen by besides the team.
    found: Found,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            recent: [const { None }; RECENT],
            others: HashMap::new(),
            found: Found::default(),
        }
    }
}

impl Plans {
    /// The plan for `key`. The caller gives it back with [`Plans::put_back`] or [`Plans::keep`].
    #[inline]
    pub fn take(&mut self, map: &Map, key: PlanKey) -> Box<Plan> {
        match self.recent[key.place()].take() {
            Some(plan) if plan.key == key => plan,
            other => self.take_other(map, key, other),
        }
    }

    /// The plan for `key` where `other` was.
    #[cold]
    fn take_other(&mut self, map: &Map, key: PlanKey, other: Option<Box<Plan>>) -> Box<Plan> {
        if let Some(plan) = other {
            self.others.insert(plan.key, plan);
        }
        let known = self.others.remove(&key);
        known.unwrap_or_else(|| Box::new(Plan::new(map, key, self.found)))
    }

    /// The plan to use instead of `plan`, and from now on, as nodes cannot send each other multicasts.
    pub fn without_multicast(&mut self, map: &Map, plan: &Plan) -> Plan {
        self.found.multicast = false;
        let is_multicast = |plan: &Plan| plan.variant.algorithm.multicast;
        self.others.retain(|_, plan| !is_multicast(plan));
        for place in &mut self.recent {
            place.take_if(|plan| is_multicast(plan));
        }
        Plan::new(map, plan.key, self.found)
    }

    /// Has no call use multicasts. Before the first.
    pub fn leave_multicast(&mut self) {
        self.found.multicast = false;
    }

    /// What is chosen by.
    pub fn found(&self) -> Found {
        self.found
    }

    /// Drops the plans for `collective` that were made for this `attach_percent`, which is another now.
    pub fn forget(&mut self, map: &Map, collective: Collective, attach_percent: u32) {
        self.flush_counts(map, map.context.stats());
        let is_old = |plan: &Plan| {
            (plan.key.collective, plan.key.attach_percent) == (collective, attach_percent)
        };
        self.others.retain(|_, plan| !is_old(plan));
        for place in &mut self.recent {
            place.take_if(|plan| is_old(plan));
        }
    }

    /// Keeps `plan` for the next call and counts this one.
    #[inline]
    pub fn put_back(&mut self, mut plan: Box<Plan>, bytes: usize) {
        plan.count(bytes);
        self.keep(plan);
    }

    /// Keeps `plan` for the next call.
    #[inline]
    pub fn keep(&mut self, plan: Box<Plan>) {
        let place = plan.key.place();
        // One that was taken while this one was away.
        if let Some(other) = self.recent[place].replace(plan) {
            self.others.insert(other.key, other);
        }
    }

    /// Adds the counts since the last time to `stats`.
    pub fn flush_counts(&mut self, map: &Map, stats: &Stats) {
        let plans = self.recent.iter_mut().flatten();
        for plan in plans.chain(self.others.values_mut()) {
            if plan.calls > 0 {
                stats.called(plan.take_counts(map));
            }
        }
    }
}

impl Plan {
    /// What a team that has `found` this does for `key`.
    pub fn new(map: &Map, key: PlanKey, found: Found) -> Self {
        let selector = selector(map, key.found(found));
        let (collective, root) = (key.collective, key.root);
        let topology = &map.topology;
        let ranks = (root, map.rank);
        let choice = selector.choose(collective, key.bytes(), key.in_rank_order, ranks);
        let (variant, protocol, by) = (choice.variant, choice.protocol, choice.by);
        let left = choice.left(map.all_pairs);
        // In fibers it is too late for the host, whose call would have to come where the program made its own.
        let left = left.filter(|&left| left != Left::Chosen || !map.wait.suspends);
        let algorithm = variant.algorithm;
        let by_length = by_length(collective);
        let both = by_length && protocol == Protocol::Rendezvous;
        let route = |to| {
            let schedule = selector.schedule(variant, to, root, map.rank);
            let domains = variant.domains && topology.node_count() == 1;
            Route::new(map, schedule, to, domains)
        };
        tracing::debug!(
            collective = collective.name(),
            bytes_max = key.bytes(),
            algorithm = %variant,
            ports = selector.ports(variant),
            protocol = protocol.name(),
            by = %by,
            left = ?left,
            "chosen"
        );
        Self {
            key,
            parts: algorithm.cut.parts(topology.size()),
            protocol,
            variant,
            by,
            left,
            route: route(if both { Protocol::Eager } else { protocol }),
            large: both.then(|| route(Protocol::Rendezvous)),
            connected: false,
            eager: match left {
                None => (selector.scratch).eager_form(variant, protocol),
                Some(_) => None,
            },
            room: None,
            lengths: None,
            calls: 0,
            bytes: 0,
            runs: 0,
        }
    }

    /// Counts a call of `bytes` bytes.
    #[inline(always)]
    fn count(&mut self, bytes: usize) {
        self.calls += 1;
        self.bytes += bytes as u64;
    }

    /// The peers that the plan's schedule names at `rank`.
    pub fn peers_of(&self, map: &Map, rank: Rank) -> Vec<Rank> {
        let protocol = match self.large {
            Some(_) => Protocol::Eager,
            None => self.protocol,
        };
        let selector = selector(map, Found::default());
        let schedule = selector.schedule(self.variant, protocol, self.key.root, rank);
        schedule.peers()
    }

    /// What has been counted since the last time.
    fn take_counts(&mut self, map: &Map) -> CallRow {
        let calls = std::mem::take(&mut self.calls);
        let bytes = std::mem::take(&mut self.bytes);
        let runs = std::mem::take(&mut self.runs);
        let selector = selector(map, Found::default());
        let shape = selector.shape(self.variant);
        let puts = |step: &&Step| {
            matches!(
                step,
                Step::Put { .. } | Step::PutReduced { .. } | Step::Multicast { .. }
            )
        };
        let puts = self.route.schedule.steps.iter().filter(puts).count() as u64;
        let mean = bytes.div_ceil(calls);
        CallRow {
            collective: self.key.collective.name().into(),
            algorithm: self.variant.to_string(),
            protocol: self.protocol.name().into(),
            size_class_bytes: 1 << self.key.class,
            ranks: map.topology.size(),
            nodes: map.topology.node_count(),
            calls,
            bytes,
            chosen_by: self.by.to_string(),
            rounds: runs * (self.variant.algorithm.work)(&shape, self.protocol).rounds,
            messages: runs * puts,
            predicted_total_us: calls as f64 * self.predict(map, &selector, mean) / 1000.0,
        }
    }

    /// Predicted time of a call of `bytes`.
    fn predict(&self, map: &Map, selector: &Selector<'_>, bytes: u64) -> f64 {
        let algorithm = self.variant.algorithm;
        let model = Model {
            stripe_bytes: map.settings.stripe_threshold,
            ..Model::default()
        };
        let model = (self.variant).costed_by(model, map.topology.node_count());
        let blocks = self.route.schedule.scratch_blocks;
        let shape = &selector.shape(self.variant);
        let piece = match self.protocol {
            Protocol::Eager => (selector.scratch).piece_bytes(self.variant, bytes, blocks),
            Protocol::Rendezvous => bytes,
        };
        predict_in_pieces(algorithm, self.protocol, shape, bytes, piece, &model).0
    }
}

impl Route {
    fn new(map: &Map, schedule: Schedule, protocol: Protocol, domains: bool) -> Self {
        // Within a node the CPU copies.
        let far = |peer: Rank| !map.topology.same_node(peer, map.rank);
        let puts_from = |buffer| {
            let reads = |step: &Step| matches!(*step, Step::Put { to, from, .. } if from.buffer == buffer && far(to));
            schedule.steps.iter().any(reads)
        };
        let sends_rtr = |which: &dyn Fn(Rank) -> bool| {
            let sends = |step: &Step| matches!(*step, Step::SendRtr { to, .. } if which(to));
            schedule.steps.iter().any(sends)
        };
        let is_put = |step: &&Step| matches!(step, Step::Put { .. });
        let puts = schedule.steps.iter().filter(is_put).count();
        Self {
            registers_send: protocol == Protocol::Rendezvous && puts_from(Buffer::Send),
            offers: !sends_rtr(&|_| true) && (map.has_cores || puts > 1),
            registers_recv: sends_rtr(&far) || puts_from(Buffer::Recv),
            domains,
            schedule,
        }
    }
}
