//! What a team runs, made or imagined: choices with the protocol that messages then have, and their schedules.

use crate::choice::{Choice, Chooser};
use crate::scratch::Scratch;
use ferrorail_base::{Rank, Topology};
use ferrorail_coll::cost::Shape;
use ferrorail_coll::named::Variant;
use ferrorail_coll::select::{NOT_MEASURED, Query};
use ferrorail_coll::{Collective, Protocol, Request, Schedule};

/// A team, as far as its choices and schedules depend on it; alike on all ranks.
pub struct Selector<'a> {
    /// Who is on which node.
    pub topology: &'a Topology,
    /// The domains of its nodes, where it has some.
    pub domains: Option<&'a Topology>,
    /// By rules, and what is forced.
    pub chooser: Chooser<'a>,
    /// Those between nodes; a team on one node counts as having one.
    pub rails: u8,
    /// k of the multi-port algorithms.
    pub ports: u8,
    /// 1 if each rank has a core of its own, 2 if not.
    pub ranks_per_core: u32,
    /// As [`Query::attach_percent`].
    pub attach_percent: u32,
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

impl Selector<'_> {
    /// What all ranks know of an operation on blocks of `bytes` bytes.
    pub fn query(&self, collective: Collective, bytes: u64) -> Query {
        Query {
            collective,
            bytes,
            ranks: self.topology.size(),
            nodes: self.topology.node_count(),
            node_size_max: self.topology.node_size_max(),
            domains: (self.domains).map_or(1, |domains| self.topology.parts_max(domains)),
            ranks_per_core: self.ranks_per_core,
            attach_percent: self.attach_percent,
            rails: self.rails,
            ports: self.ports,
            zero_copy: self.zero_copy,
            multicast: self.multicast,
            all_pairs: self.all_pairs,
        }
    }

    /// Whether the choice for blocks of `bytes` bytes depends on how long messages take by cross-memory attach.
    pub fn attach_decides(&self, collective: Collective, bytes: u64) -> bool {
        let query = self.query(collective, bytes);
        let protocol = |attach_percent| {
            let query = Query {
                attach_percent,
                ..query
            };
            self.chooser.choose(&query).protocol
        };
        protocol(0) != protocol(NOT_MEASURED)
    }

    /// The choice for blocks of `bytes` bytes, the upper end of a size class, as `rank` makes it. Operands of a
    /// reduction may have to be combined `in_rank_order`.
    pub(crate) fn choose(
        &self,
        collective: Collective,
        bytes: u64,
        in_rank_order: bool,
        (root, rank): (Rank, Rank),
    ) -> Choice {
        let query = self.query(collective, bytes);
        let mut choice = match in_rank_order {
            true => (self.chooser).choose_in_rank_order(&query, self.topology, self.domains),
            false => self.chooser.choose(&query),
        };
        let (variant, protocol) = (choice.variant, choice.protocol);
        if protocol == Protocol::Rendezvous {
            let blocks = self.schedule(variant, protocol, root, rank).scratch_blocks;
            choice.protocol = (self.scratch).settled_protocol(&choice, bytes, blocks);
        }
        choice
    }

    /// Ports of `variant`.
    pub fn ports(&self, variant: Variant) -> u8 {
        variant.ports.unwrap_or(self.ports)
    }

    /// What its costs depend on.
    pub fn shape(&self, variant: Variant) -> Shape {
        let ports = self.ports(variant);
        let leaders = self.leaders.unwrap_or(ports);
        let (topology, _) = variant.levels(self.topology, self.domains);
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
        let (topology, domains) = variant.levels(self.topology, self.domains);
        let mut schedule = (variant.algorithm.build)(&Request {
            topology,
            domains,
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
