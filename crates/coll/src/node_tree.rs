//! The ranks of a node below its leader: all of them, or the leaders of its domains, each above the ranks of its own.
//!
//! What they pass lies in `Node`. A leader of a domain combines what its ranks have, so that the node's leader reads one
//! flag and block of each domain, and copies what the leader has for all, so that its ranks read that near them.

use crate::algorithm::Request;
use crate::builder::ScheduleBuilder;
use crate::schedule::Span;
use ferrorail_base::{NodeId, NodeRank, Rank};

/// The place of a rank in the tree of its node.
pub(crate) struct NodeTree {
    me: NodeRank,
    /// Who leads this rank, and whom else that leads: the ranks of the domain, or of the node.
    near: Vec<NodeRank>,
    /// Leaders of domains, the node's first; it alone where there are none.
    leaders: Vec<NodeRank>,
}

impl NodeTree {
    /// The place of the rank of `request`.
    pub fn of(request: &Request<'_>) -> Self {
        let topology = request.topology;
        let domains = request.domains.unwrap_or(topology);
        let local = |&rank: &Rank| topology.node_rank_of(rank);
        let near = domains.ranks_of(domains.node_of(request.rank));
        let node = topology.ranks_of(topology.node_of(request.rank));
        let leads = |rank: &&Rank| domains.is_leader(**rank);
        Self {
            me: topology.node_rank_of(request.rank),
            near: near.iter().map(local).collect(),
            leaders: node.iter().filter(leads).map(local).collect(),
        }
    }

    fn leads(&self) -> bool {
        self.me == self.near[0]
    }

    /// Has leaders `combine` what ranks have into what the first of these has, once all have said
    /// ([`ScheduleBuilder::node_arrive`]) that it is in place. The node's leader ends up with all.
    pub fn gather<'b>(
        &self,
        builder: &mut ScheduleBuilder<'b>,
        combine: impl Fn(&mut ScheduleBuilder<'b>, &[NodeRank]),
    ) {
        if self.leads() {
            match self.leaders.len() {
                1 => builder.node_await_gather(),
                _ => self.near.iter().for_each(|&rank| builder.node_await(rank)),
            }
            combine(builder, &self.near);
        }
        if self.leaders.len() == 1 {
            return;
        }
        builder.node_say_if(self.leads() && self.me != NodeRank(0));
        if self.me == NodeRank(0) {
            self.leaders
                .iter()
                .for_each(|&leader| builder.node_await(leader));
            combine(builder, &self.leaders);
        }
    }

    /// Lets all ranks of the node have what lies in `shared` since rank `by` of it has come here. Leader number i of those
    /// of domains, from 1, copies it to `place(i)`. Returns where this rank finds it.
    pub fn pass_on(
        &self,
        builder: &mut ScheduleBuilder<'_>,
        by: NodeRank,
        shared: Span,
        place: impl Fn(u32) -> Span,
    ) -> Span {
        if self.leaders.len() == 1 {
            builder.node_release(by);
            return shared;
        }
        builder.node_say_if(self.me == by);
        if self.leads() {
            builder.node_await(by);
        }
        let leader = self.near[0];
        let index = self.leaders.iter().position(|&other| other == leader);
        let found = match index {
            // The node's leader goes on between nodes instead, and who has written it need not copy it.
            Some(index) if index > 0 && leader != by => place(index as u32),
            _ => shared,
        };
        if self.leads() && found != shared {
            builder.copy(shared, found);
        }
        builder.node_say_if(self.leads());
        if self.me != by {
            builder.node_await(leader);
        }
        found
    }

    /// Places that [`pass_on`](Self::pass_on) takes on any node, where the root and the leaders of other nodes have it first.
    pub fn places(request: &Request<'_>) -> u32 {
        let (topology, root) = (request.topology, request.root);
        let Some(domains) = request.domains else {
            return 0;
        };
        let of_node = |node| {
            let ranks = topology.ranks_of(NodeId(node)).iter();
            let leaders = ranks.filter(|&&rank| domains.is_leader(rank));
            let copies = leaders.enumerate().filter(|&(_, &rank)| rank != root);
            copies.map(|(index, _)| index as u32).max().unwrap_or(0)
        };
        (0..topology.node_count()).map(of_node).max().unwrap_or(0)
    }
}
