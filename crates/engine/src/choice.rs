//! Which algorithm runs, and why: forced, or by the first rule of the table in force that matches.
//!
//! Teams and `ferrorail explain` ask here, so that an explanation is what would happen.

use crate::team::map::CHANNELS;
use ferrorail_base::{NodeId, Topology};
use ferrorail_coll::cost::{self, Shape};
use ferrorail_coll::named::{Variant, named};
use ferrorail_coll::select::{Query, Table};
use ferrorail_coll::{Algorithm, Collective, Protocol};
use std::collections::BTreeMap;
use std::fmt;

/// Where a forced algorithm lands: in user memory from this size on, where that is possible.
pub(crate) const ZERO_COPY_BYTES_MIN: u64 = 32 << 10;

/// What chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChosenBy {
    /// `FERRORAIL_ALGORITHM`.
    Forced,
    /// The rule of this index in the table in force.
    Rule(usize),
}

impl fmt::Display for ChosenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forced => f.write_str("forced"),
            Self::Rule(index) => write!(f, "rule {index}"),
        }
    }
}

/// An algorithm, where its puts land, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm, with ports of its own where it does not have the team's.
    pub variant: Variant,
    /// One of its protocols.
    pub protocol: Protocol,
    /// What chose it.
    pub by: ChosenBy,
}

/// The settings that a choice depends on; alike on all ranks of a team.
#[derive(Clone, Copy)]
pub struct Chooser<'a> {
    /// The table in force.
    pub table: &'a Table,
    /// `FERRORAIL_ALGORITHM`: collective to what [`named()`] reads.
    pub forced: &'a BTreeMap<String, String>,
    /// `FERRORAIL_ZERO_COPY`.
    pub zero_copy: Option<bool>,
}

impl Chooser<'_> {
    /// The choice for `query`, whose size is the upper end of its size class.
    pub fn choose(&self, query: &Query) -> Choice {
        self.choose_among(query, |_| true)
    }

    /// As [`choose`](Self::choose), for a reduction with an operation that does not commute. What
    /// is forced gives way where it would combine ranks out of order.
    pub fn choose_in_rank_order(&self, query: &Query, topology: &Topology) -> Choice {
        self.choose_among(query, |algorithm| !algorithm.commutative_only(topology))
    }

    fn choose_among(&self, query: &Query, admits: impl Fn(&Algorithm) -> bool) -> Choice {
        let forced = self.forced.get(query.collective.name());
        // An unknown name was reported when the settings were read.
        if let Some(Ok(found)) = forced.map(|text| named(query.collective, text))
            && let variant = found.at(query.bytes)
            && query.admits(variant.algorithm)
            && admits(variant.algorithm)
        {
            return Choice {
                variant,
                protocol: self.protocol(query, variant.algorithm),
                by: ChosenBy::Forced,
            };
        }
        let choice = self.table.choose_among(query, admits);
        Choice {
            variant: choice.variant,
            protocol: choice.protocol,
            by: ChosenBy::Rule(choice.rule),
        }
    }

    /// Protocol of a forced algorithm.
    fn protocol(&self, query: &Query, algorithm: &Algorithm) -> Protocol {
        let wanted = self.zero_copy == Some(true)
            || query.bytes >= ZERO_COPY_BYTES_MIN
            || by_length(query.collective);
        if wanted && query.zero_copy && algorithm.supports(Protocol::Rendezvous) {
            Protocol::Rendezvous
        } else {
            algorithm.protocols[0]
        }
    }
}

/// Whether messages of `collective` go by the length of their own pair, because no rank knows all
/// lengths: its algorithm is the same for all sizes.
pub fn by_length(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::Gatherv | Collective::Scatterv | Collective::Alltoallv
    )
}

/// Whether every rank of a team over `rails` rails may connect to every other, with no more queue pairs on any node
/// than `FERRORAIL_QUEUE_PAIRS` allows.
pub fn all_pairs_fit(topology: &Topology, rails: u8, queue_pairs_max: Option<u64>) -> bool {
    let size = u64::from(topology.size());
    let of_node = |node| {
        let local = topology.ranks_of(NodeId(node)).len() as u64;
        local * (size - local) * u64::from(rails)
    };
    let most = (0..topology.node_count()).map(of_node).max();
    queue_pairs_max.is_none_or(|max| most.is_none_or(|most| most <= max))
}

/// Whether a collective for which `algorithm` is chosen is left to the host MPI, as not every rank may connect to
/// every other: none that does without was to be had.
pub fn is_left(algorithm: &Algorithm, all_pairs: bool) -> bool {
    algorithm.all_pairs && !all_pairs
}

/// What `FERRORAIL_SCRATCH` is unless it is set.
const SCRATCH_BYTES: u64 = 64 << 10;

/// The same of a team of few ranks on one node: each piece takes them waits for each other, and this many bytes stay in
/// the caches.
const SCRATCH_BYTES_OF_FEW: u64 = 128 << 10;

/// How many are few.
const FEW_RANKS: u32 = 4;

/// Scratch of a rank and channel, in a team of `ranks` on `nodes` nodes with `FERRORAIL_SCRATCH` set to `setting`: enough
/// for a cache line from and to each rank, where each may have a message for every other; else for the words about
/// staged pieces, and for pieces.
pub fn scratch_bytes(setting: Option<u64>, (ranks, nodes): (u32, u32), all_pairs: bool) -> u64 {
    let setting = setting.unwrap_or(match nodes == 1 && ranks <= FEW_RANKS {
        true => SCRATCH_BYTES_OF_FEW,
        false => SCRATCH_BYTES,
    });
    setting.max(match all_pairs {
        true => 64 * 2 * u64::from(ranks),
        false => 16 * u64::from(ranks) + (8 << 10),
    })
}

/// How many adjacent channels one operation may have the scratch of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Where all fits into so many.
    pub whole: u32,
    /// Where it goes in pieces.
    pub pieces: u32,
}

/// Those of operations of `collective` in a team on `nodes` nodes, whose ranks have a core each or not, and which
/// `rotates` through scratch beside the channels or does not. Operations that wait for every rank anyway need no more than
/// two operations' room, and each piece of them takes waits for each other. Others run ahead in the rest, and are faster
/// in pieces of one channel, unless ranks share cores: then each piece takes as many context switches as the whole.
pub fn widths(collective: Collective, nodes: u32, has_cores: bool, rotates: bool) -> Widths {
    let waits = collective.synchronising();
    let most = match waits || rotates && !has_cores {
        true => CHANNELS / 2,
        false => 1,
    };
    Widths {
        whole: most,
        pieces: if nodes > 1 { 1 } else { most },
    }
}

/// How many adjacent channels an operation of which no rank knows all lengths has the scratch of, in a team of `ranks`
/// on `nodes` nodes: those who share the scratch of a rank on one node, up to 16 of them, have room for 16 KB each, and
/// two of them for 64 KB. With more channels at a time ranks would run ahead less.
pub fn width_by_length(ranks: u32, nodes: u32) -> u32 {
    match nodes {
        1 if ranks == 2 => 2,
        1 => (ranks.div_ceil(4).next_power_of_two()).min(CHANNELS / 2),
        _ => 1,
    }
}

/// Largest piece of a block (of a whole vector, where `algorithm` cuts that) of `bytes` that a schedule
/// of `scratch_blocks` moves at once in a team of `shape`, with `scratch` bytes in a channel.
pub fn piece_bytes(
    algorithm: &Algorithm,
    collective: Collective,
    shape: &Shape,
    bytes: u64,
    scratch_blocks: u32,
    scratch: u64,
) -> u64 {
    let piece = |width| {
        let scratch = scratch * u64::from(width);
        cost::piece_bytes(algorithm, shape.ranks, bytes, scratch_blocks, scratch)
    };
    fit(widths(collective, shape.nodes, true, false), bytes, piece).1
}

/// Where messages of `choice` land in blocks of `bytes`: what a node gathers on its way to user memory has
/// to have room in scratch, with `scratch` bytes in a channel; where it has none all goes in pieces, through
/// scratch. `blocks` is how many of scratch the schedule of the chosen protocol uses.
pub fn settled_protocol(
    choice: &Choice,
    collective: Collective,
    shape: &Shape,
    bytes: u64,
    blocks: u32,
    scratch: u64,
) -> Protocol {
    let algorithm = choice.variant.algorithm;
    let room = || piece_bytes(algorithm, collective, shape, bytes, blocks, scratch);
    match choice.protocol {
        Protocol::Rendezvous if blocks > 0 && room() < bytes => Protocol::Eager,
        protocol => protocol,
    }
}

/// How many adjacent channels an operation on blocks of `bytes` takes, and the largest piece that it moves at once, as
/// `piece` says of so many: the fewest that have room for all, else those for pieces.
pub fn fit<T: PartialEq + Copy>(widths: Widths, bytes: T, piece: impl Fn(u32) -> T) -> (u32, T) {
    let mut fewer = (1..=widths.whole).filter(|width| width.is_power_of_two());
    match fewer.find(|&width| piece(width) == bytes) {
        Some(width) => (width, bytes),
        None => (widths.pieces, piece(widths.pieces)),
    }
}

/// As statistics and tuning tables spell it.
pub fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Eager => "eager",
        Protocol::Rendezvous => "rendezvous",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: Query = Query {
        collective: Collective::Allgather,
        bytes: 64,
        ranks: 8,
        nodes: 4,
        node_size_max: 2,
        ranks_per_core: 1,
        rails: 2,
        ports: 2,
        zero_copy: true,
        multicast: true,
        all_pairs: true,
    };

    fn force(collective: &str, algorithm: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(collective.to_owned(), algorithm.to_owned())])
    }

    fn chooser(forced: &BTreeMap<String, String>, zero_copy: Option<bool>) -> Chooser<'_> {
        Chooser {
            table: Table::shipped(),
            forced,
            zero_copy,
        }
    }

    #[test]
    fn forced_algorithms_outrank_the_table_and_land_by_size() {
        let none = BTreeMap::new();
        let bruck = force("allgather", "bruck");
        let by_table = chooser(&none, None).choose(&QUERY);
        assert_eq!(by_table.variant.algorithm.name, "smp_bruck");
        assert!(matches!(by_table.by, ChosenBy::Rule(_)));
        let protocol = |setting, bytes, zero_copy| {
            let query = Query {
                bytes,
                zero_copy,
                ..QUERY
            };
            let choice = chooser(&bruck, setting).choose(&query);
            assert_eq!(
                (choice.variant.algorithm.name, choice.by),
                ("bruck", ChosenBy::Forced)
            );
            choice.protocol
        };
        assert_eq!(protocol(None, 64, true), Protocol::Eager);
        assert_eq!(protocol(Some(true), 64, true), Protocol::Rendezvous);
        assert_eq!(protocol(None, 32 << 10, true), Protocol::Rendezvous);
        assert_eq!(protocol(Some(true), 32 << 10, false), Protocol::Eager);
    }

    #[test]
    fn what_is_forced_has_ports_of_its_own_and_may_go_by_size() {
        let choose = |collective: &str, text: &str, bytes| {
            let forced = force(collective, text);
            let collective = Collective::from_name(collective).unwrap();
            let query = Query {
                collective,
                bytes,
                ..QUERY
            };
            let choice = chooser(&forced, None).choose(&query);
            (choice.variant.to_string(), choice.by)
        };
        let forced = |text: &str| (text.to_owned(), ChosenBy::Forced);
        assert_eq!(
            choose("allgather", "bruck:ports=1", 64),
            forced("bruck:ports=1")
        );
        assert_eq!(
            choose("alltoall", "direct:ports=4", 64),
            forced("direct:ports=4")
        );
        assert_eq!(choose("alltoall", "direct", 64), forced("direct"));
        let native = |bytes| choose("alltoall", "pairwise_then_permission", bytes);
        assert_eq!(native(8 << 10), forced("pairwise:ports=1"));
        assert_eq!(native(16 << 10), forced("permission_to_send:ports=1"));
        let wrong = choose("allgather", "bruck:ports=9", 64);
        assert!(matches!(wrong.1, ChosenBy::Rule(_)), "{wrong:?}");
    }

    #[test]
    fn what_a_node_gathers_has_room_in_scratch_or_goes_in_pieces() {
        let smp = force("gather", "smp_direct");
        let query = Query {
            collective: Collective::Gather,
            ..QUERY
        };
        let choice = chooser(&smp, Some(true)).choose(&query);
        assert_eq!(choice.protocol, Protocol::Rendezvous);
        let shape = Shape::even(4, 2, 2, 2);
        let protocol = |bytes, blocks| {
            settled_protocol(&choice, Collective::Gather, &shape, bytes, blocks, 4096)
        };
        assert_eq!(protocol(2048, 2), Protocol::Rendezvous);
        assert_eq!(protocol(2049, 2), Protocol::Eager);
        assert_eq!(
            protocol(1 << 30, 0),
            Protocol::Rendezvous,
            "through no scratch"
        );
    }

    #[test]
    fn what_is_forced_gives_way_to_rank_order() {
        let query = Query {
            collective: Collective::Allreduce,
            ..QUERY
        };
        let smp = force("allreduce", "smp_recursive_multiplying");
        let chooser = chooser(&smp, None);
        let consecutive = Topology::from_sizes(&[2; 4]);
        let choice = chooser.choose_in_rank_order(&query, &consecutive);
        assert_eq!(choice.by, ChosenBy::Forced);
        let interleaved = Topology::from_host_keys(&[0, 1, 2, 3, 0, 1, 2, 3], None);
        let choice = chooser.choose_in_rank_order(&query, &interleaved);
        assert!(matches!(choice.by, ChosenBy::Rule(_)));
        assert!(!choice.variant.algorithm.commutative_only(&interleaved));
    }
}
