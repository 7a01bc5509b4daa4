//! Operations on rails: posting, staging slots, registrations of user memory, completion.
//!
//! Short data passes through registered slots of this rank's own, so that the caller's buffer is
//! free, or waited for, without being registered; longer data goes another way (`by_rail`).

use super::WindowError;
use super::kept::Kept;
use super::layout::STAGING_BYTES;
use super::outstanding::{After, Buffer, Outstanding};
use super::target::Link;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Mutex, MutexGuard};
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::stripe::{Planner, RailTurn, RailWeights, Stripes};
use ferrorail_fabric::{
    Endpoint, FabricError, LocalRegion, LocalSlice, Notification, Op, RemoteRegion, RemoteSlice,
    Ticket, Tracking,
};
use std::sync::Arc;

/// The rails of one window.
pub struct WindowRails<F: Endpoint> {
    fabric: Arc<F>,
    /// Window rail to this process's rail.
    local: Vec<RailId>,
    /// Window rail of all words.
    words: RailId,
    planner: Planner,
    /// The node's segment as registered by this process.
    segment: Option<LocalRegion>,
    /// This process's window memory, if that lies elsewhere.
    memory: Option<LocalRegion>,
    /// Offset in the segment of this rank's staging slots.
    staged: usize,
    /// How each rank is reached.
    links: Vec<Option<Link>>,
    /// What was imported, to be released.
    imported: Vec<(ferrorail_base::PeerId, RemoteRegion)>,
    outstanding: Mutex<Outstanding>,
    kept: Mutex<Kept>,
}

/// What operations on rails a window has for one side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Put,
    Get,
}

impl Direction {
    /// What moves bytes this way.
    pub fn op<'a>(self, here: LocalSlice<'a>, there: RemoteSlice<'a>) -> Op<'a> {
        match self {
            Self::Put => Op::put(here, there),
            Self::Get => Op::get(there, here),
        }
    }
}

impl<F: Endpoint> WindowRails<F> {
    /// `words` is the window rail that leads from every rank to every other. Takes over `segment` and `memory`, which are given back to `fabric` on drop, as `imported` is.
    #[must_use]
    pub fn new(
        fabric: Arc<F>,
        local: Vec<RailId>,
        words: RailId,
        planner: Planner,
        segment: LocalRegion,
        memory: Option<LocalRegion>,
        staged: usize,
        weights_by_rank: Vec<RailWeights>,
    ) -> Self {
        let ranks = weights_by_rank.len();
        Self {
            fabric,
            local,
            words,
            planner,
            segment: Some(segment),
            memory,
            staged,
            links: vec![None; ranks],
            imported: Vec::new(),
            outstanding: Mutex::new(Outstanding::new(weights_by_rank)),
            kept: Mutex::default(),
        }
    }

    /// The fabric.
    pub fn fabric(&self) -> &Arc<F> {
        &self.fabric
    }

    /// Says how `rank` is reached. `link`'s segment and `memory` are released on drop.
    pub fn link(&mut self, rank: Rank, link: Link, memory: Option<RemoteRegion>) {
        self.imported.push((link.peer, link.segment));
        self.imported
            .extend(memory.map(|memory| (link.peer, memory)));
        self.links[rank.index()] = Some(link);
    }

    pub(super) fn segment(&self) -> &LocalRegion {
        self.segment.as_ref().expect("held until drop")
    }

    pub(super) fn memory(&self) -> Option<&LocalRegion> {
        self.memory.as_ref()
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    /// Says that `memory` lives as long as the window.
    pub(super) fn owns(&self, memory: MemoryRange) {
        self.kept().own = Some(memory);
    }

    /// # Panics
    /// If atomics on the words of `rank` do not go over rails.
    pub(super) fn link_of(&self, rank: Rank) -> &Link {
        self.links[rank.index()]
            .as_ref()
            .expect("peers are connected when the window is made")
    }

    /// The rail for all that must stay in order, or exclude each other.
    pub(super) fn word_rail(&self) -> RailId {
        self.local[self.words.index()]
    }

    /// This process's rail for a rail of the window.
    pub(super) fn local_rail(&self, rail: RailId) -> RailId {
        self.local[rail.index()]
    }

    pub(super) fn outstanding(&self) -> MutexGuard<'_, Outstanding> {
        self.outstanding.lock()
    }

    /// Posts `op` to `to`; `None` if the rail is full.
    ///
    /// # Safety
    /// As [`Endpoint::post`].
    #[inline]
    pub(super) unsafe fn post(
        &self,
        to: Rank,
        rail: RailId,
        op: &Op<'_>,
    ) -> Result<Option<Ticket>, WindowError> {
        let peer = self.link_of(to).peer;
        // SAFETY: the caller's contract.
        match unsafe { self.fabric.post(peer, rail, op, Tracking::Tracked) } {
            Ok(ticket) => Ok(Some(ticket)),
            Err(FabricError::WouldBlock) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether all are complete; forgets those that are.
    pub(super) fn are_complete(&self, tickets: &mut [Option<Ticket>]) -> Result<bool, WindowError> {
        let mut all = true;
        for ticket in tickets {
            if let Some(open) = *ticket {
                match self.fabric.is_complete(open)? {
                    true => *ticket = None,
                    false => all = false,
                }
            }
        }
        Ok(all)
    }

    /// Looks after completions, without waiting.
    pub(super) fn progress(&self) -> Result<(), WindowError> {
        self.fabric.progress()?;
        self.reap(&mut self.outstanding())
    }

    pub(super) fn reap(&self, outstanding: &mut Outstanding) -> Result<(), WindowError> {
        let weights_by_rank = &mut outstanding.weights_by_rank;
        (outstanding.sampler).read(&*self.fabric, |to, chunk, elapsed| {
            weights_by_rank[to.index()].observe(chunk, elapsed);
        });
        // From the last on: where all are complete, none is moved to where another was.
        for index in (0..outstanding.pending.len()).rev() {
            let pending = &mut outstanding.pending[index];
            if !self.are_complete(pending.tickets.all())? {
                continue;
            }
            outstanding.counts[pending.target.index()] -= 1;
            let after = std::mem::replace(&mut pending.after, After::Nothing);
            outstanding.pending.swap_remove(index);
            match after {
                After::Nothing => {}
                After::FreeSlot(slot) => outstanding.free |= 1 << slot,
                After::CopyOut { slot, to, bytes } => {
                    let from = self.slot_range(slot, bytes);
                    // SAFETY: the slot is this operation's until just below, the buffer until the
                    // caller is told of its completion.
                    unsafe { from.copy_to(MemoryRange::new(to, bytes)) };
                    outstanding.free |= 1 << slot;
                }
                After::GiveBack(Buffer::Once(region)) => self.fabric.deregister(*region),
                After::GiveBack(_) => {}
            }
        }
        Ok(())
    }

    /// Finds out whether `rank` still answers.
    pub(super) fn check(&self, rank: Rank) -> Result<(), WindowError> {
        if let Some(link) = &self.links[rank.index()] {
            self.fabric.check(link.peer)?;
        }
        Ok(())
    }

    pub(super) fn slot_offset(&self, slot: u32) -> usize {
        self.staged + STAGING_BYTES * slot as usize
    }

    fn slot_range(&self, slot: u32, bytes: usize) -> MemoryRange {
        self.segment().range.slice(self.slot_offset(slot), bytes)
    }

    /// Stores `value` in a word of `to`'s control block; `None` if the rail is full.
    pub(super) fn notify(
        &self,
        to: Rank,
        offset: usize,
        value: u64,
    ) -> Result<Option<()>, WindowError> {
        let word = self.link_of(to).control(offset);
        let nothing = LocalSlice {
            region: self.segment(),
            offset: self.staged,
            bytes: 0,
        };
        let op = Op::notify(nothing, word, Notification { word, value });
        let mut outstanding = self.outstanding();
        // SAFETY: an empty put; the word is the peer's to be written by this rank.
        let posted = unsafe { self.post(to, self.word_rail(), &op) }?;
        Ok(posted.map(|ticket| outstanding.begin(to, ticket, After::Nothing)))
    }

    /// A slot that is free, if one is or becomes it. Nobody else has it as long as `outstanding` is locked.
    pub(super) fn free_slot(
        &self,
        outstanding: &mut Outstanding,
    ) -> Result<Option<u32>, WindowError> {
        if outstanding.free == 0 {
            self.fabric.progress()?;
            self.reap(outstanding)?;
        }
        Ok(outstanding.free_slot())
    }

    /// Starts moving up to [`STAGING_BYTES`] bytes between both through a slot; `None` if no rail or slot is free.
    ///
    /// # Safety
    /// `here` is the caller's buffer, left to the window until nothing is under way to `target`;
    /// `there` is memory that the target registered.
    pub(super) unsafe fn transfer(
        &self,
        target: Rank,
        direction: Direction,
        here: MemoryRange,
        there: RemoteSlice<'_>,
    ) -> Result<Option<()>, WindowError> {
        let mut outstanding = self.outstanding();
        let Some(slot) = self.free_slot(&mut outstanding)? else {
            return Ok(None);
        };
        let rail = match direction {
            // So that a release can follow it, if it stays alone.
            Direction::Put if outstanding.counts[target.index()] == 0 => self.word_rail(),
            _ => self.next_rail(&mut outstanding, target),
        };
        let local = LocalSlice {
            region: self.segment(),
            offset: self.slot_offset(slot),
            bytes: here.bytes,
        };
        let after = match direction {
            Direction::Put => {
                // SAFETY: a free slot is nobody's; the caller's buffer is readable.
                unsafe { here.copy_to(self.slot_range(slot, here.bytes)) };
                After::FreeSlot(slot)
            }
            Direction::Get => After::CopyOut {
                slot,
                to: here.as_ptr(),
                bytes: here.bytes,
            },
        };
        // SAFETY: the slot is taken until the ticket is complete; `there` as promised.
        let posted = unsafe { self.post(target, rail, &direction.op(local, there)) }?;
        Ok(posted.map(|ticket| {
            outstanding.free &= !(1 << slot);
            outstanding.begin(target, ticket, after);
        }))
    }

    /// How a message is laid over the rails to `target` that are in use.
    pub(super) fn plan(&self, outstanding: &mut Outstanding, target: Rank, bytes: u64) -> Stripes {
        let (turn, rail_weights) = self.in_use(outstanding, target);
        self.planner.plan(turn, rail_weights, bytes)
    }

    /// This process's rail for a message to `target` that is not divided.
    #[inline]
    fn next_rail(&self, outstanding: &mut Outstanding, target: Rank) -> RailId {
        let (turn, rail_weights) = self.in_use(outstanding, target);
        self.local_rail(self.planner.next_rail(turn, rail_weights))
    }

    /// Whose turn it is among the rails, and the weights of those to `target`, without rails that are out of use.
    #[inline(always)]
    fn in_use<'a>(
        &self,
        outstanding: &'a mut Outstanding,
        target: Rank,
    ) -> (&'a mut RailTurn, &'a mut RailWeights) {
        let rail_weights = &mut outstanding.weights_by_rank[target.index()];
        let out_of_use = || self.fabric.out_of_use(self.link_of(target).peer);
        rail_weights.avoid(&self.local, out_of_use);
        (&mut outstanding.turn, rail_weights)
    }

    /// Whether the chunks of a message divided so are timed.
    pub(super) fn times(&self, stripes: &Stripes) -> bool {
        self.planner.times(stripes)
    }

    /// Registers a buffer.
    ///
    /// # Safety
    /// It stays valid until it is given back.
    pub(super) unsafe fn register(&self, here: MemoryRange) -> Result<LocalRegion, FabricError> {
        // SAFETY: the caller's contract.
        unsafe { self.fabric.register(here.as_ptr(), here.bytes, None) }
    }
}

impl<F: Endpoint> Drop for WindowRails<F> {
    fn drop(&mut self) {
        for (peer, region) in self.imported.drain(..) {
            self.fabric.release(peer, region);
        }
        let kept = self.kept().leave_all();
        let own = [self.memory.take(), self.segment.take()];
        for region in kept.into_iter().chain(own.into_iter().flatten()) {
            // After an error some operations may be under way.
            self.fabric.abandon(region);
        }
    }
}
