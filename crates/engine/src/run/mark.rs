//! Marks: what flags hold. An operation's number tells it from others on the team, and a signature
//! of its arguments tells a rank whose arguments differ (but for one case in 4096), so that its
//! data is not taken for what was expected. Ranks that wait long look for such marks, and leave
//! their own on a card for others who do; nothing of that costs a call that does not wait.

use super::letter;
use crate::EngineError;
use crate::team::map::Map;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Collective, Slot};
use ferrorail_fabric::stripe::flag_parts;
use ferrorail_shm::{INLINE_SLOTS, NodeFlags};
use std::ops::Range;

/// Bits of the signature; 44 are left for the number beside 8 for phases or chunks.
const SIGNATURE_BITS: u32 = 12;

/// Card of a rank that has given up.
const GONE: u64 = u64::MAX;

/// 12 bits that depend on all of `value`.
#[inline]
fn hashed(value: u64) -> u64 {
    (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SIGNATURE_BITS)
}

/// The mark of operation `op`: a call of `collective` with blocks of `bytes` bytes.
#[inline]
pub(crate) fn mark(op: u64, collective: Collective, root: Rank, bytes: usize) -> u64 {
    let kind = (collective as u64) << 56 ^ u64::from(root.0) << 32;
    op << SIGNATURE_BITS | hashed(kind ^ (bytes as u64).rotate_left(8))
}

/// The number of the operation of `mark`.
#[inline]
pub(crate) fn number(mark: u64) -> u64 {
    mark >> SIGNATURE_BITS
}

/// `mark`, of one message of `bytes` bytes, where each pair of ranks has a length of its own.
#[inline]
pub(super) fn with_length(mark: u64, bytes: usize) -> u64 {
    mark ^ hashed(bytes as u64)
}

/// Whether a flag with `seen` has been raised by the operation of `mark`, or a later one.
#[inline]
pub(super) fn has_come(seen: u64, mark: u64) -> bool {
    seen == mark || seen >> SIGNATURE_BITS > mark >> SIGNATURE_BITS
}

/// Whether `rank` has signalled at least `wanted`, a phase of a mark: in that operation, or in a
/// later one after it was in that operation with the same arguments, as far as that is remembered.
#[inline]
pub(super) fn has_reached(flags: &NodeFlags<'_>, rank: NodeRank, wanted: u64) -> bool {
    let seen = flags.value(rank);
    if seen < wanted {
        return false;
    }
    let mark = wanted >> 8;
    seen >> 8 == mark || (has_come(seen >> 8, mark) && !differed(flags, rank, mark))
}

/// Whether `rank` is remembered to have been in the operation of `mark` with other arguments.
fn differed(flags: &NodeFlags<'_>, rank: NodeRank, mark: u64) -> bool {
    let (noted, own) = (flags.noted(rank, mark >> SIGNATURE_BITS), mark as u32);
    contradicts(noted.into(), own.into())
}

/// Signals `value`, a phase of a mark, for `rank`.
#[inline]
pub(super) fn signal(flags: &NodeFlags<'_>, rank: NodeRank, value: u64) {
    let mark = value >> 8;
    flags.note(rank, mark >> SIGNATURE_BITS, mark as u32);
    flags.signal(rank, value);
}

/// Whether `seen` is the mark of the same operation with other arguments.
fn contradicts(seen: u64, mark: u64) -> bool {
    seen != mark && seen >> SIGNATURE_BITS == mark >> SIGNATURE_BITS
}

/// What a rank's card says to one who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It takes part in nothing more.
    Gone,
    /// It is in the same operation, with other arguments.
    Other,
    /// Nothing that matters.
    Nothing,
}

/// What `card` says to one who waits in the operation of `mark`.
pub(super) fn told(card: u64, mark: Option<u64>) -> Told {
    match mark {
        _ if card == GONE => Told::Gone,
        Some(mark) if contradicts(card, mark) => Told::Other,
        _ => Told::Nothing,
    }
}

/// Says on this rank's card that it is in, or was in, the operation of `mark`.
pub(crate) fn show(map: &Map, mark: u64) {
    map.segment().flags().show(map.node_rank, mark);
}

/// Says on this rank's card that it takes part in nothing more.
pub(crate) fn give_up(map: &Map) {
    show(map, GONE);
}

/// What flags hold if all ranks agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Mark of the operation.
    pub mark: u64,
    /// Where its messages come, and with which mark.
    pub messages: Messages,
}

/// Messages whose marks are known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Messages {
    /// None.
    None,
    /// All of a channel have the operation's.
    Channel(u32),
    /// That in a slot of a channel has this one.
    Slot(u32, Slot, u64),
}

/// Looks for a rank of this node that takes part in nothing more.
pub(super) fn left(map: &Map) -> Option<EngineError> {
    let flags = map.segment().flags();
    let mut others = (0..map.segment().layout().local_ranks).map(NodeRank);
    let is_gone = |local| told(flags.card(local), None) == Told::Gone;
    let gone = others.find(|&local| local != map.node_rank && is_gone(local))?;
    let rank = map.topology.ranks_of(map.node)[gone.index()];
    Some(EngineError::PeerGaveUp { rank })
}

/// Looks for a rank of this node that disagrees with the operation, and for messages of ranks that
/// do. To be asked by those who have waited long.
pub(super) fn disagreement(map: &Map, expected: &Expected) -> Option<EngineError> {
    let mark = expected.mark;
    show(map, mark);
    let segment = map.segment();
    let (flags, layout) = (segment.flags(), segment.layout());
    let ranks = map.topology.ranks_of(map.node);
    for local in (0..layout.local_ranks).map(NodeRank) {
        let inline = (0..INLINE_SLOTS).map(|slot| segment.inline_slot(local, slot).value());
        let mut shown = [flags.value(local) >> 8, flags.card(local)]
            .into_iter()
            .chain(inline);
        let differs = shown.any(|seen| contradicts(seen, mark));
        if differs || differed(&flags, local, mark) {
            let rank = Some(ranks[local.index()]);
            return Some(EngineError::Mismatch { rank });
        }
    }
    let (channel, slots, of_message) = match expected.messages {
        Messages::None => return None,
        Messages::Channel(channel) => (channel, 0..layout.slots as Slot, mark),
        Messages::Slot(channel, slot, of_message) => (channel, slot..slot + 1, of_message),
    };
    let contradicted = letter::marks(map, channel)
        .chain(arrived(map, channel, slots))
        .any(|seen| contradicts(seen, of_message));
    // With other arguments a rank may have chosen another channel.
    let mut others = (0..layout.channels + layout.small_channels).filter(|&c| c != channel);
    let strayed = others.any(|other| {
        letter::marks(map, other)
            .chain(arrived(map, other, 0..layout.slots as Slot))
            .any(|seen| number(seen) == number(mark))
    });
    (contradicted || strayed).then_some(EngineError::Mismatch { rank: None })
}

/// Marks of the messages that have come in some slots of `channel`.
fn arrived(map: &Map, channel: u32, slots: Range<Slot>) -> impl Iterator<Item = u64> + '_ {
    let segment = map.segment();
    let rails = segment.layout().rails as u8;
    let flags = slots.flat_map(move |slot| (0..rails).map(move |rail| (slot, rail)));
    flags.map(move |(slot, rail)| {
        let flag = segment.arrival(map.node_rank, channel, slot, rail);
        flag_parts(flag.load(Ordering::Acquire)).0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_fabric::stripe::flag_value;
    use ferrorail_shm::Flag;

    const OP: u64 = 1000;

    fn of(collective: Collective, root: u32, bytes: usize) -> u64 {
        mark(OP, collective, Rank(root), bytes)
    }

    #[test]
    fn other_arguments_make_another_mark() {
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
        let next = mark(OP + 1, Collective::Bcast, Rank(0), 40);
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
                [(1 << bits) - 1, 1 << bits].map(|op| mark(op, Collective::Bcast, Rank(0), 40));
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
    fn a_card_tells_who_has_left_and_who_is_in_another_call() {
        let one = of(Collective::Bcast, 0, 40);
        let other = of(Collective::Bcast, 0, 0);
        assert_eq!(told(GONE, Some(one)), Told::Gone);
        assert_eq!(told(other, Some(one)), Told::Other);
        let later = mark(OP + 1, Collective::Bcast, Rank(0), 0);
        for card in [0, one, later] {
            assert_eq!(told(card, Some(one)), Told::Nothing);
        }
        assert_eq!(told(other, None), Told::Nothing);
    }

    #[test]
    fn phases_count_within_their_own_operation() {
        let [low, high] = {
            let mut marks = [1, 2].map(|bytes| of(Collective::Bcast, 0, bytes));
            marks.sort_unstable();
            marks
        };
        let memory = [Flag::default()];
        let (flags, rank) = (NodeFlags::new(&memory), NodeRank(0));
        let reached = |wanted: u64| has_reached(&flags, rank, wanted);
        signal(&flags, rank, low << 8 | 3);
        assert!(reached(low << 8 | 3) && reached(low << 8 | 2) && !reached(low << 8 | 4));
        assert!(!reached(high << 8 | 3) && !reached(high << 8 | 1));
        // A rank that has gone on was in what it says it was in.
        let next = mark(OP + 1, Collective::Barrier, Rank(0), 0);
        signal(&flags, rank, next << 8 | 1);
        assert!(reached(low << 8 | 9) && !reached(high << 8 | 1));
    }
}
