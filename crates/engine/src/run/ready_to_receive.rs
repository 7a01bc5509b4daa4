//! RTRs: who may put into whose user memory, and where.

use super::BlockList;
use super::Run;
use super::message::{Message, link_to};
use super::span::{copy_in, copy_out};
use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::team::state::{Rtr, State};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{Rank, Topology};
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::flag_value;
use ferrorail_fabric::{RAILS_MAX, RemoteRegion};

/// Room for an RTR in scratch, which holds two for each rank where ranks have messages for every other.
const CELL_BYTES: usize = 64;
const _: () = assert!(RemoteRegion::WIRE_BYTES <= CELL_BYTES);

/// How much of `scratch` bytes is left beside the RTRs that a rank lays out for `ranks`
/// others: they are at its end, since other messages of the operation may be on their way from the
/// rest, in the vector forms that let short ones land there.
pub(crate) fn beside_cells(scratch: usize, ranks: u32) -> usize {
    (scratch - CELL_BYTES * ranks as usize) / CELL_BYTES * CELL_BYTES
}

/// Bytes at the end of scratch between nodes that no block takes: the RTR of an operation that has blocks in scratch as
/// well, which is the same for all.
pub(crate) fn reserved_bytes(topology: &Topology) -> u64 {
    match topology.node_count() {
        1 => 0,
        _ => CELL_BYTES as u64,
    }
}

/// Address that announces memory which could not be registered.
pub(super) const REFUSED: u64 = 0;

impl Run<'_> {
    /// Tells `to` where this rank's receive buffer is.
    pub(super) fn send_rtr(
        &mut self,
        state: &mut State,
        to: Rank,
        slot: Slot,
    ) -> Result<Option<Blocked>, EngineError> {
        let (layout, local) = self.map.layout_of(to);
        let offset = layout.rtr(local, self.channel, slot);
        if self.map.topology.same_node(to, self.map.rank) {
            let cell = self
                .map
                .segment()
                .segment()
                .range()
                .slice(offset, RemoteRegion::WIRE_BYTES);
            copy_in(&self.rtr(to).to_wire(), cell);
            state.sent_rtrs[to.index()] = slot;
            self.raise_node(to, slot, flag_value(self.op, 1));
            return Ok(None);
        }
        let rails = self.rails();
        let segment = link_to(&mut state.links, to).segment;
        let staging = self.rtr_cell();
        copy_in(&self.rtr(to).to_wire(), staging);
        let message = Message {
            source: rails.region(),
            from: staging,
            dest: &segment,
            offset,
            to,
            slot,
            tag: self.op,
            is_eager: false,
            into_user: false,
            rail: None,
        };
        self.sending = self.send(rails, state, &message, true)?;
        Ok(self.sending.map(|_| Blocked::Rail))
    }

    /// Room for the next RTR. Where each pair has a block of its own peers are told different things, and rails may
    /// read them late.
    fn rtr_cell(&self) -> MemoryRange {
        let scratch = self.spans.scratch();
        if !self.spans.user().pairs {
            let last = scratch.bytes - CELL_BYTES;
            return scratch.slice(last, RemoteRegion::WIRE_BYTES);
        }
        // One that waits for room in a queue has its cell already.
        let index = match self.sending {
            None => self.rtrs.replace(self.rtrs.get() + 1),
            Some(_) => self.rtrs.get() - 1,
        };
        let first = beside_cells(scratch.bytes, self.map.topology.size());
        scratch.slice(
            first + CELL_BYTES * index as usize,
            RemoteRegion::WIRE_BYTES,
        )
    }

    /// Waits until `from` has told where its receive buffer is.
    pub(super) fn await_rtr(
        &mut self,
        state: &mut State,
        from: Rank,
        slot: Slot,
    ) -> Result<Option<Blocked>, EngineError> {
        if let Some(blocked) = self.await_message(state, from, slot, self.op, true)? {
            return Ok(Some(blocked));
        }
        let segment = self.map.segment();
        let offset = segment.layout().rtr(self.map.node_rank, self.channel, slot);
        let cell = segment.segment().range();
        let cell = cell.slice(offset, RemoteRegion::WIRE_BYTES);
        let mut wire = [0; RemoteRegion::WIRE_BYTES];
        copy_out(cell, &mut wire);
        state.rtr[from.index()] = Some(Rtr {
            region: RemoteRegion::from_wire(&wire),
            cell: Some(slot),
        });
        Ok(None)
    }

    /// Where `to` may put: all of this rank's result, or the block that is for `to` if every pair
    /// has one.
    pub(super) fn rtr_memory(&self, to: Rank) -> MemoryRange {
        let user = self.spans.user();
        match user.pairs {
            true => user.recv.block_of(to.0),
            false => user.recv.whole(),
        }
    }

    /// How `to` is told of that, or that it could not be registered.
    fn rtr(&self, to: Rank) -> RemoteRegion {
        let user = self.spans.user();
        let memory = self.rtr_memory(to);
        let mut region = RemoteRegion {
            address: memory.address as u64,
            bytes: memory.bytes as u64,
            rkeys: [0; RAILS_MAX],
            mapping: 0,
        };
        if self.map.rails.is_none() || self.map.topology.same_node(to, self.map.rank) {
            return region;
        }
        let single = user.recv.count() == 1;
        match self.receive.block(if single { 0 } else { to.0 }) {
            Some(registered) => region.rkeys = registered.rkeys,
            None => region.address = REFUSED,
        }
        region
    }
}
