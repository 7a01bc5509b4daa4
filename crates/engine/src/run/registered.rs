//! User memory registered for the time of one operation.

use super::user::{BlockList, Side, Window};
use crate::team::map::Map;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::{Endpoint, LocalRegion};

/// What of a buffer is registered.
#[derive(Debug, Default)]
pub(super) enum Registered {
    /// Nothing: no put needs it, there are no rails, or it was refused.
    #[default]
    Unneeded,
    /// All of it.
    Whole(LocalRegion),
    /// Each block of a vector form that goes by rail: there may be anything between them.
    Blocks(Vec<Option<LocalRegion>>),
}

impl Registered {
    /// Registers `side` on the team's rails, as far as an operation over `window` needs it.
    ///
    /// What is refused stays unregistered: its messages go in pieces.
    pub fn new(map: &Map, side: &Side<'_>, window: Window) -> Self {
        if map.rails.is_none() {
            return Self::Unneeded;
        }
        match side {
            Side::Even(even) => register(map, even.whole()).map_or(Self::Unneeded, Self::Whole),
            Side::Table(table) => {
                let by_rail = |index: u32| {
                    let peer = Rank(index);
                    peer == map.rank || !map.topology.same_node(peer, map.rank)
                };
                let block = |index| {
                    let part = window.of(table.block(index));
                    let wanted = part.bytes > 0 && by_rail(index);
                    wanted.then(|| register(map, part)).flatten()
                };
                Self::Blocks((0..table.count()).map(block).collect())
            }
        }
    }

    /// The registration that holds block `index`.
    pub fn block(&self, index: u32) -> Option<&LocalRegion> {
        match self {
            Self::Unneeded => None,
            Self::Whole(region) => Some(region),
            Self::Blocks(regions) => regions[index as usize].as_ref(),
        }
    }

    /// Gives everything back; messages that use it may be under way still unless they are `complete`.
    pub fn release(&mut self, map: &Map, complete: bool) {
        let Some(rails) = &map.rails else { return };
        let give_back = |region| match complete {
            true => rails.fabric.deregister(region),
            false => rails.fabric.abandon(region),
        };
        match std::mem::take(self) {
            Self::Unneeded => {}
            Self::Whole(region) => give_back(region),
            Self::Blocks(regions) => regions.into_iter().flatten().for_each(give_back),
        }
    }
}

fn register(map: &Map, memory: MemoryRange) -> Option<LocalRegion> {
    let rails = map.rails.as_ref()?;
    // SAFETY: MPI forbids the caller to free or reuse the buffer before the call returns, and
    // the run gives the registration back before it does.
    match unsafe { rails.fabric.register(memory.as_ptr(), memory.bytes, None) } {
        Ok(region) => {
            map.context.stats().registered.add(1);
            Some(region)
        }
        Err(error) => {
            map.context.refused(&error);
            None
        }
    }
}
