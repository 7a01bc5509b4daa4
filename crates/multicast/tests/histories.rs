//! Seeded histories of loss, duplication, reordering, damage, lateness and failing paths. A failing one
//! prints its seed, by which it runs again.

mod simulator;

use ferrorail_multicast::Failure;
use ferrorail_test_extent::part_of_seeds;
use simulator::histories::{any, run, steady};
use simulator::{Call, End, Random, World};
use std::num::NonZeroU64;

#[test]
fn anything_may_happen_to_a_few_members() {
    for seed in part_of_seeds(12, 3000) {
        run(any(seed, 1 + (seed % 9) as u32));
    }
}

#[test]
fn anything_may_happen_to_many_members() {
    for seed in part_of_seeds(12, 60) {
        run(any(1_000_000 + seed, 17 + (seed % 24) as u32));
    }
}

#[test]
fn a_rail_dies_and_comes_back() {
    let (mut lost, mut returned) = (0, 0);
    for seed in part_of_seeds(4, 200) {
        let mut history = any(2_000_000 + seed, 2 + (seed % 7) as u32);
        let mut random = Random(seed);
        history.config.rails = random.between(2, 3) as u8;
        let rail = random.below(history.config.rails.into()) as u8;
        let from = random.below(2_000_000);
        history.network.rail_dead = Some((rail, from, from + random.below(100_000_000)));
        let world = run(history);
        lost += world.total(|counters| counters.rails_lost);
        returned += world.total(|counters| counters.rails_returned);
    }
    println!("rails lost {lost}, returned {returned}");
    assert!(lost > 0 && returned > 0);
}

#[test]
fn a_rail_that_stays_dead_leaves_the_striping() {
    let mut history = steady(7, 4, 600, 640);
    history.config.channel_bytes = 1000;
    history.config.rails = 2;
    history.network.rail_dead = Some((1, 100_000, u64::MAX));
    let world = run(history);
    let source = world.nodes[0].session.counters();
    assert_eq!(
        (source.rails_lost, source.rails_returned, source.failovers),
        (1, 0, 0)
    );
    // Once the rail is out of use nothing more is lost but probes.
    assert!(
        source.multicast_retransmissions + source.unicast_retransmissions < 200,
        "{source:?}"
    );
}

#[test]
fn multicast_dies_for_good_or_comes_back() {
    let (mut failovers, mut returns) = (0, 0);
    for seed in part_of_seeds(4, 200) {
        let mut history = any(3_000_000 + seed, 2 + (seed % 20) as u32);
        let mut random = Random(seed);
        let from = random.below(1_000_000);
        let length = random.one(&[1_000_000, 100_000_000, u64::MAX / 2]);
        history.network.multicast_dead = Some((from, from + length));
        let world = run(history);
        failovers += world.total(|counters| counters.failovers);
        returns += world.total(|counters| counters.returns);
    }
    println!("failovers {failovers}, returns {returns}");
    assert!(failovers > 0 && returns > 0);
}

#[test]
fn multicast_goes_down_in_the_middle_of_a_loop_and_returns() {
    let mut history = steady(8, 6, 4000, 600);
    history.config.channel_bytes = 1000;
    history.network.multicast_dead = Some((1_000_000, 5_000_000));
    let world = run(history);
    let source = world.nodes[0].session.counters();
    println!("{source:?}");
    assert_eq!((source.failovers, source.returns), (1, 1));
    assert!(world.total(|counters| counters.forwarded) > 0);
}

#[test]
fn a_source_far_ahead_of_a_slow_receiver_overflows_nothing() {
    for (bytes, loss) in [(8, 0.0), (8, 0.01), (200, 0.0), (2000, 0.0)] {
        let mut history = steady(9, 4, 10_000, bytes);
        // Three times, so that the source is channels ahead each time.
        history.pauses = vec![
            (2, 0, 3_000_000_000),
            (2, 5000, 1_000_000_000),
            (3, 7000, 1_000_000_000),
        ];
        history.network.loss = loss;
        history.network.depth = history.config.queue_depth() as usize;
        let world = run(history);
        let deepest = world.nodes.iter().map(|node| node.deepest).max().unwrap();
        println!(
            "{bytes} bytes, loss {loss}: {deepest} datagrams in a queue, {} ns",
            world.now
        );
        assert_eq!(world.overflows(), 0);
    }
}

#[test]
fn queues_of_the_promised_depth_never_overflow_where_nothing_is_lost() {
    let mut most = 0;
    for seed in part_of_seeds(12, 300) {
        let mut history = any(4_000_000 + seed, 2 + (seed % 28) as u32);
        let poor = simulator::network::Settings {
            latency: 5_000,
            per_byte: 0.1,
            ..Default::default()
        };
        history.network = poor;
        history
            .pauses
            .iter_mut()
            .for_each(|pause| pause.2 = pause.2.min(50_000_000));
        history.network.depth = history.config.queue_depth() as usize;
        let world = run(history);
        assert_eq!(world.overflows(), 0, "seed {seed}");
        let data = world.nodes.iter().map(|node| node.deepest_data).max();
        assert!(
            data <= Some(world.history.config.window as usize),
            "seed {seed}"
        );
        let control = |node: &simulator::node::Node| {
            node.deepest
                .saturating_sub(world.history.config.window as usize)
        };
        most = most.max(world.nodes.iter().map(control).max().unwrap());
    }
    println!("at most {most} datagrams beyond the window in a queue");
}

#[test]
fn overflowing_queues_lose_nothing_in_the_end() {
    let mut overflows = 0;
    for seed in part_of_seeds(4, 200) {
        let mut history = any(5_000_000 + seed, 2 + (seed % 8) as u32);
        history.network.depth = 4;
        overflows += run(history).overflows();
    }
    assert!(overflows > 1000, "{overflows}");
}

#[test]
fn without_reliability_only_channels_are_synchronised() {
    for seed in part_of_seeds(4, 200) {
        let mut history = any(6_000_000 + seed, 1 + (seed % 9) as u32);
        history.config.reliable = false;
        let settings = simulator::network::Settings {
            latency: 5_000,
            depth: 1000,
            ..Default::default()
        };
        history.network = settings;
        let world = run(history);
        assert_eq!(world.total(|counters| counters.nacks_sent), 0);
        assert_eq!(
            world.total(|counters| counters.multicast_retransmissions),
            0
        );
    }
}

#[test]
fn a_crashed_member_is_named_within_the_bound() {
    let timeout = 100_000_000;
    for seed in part_of_seeds(4, 200) {
        let members = 2 + (seed % 20) as u32;
        let mut history = steady(seed, members, 3000, 8);
        let mut random = Random(seed);
        for call in &mut history.calls {
            *call = Call {
                source: random.below(members.into()) as u32,
                bytes: random.below(900) as usize,
            };
        }
        history.config.timers.peer_timeout = NonZeroU64::new(timeout);
        let (member, at) = (random.below(members.into()) as u32, random.below(1_000_000));
        history.crash = Some((member, at));
        let mut world = World::new(history);
        let end = world.run();
        assert!(
            matches!(end, End::Failed(_, Failure::Unresponsive { member: named }) if named == member),
            "{end:?}, member {member} crashed: seed {seed}"
        );
        assert!(
            world.now < at + 3 * timeout,
            "{} after {at}: seed {seed}",
            world.now
        );
    }
}

#[test]
fn who_answers_is_not_blamed() {
    for seed in part_of_seeds(12, 300) {
        let mut history = any(7_000_000 + seed, 2 + (seed % 20) as u32);
        history.config.timers.peer_timeout = NonZeroU64::new(200_000_000);
        history.config.timers.longest = 10_000_000;
        history.network.loss = history.network.loss.min(0.05);
        // Many short computations: members are silent towards most others for longer than the bound.
        for call in 0..history.calls.len() {
            history
                .pauses
                .push((call as u32 % history.config.members, call, 20_000_000));
        }
        for pause in &mut history.pauses {
            pause.2 = pause.2.min(20_000_000);
        }
        run(history);
    }
}

#[test]
fn datagrams_of_other_sessions_are_ignored() {
    let mut history = steady(12, 5, 2000, 100);
    history.network.stale = 0.5;
    history.network.loss = 0.05;
    let world = run(history);
    assert!(world.total(|counters| counters.ignored) > 2000);
}

#[test]
#[ignore = "a long run with many seeds"]
fn soak() {
    for seed in 0..30_000 {
        run(any(10_000_000 + seed, 1 + (seed % 9) as u32));
    }
    for seed in 0..2_000 {
        run(any(20_000_000 + seed, 10 + (seed % 31) as u32));
    }
}

#[test]
fn disagreeing_calls_are_found() {
    let mut history = steady(11, 3, 4, 8);
    history.config.checksum = ferrorail_multicast::Checksum::Crc32c;
    history.network.loss = 0.2;
    let mut world = World::new(history);
    world.nodes[1].disagree(
        2,
        Call {
            source: 0,
            bytes: 9,
        },
    );
    let end = world.run();
    assert_eq!(
        end,
        End::Failed(
            1,
            Failure::Mismatch {
                message: 3,
                member: 0
            }
        )
    );
    // The others wait for a member that gives up no longer than until they hear of it.
    let mut told = [false, true, false];
    while told != [true; 3] {
        match world.run() {
            End::Failed(1, _) => {}
            End::Failed(member, Failure::GaveUp { .. }) => told[member as usize] = true,
            end => panic!("{end:?}, told {told:?}"),
        }
    }
}
