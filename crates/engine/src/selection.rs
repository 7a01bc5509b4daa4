//! What a team runs, made or imagined: choices with the protocol that messages then have, and their schedules.

use crate::choice::{Choice, Chooser, by_length, regular};
use crate::scratch::Scratch;
use ferrorail_base::config::{FabricChoice, Settings};
use ferrorail_base::{Rank, Topology};
use ferrorail_coll::cost::Shape;
use ferrorail_coll::named::Variant;
use ferrorail_coll::select::{NOT_MEASURED, Query};
use ferrorail_coll::{Collective, Protocol, Request, Schedule};

/// Shorter blocks are not long: no shipped rule has them go by cross-memory attach.
pub(crate) const LONG_BYTES_MIN: usize = 16 << 10;

/// Whether puts may land in user memory of a team like `topology` under `settings`, where the system and the rails allow
/// that: ranks of a node, and all of a host over loopback rails, reach each other by cross-memory attach alone.
pub fn zero_copy(topology: &Topology, settings: &Settings) -> bool {
    let attaches = topology.node_size_max() > 1 || settings.fabric == FabricChoice::Loopback;
    topology.size() > 1 && settings.zero_copy != Some(false) && (settings.cma || !attaches)
}

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

    /// Whether some choice for long blocks depends on how long messages take by cross-memory attach.
    pub fn attach_decides(&self, collective: Collective) -> bool {
        let mut classes = (LONG_BYTES_MIN.ilog2()..u64::BITS).map(|class| 1 << class);
        classes.any(|bytes| self.attach_decides_for(collective, bytes))
    }

    /// Whether the choice for blocks of `bytes` bytes, the upper end of a size class, does.
    pub(crate) fn attach_decides_for(&self, collective: Collective, bytes: u64) -> bool {
        let (of, by_table) = (regular(collective), by_length(collective));
        let chosen = |attach_percent| {
            let query = Query {
                attach_percent,
                ..self.query(of, bytes)
            };
            if by_table {
                let choice = self.chooser.table.choose(&query);
                return (!choice.host).then_some((choice.variant, choice.protocol));
            }
            let choice = self.chooser.choose(&query);
            (!choice.host).then_some((choice.variant, choice.protocol))
        };
        // All is the same between those at which a rule begins or ends.
        let rules = self.chooser.table.rules().iter();
        let mut percents = rules
            .filter(|rule| rule.collective == of)
            .flat_map(|rule| {
                let behind = rule.attach_percent.max.map(|max| max.saturating_add(1));
                rule.attach_percent.min.into_iter().chain(behind)
            })
            .map(|percent| percent.min(NOT_MEASURED.into()) as u32)
            .chain([0]);
        let unmeasured = chosen(NOT_MEASURED);
        percents.any(|percent| chosen(percent) != unmeasured)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Chooser;
    use ferrorail_coll::select::Table;
    use std::collections::BTreeMap;

    /// Whether times decide in a team of two ranks on one node, with the rule `first` before one for all else.
    fn decides(first: &str) -> bool {
        let text = format!(
            r#"{{ "version": 1, "rules": [
                {{ "collective": "bcast", {first} }},
                {{ "collective": "bcast", "algorithm": "smp_knomial", "protocol": "eager" }} ] }}"#
        );
        let table = Table::from_json(&text).expect("a table");
        let (topology, none) = (Topology::from_sizes(&[2]), BTreeMap::new());
        let selector = Selector {
            topology: &topology,
            domains: None,
            chooser: Chooser {
                table: &table,
                forced: &none,
                zero_copy: None,
            },
            rails: 1,
            ports: 1,
            ranks_per_core: 1,
            attach_percent: NOT_MEASURED,
            leaders: None,
            zero_copy: true,
            multicast: false,
            all_pairs: true,
            scratch: Scratch::new(None, (2, 1), true, true),
        };
        selector.attach_decides(Collective::Bcast)
    }

    #[test]
    fn rules_for_some_times_and_lengths_are_found() {
        let straight = r#""algorithm": "knomial", "protocol": "rendezvous""#;
        assert!(!decides(r#""algorithm": "host""#));
        let rule = |limits: &str| decides(&format!("{limits}, {straight}"));
        assert!(rule(r#""attach_percent": { "max": 100 }"#));
        assert!(rule(
            r#""attach_percent": { "max": 100 }, "bytes": { "min": 1048577 }"#
        ));
        assert!(rule(r#""attach_percent": { "min": 100, "max": 120 }"#));
        assert!(!rule(
            r#""attach_percent": { "max": 100 }, "ranks": { "min": 3 }"#
        ));
        assert!(!rule(
            r#""attach_percent": { "max": 100 }, "bytes": { "max": 8192 }"#
        ));
        assert!(!rule(r#""bytes": { "min": 8192 }"#));
        let other =
            r#""attach_percent": { "max": 100 }, "algorithm": "knomial", "protocol": "eager""#;
        assert!(decides(other), "another algorithm");
    }
}
