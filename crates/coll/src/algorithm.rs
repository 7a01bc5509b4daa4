//! What an algorithm is: a row of its collective's table.

use crate::builder::ScheduleBuilder;
use crate::collective::Collective;
use crate::leaders::Leaders;
use crate::schedule::{Protocol, Schedule, Span};
use crate::work::{Shape, Work};
use ferrorail_base::{NodeId, Rank, Topology};
use std::fmt;

/// How an algorithm cuts its vector into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Not at all: blocks are those of the call, one per rank where the collective has them.
    Blocks,
    /// The vector is one block.
    Whole,
    /// Into as many parts as ranks, as even as whole elements allow; a part may be empty.
    PerRank,
}

impl Cut {
    /// Number of parts in a team of `size`.
    pub const fn parts(self, size: u32) -> u32 {
        match self {
            Self::Blocks | Self::Whole => 1,
            Self::PerRank => size,
        }
    }
}

/// Where a reduction combines contributions in rank order, as an operation that does not commute
/// needs; each variant on fewer teams than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RankOrder {
    /// On every team; also said of what reduces nothing.
    Always,
    /// Where the ranks of every node are consecutive.
    ConsecutiveNodes,
    /// Nowhere.
    Never,
}

/// Whether the ranks of every node are consecutive.
pub fn has_consecutive_nodes(topology: &Topology) -> bool {
    (0..topology.node_count()).all(|node| {
        let ranks = topology.ranks_of(NodeId(node));
        ranks[ranks.len() - 1].0 - ranks[0].0 + 1 == ranks.len() as u32
    })
}

/// Protocols of an algorithm with a zero-copy form.
pub(crate) const EITHER: &[Protocol] = &[Protocol::Eager, Protocol::Rendezvous];
/// Protocols of one without.
pub(crate) const SCRATCH: &[Protocol] = &[Protocol::Eager];

/// Builds one rank's schedule.
pub(crate) type Build = fn(&Request<'_>) -> Schedule;
/// States a schedule's cost.
pub(crate) type ClosedForm = fn(&Shape, Protocol) -> Work;

/// What an algorithm needs to know to build a rank's schedule.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Node map of the team.
    pub topology: &'a Topology,
    /// The domains of its nodes, of which an algorithm that goes [`by_domains`](field@Algorithm::by_domains) combines each first.
    pub domains: Option<&'a Topology>,
    /// Whose schedule.
    pub rank: Rank,
    /// k of the multi-port model, from 1.
    pub ports: u8,
    /// Most leaders that a node may have ([`Leaders`]).
    pub leaders: u8,
    /// Where puts land; one of the algorithm's.
    pub protocol: Protocol,
    /// Root of a rooted collective, 0 otherwise.
    pub root: Rank,
}

impl<'a> Request<'a> {
    /// An empty schedule.
    pub(crate) fn builder(&self) -> ScheduleBuilder<'a> {
        ScheduleBuilder::new(self.topology, self.rank)
    }

    /// The whole operation for a team of one, which needs no scratch.
    pub(crate) fn alone(&self) -> Option<Schedule> {
        (self.topology.size() == 1).then(|| {
            let mut builder = self.builder();
            builder.copy(Span::send(0, 1), Span::recv(0, 1));
            builder.finish(0)
        })
    }

    /// The leaders of a node.
    pub fn node_leaders(&self) -> Leaders {
        Leaders::new(self.leaders, self.topology.node_size_min(), self.ports)
    }
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// Stable name in settings, tuning tables, statistics and file names.
    pub name: &'static str,
    /// What it computes.
    pub collective: Collective,
    /// One line for people.
    pub description: &'static str,
    /// Where its puts can land.
    pub protocols: &'static [Protocol],
    /// Whether it uses nodes' shared memory as such.
    pub smp_aware: bool,
    /// How it cuts a vector.
    pub cut: Cut,
    /// Where it reduces in rank order.
    pub rank_order: RankOrder,
    /// Whether leaders of nodes send each other multicasts.
    pub multicast: bool,
    /// Whether on several nodes it can combine the domains of each first.
    pub by_domains: bool,
    /// Whether some rank exchanges messages with every other, and so each does once each has been the root: connections
    /// grow with the square of ranks.
    pub all_pairs: bool,
    /// Builds one rank's schedule, in time proportional to the team's size and the steps.
    pub build: Build,
    /// Closed form of what [`Counter`](crate::cost::Counter) finds in the schedules of a team
    /// with nodes of one size and root 0; an upper bound for uneven nodes.
    pub work: ClosedForm,
}

/// Rows, as tables write them: what most algorithms are, and then how this one differs.
impl Algorithm {
    pub(crate) const fn new(
        collective: Collective,
        name: &'static str,
        build: Build,
        work: ClosedForm,
    ) -> Self {
        Self {
            name,
            collective,
            description: "",
            protocols: SCRATCH,
            smp_aware: false,
            cut: Cut::Blocks,
            rank_order: RankOrder::Always,
            multicast: false,
            by_domains: false,
            all_pairs: false,
            build,
            work,
        }
    }

    pub(crate) const fn about(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    pub(crate) const fn zero_copy(mut self) -> Self {
        self.protocols = EITHER;
        self
    }

    pub(crate) const fn smp_aware(mut self) -> Self {
        self.smp_aware = true;
        self
    }

    pub(crate) const fn cut(mut self, cut: Cut) -> Self {
        self.cut = cut;
        self
    }

    pub(crate) const fn rank_order(mut self, rank_order: RankOrder) -> Self {
        self.rank_order = rank_order;
        self
    }

    pub(crate) const fn multicast(mut self) -> Self {
        self.multicast = true;
        self
    }

    pub(crate) const fn by_domains(mut self) -> Self {
        self.by_domains = true;
        self
    }

    pub(crate) const fn all_pairs(mut self) -> Self {
        self.all_pairs = true;
        self
    }

    /// Of a reduction that combines the ranks of each node first.
    pub(crate) const fn nodes_first(self) -> Self {
        self.smp_aware().rank_order(RankOrder::ConsecutiveNodes)
    }
}

impl Algorithm {
    /// Whether puts can land there.
    pub fn supports(&self, protocol: Protocol) -> bool {
        self.protocols.contains(&protocol)
    }

    /// Whether on this team the operation of a reduction must be commutative, over the domains of its nodes or not.
    pub fn commutative_only(&self, topology: &Topology, domains: Option<&Topology>) -> bool {
        let mut levels = [Some(topology), domains].into_iter().flatten();
        match self.rank_order {
            RankOrder::Always => false,
            RankOrder::ConsecutiveNodes => !levels.all(has_consecutive_nodes),
            RankOrder::Never => true,
        }
    }

    /// The schedules of all ranks with root 0.
    #[cfg(test)]
    pub(crate) fn build_all(
        &self,
        topology: &Topology,
        ports: u8,
        protocol: Protocol,
    ) -> Vec<Schedule> {
        self.build_rooted(topology, ports, protocol, Rank(0))
    }

    /// The schedules of all ranks, for tests.
    pub fn build_rooted(
        &self,
        topology: &Topology,
        ports: u8,
        protocol: Protocol,
        root: Rank,
    ) -> Vec<Schedule> {
        self.build_over((topology, None), ports, protocol, root)
    }

    /// As [`build_rooted`](Self::build_rooted), over the domains of nodes.
    pub(crate) fn build_over(
        &self,
        (topology, domains): (&Topology, Option<&Topology>),
        ports: u8,
        protocol: Protocol,
        root: Rank,
    ) -> Vec<Schedule> {
        (0..topology.size())
            .map(|rank| {
                (self.build)(&Request {
                    topology,
                    domains,
                    rank: Rank(rank),
                    ports,
                    leaders: ports,
                    protocol,
                    root,
                })
            })
            .collect()
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        (self.collective, self.name) == (other.collective, other.name)
    }
}

impl Eq for Algorithm {}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.collective, self.name)
    }
}
