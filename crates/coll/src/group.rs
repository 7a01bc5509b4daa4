//! Members that own runs of blocks: single ranks, or nodes spoken for by their leaders.
//!
//! An SMP-aware algorithm is a flat one over a group of nodes; both are written once, over
//! [`Group`]. Blocks of a group lie in *member order*: for ranks that is rank order, for nodes the
//! ranks of node 0, then of node 1 and so on, which differs from rank order where the ranks of
//! nodes are interleaved. [`Group::copy_out`] puts blocks into the right places of `Recv`.

use crate::builder::ScheduleBuilder;
use crate::leaders::Leaders;
use crate::schedule::{Buffer, Span};
use ferrorail_base::{NodeId, Rank, Topology};

/// See the module documentation.
#[derive(Debug)]
pub struct Group<'a> {
    topology: &'a Topology,
    buffer: Buffer,
    /// For nodes: first block of each in member order, and the total.
    firsts: Option<Vec<u32>>,
    /// For nodes: which of these leaders speaks for each.
    leaders: Leaders,
    leader: u32,
}

impl<'a> Group<'a> {
    /// Every rank a member with one block, in `Scratch`.
    pub fn ranks(topology: &'a Topology) -> Self {
        Self {
            topology,
            buffer: Buffer::Scratch,
            firsts: None,
            leaders: Leaders::one(1),
            leader: 0,
        }
    }

    /// Every node a member with one block per rank, in `Node`.
    pub fn nodes(topology: &'a Topology) -> Self {
        let mut total = 0;
        let mut firsts = Vec::with_capacity(topology.node_count() as usize + 1);
        firsts.push(0);
        for node in 0..topology.node_count() {
            total += topology.ranks_of(NodeId(node)).len() as u32;
            firsts.push(total);
        }
        Self {
            topology,
            buffer: Buffer::Node,
            firsts: Some(firsts),
            leaders: Leaders::one(1),
            leader: 0,
        }
    }

    /// As [`nodes`](Self::nodes), spoken for by the one of several leaders that `rank` is; where it is none, by the first.
    pub fn led(topology: &'a Topology, leaders: Leaders, rank: Rank) -> Self {
        Self {
            leaders,
            leader: leaders.index(topology.node_rank_of(rank)).unwrap_or(0),
            ..Self::nodes(topology)
        }
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        match self.firsts {
            None => self.topology.size(),
            Some(_) => self.topology.node_count(),
        }
    }

    /// Blocks of all members.
    pub fn blocks(&self) -> u32 {
        self.topology.size()
    }

    /// The member that `rank` is or belongs to.
    pub fn member_of(&self, rank: Rank) -> u32 {
        match self.firsts {
            None => rank.0,
            Some(_) => self.topology.node_of(rank).0,
        }
    }

    /// The rank that sends and receives for `member`.
    pub fn rank(&self, member: u32) -> Rank {
        match self.firsts {
            None => Rank(member),
            Some(_) => self.topology.ranks_of(NodeId(member))[self.leader as usize],
        }
    }

    /// The ranks of `member`, ascending.
    pub fn ranks_of(&self, member: u32) -> impl Iterator<Item = Rank> {
        let (alone, node) = match self.firsts {
            None => (Some(Rank(member)), &[][..]),
            Some(_) => (None, self.topology.ranks_of(NodeId(member))),
        };
        alone.into_iter().chain(node.iter().copied())
    }

    /// Whether `rank` sends and receives for its member.
    pub fn speaks(&self, rank: Rank) -> bool {
        self.rank(self.member_of(rank)) == rank
    }

    /// First block of `member` in member order; `member` may be [`size`](Self::size).
    pub fn first(&self, member: u32) -> u32 {
        match &self.firsts {
            None => member,
            Some(firsts) => firsts[member as usize],
        }
    }

    /// Blocks of `count` members from `member`, around the end.
    pub fn blocks_from(&self, member: u32, count: u32) -> u32 {
        let size = self.size();
        let end = member + count;
        if end <= size {
            self.first(end) - self.first(member)
        } else {
            self.blocks() - self.first(member) + self.first(end - size)
        }
    }

    /// Where `rank`'s block lies in member order.
    pub fn place(&self, rank: Rank) -> u32 {
        match self.firsts {
            None => rank.0,
            Some(_) => self.first(self.member_of(rank)) + self.topology.node_rank_of(rank).0,
        }
    }

    /// `count` blocks of the group's memory.
    pub fn span(&self, first: u32, count: u32) -> Span {
        Span::new(self.buffer, first, count)
    }

    /// The blocks of `count` members from `member`, where memory is in member order.
    pub fn members(&self, member: u32, count: u32) -> Span {
        let first = self.first(member);
        self.span(first, self.first(member + count) - first)
    }

    /// Blocks of `member`.
    pub fn count(&self, member: u32) -> u32 {
        self.first(member + 1) - self.first(member)
    }

    /// The blocks of `member` that the leader who speaks for it here is to carry: all, if there is
    /// one.
    pub fn share(&self, member: u32) -> Span {
        self.part_of_share(member, self.members(member, 1))
    }

    /// Of an area with as many blocks for each rank of `member`, those of the leader's share.
    pub fn part_of_share(&self, member: u32, area: Span) -> Span {
        let ranks = self.count(member);
        let (share, row) = (self.leaders.share(self.leader, ranks), area.count / ranks);
        let (first, count) = (area.first + share.start * row, share.len() as u32 * row);
        Span::new(area.buffer, first, count)
    }

    /// Copies this rank's block to place `at` of its member's memory.
    pub fn gather(&self, builder: &mut ScheduleBuilder<'_>, at: u32) {
        builder.copy(Span::send(0, 1), self.span(at, 1));
        if self.firsts.is_some() {
            builder.node_arrive();
        }
    }

    /// Waits until all ranks of this rank's member have done so.
    pub fn await_gather(&self, builder: &mut ScheduleBuilder<'_>) {
        if self.firsts.is_some() {
            builder.node_await_gather();
        }
    }

    /// Lets this rank, which speaks for its member, put and await on its own ports.
    pub fn take_ports(&self, builder: &mut ScheduleBuilder<'_>) {
        self.leaders.take_ports(builder, self.leader);
    }

    /// Lets all ranks of this rank's member go on once those who speak for it have come here.
    pub fn release(&self, builder: &mut ScheduleBuilder<'_>) {
        if self.firsts.is_some() {
            self.leaders.release(builder);
        }
    }

    /// Copies the blocks of `count` members from `member` (around the end), which lie from `at`,
    /// to their ranks' places in `Recv`.
    pub fn copy_out(&self, builder: &mut ScheduleBuilder<'_>, member: u32, count: u32, at: u32) {
        let members = (member..member + count).map(|index| index % self.size());
        for (place, rank) in (at..).zip(members.flat_map(|member| self.ranks_of(member))) {
            builder.copy(self.span(place, 1), Span::recv(rank.0, 1));
        }
    }

    /// Copies the blocks of `count` members from `member` (around the end) out of memory in member
    /// order.
    pub fn copy_members_out(&self, builder: &mut ScheduleBuilder<'_>, member: u32, count: u32) {
        let size = self.size();
        let to_end = count.min(size - member);
        self.copy_out(builder, member, to_end, self.first(member));
        self.copy_out(builder, 0, count - to_end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Step;

    #[test]
    fn interleaved_nodes_permute_and_merge() {
        let topology = Topology::from_host_keys(&[0, 1, 0, 1, 1, 2, 2], None);
        let group = Group::nodes(&topology);
        assert_eq!(group.size(), 3);
        let places: Vec<u32> = (0..7).map(|rank| group.place(Rank(rank))).collect();
        assert_eq!(places, [0, 2, 1, 3, 4, 5, 6]);
        assert_eq!(group.blocks_from(1, 3), 7);
        assert_eq!(group.blocks_from(2, 2), 4);
        let mut builder = ScheduleBuilder::new(&topology, Rank(0));
        group.copy_members_out(&mut builder, 0, 3);
        let copy = |from, into, count| Step::Copy {
            from: Span::new(Buffer::Node, from, count),
            into: Span::new(Buffer::Recv, into, count),
        };
        assert_eq!(
            builder.finish(7).steps,
            [copy(0, 0, 1), copy(1, 2, 1), copy(2, 1, 1), copy(3, 3, 4),]
        );
    }

    #[test]
    fn consecutive_nodes_leave_in_two_copies_at_most() {
        let topology = Topology::from_sizes(&[3, 1, 2]);
        let group = Group::nodes(&topology);
        assert!(group.speaks(Rank(3)) && !group.speaks(Rank(5)));
        for member in 0..3 {
            let mut builder = ScheduleBuilder::new(&topology, Rank(0));
            group.copy_out(&mut builder, member, 3, 0);
            let copies = builder.finish(6).steps.len();
            assert_eq!(copies, if member == 0 { 1 } else { 2 });
        }
    }
}
