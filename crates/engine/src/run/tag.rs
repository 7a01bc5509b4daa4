//! Tags: what flags hold. An operation's number tells it from others on the team, and a signature
//! of its arguments tells a rank whose arguments differ (but for one case in 4096), so that its
//! data is not taken for what was expected. Ranks that wait long look for such tags, and leave
//! their own on a status cell for others who do; nothing of that costs a call that does not wait.

use super::eager;
use crate::EngineError;
use crate::team::map::Map;
use crate::team::resume::{NEVER, Phase};
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Collective, Slot};
use ferrorail_fabric::stripe::flag_parts;
use ferrorail_shm::NodeFlags;
use std::ops::Range;

/// Bits of the signature; 44 are left for the number beside 8 for phases or chunks.
const SIGNATURE_BITS: u32 = 12;

/// Status cells from here on are of ranks that take part in nothing more. Those of such as may go on
/// without the team say with which call ([`resume`](crate::team::resume)).
const STOPPED: u64 = 0xfd << PHASE_SHIFT;
const PHASE_SHIFT: u32 = 56;
const CALL: u64 = (1 << PHASE_SHIFT) - 1;

/// 12 bits that depend on all of `value`.
#[inline]
fn hashed(value: u64) -> u64 {
    (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SIGNATURE_BITS)
}

/// The tag of operation `op`: a call of `collective` with blocks of `bytes` bytes.
#[inline]
pub(crate) fn tag(op: u64, collective: Collective, root: Rank, bytes: usize) -> u64 {
    let kind = (collective as u64) << 56 ^ u64::from(root.0) << 32;
    op << SIGNATURE_BITS | hashed(kind ^ (bytes as u64).rotate_left(8))
}

/// The number of the operation of `tag`.
#[inline]
pub(crate) fn number(tag: u64) -> u64 {
    tag >> SIGNATURE_BITS
}

/// `tag`, of one message of `bytes` bytes, where each pair of ranks has a length of its own.
#[inline]
pub(super) fn with_length(tag: u64, bytes: usize) -> u64 {
    tag ^ hashed(bytes as u64)
}

/// Whether a flag with `seen` has been raised by the operation of `tag`, or a later one.
#[inline]
pub(super) fn has_come(seen: u64, tag: u64) -> bool {
    seen == tag || seen >> SIGNATURE_BITS > tag >> SIGNATURE_BITS
}

/// Whether `rank` has signalled at least `wanted`, a phase of a tag: in that operation, or in a
/// later one after it was in that operation with the same arguments, as far as that is remembered.
#[inline]
pub(super) fn has_reached(flags: &NodeFlags<'_>, rank: NodeRank, wanted: u64) -> bool {
    let seen = flags.value(rank);
    if seen < wanted {
        return false;
    }
    let tag = wanted >> 8;
    seen >> 8 == tag || (has_come(seen >> 8, tag) && !differed(flags, rank, tag))
}

/// Whether `rank` is remembered to have been in the operation of `tag` with other arguments.
fn differed(flags: &NodeFlags<'_>, rank: NodeRank, tag: u64) -> bool {
    let (noted, own) = (flags.noted(rank, tag >> SIGNATURE_BITS), tag as u32);
    contradicts(noted.into(), own.into())
}

/// Signals `value`, a phase of a tag, for `rank`.
#[inline]
pub(super) fn signal(flags: &NodeFlags<'_>, rank: NodeRank, value: u64) {
    let tag = value >> 8;
    flags.note(rank, tag >> SIGNATURE_BITS, tag as u32);
    flags.signal(rank, value);
}

/// Whether `seen` is the tag of the same operation with other arguments.
pub(crate) fn contradicts(seen: u64, tag: u64) -> bool {
    seen != tag && seen >> SIGNATURE_BITS == tag >> SIGNATURE_BITS
}

/// What a rank's status cell says to one who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerStatus {
    /// It takes part in nothing more.
    Gone,
    /// It is in the same operation, with other arguments.
    Other,
    /// Nothing that matters.
    Unremarkable,
}

/// What `status` says to one who waits in the operation of `tag`.
pub(super) fn status_of(status: u64, tag: Option<u64>) -> PeerStatus {
    match tag {
        _ if status >= STOPPED => PeerStatus::Gone,
        Some(tag) if contradicts(status, tag) => PeerStatus::Other,
        _ => PeerStatus::Unremarkable,
    }
}

/// Says on this rank's status cell that it is in, or was in, the operation of `tag`.
pub(crate) fn show(map: &Map, tag: u64) {
    map.segment().flags().show(map.node_rank, tag);
}

/// Says on this rank's status cell that it takes part in nothing more, and `call` in `phase` of what follows.
pub(crate) fn stop(map: &Map, phase: Phase, call: u64) {
    show(map, stop_status(phase, call));
}

fn stop_status(phase: Phase, call: u64) -> u64 {
    match call {
        NEVER => NEVER,
        call => (STOPPED + ((phase as u64) << PHASE_SHIFT)) | call & CALL,
    }
}

/// What a rank with this `status` says in `phase`, if it says anything. Who is in the second phase says there no
/// less than in the first.
pub(crate) fn stopped(status: u64, phase: Phase) -> Option<u64> {
    match status {
        NEVER => Some(NEVER),
        status if status >= stop_status(phase, 0) => Some(status & CALL),
        _ => None,
    }
}

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
    /// One in the eager slot of this rank; whatever the others are in makes no difference.
    EagerSlot(NodeRank),
    /// All of a channel have the operation's.
    Channel(u32),
    /// That in a slot of a channel has this one.
    Slot(u32, Slot, u64),
}

/// Looks for a rank of this node that takes part in nothing more.
pub(super) fn left(map: &Map) -> Option<EngineError> {
    let flags = map.segment().flags();
    let mut others = (0..map.segment().layout().local_ranks).map(NodeRank);
    let is_gone = |local| status_of(flags.status(local), None) == PeerStatus::Gone;
    let gone = others.find(|&local| local != map.node_rank && is_gone(local))?;
    let rank = map.topology.ranks_of(map.node)[gone.index()];
    Some(EngineError::PeerGaveUp { rank })
}

/// Looks for a rank of this node that disagrees with the operation, and for messages of ranks that
/// do. To be asked by those who have waited long.
pub(super) fn disagreement(map: &Map, expected: &Expected) -> Option<EngineError> {
    let tag = expected.tag;
    show(map, tag);
    let segment = map.segment();
    let (flags, layout) = (segment.flags(), segment.layout());
    let ranks = map.topology.ranks_of(map.node);
    let asked = match expected.messages {
        Messages::EagerSlot(of) => of.0..of.0 + 1,
        _ => 0..layout.local_ranks,
    };
    for local in asked.map(NodeRank) {
        let eager = (0..layout.eager_slots).map(|slot| segment.eager_slot(local, slot).value());
        let mut shown = [flags.value(local) >> 8, flags.status(local)]
            .into_iter()
            .chain(eager);
        let differs = shown.any(|seen| contradicts(seen, tag));
        if differs || differed(&flags, local, tag) {
            let rank = Some(ranks[local.index()]);
            return Some(EngineError::Mismatch { rank });
        }
    }
    let (channel, slots, of_message) = match expected.messages {
        Messages::None | Messages::EagerSlot(_) => return None,
        Messages::Channel(channel) => (channel, 0..layout.slots_of(channel), tag),
        Messages::Slot(channel, slot, of_message) => (channel, slot..slot + 1, of_message),
    };
    let contradicted = eager::tags(map, channel)
        .chain(arrived(map, channel, slots))
        .any(|seen| contradicts(seen, of_message));
    // With other arguments a rank may have chosen another channel.
    let mut others = (0..layout.channel_count()).filter(|&c| c != channel);
    let strayed = others.any(|other| {
        eager::tags(map, other)
            .chain(arrived(map, other, 0..layout.slots_of(other)))
            .any(|seen| number(seen) == number(tag))
    });
    (contradicted || strayed).then_some(EngineError::Mismatch { rank: None })
}

/// Tags of the messages that have come in some slots of `channel`.
fn arrived(map: &Map, channel: u32, slots: Range<Slot>) -> impl Iterator<Item = u64> + '_ {
    let segment = map.segment();
    let rails = segment.layout().rails as u8;
    let flags = slots.flat_map(move |slot| (0..rails).map(move |rail| (slot, rail)));
    flags.map(move |(slot, rail)| {
        let flag = segment.arrival(map.node_rank, channel, slot, rail);
        flag_parts(flag.value()).0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_fabric::stripe::flag_value;
    use ferrorail_shm::Flag;

    const OP: u64 = 1000;

    fn of(collective: Collective, root: u32, bytes: usize) -> u64 {
        tag(OP, collective, Rank(root), bytes)
    }

    #[test]
    fn other_arguments_make_another_tag() {
        let one = of(Collective::Bcast, 0, 40);
        let others = [
            of(Collective::Bcast, 0, 20),
            of(Collective::Bcast, 0, 41),
            of(Collective::Bcast, 1, 40),
            of(Collective::Gather, 0, 40),
            with_length(one, 8),
        ];
        for other in others {
            assert!(contradicts(other, one));
            assert!(!has_come(other, one));
        }
        let next = tag(OP + 1, Collective::Bcast, Rank(0), 40);
        assert!(has_come(next, one) && !has_come(one, next));
        assert!(!contradicts(next, one));
        // Few of 64 usual lengths have the same signature.
        let mut signatures: Vec<u64> = (0..64).map(|n| of(Collective::Bcast, 0, 8 * n)).collect();
        signatures.sort_unstable();
        signatures.dedup();
        assert!(signatures.len() >= 62, "{}", signatures.len());
    }

    #[test]
    fn numbers_rise_over_the_life_of_a_team() {
        for bits in 0..44 {
            let [before, first] =
                [(1 << bits) - 1, 1 << bits].map(|op| tag(op, Collective::Bcast, Rank(0), 40));
            assert_eq!(
                (number(before), number(first)),
                ((1 << bits) - 1, 1 << bits)
            );
            assert!(
                has_come(first, before) && !has_come(before, first),
                "{bits}"
            );
            let (value, chunks) = flag_parts(flag_value(first, 8));
            assert_eq!((value, chunks), (first, 8));
        }
    }

    #[test]
    fn a_status_tells_who_has_gone_and_who_is_in_another_call() {
        let one = of(Collective::Bcast, 0, 40);
        let other = of(Collective::Bcast, 0, 0);
        for phase in [Phase::Noticed, Phase::Chosen] {
            for call in [0, 7, NEVER] {
                let status = stop_status(phase, call);
                assert_eq!(status_of(status, Some(one)), PeerStatus::Gone);
                assert_eq!(stopped(status, Phase::Noticed), Some(call));
                let chosen = phase == Phase::Chosen || call == NEVER;
                assert_eq!(stopped(status, Phase::Chosen), chosen.then_some(call));
            }
            assert_eq!(stopped(one, phase), None);
        }
        assert_eq!(status_of(other, Some(one)), PeerStatus::Other);
        let later = tag(OP + 1, Collective::Bcast, Rank(0), 0);
        for status in [0, one, later] {
            assert_eq!(status_of(status, Some(one)), PeerStatus::Unremarkable);
        }
        assert_eq!(status_of(other, None), PeerStatus::Unremarkable);
    }

    #[test]
    fn phases_count_within_their_own_operation() {
        let [low, high] = {
            let mut tags = [1, 2].map(|bytes| of(Collective::Bcast, 0, bytes));
            tags.sort_unstable();
            tags
        };
        let memory = [Flag::default()];
        let (flags, rank) = (NodeFlags::new(&memory), NodeRank(0));
        let reached = |wanted: u64| has_reached(&flags, rank, wanted);
        signal(&flags, rank, low << 8 | 3);
        assert!(reached(low << 8 | 3) && reached(low << 8 | 2) && !reached(low << 8 | 4));
        assert!(!reached(high << 8 | 3) && !reached(high << 8 | 1));
        // A rank that has gone on was in what it says it was in.
        let next = tag(OP + 1, Collective::Barrier, Rank(0), 0);
        signal(&flags, rank, next << 8 | 1);
        assert!(reached(low << 8 | 9) && !reached(high << 8 | 1));
    }
}
