//! Multicasts of a schedule: opened in one order by all leaders, then waited for step by step.

use super::{Blocked, Run};
use crate::EngineError;
use crate::multicast::{Leader, Message, Opened};
use ferrorail_coll::{Span, Step};
use std::sync::Arc;

/// The multicasts of a run, in the order in which all leaders number them: the first of each source by
/// source, then the second of each.
#[derive(Default)]
pub(super) struct Multicasts {
    leader: Option<Arc<Leader>>,
    /// By order: the step that sends or awaits it, its source's node, and where it is.
    planned: Vec<(usize, u32, Span)>,
    /// As many of them as are opened.
    opened: Vec<Opened>,
}

impl Run<'_> {
    /// Lists the multicasts of the schedule.
    fn plan_multicasts(&mut self) {
        let nodes = self.map.topology.node_count() as usize;
        let mut counts = vec![0u32; nodes];
        let mut ordered = Vec::new();
        for (index, step) in self.schedule.steps.iter().enumerate() {
            let (source, span) = match *step {
                Step::Multicast { from } => (self.map.node, from),
                Step::AwaitMulticast { from, into } => (self.map.topology.node_of(from), into),
                _ => continue,
            };
            let count = &mut counts[source.index()];
            ordered.push((*count, source.0, index, span));
            *count += 1;
        }
        ordered.sort_unstable_by_key(|&(nth, source, ..)| (nth, source));
        let planned = ordered.into_iter();
        self.multicasts.planned = planned
            .map(|(_, source, index, span)| (index, source, span))
            .collect();
        self.multicasts.leader = self.map.multicast_leader().cloned();
    }

    /// Opens the multicasts of the schedule as far as channels allow. By the first step that names one,
    /// what this rank sends is ready.
    fn open_multicasts(&mut self) -> Result<Option<Blocked>, EngineError> {
        if self.multicasts.planned.is_empty() {
            self.plan_multicasts();
        }
        let leader = self.multicasts.leader.clone();
        let leader = leader.ok_or_else(|| {
            EngineError::Selection("a rank without multicast was to send one".into())
        })?;
        while let Some(&(_, source, span)) =
            self.multicasts.planned.get(self.multicasts.opened.len())
        {
            let memory = self.spans.range(span);
            // SAFETY: the range lies in the caller's buffers or in the node's segment, and the verified
            // schedule keeps others from it until the run has settled the message, at its end or drop.
            match unsafe { leader.open(Message { source, memory }) }? {
                Some(opened) => self.multicasts.opened.push(opened),
                None => return Ok(Some(Blocked::Rail)),
            }
        }
        Ok(None)
    }

    /// The multicast of the present step, once all are opened.
    fn multicast_of_step(&self) -> Option<(&Leader, Opened)> {
        let multicasts = &self.multicasts;
        let order = multicasts
            .planned
            .iter()
            .position(|planned| planned.0 == self.next)?;
        Some((multicasts.leader.as_deref()?, multicasts.opened[order]))
    }

    /// Sends a multicast, which this returns from at once.
    pub(super) fn multicast(&mut self) -> Result<Option<Blocked>, EngineError> {
        self.open_multicasts()
    }

    /// Waits for the multicast of the present step.
    pub(super) fn await_multicast(&mut self) -> Result<Option<Blocked>, EngineError> {
        if let Some(blocked) = self.open_multicasts()? {
            return Ok(Some(blocked));
        }
        let (leader, message) = self.multicast_of_step().expect("planned with the others");
        if leader.is_settled(message)? {
            return Ok(None);
        }
        leader.drive();
        Ok((!leader.is_settled(message)?).then_some(Blocked::Rail))
    }

    /// Whether nothing reads or writes the memory of this run's multicasts any more.
    pub(super) fn multicasts_settled(&self) -> Result<bool, EngineError> {
        let Some(leader) = &self.multicasts.leader else {
            return Ok(true);
        };
        for &message in &self.multicasts.opened {
            if !leader.is_settled(message)? {
                leader.drive();
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn settle_multicasts(&mut self) {
        if let Some(leader) = &self.multicasts.leader {
            for message in self.multicasts.opened.drain(..) {
                leader.settle(message);
            }
        }
    }
}
