//! Signals: what ranks of a node tell each other with no message, by their node flags.

use super::Run;
use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::tag;
use ferrorail_base::NodeRank;
use ferrorail_coll::schedule::PHASE_MAX;

impl Run<'_> {
    /// Values of node flags rise over operations and, within one, over phases.
    pub(super) fn flag_value(&self, phase: u8) -> u64 {
        debug_assert!(phase <= PHASE_MAX);
        self.op << 8 | u64::from(phase)
    }

    /// A rank of the node, or domain, that has not signalled `phase` yet.
    #[inline]
    pub(super) fn missing(&self, phase: u8) -> Option<NodeRank> {
        let (flags, wanted) = (self.map.segment().flags(), self.flag_value(phase));
        let is_missing = |rank| !tag::has_reached(&flags, rank, wanted);
        self.neighbours.find(is_missing)
    }

    /// Waits until the rank of the node, or domain, that the schedule calls `of` has signalled `phase`.
    #[inline]
    pub(super) fn await_signal(
        &self,
        of: NodeRank,
        phase: u8,
    ) -> Result<Option<Blocked>, EngineError> {
        let of = self.neighbours.of(of);
        let flags = self.map.segment().flags();
        let reached = tag::has_reached(&flags, of, self.flag_value(phase));
        self.unless_missed((!reached).then_some(of), phase)
    }

    /// Waits until all ranks of the node, or domain, have.
    #[inline]
    pub(super) fn await_signals(&self, phase: u8) -> Result<Option<Blocked>, EngineError> {
        self.unless_missed(self.missing(phase), phase)
    }

    /// Waits for the signal of `of`, unless it will not come.
    #[inline]
    fn unless_missed(
        &self,
        of: Option<NodeRank>,
        phase: u8,
    ) -> Result<Option<Blocked>, EngineError> {
        let Some(of) = of else { return Ok(None) };
        if tag::has_missed(&self.map.segment().flags(), of, self.flag_value(phase)) {
            let rank = self.map.topology.ranks_of(self.map.node)[of.index()];
            return Err(EngineError::Mismatch { rank: Some(rank) });
        }
        Ok(Some(Blocked::Node))
    }

    pub(super) fn signal(&self, phase: u8) {
        let segment = self.map.segment();
        let value = self.flag_value(phase);
        tag::signal(&segment.flags(), self.map.node_rank, value);
        segment.doorbell().ring();
    }
}
