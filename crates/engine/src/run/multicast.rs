//! Multicasts of a schedule: opened in one order by all leaders, then waited for step by step.

use super::Run;
use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::multicast::{Leader, MessageId};
use crate::team::map::Map;
use ferrorail_coll::{Span, Step};
use std::sync::Arc;

/// The multicasts of a run, in the order in which all leaders number them: the first of each source by
/// source, then the second of each.
#[derive(Default)]
pub(super) struct Multicasts {
    planned: Vec<Planned>,
    /// How many of them are opened, from the first on.
    opened: usize,
}

/// A multicast of a schedule.
struct Planned {
    /// The step that sends or awaits it.
    step: usize,
    /// Its source's node.
    source: u32,
    /// How many of that source come before it.
    nth: u32,
    /// Where it is, or is to be.
    span: Span,
    /// Once it is opened.
    message: Option<MessageId>,
}

/// Puts multicasts in the order of steps into that in which leaders number them.
fn sort(planned: &mut [Planned], nodes: usize) {
    let mut counts = vec![0; nodes];
    for planned in &mut *planned {
        let count = &mut counts[planned.source as usize];
        planned.nth = *count;
        *count += 1;
    }
    planned.sort_unstable_by_key(|planned| (planned.nth, planned.source));
}

impl Multicasts {
    /// Those that are opened.
    fn messages(&self) -> impl Iterator<Item = MessageId> {
        self.planned.iter().filter_map(|planned| planned.message)
    }
}

/// This rank's end of the team's multicasts.
fn leader_of(map: &Map) -> Result<&Leader, EngineError> {
    let leader = map.multicast_leader();
    leader
        .map(Arc::as_ref)
        .ok_or_else(|| EngineError::Internal("a rank without multicast was to send one".into()))
}

impl Run<'_> {
    /// Lists the multicasts of the schedule.
    fn plan_multicasts(&mut self) {
        let topology = &self.map.topology;
        let planned = &mut self.multicasts.planned;
        for (index, step) in self.schedule.steps.iter().enumerate() {
            let (source, span) = match *step {
                Step::Multicast { from } => (self.map.node, from),
                Step::AwaitMulticast { from, into } => (topology.node_of(from), into),
                _ => continue,
            };
            planned.push(Planned {
                step: index,
                source: source.0,
                nth: 0,
                span,
                message: None,
            });
        }
        // A broadcast has only one.
        if planned.len() > 1 {
            sort(planned, topology.node_count() as usize);
        }
    }

    /// Opens the multicasts of the schedule as far as channels allow, which sends those of this rank: by the first step
    /// that names one, what it sends is ready.
    pub(super) fn open_multicasts(&mut self) -> Result<Option<Blocked>, EngineError> {
        if self.multicasts.planned.is_empty() {
            self.plan_multicasts();
        }
        while let Some(planned) = self.multicasts.planned.get_mut(self.multicasts.opened) {
            let leader = leader_of(self.map)?;
            let (source, memory) = (planned.source, self.spans.range(planned.span));
            // SAFETY: the range lies in the caller's buffers or in the node's segment, and the verified
            // schedule keeps others from it until the run has settled the message, at its end or drop.
            planned.message = unsafe { leader.open(source, memory) }?;
            if planned.message.is_none() {
                return Ok(Some(Blocked::Multicast));
            }
            self.multicasts.opened += 1;
        }
        Ok(None)
    }

    /// The multicast of the present step, once all are opened.
    fn multicast_of_step(&self) -> Option<MessageId> {
        let mut planned = self.multicasts.planned.iter();
        planned.find(|planned| planned.step == self.next)?.message
    }

    /// Waits for the multicast of the present step.
    pub(super) fn await_multicast(&mut self) -> Result<Option<Blocked>, EngineError> {
        if let Some(blocked) = self.open_multicasts()? {
            return Ok(Some(blocked));
        }
        let message = self.multicast_of_step().expect("planned with the others");
        let settled = leader_of(self.map)?.try_settle(message)?;
        Ok((!settled).then_some(Blocked::Multicast))
    }

    /// Whether nothing reads or writes the memory of this run's multicasts any more.
    pub(super) fn multicasts_settled(&self) -> Result<bool, EngineError> {
        for message in self.multicasts.messages() {
            if !leader_of(self.map)?.try_settle(message)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn settle_multicasts(&mut self) {
        if let Some(leader) = self.map.multicast_leader() {
            for message in self.multicasts.messages() {
                leader.settle(message);
            }
        }
        self.multicasts = Multicasts::default();
    }
}
