//! Running to the end in a blocking call.

use super::shared_copy::OFFERED;
use super::{Advance, Run};
use crate::EngineError;
use crate::blocking_wait::BlockingWait;
use crate::blocking_wait::disagreement::{Expected, Messages};
use crate::blocking_wait::probe::{check_sent, probe_peer};
use crate::blocking_wait::status::Awaited;
use crate::collective::eager::form::is_exchange;
use crate::tag;
use crate::team::state::State;
use ferrorail_base::NodeRank;
use ferrorail_coll::{Collective, Step};
use ferrorail_fabric::Endpoint;
use ferrorail_fabric::stripe::flag_parts;
use std::collections::BTreeSet;

impl Run<'_> {
    /// What flags hold if all ranks agree.
    fn expected(&self) -> Expected {
        let step = self.schedule.steps.get(self.next);
        let of_pair = |from, slot, tag| {
            let topology = &self.map.topology;
            let near = topology.same_node(from, self.map.rank);
            let from = near.then(|| topology.node_rank_of(from));
            Messages::Slot(self.channel, slot, tag, from)
        };
        let messages = match step {
            _ if !self.spans.user().pairs => Messages::Channel(self.channel),
            Some(&Step::Await {
                from, slot, blocks, ..
            }) => {
                let bytes = self.spans.received(from, blocks).unwrap_or(0);
                of_pair(from, slot, self.message_tag(bytes))
            }
            Some(&Step::AwaitRtr { from, slot }) => of_pair(from, slot, self.op),
            _ => Messages::None,
        };
        Expected {
            tag: self.op,
            messages,
        }
    }

    /// Runs to the end.
    pub fn complete(
        &mut self,
        state: &mut State,
        collective: Collective,
    ) -> Result<(), EngineError> {
        let mut blocking_wait = BlockingWait::new(self.map, collective.name());
        let mut seen = (self.next, state.staged.moved);
        loop {
            match self.advance(state)? {
                Advance::Done => return Ok(()),
                Advance::Pending(blocked) => {
                    let now = (self.next, state.staged.moved);
                    if now != seen {
                        seen = now;
                        blocking_wait.renew();
                    }
                    if is_exchange(collective) && self.comes_meanwhile(&blocking_wait) {
                        continue;
                    }
                    blocking_wait.expect(self.expected());
                    if blocking_wait.idle(blocked, || self.waiting_for())? {
                        state.staged.look_again();
                        blocking_wait.heed(self.check_awaited(state));
                    }
                }
            }
        }
    }

    /// Where ranks share cores, in an exchange: whether what is awaited comes while this rank keeps a core that is of no use
    /// to others, as their part has come and they wait like this one.
    fn comes_meanwhile(&self, blocking_wait: &BlockingWait<'_>) -> bool {
        let (segment, steps) = (self.map.segment(), &self.schedule.steps);
        if self.map.rails.is_some() {
            return false;
        }
        match steps.get(self.next) {
            Some(&Step::NodeAwaitAll { phase }) => {
                let (flags, wanted) = (segment.flags(), self.flag_value(phase));
                let has_reached = |rank| tag::has_reached(&flags, rank, wanted);
                blocking_wait.spin_idle(false, has_reached, || self.missing(phase).is_none())
            }
            Some(&Step::Await {
                from, slot, blocks, ..
            }) => {
                let bytes = self.spans.received(from, blocks).unwrap_or(0);
                let tag = self.message_tag(bytes);
                let is_there = || {
                    let chunks = self.arrived(slot, 0, tag);
                    chunks.is_some_and(|chunks| chunks != OFFERED)
                };
                blocking_wait.spin_idle(false, |rank| self.has_sent(rank), is_there)
            }
            _ => false,
        }
    }

    /// Whether `rank` has sent what it has for this one, in this operation or a later one.
    fn has_sent(&self, NodeRank(rank): NodeRank) -> bool {
        let segment = self.map.segment();
        self.schedule.steps.iter().any(|step| match *step {
            Step::Await { from, slot, .. } if from.0 == rank => {
                let flag = segment.arrival(self.map.node_rank, self.channel, slot, 0);
                tag::number(flag_parts(flag.value()).0) >= tag::number(self.op)
            }
            _ => false,
        })
    }

    /// Finds out whether the rails still reach the ranks that are being waited for, as who only waits
    /// sends nothing that could go unanswered; whether what this one has sent arrives; and whether the next of them is
    /// in the same call.
    fn check_awaited(&self, state: &mut State) -> Result<(), EngineError> {
        let Some(rails) = &self.map.rails else {
            return Ok(());
        };
        check_sent(rails, state)?;
        let owing = state
            .unacknowledged
            .unacknowledged_by()
            .chain(self.staging_with(state));
        let links = self.awaited().into_iter().chain(owing);
        let links = links.filter_map(|rank| state.links[rank.index()].as_ref());
        let reading = state.tickets.iter().map(|ticket| ticket.peer);
        // Each once: a lane is given up for how often it was seen silent.
        let peers: BTreeSet<_> = links.map(|link| link.peer).chain(reading).collect();
        for peer in peers {
            rails.fabric.check(peer)?;
        }
        match self.awaited() {
            Some(rank) => probe_peer(self.map, state, rank, Awaited::Call(self.op)),
            None => Ok(()),
        }
    }
}
