//! Properties of the planner.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn even() -> Planner {
    Planner::new(Policy::Even, 1024, 256)
}

fn bytes_of(stripes: &Stripes) -> Vec<(u8, u64)> {
    let of = |chunk: &Chunk| (chunk.rail.0, chunk.bytes);
    stripes.chunks().iter().map(of).collect()
}

#[test]
fn small_messages_take_the_rails_in_turn() {
    let mut rail_weights = RailWeights::equal(3);
    let mut turn = RailTurn::default();
    let rails: Vec<u8> = (0..7)
        .map(|_| {
            even().plan(&mut turn, &mut rail_weights, 1023).chunks()[0]
                .rail
                .0
        })
        .collect();
    assert_eq!(rails, [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(
        even().plan(&mut turn, &mut rail_weights, 0).count(),
        1,
        "an empty message still notifies"
    );
}

/// What ports of a round do: a short message each, to a peer of its own.
#[test]
fn short_messages_to_many_peers_take_the_rails_in_turn() {
    for rails in 2..=4usize {
        let mut turn = RailTurn::default();
        let mut peers = vec![RailWeights::equal(rails); 16];
        let mut counts = vec![0; rails];
        for round in peers.chunks_mut(rails) {
            let taken = round.iter_mut().map(|rail_weights| {
                let stripes = even().plan(&mut turn, rail_weights, 64);
                stripes.chunks()[0].rail.index()
            });
            let taken: Vec<usize> = taken.collect();
            let in_order: Vec<usize> = (0..taken.len()).collect();
            assert_eq!(taken, in_order, "port i drives rail i");
            taken.into_iter().for_each(|rail| counts[rail] += 1);
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 1, "{counts:?}");
    }
}

#[test]
fn ranks_of_a_node_begin_at_different_rails() {
    for rails in 1..=4usize {
        let rail_weights = RailWeights::equal(rails);
        for rank in 0..8 {
            let mut turn = RailTurn::after(rank, rails);
            let taken: Vec<usize> = (0..5)
                .map(|_| rail_weights.next_rail(&mut turn).index())
                .collect();
            let expected: Vec<usize> = (rank..rank + 5).map(|rail| rail % rails).collect();
            assert_eq!(taken, expected, "{rank} of {rails}");
        }
    }
}

/// Weights of the rails to one peer may be in bytes per second where another's are relative.
#[test]
fn one_turn_serves_peers_whose_weights_have_other_units() {
    let mut turn = RailTurn::default();
    let peers = [
        RailWeights::equal(2),
        RailWeights::weighted(&[1 << 30, 1 << 30]),
    ];
    let rails: Vec<u8> = (0..8)
        .map(|message| peers[message % 2].next_rail(&mut turn).0)
        .collect();
    assert_eq!(rails, [0, 1, 0, 1, 0, 1, 0, 1]);
    let fast_and_slow = RailWeights::weighted(&[300, 100]);
    let slow_and_fast = RailWeights::weighted(&[1 << 20, 3 << 20]);
    let mut counts = [0; 2];
    for _ in 0..100 {
        counts[fast_and_slow.next_rail(&mut turn).index()] += 1;
        counts[slow_and_fast.next_rail(&mut turn).index()] += 1;
    }
    assert_eq!(counts, [100, 100]);
}

#[test]
fn messages_are_divided_from_the_threshold_on() {
    let mut rail_weights = RailWeights::equal(2);
    let mut turn = RailTurn::default();
    let counts =
        [1023, 1024, 1025].map(|bytes| even().plan(&mut turn, &mut rail_weights, bytes).count());
    assert_eq!(counts, [1, 2, 2]);
    // And from two stripes on.
    let long = Planner::new(Policy::Even, 256, 512);
    let counts = [1023, 1024].map(|bytes| long.plan(&mut turn, &mut rail_weights, bytes).count());
    assert_eq!(counts, [1, 2]);
}

#[test]
fn even_stripes_are_even_whatever_the_weights() {
    let mut rail_weights = RailWeights::weighted(&[1, 9]);
    let mut turn = RailTurn::default();
    let stripes = even().plan(&mut turn, &mut rail_weights, 1 << 20);
    assert_eq!(bytes_of(&stripes), [(0, 1 << 19), (1, 1 << 19)]);
}

#[test]
fn weights_divide_in_proportion() {
    let planner = Planner::new(Policy::Weighted, 1024, 256);
    let mut rail_weights = RailWeights::weighted(&[1000, 0, 3000]);
    let mut turn = RailTurn::default();
    let stripes = planner.plan(&mut turn, &mut rail_weights, 3 << 20);
    let parts = bytes_of(&stripes);
    assert_eq!(parts.len(), 3);
    for ((_, bytes), expected) in parts.iter().zip([1u64 << 19, 1 << 20, 3 << 19]) {
        assert!(bytes.abs_diff(expected) < 128, "{parts:?}");
    }
}

#[test]
fn small_messages_follow_the_weights_too() {
    let rail_weights = RailWeights::weighted(&[100, 300]);
    let mut turn = RailTurn::default();
    let mut counts = [0; 2];
    for _ in 0..400 {
        counts[rail_weights.next_rail(&mut turn).index()] += 1;
    }
    assert_eq!(counts, [100, 300]);
}

#[test]
fn a_stripe_too_light_to_be_worth_it_goes_to_the_others() {
    let planner = Planner::new(Policy::Weighted, 1024, 4096);
    let mut rail_weights = RailWeights::weighted(&[100, 1, 100]);
    let mut turn = RailTurn::default();
    let stripes = planner.plan(&mut turn, &mut rail_weights, 64 << 10);
    assert_eq!(bytes_of(&stripes), [(0, 32 << 10), (2, 32 << 10)]);
    let small = planner.plan(&mut turn, &mut rail_weights, 8191);
    assert_eq!(small.count(), 1, "two stripes of 4096 do not fit");
}

#[test]
fn round_robin_never_divides() {
    let planner = Planner::new(Policy::RoundRobin, 1024, 256);
    let mut rail_weights = RailWeights::equal(2);
    let mut turn = RailTurn::default();
    let rails: Vec<u8> = (0..4)
        .map(|_| {
            let stripes = planner.plan(&mut turn, &mut rail_weights, 1 << 30);
            assert_eq!(stripes.count(), 1);
            stripes.chunks()[0].rail.0
        })
        .collect();
    assert_eq!(rails, [0, 1, 0, 1]);
}

/// All of a message of so many bytes on one rail.
fn whole(rail: u8, bytes: u64) -> Chunk {
    Chunk {
        rail: RailId(rail),
        offset: 0,
        bytes,
    }
}

/// Plays rails of the given speeds (bytes per microsecond) and latency; returns the time of the
/// last message by even division, and by what adaptation arrived at.
fn settle(speeds: &[u64], latency_ns: u64, messages: u32) -> (u64, u64) {
    let planner = Planner::new(Policy::Adaptive, 1024, 256);
    let mut rail_weights = RailWeights::equal(speeds.len());
    let mut turn = RailTurn::default();
    let time = |chunk: &Chunk| latency_ns + chunk.bytes * 1000 / speeds[chunk.rail.index()];
    let ends = |stripes: &Stripes| stripes.chunks().iter().map(time).max().unwrap();
    let mut last = 0;
    for _ in 0..messages {
        let stripes = planner.plan(&mut turn, &mut rail_weights, 1 << 20);
        for chunk in stripes.chunks() {
            rail_weights.observe(*chunk, Duration::from_nanos(time(chunk)));
        }
        last = ends(&stripes);
    }
    let mut equal = RailWeights::equal(speeds.len());
    (
        ends(&even().plan(&mut RailTurn::default(), &mut equal, 1 << 20)),
        last,
    )
}

#[test]
fn adaptation_lets_stripes_end_together() {
    // A rail slowed to a quarter: even stripes wait for it, 2 / 0.25 against 2 / 1.25.
    let (even, adapted) = settle(&[1000, 250], 5_000, 30);
    assert!(even * 10 > adapted * 23, "{even} against {adapted}");
    let (even, adapted) = settle(&[1000, 1000, 1000], 5_000, 30);
    assert!(adapted * 100 < even * 103, "{even} against {adapted}");
}

#[test]
fn a_rail_that_recovers_is_used_again() {
    let planner = Planner::new(Policy::Adaptive, 1024, 4096);
    let mut rail_weights = RailWeights::equal(2);
    let mut turn = RailTurn::default();
    let mut speeds = [1000u64, 1];
    let mut share = 0;
    for message in 0..200 {
        if message == 50 {
            assert!(share < 1 << 15, "the slow rail still carries {share} bytes");
            speeds[1] = 1000;
        }
        let stripes = planner.plan(&mut turn, &mut rail_weights, 1 << 20);
        for chunk in stripes.chunks() {
            let ns = 1 + chunk.bytes * 1000 / speeds[chunk.rail.index()];
            rail_weights.observe(*chunk, Duration::from_nanos(ns));
        }
        if stripes.count() == 2 || message < 50 {
            share = (1 << 20) - stripes.chunks()[0].bytes;
        }
    }
    assert!(
        share > 400 << 10,
        "the rail that recovered carries {share} bytes"
    );
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Even),
        Just(Policy::Nominal),
        Just(Policy::Weighted),
        Just(Policy::Adaptive),
        Just(Policy::RoundRobin)
    ]
}

proptest! {
    #[test]
    fn chunks_tile_the_message(
        bytes in prop_oneof![0u64..1 << 14, 0u64..1 << 40],
        speeds in prop::collection::vec(prop_oneof![Just(0u64), 1u64..1000, 1u64..u64::MAX], 1..=8),
        policy in policies(),
        threshold in 0u64..1 << 16,
        least in 0u64..1 << 14,
        samples in prop::collection::vec((0u8..8, 0u64..1 << 30, 0u64..1 << 40), 0..20),
    ) {
        let planner = Planner::new(policy, threshold, least);
        let mut rail_weights = RailWeights::weighted(&speeds);
        let mut turn = RailTurn::default();
        for (rail, bytes, ns) in samples {
            rail_weights.observe(whole(rail, bytes), Duration::from_nanos(ns));
        }
        for _ in 0..3 {
            let stripes = planner.plan(&mut turn, &mut rail_weights, bytes);
            let chunks = stripes.chunks();
            let mut offset = 0;
            for (i, chunk) in chunks.iter().enumerate() {
                prop_assert_eq!(chunk.offset, offset);
                prop_assert!(chunk.rail.index() < speeds.len());
                prop_assert!(chunk.bytes > 0 || bytes == 0);
                prop_assert!(chunks[..i].iter().all(|c| c.rail != chunk.rail));
                prop_assert_eq!(chunk.offset % ALIGNMENT, 0);
                if chunks.len() > 1 {
                    prop_assert!(chunk.bytes + ALIGNMENT > least, "{} of {}", chunk.bytes, least);
                }
                offset += chunk.bytes;
            }
            prop_assert_eq!(offset, bytes);
            if bytes < threshold { prop_assert_eq!(chunks.len(), 1); }
        }
    }

    #[test]
    fn flags_say_operation_and_count(op in 0u64..1 << 56, chunks in 1u8..=8) {
        prop_assert_eq!(flag_parts(flag_value(op, chunks)), (op, chunks));
        prop_assert!(flag_value(op, chunks) < flag_value(op + 1, 1) || op + 1 == 1 << 56);
    }
}

#[test]
fn undivided_messages_keep_to_numa_local_rails_and_large_ones_take_all() {
    let mut rail_weights = RailWeights::equal(4).numa_local(0b1100);
    let mut turn = RailTurn::default();
    let mut rail = |planner: Planner, bytes| {
        planner.plan(&mut turn, &mut rail_weights, bytes).chunks()[0]
            .rail
            .0
    };
    let rails: Vec<u8> = (0..4).map(|_| rail(even(), 64)).collect();
    assert_eq!(rails, [2, 3, 2, 3]);
    let in_turn = Planner::new(Policy::RoundRobin, 1024, 256);
    let mut taken: Vec<u8> = (0..4).map(|_| rail(in_turn, 1 << 20)).collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2, 3], "bandwidth is all rails' together");
    assert_eq!(
        even().plan(&mut turn, &mut rail_weights, 1 << 20).count(),
        4
    );
}

#[test]
fn where_no_numa_local_rail_reaches_the_others_are_used() {
    let rail_weights = RailWeights::equal(3).numa_local(0b001).without(0b001);
    let mut turn = RailTurn::default();
    let rails: Vec<u8> = (0..4)
        .map(|_| rail_weights.next_rail(&mut turn).0)
        .collect();
    assert_eq!(rails, [1, 2, 1, 2]);
}

proptest! {
    /// Whatever is measured, and whichever policy: a rail that does not reach the peer carries nothing,
    /// nor does one that is out of use while another is left.
    #[test]
    fn excluded_rails_carry_nothing(
        speeds in proptest::collection::vec(0u64..1 << 40, 2..=8),
        excluded in any::<u8>(),
        out_of_use in any::<u8>(),
        numa_local in any::<u8>(),
        messages in proptest::collection::vec((0u64..1 << 22, 0usize..8, 1u64..1 << 30), 1..40),
        policy in policies(),
    ) {
        let all = ((1u16 << speeds.len()) - 1) as u8;
        prop_assume!(excluded & all != all);
        let planner = Planner::new(policy, 1024, 256);
        let mut rail_weights = RailWeights::weighted(&speeds).without(excluded).numa_local(numa_local);
        let mut turn = RailTurn::default();
        let numbers: Vec<RailId> = (0..speeds.len() as u8).map(|rail| RailId(7 - rail)).collect();
        for (index, (bytes, rail, nanoseconds)) in messages.into_iter().enumerate() {
            // Now and then all are in use again.
            let out_of_use = if index % 3 == 2 { 0 } else { out_of_use };
            rail_weights.avoid(&numbers, || out_of_use);
            let mut barred = excluded;
            for (rail, number) in numbers.iter().enumerate() {
                barred |= (out_of_use >> number.0 & 1) << rail;
            }
            if barred & all == all {
                barred = excluded;
            }
            let stripes = planner.plan(&mut turn, &mut rail_weights, bytes);
            let sum: u64 = stripes.chunks().iter().map(|chunk| chunk.bytes).sum();
            prop_assert_eq!(sum, bytes);
            for chunk in stripes.chunks() {
                prop_assert!(chunk.rail.index() < speeds.len());
                prop_assert!(barred & 1 << chunk.rail.0 == 0, "rail {}", chunk.rail);
            }
            rail_weights.observe(whole(rail as u8, bytes), Duration::from_nanos(nanoseconds));
        }
    }
}
