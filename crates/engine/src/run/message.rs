//! Messages over rails: where they are, where they go, and how they are laid over rails.

use super::Run;
use crate::team::map::TeamRails;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{RailId, Rank};
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::{Balance, Policy, Stripes};
use ferrorail_fabric::{LocalRegion, RemoteRegion};

/// A message on its way to another node: where it is, where it goes, and what it raises there.
pub(super) struct Message<'m> {
    pub source: &'m LocalRegion,
    pub from: MemoryRange,
    pub dest: &'m RemoteRegion,
    pub offset: usize,
    pub to: Rank,
    pub slot: Slot,
    /// What its flags hold, besides the number of chunks.
    pub mark: u64,
    /// Whether the flag is part of it.
    pub is_letter: bool,
    /// Whether it goes from and to user memory: the source is the caller's again only when the rails
    /// have read it.
    pub into_user: bool,
    /// The rail it keeps to.
    pub rail: Option<RailId>,
}

impl Message<'_> {
    /// How it is laid over rails.
    pub fn stripes(&self, rails: &TeamRails, balance: &mut Balance) -> Stripes {
        let bytes = self.from.bytes as u64;
        match self.rail {
            Some(rail) => Stripes::whole(rail, bytes),
            None => rails.planner.plan(balance, bytes),
        }
    }
}

impl Run<'_> {
    /// The rail that is this rank's own for what leaves through `port`. Policies that weigh rails
    /// know better.
    pub(super) fn own_rail(&self, port: u8) -> Option<RailId> {
        let weighed = matches!(
            self.rails().planner.policy(),
            Policy::Weighted | Policy::Adaptive
        );
        let rails = self.map.rail_count();
        (self.schedule.own_rails && !weighed && rails <= self.map.ports())
            .then(|| RailId(port % rails))
    }
}
