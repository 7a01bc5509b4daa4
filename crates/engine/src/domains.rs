//! Domains: ranks of a node that share a last-level cache or a NUMA node. Between domains data takes longer.
//!
//! Algorithms that combine nodes first combine domains the same way, in a team on one node that has some:
//! its domains are their nodes ([`ferrorail_coll::named`]). On several nodes some combine the domains of each first.

use ferrorail_base::Topology;
use ferrorail_base::config::DomainChoice;
use serde::{Deserialize, Serialize};

/// What a process is bound to: `None` for several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The last-level cache.
    pub cache: Option<u32>,
    /// The NUMA node.
    pub numa_node: Option<u32>,
}

/// Nodes of fewer ranks are not divided, unless that is asked for: everybody reads what everybody has written as fast.
const NODE_RANKS_MIN: u32 = 16;

/// Least ranks of a domain, on average. With fewer nearly as much goes from domain to domain as without.
const RANKS_MIN: usize = 4;

/// Whether a team with nodes of up to `ranks` ranks, which have a core each or not, has to know where they are.
pub(crate) fn needs_places(choice: DomainChoice, ranks: u32, has_cores: bool) -> bool {
    match choice {
        // What the table does over domains is for ranks with cores.
        DomainChoice::Auto => ranks >= NODE_RANKS_MIN && has_cores,
        DomainChoice::Cache | DomainChoice::Numa => true,
        DomainChoice::Off | DomainChoice::Ranks(_) => false,
    }
}

/// The domains of the nodes of a team whose ranks are at `places`. None if it is not to have any, if no node has several, or
/// if some rank is bound to none.
pub(crate) fn divide(choice: DomainChoice, nodes: &Topology, places: &[Place]) -> Option<Topology> {
    let by = |of: fn(&Place) -> Option<u32>| {
        let keys: Option<Vec<u32>> = places.iter().map(of).collect();
        keys.map(|keys| nodes.divided(|rank| keys[rank.index()], None))
    };
    let of_size = |domains: &Topology| domains.node_count() as usize * RANKS_MIN <= places.len();
    let (by_cache, by_numa) = (|| by(|place| place.cache), || by(|place| place.numa_node));
    let several = |domains: &Topology| nodes.parts_max(domains) > 1;
    let domains = match choice {
        DomainChoice::Off => None,
        DomainChoice::Ranks(size) => Some(nodes.divided(|_| 0, Some(size))),
        DomainChoice::Cache => by_cache(),
        DomainChoice::Numa => by_numa(),
        DomainChoice::Auto if nodes.node_size_max() < NODE_RANKS_MIN => None,
        DomainChoice::Auto => {
            let usable = |domains: &Topology| several(domains) && of_size(domains);
            by_cache()
                .filter(usable)
                .or_else(|| by_numa().filter(usable))
        }
    };
    domains.filter(several)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DomainChoice::{Auto, Cache, Numa, Off, Ranks};
    use ferrorail_base::Rank;

    /// Ranks with so many in each cache and NUMA node.
    fn places(ranks: u32, of_cache: u32, of_numa_node: u32) -> Vec<Place> {
        let place = |rank: u32| Place {
            cache: Some(rank / of_cache * 8),
            numa_node: Some(rank / of_numa_node),
        };
        (0..ranks).map(place).collect()
    }

    /// Sizes of domains.
    fn sizes(choice: DomainChoice, places: &[Place]) -> Vec<usize> {
        let node = Topology::from_sizes(&[places.len() as u32]);
        let domains = divide(choice, &node, places);
        let of = |domains: Topology| {
            let all = (0..domains.node_count()).map(ferrorail_base::NodeId);
            all.map(|domain| domains.ranks_of(domain).len()).collect()
        };
        domains.map_or(Vec::new(), of)
    }

    #[test]
    fn ranks_are_divided_by_what_enough_of_them_share() {
        assert_eq!(sizes(Auto, &places(32, 8, 16)), [8; 4]);
        assert_eq!(sizes(Auto, &places(32, 2, 16)), [16; 2]);
        assert_eq!(sizes(Auto, &places(32, 2, 2)), [0; 0], "too few each");
        assert_eq!(sizes(Auto, &places(32, 32, 32)), [0; 0], "one of each");
        assert_eq!(sizes(Auto, &places(12, 4, 12)), [0; 0], "a small team");
        assert_eq!(sizes(Cache, &places(12, 4, 12)), [4; 3]);
        assert_eq!(sizes(Numa, &places(12, 4, 6)), [6; 2]);
        assert_eq!(sizes(Ranks(5), &places(12, 4, 12)), [5, 5, 2]);
        assert_eq!(sizes(Ranks(12), &places(12, 4, 12)), [0; 0]);
        assert_eq!(sizes(Off, &places(32, 8, 16)), [0; 0]);
    }

    #[test]
    fn who_is_not_bound_makes_no_domains() {
        let mut places = places(32, 8, 16);
        places[7].cache = None;
        assert_eq!(sizes(Auto, &places), [16; 2]);
        places[9].numa_node = None;
        assert_eq!(sizes(Auto, &places), [0; 0]);
        assert_eq!(sizes(Ranks(16), &places), [16; 2]);
    }

    #[test]
    fn ranks_that_are_dealt_out_in_turn_have_domains_too() {
        let place = |rank: u32| Place {
            cache: Some(rank % 2),
            numa_node: Some(0),
        };
        let places: Vec<Place> = (0..16).map(place).collect();
        let domains = divide(Auto, &Topology::from_sizes(&[16]), &places).unwrap();
        assert_eq!(
            domains.ranks_of(ferrorail_base::NodeId(1))[..2],
            [Rank(1), Rank(3)]
        );
    }

    #[test]
    fn nodes_are_divided_each() {
        let nodes = Topology::from_sizes(&[16, 16, 4]);
        // Alike on all nodes.
        let mut all = [places(16, 4, 8), places(16, 4, 8), places(4, 4, 8)].concat();
        let domains = divide(Auto, &nodes, &all).unwrap();
        assert_eq!((domains.node_count(), nodes.parts_max(&domains)), (9, 4));
        assert!(!domains.same_node(Rank(0), Rank(16)));
        let domains = divide(Ranks(5), &nodes, &all).unwrap();
        assert_eq!((domains.node_count(), nodes.parts_max(&domains)), (9, 4));
        assert_eq!(divide(Ranks(16), &nodes, &all), None, "one of each node");
        all[33].cache = None;
        let domains = divide(Auto, &nodes, &all).unwrap();
        assert_eq!((domains.node_count(), nodes.parts_max(&domains)), (5, 2));
        let small = Topology::from_sizes(&[15, 15]);
        assert_eq!(divide(Auto, &small, &all[..30]), None);
    }

    #[test]
    fn only_large_teams_are_asked() {
        assert!(!needs_places(Auto, 15, true) && needs_places(Auto, 16, true));
        assert!(!needs_places(Auto, 16, false) && needs_places(Cache, 16, false));
        assert!(needs_places(Cache, 2, true) && needs_places(Numa, 2, true));
        assert!(!needs_places(Off, 99, true) && !needs_places(Ranks(2), 99, true));
    }
}
