//! Vector forms: blocks of different sizes (MPI 4.1, sections 6.5 to 6.8 and 6.10.2).
//!
//! They run the schedules of the collectives whose forms they are; who executes one knows the
//! length of each block that passes here.
//!
//! | collective | who knows a length | algorithms |
//! |---|---|---|
//! | `allgatherv` | everyone knows all | those of all-gather; scratch has room for the longest |
//! | `gatherv` | the root and its sender | `direct` |
//! | `scatterv` | the root and its receiver | `direct` |
//! | `reduce_scatter` | everyone knows all | those of the block form; scratch has room for the longest |
//! | `alltoallv` | sender and receiver | `direct` |
//!
//! In `gatherv`, `scatterv` and `alltoallv` no rank may choose by length, and a message goes by the
//! length of its own pair: an empty one is left out at both ends. The others need both protocols at
//! once, as what has room in scratch takes it and what has not goes straight into user memory;
//! `direct` gives a pair one message, and under [`Protocol::Rendezvous`](crate::Protocol::Rendezvous) one
//! RTR, so that leaving pairs out of either schedule leaves the rest as proven.

use crate::algorithm::{Algorithm, SCRATCH};
use crate::collective::Collective;
use crate::semantics::Semantics;
use crate::{allgather, alltoall, gather, reduce_scatter_block, scatter};

/// Pairs without data do not wait for each other.
pub(crate) const ALLTOALL_SEMANTICS: Semantics = Semantics {
    synchronising: false,
    ..alltoall::SEMANTICS
};

const fn forms_of<const N: usize>(rows: &[Algorithm; N], collective: Collective) -> [Algorithm; N] {
    let mut forms = *rows;
    let mut row = 0;
    while row < N {
        forms[row].collective = collective;
        row += 1;
    }
    forms
}

/// Every all-gather algorithm. Only Direct lands in user memory: where a peer's blocks lie is
/// known to that peer, which can announce one of them to each.
pub const ALLGATHER: &[Algorithm] = &{
    let mut forms = forms_of(allgather::ALGORITHMS, Collective::Allgatherv);
    let mut row = 1;
    while row < forms.len() {
        forms[row].protocols = SCRATCH;
        row += 1;
    }
    forms
};

/// Every gather algorithm for blocks of different sizes.
pub const GATHER: &[Algorithm] = &forms_of(&[gather::DIRECT], Collective::Gatherv);

/// Every scatter algorithm for blocks of different sizes.
pub const SCATTER: &[Algorithm] = &forms_of(&[scatter::DIRECT], Collective::Scatterv);

/// Every reduce-scatter algorithm for blocks of different sizes.
pub const REDUCE_SCATTER: &[Algorithm] =
    &forms_of(reduce_scatter_block::ALGORITHMS, Collective::ReduceScatter);

/// Every all-to-all algorithm for blocks of different sizes.
pub const ALLTOALL: &[Algorithm] = &forms_of(&[alltoall::DIRECT], Collective::Alltoallv);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Buffer, Protocol, Schedule, Step};
    use ferrorail_base::{Rank, Topology};

    #[test]
    fn only_direct_all_gathers_into_user_memory() {
        for algorithm in ALLGATHER {
            let direct = algorithm.name == "direct";
            assert_eq!(
                algorithm.supports(Protocol::Rendezvous),
                direct,
                "{algorithm:?}"
            );
        }
    }

    #[test]
    fn what_is_reduced_in_scratch_says_which_block_it_is() {
        for algorithm in REDUCE_SCATTER {
            let topology = Topology::from_host_keys(&[0, 0, 1, 0, 1, 2, 1], None);
            for schedule in algorithm.build_all(&topology, 2, Protocol::Eager) {
                for step in &schedule.steps {
                    if let Step::Reduce { into, like, .. } = step {
                        let known = into.buffer == Buffer::Recv || like.is_some();
                        assert!(known, "{algorithm:?}: {step:?}");
                    }
                }
            }
        }
    }

    /// Peers and slots of a schedule's messages, one per pair.
    fn messages(schedule: &Schedule) -> Vec<(bool, Rank, crate::Slot, u32)> {
        let message = |step: &Step| match *step {
            Step::Put { to, slot, from, .. } => Some((true, to, slot, from.count)),
            Step::Await {
                from, slot, blocks, ..
            } => Some((false, from, slot, blocks)),
            _ => None,
        };
        let mut all: Vec<_> = schedule.steps.iter().filter_map(message).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_pair_has_one_message_of_one_block_and_one_slot_in_both_protocols() {
        for algorithm in [GATHER, SCATTER, ALLTOALL].concat() {
            for (size, ports) in (1..=16).flat_map(|size| (1..=4).map(move |k| (size, k))) {
                let topology = Topology::from_sizes(&vec![1; size as usize]);
                let root = Rank(size / 2);
                let build = |protocol| algorithm.build_rooted(&topology, ports, protocol, root);
                let ranks = build(Protocol::Eager)
                    .into_iter()
                    .zip(build(Protocol::Rendezvous));
                for (scratch, recv) in ranks {
                    let found = messages(&scratch);
                    assert_eq!(found, messages(&recv), "{algorithm:?}");
                    let mut pairs: Vec<_> = found.iter().map(|m| (m.0, m.1)).collect();
                    pairs.dedup();
                    assert_eq!(pairs.len(), found.len(), "one message each way");
                    assert!(found.iter().all(|message| message.3 == 1));
                }
            }
        }
    }
}
