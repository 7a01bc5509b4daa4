//! Tags: what flags hold. An operation's number tells it from others on the team, and a signature
//! of its arguments tells a rank whose arguments differ (but for one case in 4096), so that its
//! data is not taken for what was expected.

use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::Collective;
use ferrorail_shm::{GroupValues, NodeFlags};

/// Bits of the signature; 44 are left for the number beside 8 for phases or chunks.
const SIGNATURE_BITS: u32 = 12;

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

/// `tag`, of an operation that `takes` an annex or not, which its signature says: a bit is left for that.
#[inline]
pub(crate) fn with_annex(tag: u64, takes: bool) -> u64 {
    tag & !1 | u64::from(takes)
}

/// Two bits of the signature that say how far an all-reduce in groups has come.
const STAGES: u64 = 0b110;

/// What the flags of an all-reduce in groups with this `tag` hold.
#[inline]
pub(crate) fn group_values(tag: u64) -> GroupValues {
    let published = without_stage(tag);
    GroupValues {
        published,
        claimed: published | 0b010,
        reduced: published | 0b100,
    }
}

/// `tag`, or what one of its [`group_values`] has been made of.
#[inline]
pub(crate) fn without_stage(tag: u64) -> u64 {
    tag & !STAGES
}

/// The number of the operation of `tag`.
#[inline]
pub(crate) fn number(tag: u64) -> u64 {
    tag >> SIGNATURE_BITS
}

/// `tag`, of one message of `bytes` bytes, where each pair of ranks has a length of its own.
#[inline]
pub(crate) fn with_length(tag: u64, bytes: usize) -> u64 {
    tag ^ hashed(bytes as u64) & !1
}

/// Whether a flag with `seen` has been raised by the operation of `tag`, or a later one.
#[inline]
pub(crate) fn has_come(seen: u64, tag: u64) -> bool {
    seen == tag || seen >> SIGNATURE_BITS > tag >> SIGNATURE_BITS
}

/// Whether `rank` has signalled at least `wanted`, a phase of a tag: in that operation, or in a
/// later one after it was in that operation with the same arguments, as far as that is remembered.
#[inline]
pub(crate) fn has_reached(flags: &NodeFlags<'_>, rank: NodeRank, wanted: u64) -> bool {
    let seen = flags.value(rank);
    if seen < wanted {
        return false;
    }
    let tag = wanted >> 8;
    seen >> 8 == tag || (has_come(seen >> 8, tag) && took_part(flags, rank, tag))
}

/// Whether `rank` will not signal `wanted`: it is beyond that operation, in which it was with other arguments, or did
/// something else.
pub(crate) fn has_missed(flags: &NodeFlags<'_>, rank: NodeRank, wanted: u64) -> bool {
    let (seen, tag) = (flags.value(rank) >> 8, wanted >> 8);
    seen >> SIGNATURE_BITS > tag >> SIGNATURE_BITS && !took_part(flags, rank, tag)
}

/// Whether `rank`, which is beyond the operation of `tag`, has signalled in that with the same arguments, as far as that is
/// remembered: a later one may have taken its place.
fn took_part(flags: &NodeFlags<'_>, rank: NodeRank, tag: u64) -> bool {
    has_come(flags.noted(rank, number(tag)), tag)
}

/// Whether `rank` is remembered to have been in the operation of `tag` with other arguments.
pub(crate) fn differed(flags: &NodeFlags<'_>, rank: NodeRank, tag: u64) -> bool {
    contradicts(flags.noted(rank, number(tag)), tag)
}

/// Signals `value`, a phase of a tag, for `rank`.
#[inline]
pub(crate) fn signal(flags: &NodeFlags<'_>, rank: NodeRank, value: u64) {
    let tag = value >> 8;
    flags.note(rank, number(tag), tag);
    flags.signal(rank, value);
}

/// Whether `seen` is the tag of the same operation with other arguments.
pub(crate) fn contradicts(seen: u64, tag: u64) -> bool {
    seen != tag && seen >> SIGNATURE_BITS == tag >> SIGNATURE_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_fabric::stripe::{flag_parts, flag_value};
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

    /// Calls of no bytes wait for nobody, so that a rank may be any number of operations ahead.
    #[test]
    fn who_is_ahead_took_part_however_much_it_is_ahead() {
        let rank = NodeRank(0);
        for bits in 0..35 {
            let memory = [Flag::default()];
            let flags = NodeFlags::new(&memory);
            let own = of(Collective::Bcast, 0, 40) << 8 | 1;
            // The next operations take the places of all before.
            for op in (OP + (1 << bits)..).take(200) {
                signal(
                    &flags,
                    rank,
                    tag(op, Collective::Bcast, Rank(0), 40) << 8 | 1,
                );
            }
            assert!(has_reached(&flags, rank, own), "{bits}");
            assert!(!has_missed(&flags, rank, own), "{bits}");
        }
    }
}
