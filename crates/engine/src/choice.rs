//! Which algorithm runs, and why: forced, or by the first rule of the table in force that matches.
//!
//! Teams and `ferrorail explain` ask here, so that an explanation is what would happen.

use ferrorail_base::{NodeId, Topology};
use ferrorail_coll::named::{Named, Variant, named};
use ferrorail_coll::select::{Query, Table};
use ferrorail_coll::{Algorithm, Collective, Protocol};
use serde::Serialize;
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
    /// The algorithm, with options where it has some.
    pub variant: Variant,
    /// One of its protocols.
    pub protocol: Protocol,
    /// What chose it.
    pub by: ChosenBy,
    /// Whether that leaves the operation to the host MPI: the algorithm is what would run otherwise.
    pub host: bool,
}

/// Why the host MPI runs what there is an algorithm for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// `FERRORAIL_ALGORITHM` or a rule says so.
    Chosen,
    /// Every rank would connect to every other, with more queue pairs than `FERRORAIL_QUEUE_PAIRS` allows.
    QueuePairs,
}

impl Choice {
    /// Whether the host MPI runs it in a team where every rank may connect to every other if `all_pairs`, and why.
    pub fn left(&self, all_pairs: bool) -> Option<Left> {
        if self.host {
            return Some(Left::Chosen);
        }
        // None that does without was to be had.
        (self.variant.algorithm.all_pairs && !all_pairs).then_some(Left::QueuePairs)
    }
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

    /// As [`choose`](Self::choose), for a reduction with an operation that does not commute, on a team with these nodes
    /// and domains. What is forced gives way where it would combine ranks out of order.
    pub fn choose_in_rank_order(
        &self,
        query: &Query,
        nodes: &Topology,
        domains: Option<&Topology>,
    ) -> Choice {
        self.choose_among(query, |variant| {
            let (nodes, domains) = variant.levels(nodes, domains);
            !variant.algorithm.commutative_only(nodes, domains)
        })
    }

    fn choose_among(&self, query: &Query, admits: impl Fn(Variant) -> bool) -> Choice {
        let forced = self.forced.get(query.collective.name());
        // An unknown name was reported when the settings were read.
        // Over domains, else over the node.
        let forced = forced.and_then(|text| named(query.collective, text).ok());
        if forced == Some(Named::Host) {
            let otherwise = self.table.choose_among(query, admits);
            return Choice {
                variant: otherwise.variant,
                protocol: otherwise.protocol,
                by: ChosenBy::Forced,
                host: true,
            };
        }
        let variant = forced.and_then(|found| found.at(query.bytes));
        let variant = variant.map(|variant| query.of(variant));
        let over_node = variant.map(|variant| Variant {
            domains: false,
            ..variant
        });
        let mut variants = [variant, over_node].into_iter().flatten();
        let usable = |variant: &Variant| query.admits(variant.algorithm) && admits(*variant);
        if let Some(variant) = variants.find(usable) {
            return Choice {
                variant,
                protocol: self.protocol(query, variant.algorithm),
                by: ChosenBy::Forced,
                host: false,
            };
        }
        let choice = self.table.choose_among(query, admits);
        Choice {
            variant: choice.variant,
            protocol: choice.protocol,
            by: ChosenBy::Rule(choice.rule),
            host: choice.host,
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

/// The collective whose rules ranks of a node go by, for the blocks of a pair.
pub(crate) fn regular(collective: Collective) -> Collective {
    match collective {
        Collective::Alltoallv => Collective::Alltoall,
        other if by_length(other) => other.regular(),
        other => other,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_coll::select::NOT_MEASURED;

    const QUERY: Query = Query {
        collective: Collective::Allgather,
        bytes: 64,
        ranks: 8,
        nodes: 4,
        node_size_max: 2,
        domains: 1,
        ranks_per_core: 1,
        attach_percent: NOT_MEASURED,
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
    fn the_host_may_be_forced() {
        let host = force("allgather", "host");
        let choice = chooser(&host, None).choose(&QUERY);
        let otherwise = chooser(&BTreeMap::new(), None).choose(&QUERY);
        assert_eq!(
            (choice.by, choice.variant),
            (ChosenBy::Forced, otherwise.variant)
        );
        assert_eq!(choice.left(true), Some(Left::Chosen));
        assert_eq!(otherwise.left(true), None);
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
        let choice = chooser.choose_in_rank_order(&query, &consecutive, None);
        assert_eq!(choice.by, ChosenBy::Forced);
        let interleaved = Topology::from_host_keys(&[0, 1, 2, 3, 0, 1, 2, 3], None);
        let choice = chooser.choose_in_rank_order(&query, &interleaved, None);
        assert!(matches!(choice.by, ChosenBy::Rule(_)));
        assert!(
            !choice
                .variant
                .algorithm
                .commutative_only(&interleaved, None)
        );
    }

    #[test]
    fn domains_are_for_teams_that_have_some() {
        let query = Query {
            collective: Collective::Allreduce,
            nodes: 1,
            node_size_max: 8,
            ..QUERY
        };
        let forced = force("allreduce", "smp_recursive_multiplying:domains");
        let chooser = chooser(&forced, None);
        let has = |domains| chooser.choose(&Query { domains, ..query }).variant.domains;
        assert_eq!((has(1), has(2)), (false, true));
        // Where domains are out of rank order, the node is not.
        let apart = Topology::from_host_keys(&[0, 1, 0, 1, 0, 1, 0, 1], None);
        let node = Topology::from_sizes(&[8]);
        let query = Query {
            domains: 2,
            ..query
        };
        let choice = chooser.choose_in_rank_order(&query, &node, Some(&apart));
        assert!(!choice.variant.domains);
        assert_eq!(choice.by, ChosenBy::Forced);
    }
}
