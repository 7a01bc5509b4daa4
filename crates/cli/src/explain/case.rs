//! The team that is asked about, and the settings it would have.

use super::Args;
use anyhow::{Context, Result};
use ferrorail_base::config::{DomainChoice, Settings, ShmKind};
use ferrorail_base::{Rank, Topology};
use ferrorail_coll::cost::{Counter, Counts, Model, Nanos, Shape, predict_in_pieces};
use ferrorail_coll::named::Variant;
use ferrorail_coll::select::{NOT_MEASURED, Table};
use ferrorail_coll::{Collective, Protocol, Schedule};
use ferrorail_engine::choice::{Choice, Chooser, Left, all_pairs_fit, by_length};
use ferrorail_engine::scratch::Scratch;
use ferrorail_engine::selection::{Selector, zero_copy};
use std::collections::BTreeMap;

/// Largest team whose schedules are all built and counted.
const COUNTED_RANKS_MAX: u32 = 512;
/// Largest team of which one schedule is built, to know its scratch; its arrival flags have numbers
/// of 16 bits.
const BUILT_RANKS_MAX: u32 = 16 << 10;

/// A team, as far as choices and costs depend on it.
pub struct Case {
    pub collective: Collective,
    pub topology: Topology,
    /// The domains of its nodes, where it has some.
    pub domains: Option<Topology>,
    pub shape: Shape,
    pub zero_copy: bool,
    pub root: Rank,
    pub model: Model,
    /// What each rank has.
    pub scratch: Scratch,
    pub table: Table,
    /// Where the table comes from.
    pub table_name: String,
    forced: BTreeMap<String, String>,
    zero_copy_setting: Option<bool>,
    multicast: bool,
    /// Whether every rank may connect to every other.
    all_pairs: bool,
    ranks_per_core: u32,
    /// Where it is given.
    pub attach_percent: Option<u32>,
    leaders: Option<u8>,
}

/// One algorithm with one protocol, for one size.
pub struct Candidate {
    pub variant: Variant,
    pub protocol: Protocol,
    pub predicted: Nanos,
    /// Operations that one call takes: more than one where blocks exceed scratch.
    pub pieces: u64,
    /// Of a whole call; `None` where the team is too large to build all schedules.
    pub counts: Option<Counts>,
    /// Bytes of a block, or of a part of a vector.
    pub block_bytes: u64,
    /// Scratch that one operation uses at each rank; `None` where the team is too large.
    pub scratch_bytes: Option<u64>,
}

impl Case {
    /// What `settings` leave open is filled in as a team would.
    pub fn new(
        args: &Args,
        (collective, ranks): (Collective, u32),
        model: Model,
        settings: &Settings,
    ) -> Result<Self> {
        let node_size = args.node_size.or(settings.node_size);
        let keys = vec![0; ranks as usize];
        let topology = Topology::from_host_keys(&keys, node_size);
        let domain_size = args.domain_size.or(match settings.domains {
            DomainChoice::Ranks(ranks) => Some(ranks),
            _ => None,
        });
        let domains = domain_size.map(|size| topology.divided(|_| 0, Some(size)));
        // A team on one node opens no rails and counts as having one.
        let rails = match topology.node_count() {
            1 => 1,
            _ => crate::rail_count(args.rails, settings)?,
        };
        let ports = args.ports.or(settings.ports).unwrap_or(rails);
        let (table, table_name) = table(settings)?;
        let all_pairs = all_pairs_fit(&topology, rails, settings.queue_pairs_max);
        let mut scratch = Scratch::new(
            settings.scratch_bytes,
            (ranks, topology.node_count()),
            args.ranks_per_core == 1,
            all_pairs,
        );
        if settings.shm == ShmKind::Posix {
            // Its pages are taken when they are made.
            scratch.rotating = 0;
        }
        let zero_copy = zero_copy(&topology, settings);
        Ok(Self {
            collective,
            shape: Shape::of(&topology, ports, rails)
                .led_by(&topology, settings.leaders.unwrap_or(ports)),
            domains: domains.filter(|domains| topology.parts_max(domains) > 1),
            topology,
            zero_copy: args.zero_copy.unwrap_or(zero_copy),
            root: Rank(args.root),
            model,
            scratch,
            table,
            table_name,
            forced: settings.algorithm.clone(),
            zero_copy_setting: settings.zero_copy,
            multicast: settings.multicast,
            all_pairs,
            ranks_per_core: args.ranks_per_core,
            attach_percent: args.attach_percent.or(settings.attach_percent),
            leaders: settings.leaders,
        })
    }

    /// The team, as its choices see it.
    pub fn selector(&self) -> Selector<'_> {
        Selector {
            topology: &self.topology,
            domains: self.domains.as_ref(),
            chooser: Chooser {
                table: &self.table,
                forced: &self.forced,
                zero_copy: self.zero_copy_setting,
            },
            rails: self.shape.rails,
            ports: self.shape.ports,
            ranks_per_core: self.ranks_per_core,
            attach_percent: self.attach_percent.unwrap_or(NOT_MEASURED),
            leaders: self.leaders,
            zero_copy: self.zero_copy,
            multicast: self.multicast,
            all_pairs: self.all_pairs,
            scratch: self.scratch,
        }
    }

    /// The choice for a size class.
    pub fn choose(&self, class: u32) -> Choice {
        // Where no rank knows all lengths, all sizes are one class.
        let class = if by_length(self.collective) { 0 } else { class };
        let bytes = 1 << class;
        let selector = self.selector();
        let query = selector.query(self.collective, bytes);
        let mut choice = selector.chooser.choose(&query);
        let (variant, protocol) = (choice.variant, choice.protocol);
        let blocks = self.scratch_blocks(variant, protocol).unwrap_or(0);
        choice.protocol = self.scratch.settled_protocol(&choice, bytes, blocks);
        choice
    }

    /// Whether teams choose by a time that they measure, and none is given.
    pub fn attach_decides(&self) -> bool {
        self.attach_percent.is_none() && self.selector().attach_decides(self.collective)
    }

    /// Why the host MPI runs the collective instead, if it does.
    pub fn left(&self, choice: &Choice) -> Option<Left> {
        choice.left(self.all_pairs)
    }

    /// Every algorithm and protocol that this team could use, and what is `chosen`, fastest prediction
    /// first.
    pub fn candidates(&self, bytes: u64, counted: bool, chosen: &Choice) -> Vec<Candidate> {
        let mut all: Vec<Candidate> = ferrorail_coll::algorithms(self.collective)
            .iter()
            .flat_map(|algorithm| algorithm.protocols.iter().map(move |&to| (algorithm, to)))
            .filter(|&(_, protocol)| self.zero_copy || protocol == Protocol::Eager)
            .map(|(algorithm, to)| self.candidate(Variant::of(algorithm), to, bytes, counted))
            .collect();
        if chosen.variant != Variant::of(chosen.variant.algorithm) {
            all.push(self.candidate(chosen.variant, chosen.protocol, bytes, counted));
        }
        all.sort_by(|a, b| a.predicted.0.total_cmp(&b.predicted.0));
        all
    }

    fn candidate(
        &self,
        variant: Variant,
        protocol: Protocol,
        bytes: u64,
        counted: bool,
    ) -> Candidate {
        let algorithm = variant.algorithm;
        let shape = &self.selector().shape(variant);
        let ranks = shape.ranks;
        let block_bytes = bytes.div_ceil(algorithm.cut.parts(ranks).into());
        let scratch_blocks = self.scratch_blocks(variant, protocol);
        let piece = match (protocol, scratch_blocks) {
            _ if self.goes_by_slots(variant, protocol, bytes) => bytes,
            (Protocol::Eager, Some(blocks)) => (self.scratch).piece_bytes(variant, bytes, blocks),
            _ => bytes,
        };
        let model = variant.costed_by(self.model, self.shape.nodes);
        let piece_block = piece.div_ceil(algorithm.cut.parts(ranks).into());
        Candidate {
            variant,
            protocol,
            predicted: predict_in_pieces(algorithm, protocol, shape, bytes, piece, &model),
            pieces: bytes.div_ceil(piece.max(1)).max(1),
            counts: counted.then(|| self.count(variant, protocol)).flatten(),
            block_bytes,
            scratch_bytes: match self.goes_by_slots(variant, protocol, bytes) {
                true => Some(0),
                false => scratch_blocks.map(|blocks| u64::from(blocks) * piece_block),
            },
        }
    }

    /// Longest block that goes by eager slots, if `variant` is chosen.
    pub fn eager_bytes(&self, variant: Variant, protocol: Protocol) -> Option<u64> {
        (self.scratch).eager_bytes(variant, protocol)
    }

    fn goes_by_slots(&self, variant: Variant, protocol: Protocol, bytes: u64) -> bool {
        let longest = self.eager_bytes(variant, protocol);
        longest.is_some_and(|longest| bytes <= longest)
    }

    fn scratch_blocks(&self, variant: Variant, protocol: Protocol) -> Option<u32> {
        let schedule = self.schedule(variant, protocol, self.root)?;
        Some(schedule.scratch_blocks)
    }

    /// What `rank` does; `None` where the team is too large.
    pub fn schedule(&self, variant: Variant, protocol: Protocol, rank: Rank) -> Option<Schedule> {
        (self.shape.ranks <= BUILT_RANKS_MAX).then(|| self.built(variant, protocol, rank))
    }

    fn built(&self, variant: Variant, protocol: Protocol, rank: Rank) -> Schedule {
        let root = match self.collective.is_rooted() {
            true => self.root,
            false => Rank(0),
        };
        self.selector().schedule(variant, protocol, root, rank)
    }

    fn count(&self, variant: Variant, protocol: Protocol) -> Option<Counts> {
        (self.shape.ranks <= COUNTED_RANKS_MAX).then(|| {
            let mut counter = Counter::default();
            for rank in (0..self.shape.ranks).map(Rank) {
                counter.add(&self.built(variant, protocol, rank));
            }
            counter.finish()
        })
    }
}

fn table(settings: &Settings) -> Result<(Table, String)> {
    let Some(path) = &settings.tuning else {
        let shipped = Table::from_json(&Table::shipped().to_json())?;
        return Ok((shipped, "the shipped table".into()));
    };
    let name = format!("FERRORAIL_TUNING={}", path.display());
    let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
    let table = Table::from_json(&text).with_context(|| name.clone())?;
    Ok((table, name))
}
