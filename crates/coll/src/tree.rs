//! Messages along a tree of members, a round per level.

use crate::builder::{ScheduleBuilder, Wire};
use crate::group::Group;
use crate::pattern::rooted::{Edge, Tree};
use crate::schedule::Span;

/// A member's place in a tree.
pub(crate) struct Branch<'a> {
    pub group: &'a Group<'a>,
    pub tree: Tree,
    pub me: u32,
}

impl<'a> Branch<'a> {
    /// The place of member `me` of `group` in the tree with this root, over k ports.
    pub fn new(group: &'a Group<'a>, root: u32, me: u32, ports: u8) -> Self {
        Self {
            group,
            tree: Tree::new(root, group.size(), ports),
            me,
        }
    }

    /// Gathers members' blocks, in member order, at the root; from round 0.
    pub fn gather(&self, builder: &mut ScheduleBuilder<'_>) {
        for level in 0..self.tree.levels() {
            let wire = |edge: &Edge| Wire::of_round(level, self.tree.ports, edge.port);
            for edge in self.tree.children(self.me, level) {
                let from = self.group.rank(edge.member);
                builder.await_put(from, wire(&edge), self.subtree(&edge).count);
            }
            if let Some(edge) = self.tree.parent(self.me, level) {
                let (to, blocks) = (self.group.rank(edge.member), self.subtree(&edge));
                builder.put(to, wire(&edge), blocks, blocks);
            }
            builder.end_round();
        }
    }

    /// The blocks of each subtree go down to its holder, in member order. Uses slot 0.
    pub fn scatter(&self, builder: &mut ScheduleBuilder<'_>) {
        self.down(builder, 0, |edge| self.subtree(edge), |_| {}, |_, _, _| {});
    }

    /// Sends `span` to all members. Calls `received` at each but the root as soon as it has it. Each
    /// receives once, in `slot`.
    pub fn broadcast<'b>(
        &self,
        builder: &mut ScheduleBuilder<'b>,
        slot: u32,
        span: Span,
        received: impl Fn(&mut ScheduleBuilder<'b>),
    ) {
        self.down(builder, slot, |_| span, received, |_, _, _| {});
    }

    /// As [`broadcast`](Self::broadcast) to where receivers have announced. Permissions are numbered by level and port.
    pub fn broadcast_announced(&self, builder: &mut ScheduleBuilder<'_>, span: Span) {
        let number = |level, edge: &Edge| Wire::of_round(level, self.tree.ports, edge.port).slot;
        let height = self.tree.height(self.me);
        if let Some(edge) = self.tree.parent(self.me, height) {
            builder.send_rtr(self.group.rank(edge.member), number(height, &edge));
        }
        builder.end_round();
        let await_rtr = |builder: &mut ScheduleBuilder<'_>, level, edge: &Edge| {
            builder.await_rtr(self.group.rank(edge.member), number(level, edge));
        };
        self.down(builder, 0, |_| span, |_| {}, await_rtr);
    }

    fn down<'b>(
        &self,
        builder: &mut ScheduleBuilder<'b>,
        slot: u32,
        span: impl Fn(&Edge) -> Span,
        received: impl Fn(&mut ScheduleBuilder<'b>),
        before_put: impl Fn(&mut ScheduleBuilder<'b>, u32, &Edge),
    ) {
        for level in (0..self.tree.levels()).rev() {
            let wire = |edge: &Edge| Wire {
                port: edge.port,
                slot,
            };
            if let Some(edge) = self.tree.parent(self.me, level) {
                let from = self.group.rank(edge.member);
                builder.await_put(from, wire(&edge), span(&edge).count);
                received(builder);
            }
            for edge in self.tree.children(self.me, level) {
                let (to, span) = (self.group.rank(edge.member), span(&edge));
                before_put(builder, level, &edge);
                builder.put(to, wire(&edge), span, span);
            }
            builder.end_round();
        }
    }

    fn subtree(&self, edge: &Edge) -> Span {
        self.group.members(edge.first, edge.count)
    }
}
