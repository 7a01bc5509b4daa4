//! Multicasts: for the verifier, one put to the leader of each other node, which lands where that leader's
//! own step says.

use super::{Machine, Progress};
use crate::schedule::{Schedule, Span, Step};
use crate::verify::clock::Told;
use crate::verify::memory::Access;
use crate::verify::{Fault, VerifyError};
use ferrorail_base::{NodeId, Rank};
use std::collections::{HashMap, VecDeque};

/// What leaders expect of each other, and what has been sent.
pub(super) struct Multicasts {
    /// By (target, origin): where the target expects the origin's multicasts that are not sent yet.
    expected: HashMap<(Rank, Rank), VecDeque<Span>>,
    /// By (target, origin): those that are sent and not awaited yet.
    sent: HashMap<(Rank, Rank), VecDeque<Sent>>,
}

struct Sent {
    step: u32,
    /// Index in the machine's puts.
    put: u32,
    told: Told,
}

impl Multicasts {
    pub fn of(schedules: &[Schedule]) -> Self {
        let mut expected: HashMap<_, VecDeque<Span>> = HashMap::new();
        for (target, schedule) in (0..).map(Rank).zip(schedules) {
            for step in &schedule.steps {
                if let Step::AwaitMulticast { from, into } = *step {
                    expected.entry((target, from)).or_default().push_back(into);
                }
            }
        }
        Self {
            expected,
            sent: HashMap::new(),
        }
    }
}

impl Machine<'_> {
    /// Step `index` of `origin` sends `from`.
    pub(super) fn multicast(&mut self, origin: Rank, index: u32, from: &Span) -> Result<(), Fault> {
        let topology = self.task.topology;
        let nodes = (0..topology.node_count()).map(NodeId);
        let others = nodes.filter(|&node| node != topology.node_of(origin));
        for target in others.map(|node| topology.leader_of(node)) {
            let expected = self.multicasts.expected.get_mut(&(target, origin));
            let into = expected.and_then(VecDeque::pop_front);
            let into = into.filter(|into| into.count == from.count);
            let into = into.ok_or(Fault::NotReceived(target))?;
            let put = self.puts.begin();
            self.transfer(origin, from, target, &into, Access::new(origin, index, put))?;
            let told = self.clocks.tell(origin, index + 1);
            let sent = self.multicasts.sent.entry((target, origin)).or_default();
            sent.push_back(Sent {
                step: index,
                put,
                told,
            });
            self.wake(target);
        }
        Ok(())
    }

    /// Step `index` of `rank` waits for the next multicast of `from`.
    pub(super) fn await_multicast(&mut self, rank: Rank, index: u32, from: Rank) -> Progress {
        let sent = self.multicasts.sent.get_mut(&(rank, from));
        let Some(Sent { put, told, .. }) = sent.and_then(VecDeque::pop_front) else {
            return Progress::Blocked;
        };
        self.clocks.join(rank, told);
        self.puts.end(put, rank, index);
        Progress::Done
    }

    /// Every multicast has been awaited: a step that awaits one that never comes is found as a wait for
    /// ever, and one that nobody awaits when it is sent.
    pub fn check_multicasts(&self) -> Result<(), VerifyError> {
        let mut sent = self.multicasts.sent.iter();
        let left = sent.find_map(|(&(target, origin), sent)| Some((target, origin, sent.front()?)));
        left.map_or(Ok(()), |(target, origin, sent)| {
            let kind = Fault::NotReceived(target);
            Err(VerifyError::at(origin, sent.step as usize, kind))
        })
    }
}
