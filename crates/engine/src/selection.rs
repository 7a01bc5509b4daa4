//! What a team runs, made or imagined: choices with the protocol that messages then have, and their schedules.

use crate::choice::{Choice, Chooser};
use crate::scratch::Scratch;
use ferrorail_base::{Rank, Topology};
use ferrorail_coll::cost::Shape;
use ferrorail_coll::named::Variant;
use ferrorail_coll::select::Query;
use ferrorail_coll::{Collective, Protocol, Request, Schedule};

/// A team, as far as its choices and schedules depend on it; alike on all ranks.
pub(crate) struct Selector<'a> {
    pub topology: &'a Topology,
    /// Its domains, where it is on one node and has some.
    pub domains: Option<&'a Topology>,
    pub chooser: Chooser<'a>,
    /// Those between nodes; a team on one node counts as having one.
    pub rails: u8,
    /// k of the multi-port algorithms.
    pub ports: u8,
    /// 1 if each rank has a core of its own, 2 if not.
    pub ranks_per_core: u32,
    /// `FERRORAIL_LEADERS`.
    pub leaders: Option<u8>,
    /// Whether puts may land in user memory.
    pub zero_copy: bool,
    /// Whether nodes may send each other multicasts.
    pub multicast: bool,
    /// Whether every rank may connect to every other.
    pub all_pairs: bool,
    /// What each rank has.
    pub scratch: Scratch,
}

impl<'a> Selector<'a> {
    /// The choice for blocks of `bytes` bytes, the upper end of a size class, as `rank` makes it. Operands of a
    /// reduction may have to be combined `in_rank_order`.
    pub fn choose(
        &self,
        collective: Collective,
        bytes: u64,
        in_rank_order: bool,
        (root, rank): (Rank, Rank),
    ) -> Choice {
        let query = Query {
            collective,
            bytes,
            ranks: self.topology.size(),
            nodes: self.topology.node_count(),
            node_size_max: self.topology.node_size_max(),
            domains: self.domains.map_or(1, Topology::node_count),
            ranks_per_core: self.ranks_per_core,
            rails: self.rails,
            ports: self.ports,
            zero_copy: self.zero_copy,
            multicast: self.multicast,
            all_pairs: self.all_pairs,
        };
        let mut choice = match in_rank_order {
            true => {
                (self.chooser).choose_in_rank_order(&query, |variant| self.topology_of(variant))
            }
            false => self.chooser.choose(&query),
        };
        let (variant, protocol) = (choice.variant, choice.protocol);
        if protocol == Protocol::Rendezvous {
            let blocks = self.schedule(variant, protocol, root, rank).scratch_blocks;
            choice.protocol = (self.scratch).settled_protocol(&choice, bytes, blocks);
        }
        choice
    }

    /// What `variant` takes for nodes.
    pub fn topology_of(&self, variant: Variant) -> &'a Topology {
        match self.domains {
            Some(domains) if variant.domains => domains,
            _ => self.topology,
        }
    }

    /// Ports of `variant`.
    pub fn ports(&self, variant: Variant) -> u8 {
        variant.ports.unwrap_or(self.ports)
    }

    /// What its costs depend on.
    pub fn shape(&self, variant: Variant) -> Shape {
        let ports = self.ports(variant);
        let leaders = self.leaders.unwrap_or(ports);
        let topology = self.topology_of(variant);
        Shape::of(topology, ports, self.rails).led_by(topology, leaders)
    }

    /// What `rank` does in it.
    pub fn schedule(
        &self,
        variant: Variant,
        protocol: Protocol,
        root: Rank,
        rank: Rank,
    ) -> Schedule {
        let ports = self.ports(variant);
        let mut schedule = (variant.algorithm.build)(&Request {
            topology: self.topology_of(variant),
            rank,
            ports,
            leaders: self.leaders.unwrap_or(ports),
            protocol,
            root,
        });
        // With fewer ports than rails some rails would be nobody's.
        schedule.own_rails &= self.rails <= ports;
        schedule
    }
}
