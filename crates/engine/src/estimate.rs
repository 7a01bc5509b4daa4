//! What a communicator of some shape takes before it exists: connections, queue pairs and memory.
//!
//! Nothing is guessed: algorithms are those that [`crate::choice`] chooses, peers those that their
//! schedules name, sizes what the code that allocates computes.

use crate::choice::{Choice, Chooser, Left, all_pairs_fit, by_length};
use crate::collective::OFFERED;
use crate::rails::{RailsKind, connection};
use crate::scratch::Scratch;
use crate::selection::{Selector, zero_copy};
use crate::shared_settings::{SharedSettings, Tuning};
use crate::team::create::SIZE_MAX;
use crate::team::geometry::{layouts, registered};
use crate::{ConnectionRow, EngineError};
use ferrorail_base::config::{FabricChoice, Settings};
use ferrorail_base::{NodeId, Rank, Topology};
use ferrorail_coll::named::{Variant, variant};
use ferrorail_coll::select::{NOT_MEASURED, Table};
use ferrorail_coll::{Collective, Protocol, find_collective};
use ferrorail_fabric::Connections;
use serde::Serialize;
use std::collections::BTreeSet;

/// Largest size class looked at: 16 MB.
const CLASS_MAX: u32 = 24;
/// Largest team of which every rank is looked at; of larger ones, those of two nodes.
const WHOLE_MAX: u32 = 256;

/// What is asked about.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Which rank is on which node.
    pub topology: Topology,
    /// Rails of each node, from 1.
    pub rails: u8,
    /// k; `None` as `FERRORAIL_PORTS` or the rails say.
    pub ports: Option<u8>,
}

/// Connections of a rank and of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Need {
    /// Peers of the rank that has most.
    pub peers_of_rank: u64,
    /// Queue pairs of that rank.
    pub queue_pairs_of_rank: u64,
    /// Memory of that rank's connections in bytes.
    pub bytes_of_rank: u64,
    /// Queue pairs of the ranks of one node together, the most that a node has.
    pub queue_pairs_of_node: u64,
    /// Memory of their connections in bytes.
    pub bytes_of_node: u64,
}

/// One collective at sizes for which the choice is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The collective.
    pub collective: &'static str,
    /// The algorithm chosen, as settings spell it.
    pub algorithm: String,
    /// Where its puts land.
    pub protocol: &'static str,
    /// Smallest size in bytes.
    pub from_bytes: u64,
    /// Largest, if there is one.
    pub to_bytes: Option<u64>,
    /// Why the host MPI runs it instead, if it does.
    pub left_to_host: Option<Left>,
    /// What it connects. Of a rooted collective: with rank 0 for its root.
    pub need: Need,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// N.
    pub ranks: u32,
    /// V.
    pub nodes: u32,
    /// Ranks of the largest node.
    pub node_size: u32,
    /// Rails of a node.
    pub rails: u8,
    /// k.
    pub ports: u8,
    /// Whose connections are counted: `verbs` or `loopback`.
    pub fabric: &'static str,
    /// Most ranks that a team may have; communicators with more are left to the host MPI.
    pub ranks_max: u32,
    /// Bytes of one connection.
    pub connection_bytes: u64,
    /// Scratch of a rank in all channels and areas, in bytes.
    pub scratch_bytes_of_rank: u64,
    /// Flags, RTRs and eager slots of a rank, in bytes.
    pub flag_bytes_of_rank: u64,
    /// The whole segment of the largest node, in bytes.
    pub segment_bytes_of_node: u64,
    /// What of it is registered, and so pinned, with the first message between nodes that carries data.
    pub registered_bytes_of_node: u64,
    /// What is registered before that, for barriers.
    pub front_bytes_of_node: u64,
    /// By collective and size.
    pub rows: Vec<Row>,
    /// All collectives at all sizes, but those in which everyone has data for everyone.
    pub without_all_to_all: Need,
    /// All collectives at all sizes.
    pub all: Need,
    /// Everyone connected to everyone on other nodes: roots that change can come to that.
    pub worst: Need,
}

/// What a communicator like `asked` takes under `settings`.
///
/// # Errors
/// [`EngineError::Tuning`] if the table of `FERRORAIL_TUNING` cannot be read.
pub fn estimate(asked: &Asked, settings: &Settings) -> Result<Estimate, EngineError> {
    let shared = SharedSettings::of(settings);
    let tuning = Tuning::of(settings).table()?;
    let team = Imagined::new(asked, settings, &shared, tuning.as_ref());
    let mut rows: Vec<Row> = Vec::new();
    let mut all = team.nobody();
    let mut without = team.nobody();
    for &collective in OFFERED {
        let mut last = None;
        for class in 0..=if by_length(collective) { 0 } else { CLASS_MAX } {
            let choice = team.choose(collective, class);
            let chosen = (
                choice.variant,
                choice.protocol,
                choice.left(team.selector.all_pairs),
            );
            if last != Some(chosen) {
                let peers = match chosen.2 {
                    Some(_) => team.nobody(),
                    None => team.peers(collective, choice.variant, choice.protocol),
                };
                rows.push(Row {
                    collective: collective.name(),
                    algorithm: choice.variant.to_string(),
                    protocol: choice.protocol.name(),
                    from_bytes: class.checked_sub(1).map_or(0, |below| (1 << below) + 1),
                    to_bytes: None,
                    left_to_host: chosen.2,
                    need: team.need(&peers),
                });
                join(&mut all, &peers);
                if !matches!(collective, Collective::Alltoall | Collective::Alltoallv) {
                    join(&mut without, &peers);
                }
                last = Some(chosen);
            }
            if let Some(row) = rows.last_mut().filter(|_| class < CLASS_MAX) {
                row.to_bytes = (!by_length(collective)).then_some(1 << class);
            }
        }
        if let Some(row) = rows.last_mut() {
            row.to_bytes = None;
        }
    }
    Ok(team.finish(rows, &without, &all))
}

/// What the statistics of a team like `asked` show, on devices with the usual limits, for these algorithms with these
/// protocols, each by its name as in [`crate::CallRow`]. Roots are rank 0.
///
/// # Errors
/// [`EngineError::Estimate`] if a name is none, or if the team is too large to look at every rank.
pub fn total<'n>(
    asked: &Asked,
    settings: &Settings,
    used: impl IntoIterator<Item = (&'n str, &'n str, &'n str)>,
) -> Result<ConnectionRow, EngineError> {
    let none = |error: &dyn std::fmt::Display| EngineError::Estimate(error.to_string());
    if asked.topology.size() > WHOLE_MAX {
        return Err(none(&format!("more than {WHOLE_MAX} ranks")));
    }
    let shared = SharedSettings::of(settings);
    let team = Imagined::new(asked, settings, &shared, None);
    let mut all = team.nobody();
    let mut whole = false;
    for (collective, algorithm, protocol) in used {
        let collective = find_collective(collective).map_err(|error| none(&error))?;
        whole |= collective != Collective::Barrier;
        let algorithm = variant(collective, algorithm).map_err(|error| none(&error))?;
        let mut protocols = [Protocol::Eager, Protocol::Rendezvous].into_iter();
        let protocol = protocols.find(|&to| to.name() == protocol);
        let protocol = protocol.ok_or_else(|| none(&"no such protocol"))?;
        join(&mut all, &team.peers(collective, algorithm, protocol));
    }
    let counts = all.iter().map(|peers| peers.len() as u64);
    let peers: u64 = counts.clone().sum();
    let connections = team.connection.times(peers);
    let layouts = layouts(
        team.selector.topology,
        &shared,
        team.selector.rails.into(),
        team.selector.all_pairs,
    );
    let topology = team.selector.topology;
    let nodes = (0..topology.node_count()).map(|node| layouts.of(topology, NodeId(node)));
    Ok(ConnectionRow {
        peers,
        peers_max: counts.max().unwrap_or(0),
        queue_pairs: connections.queue_pairs,
        bytes: connections.bytes,
        segments: nodes.clone().count() as u64,
        segment_bytes: nodes.clone().map(|node| node.total_bytes()).sum(),
        segment_bytes_registered: nodes.map(|node| registered(node, &shared, whole)).sum(),
    })
}

/// A team that nobody has made.
struct Imagined<'a> {
    selector: Selector<'a>,
    shared: &'a SharedSettings,
    connection: Connections,
    fabric: &'static str,
    /// Ranks looked at, whole nodes.
    looked_at: Vec<Rank>,
}

/// Peers of each rank looked at.
type Peers = Vec<BTreeSet<Rank>>;

fn join(all: &mut Peers, more: &Peers) {
    for (all, more) in all.iter_mut().zip(more) {
        all.extend(more);
    }
}

impl<'a> Imagined<'a> {
    fn new(
        asked: &'a Asked,
        settings: &'a Settings,
        shared: &'a SharedSettings,
        tuning: Option<&'a Table>,
    ) -> Self {
        let topology = &asked.topology;
        let (kind, fabric) = match settings.fabric {
            FabricChoice::Loopback => (RailsKind::Loopback, "loopback"),
            FabricChoice::Verbs | FabricChoice::Auto => (RailsKind::Verbs, "verbs"),
        };
        // A team on one node opens no rails and counts as having one.
        let rails = match topology.node_count() {
            1 => 1,
            _ => asked.rails,
        };
        let nodes: BTreeSet<u32> = match topology.size() {
            ..=WHOLE_MAX => (0..topology.node_count()).collect(),
            // The first has the roots; the middle is far from both ends of lines and trees.
            _ => [0, topology.node_count() / 2].into(),
        };
        let all_pairs = all_pairs_fit(topology, rails, settings.queue_pairs_max);
        let shape = (topology.size(), topology.node_count());
        let of_node = |node: &u32| topology.ranks_of(NodeId(*node)).iter().copied();
        Self {
            looked_at: nodes.iter().flat_map(of_node).collect(),
            selector: Selector {
                topology,
                domains: None,
                chooser: Chooser {
                    table: tuning.unwrap_or_else(|| Table::shipped()),
                    forced: &settings.algorithm,
                    zero_copy: settings.zero_copy,
                },
                rails,
                ports: asked.ports.or(settings.ports).unwrap_or(rails),
                ranks_per_core: 1,
                attach_percent: settings.attach_percent.unwrap_or(NOT_MEASURED),
                leaders: settings.leaders,
                zero_copy: zero_copy(topology, settings),
                multicast: settings.multicast,
                all_pairs,
                scratch: Scratch::new(settings.scratch_bytes, shape, true, all_pairs),
            },
            shared,
            connection: connection(kind, rails),
            fabric,
        }
    }

    fn choose(&self, collective: Collective, class: u32) -> Choice {
        let ranks = (Rank(0), Rank(0));
        self.selector.choose(collective, 1 << class, false, ranks)
    }

    fn nobody(&self) -> Peers {
        vec![BTreeSet::new(); self.looked_at.len()]
    }

    /// Peers on other nodes that the schedules name.
    fn peers(&self, collective: Collective, chosen: Variant, protocol: Protocol) -> Peers {
        let both = by_length(collective) && protocol == Protocol::Rendezvous;
        let of_rank = |&rank: &Rank| {
            let of_protocol = |to| self.selector.schedule(chosen, to, Rank(0), rank).peers();
            let mut peers = of_protocol(protocol);
            if both {
                peers.extend(of_protocol(Protocol::Eager));
            }
            let elsewhere = |peer: &Rank| !self.selector.topology.same_node(*peer, rank);
            peers.into_iter().filter(elsewhere).collect()
        };
        self.looked_at.iter().map(of_rank).collect()
    }

    fn need(&self, peers: &Peers) -> Need {
        let counts = peers.iter().map(|peers| peers.len() as u64);
        self.need_of(&counts.collect::<Vec<_>>())
    }

    /// Given the number of peers of each rank looked at.
    fn need_of(&self, counts: &[u64]) -> Need {
        let rank = counts.iter().copied().max().unwrap_or(0);
        let mut by_node = vec![0; self.selector.topology.node_count() as usize];
        for (rank, count) in self.looked_at.iter().zip(counts) {
            by_node[self.selector.topology.node_of(*rank).index()] += count;
        }
        let node = by_node.into_iter().max().unwrap_or(0);
        let (rank, node) = (self.connection.times(rank), self.connection.times(node));
        Need {
            peers_of_rank: rank.peers,
            queue_pairs_of_rank: rank.queue_pairs,
            bytes_of_rank: rank.bytes,
            queue_pairs_of_node: node.queue_pairs,
            bytes_of_node: node.bytes,
        }
    }

    fn finish(&self, rows: Vec<Row>, without: &Peers, all: &Peers) -> Estimate {
        let topology = self.selector.topology;
        let everyone = |rank: &Rank| {
            let node = topology.ranks_of(topology.node_of(*rank)).len() as u64;
            u64::from(topology.size()) - node
        };
        let everyone: Vec<u64> = self.looked_at.iter().map(everyone).collect();
        let layouts = layouts(
            topology,
            self.shared,
            self.selector.rails.into(),
            self.selector.all_pairs,
        );
        let largest = layouts.largest().geometry();
        let channels = 0..largest.channel_count();
        let areas = u64::from(largest.areas) * largest.scratch_capacity() as u64;
        let beside = areas + largest.rotating_bytes;
        let scratch = channels.fold(beside, |sum, channel| sum + largest.channel_bytes(channel));
        let segment = layouts.largest().total_bytes();
        Estimate {
            ranks: topology.size(),
            nodes: topology.node_count(),
            node_size: topology.node_size_max(),
            rails: self.selector.rails,
            ports: self.selector.ports,
            fabric: self.fabric,
            ranks_max: SIZE_MAX,
            connection_bytes: self.connection.bytes,
            scratch_bytes_of_rank: scratch,
            flag_bytes_of_rank: (segment / u64::from(largest.local_ranks)).saturating_sub(scratch),
            segment_bytes_of_node: segment,
            registered_bytes_of_node: registered(layouts.largest(), self.shared, true),
            front_bytes_of_node: registered(layouts.largest(), self.shared, false),
            rows,
            without_all_to_all: self.need(without),
            all: self.need(all),
            worst: self.need_of(&everyone),
        }
    }
}
