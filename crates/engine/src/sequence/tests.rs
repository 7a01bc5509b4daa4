//! What holds of every order of operations.

use super::EagerSlots::{Exchanges, Streams, Vectors};
use super::*;

const CHANNEL: ChannelRequest = ChannelRequest::CHANNEL;
const SMALL: ChannelRequest = small(1);

const fn small(width: u32) -> ChannelRequest {
    let ring = Ring::Small;
    ChannelRequest {
        ring,
        width,
        ..ChannelRequest::CHANNEL
    }
}

/// Alignment of the ring in which `turn` is.
fn start(allocation: Allocation) -> u32 {
    let first = CHANNELS + SYNC_CHANNELS;
    if allocation.channel < first {
        0
    } else {
        first % allocation.width
    }
}

/// A sequence beside what must hold of it.
#[derive(Default)]
struct Shadow {
    sequence: Sequence,
    last: std::collections::HashMap<u32, u64>,
    parts: Vec<(u64, Part)>,
    requested: u64,
    quiescence: u32,
}

impl Shadow {
    fn next(&mut self, wanted: ChannelRequest) -> Allocation {
        let sequence = &mut self.sequence;
        if let Some(op) = sequence.request(wanted) {
            assert_eq!(op, sequence.op());
            self.requested = op;
            self.quiescence += 1;
        }
        if sequence.is_full(wanted) {
            let needed = sequence.needed(wanted);
            // Between nodes, where there is no rotating scratch.
            let is_proved = wanted.rotating > 0 || needed <= self.requested;
            assert!(is_proved, "waits for what nobody proves");
            sequence.all_finished(needed);
        }
        let allocation = sequence.next(wanted);
        if let Some(part) = allocation.rotating {
            self.parts.retain(|&(op, _)| op > sequence.completed);
            let apart =
                |a: Part, b: Part| a.start + a.bytes <= b.start || b.start + b.bytes <= a.start;
            let free = self.parts.iter().all(|&(_, other)| apart(part, other));
            assert!(free, "a part is used again too early");
            self.parts.push((allocation.op, part));
        }
        for channel in allocation.channel..allocation.channel + allocation.width {
            let before = self.last.insert(channel, allocation.op).unwrap_or(0);
            assert!(before <= sequence.completed, "channel used again too early");
        }
        allocation
    }
}

#[test]
fn operations_that_synchronise_never_wait() {
    let mut sequence = Sequence::default();
    for _ in 0..100 {
        assert!(!sequence.is_full(CHANNEL));
        assert_eq!(sequence.request(CHANNEL), None);
        sequence.next(CHANNEL);
        sequence.synchronised();
    }
}

#[test]
fn rooted_operations_want_quiescence_once_in_half_a_row() {
    for (wanted, entries) in [
        (CHANNEL, CHANNELS),
        (SMALL, SMALL_CHANNELS),
        (small(4), SMALL_CHANNELS / 4),
        (small(8), SMALL_CHANNELS / 8),
    ] {
        let mut shadow = Shadow::default();
        for _ in 0..10 * entries {
            shadow.next(wanted);
        }
        let quiescence = shadow.quiescence;
        assert!(
            (18..=21).contains(&quiescence),
            "{wanted:?}: {quiescence} quiescence"
        );
    }
}

#[test]
fn widths_may_change_from_one_operation_to_the_next() {
    let wide = |width| ChannelRequest { width, ..CHANNEL };
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
        let allocation = shadow.next(all[(seed >> 16) as usize % all.len()]);
        if seed >> 31 == 1 {
            shadow.sequence.synchronised();
        }
        assert_eq!(
            (allocation.op, allocation.channel % allocation.width),
            (shadow.sequence.op(), start(allocation))
        );
    }
}

#[test]
fn parts_of_rotating_scratch_are_free_with_the_channels() {
    let bytes = rotating_bytes(2, 64 << 10);
    let share = rotating_share(2, bytes);
    let mut shadow = Shadow {
        sequence: Sequence::new(2, bytes),
        ..Shadow::default()
    };
    let mut seed = 1u32;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let width = 1 << ((seed >> 8) % 3);
        let rotating = match seed >> 30 {
            0 => 0,
            1 => width as usize * share,
            _ => 1 + (seed >> 12) as usize % (width as usize * share),
        };
        let allocation = shadow.next(ChannelRequest {
            width,
            rotating,
            partly: seed >> 29 & 1 == 1,
            near: seed >> 28 & 1 == 1,
            ..CHANNEL
        });
        assert_eq!(allocation.rotating.is_some(), rotating > 0);
        if seed >> 27 == 1 {
            shadow.sequence.synchronised();
        }
    }
}

#[test]
fn wide_operations_that_synchronise_never_wait() {
    let mut sequence = Sequence::default();
    for n in 0..100 {
        let wanted = ChannelRequest {
            width: 1 << (n / 10 % 3),
            ..CHANNEL
        };
        sequence.next(wanted);
        sequence.synchronised();
        sequence.next(wanted);
        sequence.synchronised();
        assert!(!sequence.is_full(wanted));
        assert_eq!(sequence.request(wanted), None);
    }
}

#[test]
fn small_channels_are_a_row_of_their_own() {
    let mut sequence = Sequence::default();
    for n in 1..=SMALL_CHANNELS {
        assert!(!sequence.is_full(SMALL));
        let allocation = sequence.next(SMALL);
        assert_eq!(
            allocation.channel,
            CHANNELS + SYNC_CHANNELS + n % SMALL_CHANNELS
        );
    }
    assert!(sequence.is_full(SMALL) && !sequence.is_full(CHANNEL));
    sequence.next_sync();
    sequence.synchronised();
    assert!(!sequence.is_full(SMALL));
}

#[test]
fn eager_slots_are_used_again_only_when_known_free() {
    let mut sequence = Sequence::default();
    for _ in 0..EAGER_SLOTS {
        assert!(!sequence.is_full_eager(&sequence.eager(Streams, 0)));
        sequence.next_eager(sequence.eager(Streams, 0));
    }
    assert!(sequence.is_full_eager(&sequence.eager(Streams, 0)));
    assert!(!sequence.is_full(CHANNEL), "channels are free");
    sequence.next(CHANNEL);
    sequence.synchronised();
    assert!(!sequence.is_full_eager(&sequence.eager(Streams, 0)));
    let (_, first, _) = sequence.next_eager(sequence.eager(Streams, 0));
    sequence.synchronised();
    let (op, second, _) = sequence.next_eager(sequence.eager(Streams, 0));
    assert_ne!(first, second);
    sequence.synchronised();
    assert_eq!(sequence.completed, op - 1, "not the last one");
}

#[test]
fn exchanges_have_few_slots_of_their_own_which_are_always_free() {
    let mut sequence = Sequence::default();
    let mut slots = vec![sequence.next_eager(sequence.eager(Exchanges, 0)).1];
    for round in 0..3 * EXCHANGE_SLOTS {
        // Those of streams begin anew behind each.
        for stream in 0..round % 3 {
            let request = sequence.eager(Streams, 0);
            assert!(!sequence.is_full_eager(&request));
            assert_eq!(sequence.next_eager(request).1, stream);
        }
        let request = sequence.eager(Exchanges, 0);
        assert!(!sequence.is_full_eager(&request));
        slots.push(sequence.next_eager(request).1);
        sequence.synchronised();
    }
    let of_exchanges = EAGER_SLOTS..EAGER_SLOTS + EXCHANGE_SLOTS;
    assert!(slots.iter().all(|slot| of_exchanges.contains(slot)));
    for pair in slots.windows(2) {
        assert_eq!(Exchanges.ahead_of(pair[0], 1), pair[1]);
    }
    assert_eq!(Streams.ahead_of(EAGER_SLOTS - 1, 2), 1);
}

#[test]
fn vector_forms_go_round_in_fewer_slots_and_look_every_half_of_them() {
    let mut sequence = Sequence::default();
    let mut looked = Vec::new();
    for _ in 0..8 * VECTOR_SLOTS {
        let request = sequence.eager(Vectors, 0);
        if sequence.is_full_eager(&request) {
            let wanted = sequence.half_an_eager_ring(&request);
            assert!(wanted + u64::from(VECTOR_SLOTS) / 2 <= sequence.op() + 1);
            sequence.all_finished(wanted);
            looked.push(sequence.op());
        }
        let (_, slot, _) = sequence.next_eager(request);
        assert!(slot < VECTOR_SLOTS);
    }
    assert_eq!(looked[0], u64::from(VECTOR_SLOTS));
    assert!(
        looked
            .windows(2)
            .all(|two| two[1] - two[0] >= u64::from(VECTOR_SLOTS) / 2)
    );
    assert_eq!(Vectors.ahead_of(VECTOR_SLOTS - 1, 2), 1);
}

#[test]
fn a_row_ahead_of_the_slowest() {
    let mut sequence = Sequence::default();
    for op in 1..=u64::from(CHANNELS) {
        assert!(!sequence.is_full(CHANNEL));
        assert_eq!(sequence.next(CHANNEL).op, op);
    }
    assert!(sequence.is_full(CHANNEL));
    assert_eq!(sequence.half_a_ring(CHANNEL), u64::from(CHANNELS) / 2 + 1);
    sequence.all_finished(1);
    assert!(!sequence.is_full(CHANNEL));
    // One that needs no quiescence, as nothing of it passes here: later ones need it all the more.
    sequence.next(CHANNEL);
    sequence.next(CHANNEL);
    assert!(sequence.is_full(CHANNEL));
    sequence.all_finished(2);
    assert!(sequence.is_full(CHANNEL));
    sequence.all_finished(3);
    assert!(!sequence.is_full(CHANNEL));
}

#[test]
fn who_waits_for_room_is_woken_up_behind_each_call_while_few_may_be_under_way() {
    let bytes = rotating_bytes(2, 64 << 10);
    let mut sequence = Sequence::new(2, bytes);
    for _ in 0..20 {
        // A short call of a vector form.
        sequence.next_eager(sequence.eager(Streams, 16 << 10));
        sequence.pass_over(CHANNEL);
        assert!(sequence.wakes());
    }
    let mut woken = 0;
    for _ in 0..100 {
        sequence.next_eager(sequence.eager(Streams, 0));
        woken += usize::from(sequence.wakes());
    }
    assert!((20..=20 + 1).contains(&woken), "{woken}");
}
