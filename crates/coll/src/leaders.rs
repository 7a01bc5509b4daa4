//! Several leaders of a node, each of which drives its own share of the ports.
//!
//! A team has L leaders per node, its first local ranks, and each of them has k/L ports. L is the
//! largest divisor of k that neither exceeds what was asked for nor the ranks of the smallest node,
//! so that no port idles and every node has as many. With k rails and L = k every leader has a rail
//! to itself; otherwise its messages are striped like all others. Leader i of a node exchanges
//! messages only with the leaders i of other nodes.

use crate::EvenParts;
use crate::builder::ScheduleBuilder;
use ferrorail_base::{NodeRank, Rank};
use std::ops::Range;

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaders {
    /// L, from 1.
    pub count: u32,
    /// Ports of each, from 1.
    pub ports: u8,
}

impl Leaders {
    /// At most `wanted` leaders of nodes that have `node_size_min` ranks or more, on k ports.
    pub fn new(wanted: u8, node_size_min: u32, ports: u8) -> Self {
        let most = u32::from(wanted.max(1)).min(node_size_min.max(1));
        let divides = |&count: &u8| ports.is_multiple_of(count) && u32::from(count) <= most;
        let count = (1..=ports).rev().find(divides).unwrap_or(1);
        Self {
            count: count.into(),
            ports: ports / count,
        }
    }

    /// The only leader of each node, with all ports.
    pub(crate) const fn one(ports: u8) -> Self {
        Self { count: 1, ports }
    }

    /// Everyone, on the only node of a team of `ranks`, where no ports are to be shared out.
    pub(crate) fn or_everyone(self, nodes: u32, ranks: u32) -> Self {
        match nodes {
            1 => Self {
                count: ranks,
                ..self
            },
            _ => self,
        }
    }

    /// Which of `count` things are leader `index`'s: as many for each as can be.
    pub(crate) fn share(&self, index: u32, count: u32) -> Range<u32> {
        let parts = EvenParts {
            items: count,
            parts: self.count,
        };
        parts.range(index)
    }

    /// Most of `count` things that one leader has.
    pub(crate) fn share_max(&self, count: u32) -> u32 {
        count.div_ceil(self.count)
    }

    /// The leader that has thing `which` of `count`.
    pub(crate) fn owner(&self, which: u32, count: u32) -> u32 {
        let has = |&index: &u32| self.share(index, count).contains(&which);
        (0..self.count).find(has).expect("a thing of the count")
    }

    /// The leader's index that local rank `local` has.
    pub(crate) fn index(&self, local: NodeRank) -> Option<u32> {
        (local.0 < self.count).then_some(local.0)
    }

    /// Lets `builder`'s rank put and await on the ports of leader `index`.
    pub(crate) fn take_ports(&self, builder: &mut ScheduleBuilder<'_>, index: u32) {
        if self.count > 1 {
            // Several ports are more than the peers of a leader may fill.
            builder.drive_ports_from(index as u8 * self.ports, self.ports == 1);
        }
    }

    /// All leaders say that what they received so far lies in `Node`, for which all wait.
    pub(crate) fn release(&self, builder: &mut ScheduleBuilder<'_>) {
        builder.node_say(self.count);
        self.await_release(builder);
    }

    /// Waits for what [`ScheduleBuilder::node_say`] said last.
    pub(crate) fn await_release(&self, builder: &mut ScheduleBuilder<'_>) {
        if builder.node_size() == self.count as usize {
            builder.node_await_gather();
        } else {
            (0..self.count).for_each(|leader| builder.node_await(NodeRank(leader)));
        }
    }

    /// Waits in a release of a node of `node_size`, of a rank that waits most.
    pub(crate) fn release_syncs(&self, node_size: u32) -> u64 {
        u64::from(if node_size > self.count {
            self.count
        } else {
            1
        })
    }

    /// As [`release_syncs`](Self::release_syncs), after leaders have waited for all once.
    pub(crate) fn exchange_syncs(&self, node_size: u32) -> u64 {
        u64::from(if node_size > self.count {
            self.count
        } else {
            2
        })
    }
}

/// Ranks of a node that follow each other, in rank order and in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first of them.
    pub rank: u32,
    /// Its place in the node.
    pub place: u32,
    /// How many.
    pub count: u32,
}

/// The runs of `ranks`, which are those of a node in member order.
pub(crate) fn runs(ranks: impl Iterator<Item = Rank>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (place, Rank(rank)) in (0..).zip(ranks) {
        match runs.last_mut() {
            Some(run) if run.rank + run.count == rank => run.count += 1,
            _ => runs.push(Run {
                rank,
                place,
                count: 1,
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_idles_and_no_node_lacks_a_leader() {
        for (wanted, least, ports) in (0..=9)
            .flat_map(|wanted| (1..=9).map(move |least| (wanted, least)))
            .flat_map(|(wanted, least)| (1..=8).map(move |ports| (wanted, least, ports)))
        {
            let leaders = Leaders::new(wanted, least, ports);
            assert_eq!(leaders.count * u32::from(leaders.ports), u32::from(ports));
            assert!(leaders.count <= least && leaders.count <= u32::from(wanted.max(1)));
        }
        assert_eq!(Leaders::new(4, 3, 4), Leaders { count: 2, ports: 2 });
        assert_eq!(Leaders::new(8, 9, 2), Leaders { count: 2, ports: 1 });
        assert_eq!(Leaders::new(2, 9, 3), Leaders::one(3));
    }

    #[test]
    fn shares_are_a_partition() {
        for (count, things) in (1..=8).flat_map(|l| (0..40).map(move |n| (l, n))) {
            let leaders = Leaders { count, ports: 1 };
            let mut next = 0;
            for index in 0..count {
                let share = leaders.share(index, things);
                assert_eq!(share.start, next);
                assert!(share.len() as u32 <= leaders.share_max(things));
                assert!(
                    share
                        .clone()
                        .all(|which| leaders.owner(which, things) == index)
                );
                next = share.end;
            }
            assert_eq!(next, things);
        }
    }

    #[test]
    fn interleaved_ranks_are_runs_of_one() {
        let run = |place, rank, count| Run { rank, place, count };
        let of = |ranks: &[u32]| runs(ranks.iter().copied().map(Rank));
        assert_eq!(of(&[0, 2]), [run(0, 0, 1), run(1, 2, 1)]);
        assert_eq!(of(&[1, 3, 4]), [run(0, 1, 1), run(1, 3, 2)]);
    }
}
