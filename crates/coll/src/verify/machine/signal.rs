//! Node signals: what a rank has said to its node, and waiting for it.

use super::{Machine, Process, Progress};
use crate::verify::clock::Told;
use ferrorail_base::{NodeRank, Rank};

/// One signal of a rank, with what that rank knew.
pub(super) struct Signal {
    phase: u8,
    told: Told,
}

impl Machine<'_> {
    pub(super) fn signal(&mut self, rank: Rank, phase: u8) {
        let process = &mut self.processes[rank.index()];
        let told = self.clocks.tell(rank, process.next as u32 + 1);
        process.signals.push(Signal { phase, told });
        let topology = self.task.topology;
        for &local in topology.ranks_of(topology.node_of(rank)) {
            if local != rank {
                self.wake(local);
            }
        }
    }

    /// Waits for one local rank, or all. Only the first signal that suffices is known to have
    /// happened.
    pub(super) fn await_node(&mut self, rank: Rank, of: Option<NodeRank>, phase: u8) -> Progress {
        let topology = self.task.topology;
        let node = topology.ranks_of(topology.node_of(rank));
        let awaited = match of {
            Some(of) => &node[of.index()..=of.index()],
            None => node,
        };
        let sufficient = |processes: &[Process], local: Rank| {
            let signals = &processes[local.index()].signals;
            let first = signals.partition_point(|signal| signal.phase < phase);
            signals.get(first).map(|signal| signal.told)
        };
        if awaited
            .iter()
            .any(|&local| sufficient(&self.processes, local).is_none())
        {
            return Progress::Blocked;
        }
        for &local in awaited {
            if let Some(told) = sufficient(&self.processes, local) {
                self.clocks.join(rank, told);
            }
        }
        Progress::Done
    }
}
