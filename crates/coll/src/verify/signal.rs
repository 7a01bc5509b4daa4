//! Node signals: what a rank has said to its node, and waiting for it.

use super::machine::{Machine, Process, Progress};
use super::memory::{Clock, join};
use ferrorail_base::{NodeRank, Rank};

/// One signal of a rank, with what that rank knew.
pub(super) struct Signal {
    phase: u8,
    clock: Clock,
}

impl Machine<'_> {
    pub(super) fn signal(&mut self, rank: Rank, phase: u8) {
        let process = &mut self.processes[rank.index()];
        let mut clock = process.clock.clone();
        clock[rank.index()] = process.next as u32 + 1;
        process.signals.push(Signal { phase, clock });
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
            signals.iter().position(|signal| signal.phase >= phase)
        };
        if awaited
            .iter()
            .any(|&local| sufficient(&self.processes, local).is_none())
        {
            return Progress::Blocked;
        }
        let mut clock = std::mem::take(&mut self.processes[rank.index()].clock);
        for &local in awaited {
            if let Some(index) = sufficient(&self.processes, local) {
                join(
                    &mut clock,
                    &self.processes[local.index()].signals[index].clock,
                );
            }
        }
        self.processes[rank.index()].clock = clock;
        Progress::Done
    }
}
