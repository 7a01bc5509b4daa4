//! What holds of every order of operations.

use super::*;

const CHANNEL: Wanted = Wanted::CHANNEL;
const SMALL: Wanted = small(1);

const fn small(width: u32) -> Wanted {
    let row = Row::Small;
    Wanted { row, width }
}

/// Alignment of the row in which `turn` is.
fn start(turn: Turn) -> u32 {
    let first = CHANNELS + SYNC_CHANNELS;
    if turn.channel < first {
        0
    } else {
        first % turn.width
    }
}

/// A clock beside what must hold of it.
#[derive(Default)]
struct Shadow {
    clock: Clock,
    last: std::collections::HashMap<u32, u64>,
    wanted: u64,
    proofs: u32,
}

impl Shadow {
    fn next(&mut self, wanted: Wanted) -> Turn {
        let clock = &mut self.clock;
        if let Some(op) = clock.want(wanted) {
            assert_eq!(op, clock.op());
            self.wanted = op;
            self.proofs += 1;
        }
        if clock.is_full(wanted) {
            let needed = clock.needed(wanted);
            assert!(needed <= self.wanted, "waits for what nobody proves");
            clock.all_finished(needed);
        }
        let turn = clock.next(wanted);
        for channel in turn.channel..turn.channel + turn.width {
            let before = self.last.insert(channel, turn.op).unwrap_or(0);
            assert!(before <= clock.proven, "channel used again too early");
        }
        turn
    }
}

#[test]
fn operations_that_synchronise_never_wait() {
    let mut clock = Clock::default();
    for _ in 0..100 {
        assert!(!clock.is_full(CHANNEL));
        assert_eq!(clock.want(CHANNEL), None);
        clock.next(CHANNEL);
        clock.synchronised();
    }
}

#[test]
fn rooted_operations_want_proof_once_in_half_a_row() {
    for (wanted, places) in [
        (CHANNEL, CHANNELS),
        (SMALL, SMALL_CHANNELS),
        (small(4), SMALL_CHANNELS / 4),
        (small(8), SMALL_CHANNELS / 8),
    ] {
        let mut shadow = Shadow::default();
        for _ in 0..10 * places {
            shadow.next(wanted);
        }
        let proofs = shadow.proofs;
        assert!((18..=21).contains(&proofs), "{wanted:?}: {proofs} proofs");
    }
}

#[test]
fn widths_may_change_from_one_operation_to_the_next() {
    let wide = |width| Wanted { width, ..CHANNEL };
    let all = [
        CHANNEL,
        wide(2),
        wide(4),
        SMALL,
        small(2),
        small(4),
        small(8),
    ];
    let mut shadow = Shadow::default();
    let mut seed = 1u32;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let turn = shadow.next(all[(seed >> 16) as usize % all.len()]);
        if seed >> 31 == 1 {
            shadow.clock.synchronised();
        }
        assert_eq!(
            (turn.op, turn.channel % turn.width),
            (shadow.clock.op(), start(turn))
        );
    }
}

#[test]
fn wide_operations_that_synchronise_never_wait() {
    let mut clock = Clock::default();
    for n in 0..100 {
        let wanted = Wanted {
            width: 1 << (n / 10 % 3),
            ..CHANNEL
        };
        clock.next(wanted);
        clock.synchronised();
        clock.next(wanted);
        clock.synchronised();
        assert!(!clock.is_full(wanted));
        assert_eq!(clock.want(wanted), None);
    }
}

#[test]
fn small_channels_are_a_row_of_their_own() {
    let mut clock = Clock::default();
    for n in 1..=SMALL_CHANNELS {
        assert!(!clock.is_full(SMALL));
        let turn = clock.next(SMALL);
        assert_eq!(turn.channel, CHANNELS + SYNC_CHANNELS + n % SMALL_CHANNELS);
    }
    assert!(clock.is_full(SMALL) && !clock.is_full(CHANNEL));
    clock.next_sync();
    clock.synchronised();
    assert!(!clock.is_full(SMALL));
}

#[test]
fn inline_slots_are_used_again_only_when_proven_free() {
    let mut clock = Clock::default();
    for _ in 0..INLINE_SLOTS {
        assert!(!clock.is_full_inline());
        clock.next_inline();
    }
    assert!(clock.is_full_inline());
    assert!(!clock.is_full(CHANNEL), "channels are free");
    clock.next(CHANNEL);
    clock.synchronised();
    assert!(!clock.is_full_inline());
    let first = clock.next_inline();
    clock.synchronised();
    let second = clock.next_inline();
    assert_ne!(first.slot, second.slot);
    clock.synchronised();
    assert_eq!(clock.proven, second.op - 1, "not the last one");
}

#[test]
fn a_row_ahead_of_the_slowest() {
    let mut clock = Clock::default();
    for op in 1..=u64::from(CHANNELS) {
        assert!(!clock.is_full(CHANNEL));
        assert_eq!(clock.next(CHANNEL).op, op);
    }
    assert!(clock.is_full(CHANNEL));
    assert_eq!(clock.half_a_row_ago(), u64::from(CHANNELS) / 2 + 1);
    clock.all_finished(1);
    assert!(!clock.is_full(CHANNEL));
    // One that needs no proof, as nothing of it passes here: later ones need it all the more.
    clock.next(CHANNEL);
    clock.next(CHANNEL);
    assert!(clock.is_full(CHANNEL));
    clock.all_finished(2);
    assert!(clock.is_full(CHANNEL));
    clock.all_finished(3);
    assert!(!clock.is_full(CHANNEL));
}
