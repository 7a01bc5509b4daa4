//! Looking for ranks that mean another call, have given up or left: for those who have waited long.

use super::status::{Awaited, show, shown_operation, status_of};
use crate::EngineError;
use crate::tag::{contradicts, differed, has_come, number, without_stage};
use crate::team::map::Map;
use ferrorail_base::NodeRank;
use ferrorail_base::sync::Ordering;
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::flag_parts;
use ferrorail_shm::EAGER_MESSAGES;
use std::ops::Range;

/// What flags hold if all ranks agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Tag of the operation.
    pub tag: u64,
    /// Where its messages come, and with which tag.
    pub messages: Messages,
}

/// Messages whose tags are known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Messages {
    /// None.
    None,
    /// One in an eager slot; whatever ranks are in that it does not depend on makes no difference.
    EagerSlot(EagerMessage),
    /// All of a channel have the operation's.
    Channel(u32),
    /// That in a slot of a channel has this one, and is from this rank, if it is of the node.
    Slot(u32, Slot, u64, Option<NodeRank>),
}

/// What is awaited in an eager slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EagerMessage {
    /// Whose slot it is.
    pub of: NodeRank,
    /// How many ranks it depends on: that one, and in a group those that follow.
    pub ranks: u32,
    /// Index of the slot.
    pub slot: u32,
    /// What its flag holds then.
    pub value: u64,
}

impl EagerMessage {
    /// Whether `seen`, in the same slot of a rank that it depends on, is of the same operation with other arguments.
    pub fn is_contradicted_by(&self, seen: u64) -> bool {
        match self.ranks {
            1 => contradicts(seen, self.value),
            _ => contradicts(without_stage(seen), without_stage(self.value)),
        }
    }

    /// The ranks that it depends on.
    pub fn ranks(&self) -> Range<u32> {
        self.of.0..self.of.0 + self.ranks
    }
}

/// Looks for a rank of this node that takes no part in what is `awaited`, or in nothing more.
pub(super) fn left(map: &Map, awaited: Awaited) -> Option<EngineError> {
    let flags = map.segment().flags();
    let ranks = map.topology.ranks_of(map.node);
    let all = (0..map.segment().geometry().local_ranks).map(NodeRank);
    let mut others = all.filter(|&local| local != map.node_rank);
    others.find_map(|local| status_of(flags.status(local), awaited).error(ranks[local.index()]))
}

/// Looks for a rank of this node that disagrees with the operation, and for messages of ranks that
/// do. To be asked by those who have waited long.
pub(super) fn disagreement(map: &Map, expected: &Expected) -> Option<EngineError> {
    let tag = expected.tag;
    show(map, tag);
    let segment = map.segment();
    let (flags, geometry) = (segment.flags(), segment.geometry());
    let mismatch = |local: NodeRank| EngineError::Mismatch {
        rank: Some(map.topology.ranks_of(map.node)[local.index()]),
    };
    let asked = match &expected.messages {
        Messages::EagerSlot(message) => message.ranks(),
        _ => 0..geometry.local_ranks,
    };
    let slot_differs = |seen| match &expected.messages {
        Messages::EagerSlot(message) => message.is_contradicted_by(seen),
        _ => contradicts(seen, tag),
    };
    for local in asked.map(NodeRank) {
        let mut eager =
            (0..geometry.eager_slots).map(|slot| segment.eager_slot(local, slot).value());
        let mut shown = [flags.value(local) >> 8, flags.status(local).shown].into_iter();
        let differs = shown.any(|seen| contradicts(seen, tag)) || eager.any(slot_differs);
        if differs || differed(&flags, local, tag) {
            return Some(mismatch(local));
        }
    }
    let (channel, slots, of_message) = match expected.messages {
        Messages::None => return None,
        Messages::EagerSlot(message) => {
            let is_there = || segment.eager_slot(message.of, message.slot).value() == message.value;
            let passed = message
                .ranks()
                .map(NodeRank)
                .find(|&rank| has_passed(map, rank, tag));
            return passed.filter(|_| !is_there()).map(mismatch);
        }
        Messages::Channel(channel) => (channel, 0..geometry.slots_of(channel), tag),
        Messages::Slot(channel, slot, of_message, from) => {
            let come =
                || arrived(map, channel, slot..slot + 1).any(|seen| has_come(seen, of_message));
            if let Some(from) = from
                && has_passed(map, from, tag)
                && !come()
            {
                return Some(mismatch(from));
            }
            (channel, slot..slot + 1, of_message)
        }
    };
    let contradicted = eager_tags(map, channel)
        .chain(arrived(map, channel, slots))
        .any(|seen| contradicts(seen, of_message));
    // With other arguments a rank may have chosen another channel.
    let mut others = (0..geometry.channel_count()).filter(|&c| c != channel);
    let strayed = others.any(|other| {
        eager_tags(map, other)
            .chain(arrived(map, other, 0..geometry.slots_of(other)))
            .any(|seen| number(seen) == number(tag))
    });
    (contradicted || strayed).then_some(EngineError::Mismatch { rank: None })
}

/// Whether `of` is beyond the operation of `tag`, or has finished it: what it had to say in it, it has said. Of a vector
/// form it may have said it elsewhere, as it took a block for longer or shorter than this rank does.
fn has_passed(map: &Map, of: NodeRank, tag: u64) -> bool {
    let segment = map.segment();
    let is_in = shown_operation(segment.flags().status(of));
    let finished = segment.finished(of).load(Ordering::Acquire);
    is_in > number(tag) || finished >= number(tag)
}

/// Tags of the messages that have come in some slots of `channel`.
fn arrived(map: &Map, channel: u32, slots: Range<Slot>) -> impl Iterator<Item = u64> + '_ {
    let segment = map.segment();
    let rails = segment.geometry().rails as u8;
    let flags = slots.flat_map(move |slot| (0..rails).map(move |rail| (slot, rail)));
    flags.map(move |(slot, rail)| {
        let flag = segment.arrival(map.node_rank, channel, slot, rail);
        flag_parts(flag.value()).0
    })
}

/// Tags of the eager messages that have come in `channel`.
fn eager_tags(map: &Map, channel: u32) -> impl Iterator<Item = u64> + '_ {
    let segment = map.segment();
    let slots = match segment.geometry().has_eager_message(channel, 0) {
        true => 0..EAGER_MESSAGES,
        false => 0..0,
    };
    slots.map(move |slot| {
        let flag = segment.eager_message_flag(map.node_rank, channel, slot);
        flag_parts(flag.load(Ordering::Acquire)).0
    })
}
