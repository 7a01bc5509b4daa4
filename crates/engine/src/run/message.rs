//! Messages over rails: where they are, where they go, and how they are laid over rails.

use super::Run;
use crate::EngineError;
use crate::team::link::Link;
use crate::team::map::TeamRails;
use crate::team::state::State;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{RailId, Rank};
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::{Policy, RailTurn, Stripes};
use ferrorail_fabric::{LocalRegion, RemoteRegion, Tracking};

/// A message on its way to another node: where it is, where it goes, and what it raises there.
#[derive(Clone, Copy)]
pub(super) struct Message<'m> {
    pub source: &'m LocalRegion,
    pub from: MemoryRange,
    pub dest: &'m RemoteRegion,
    pub offset: usize,
    pub to: Rank,
    pub slot: Slot,
    /// What its flags hold, besides the number of chunks.
    pub tag: u64,
    /// Whether the flag is part of it.
    pub is_eager: bool,
    /// Whether it goes from and to user memory: the source is the caller's again only when the rails
    /// have read it.
    pub into_user: bool,
    /// The rail it keeps to.
    pub rail: Option<RailId>,
}

impl Message<'_> {
    /// How it is laid over rails.
    pub fn stripes(&self, rails: &TeamRails, turn: &mut RailTurn, link: &mut Link) -> Stripes {
        let bytes = self.from.bytes as u64;
        match self.rail {
            Some(rail) => Stripes::whole(rail, bytes),
            None => rails.plan(turn, link, bytes),
        }
    }
}

impl Run<'_> {
    /// The rail that is this rank's own for what leaves through `port`. Policies that weigh rails
    /// know better.
    pub(super) fn own_rail(&self, port: u8) -> Option<RailId> {
        let weighed = matches!(
            self.rails().planner.policy(),
            Policy::Nominal | Policy::Weighted | Policy::Adaptive
        );
        let rails = self.map.rail_count();
        (self.schedule.own_rails && !weighed).then(|| self.rails().lanes[usize::from(port % rails)])
    }

    /// The rail whose turn it is to take something short to `to`.
    pub(super) fn next_rail(&self, state: &mut State, to: Rank) -> RailId {
        let link = link_to(&mut state.links, to);
        let turn = &mut state.rail_turn;
        self.rails().plan(turn, link, 0).chunks()[0].rail
    }

    /// Puts a value at an offset of the segment of `to`'s node, and nothing else; the rail that took it, or `None` if
    /// there is no room for it yet. The operation awaits what is tracked.
    pub(super) fn tell(
        &self,
        state: &mut State,
        to: Rank,
        word: (usize, u64),
        tracking: Tracking,
    ) -> Result<Option<RailId>, EngineError> {
        let rail = self.next_rail(state, to);
        let link = link_to(&mut state.links, to);
        let ticket = self.rails().put_word(link, rail, word, tracking)?;
        if tracking == Tracking::Tracked {
            state.tickets.extend(ticket);
        }
        Ok(ticket.map(|_| rail))
    }
}

/// The connection to `to`.
pub(super) fn link_to(links: &mut [Option<Link>], to: Rank) -> &mut Link {
    links[to.index()]
        .as_mut()
        .expect("a plan's peers are connected before it runs")
}
