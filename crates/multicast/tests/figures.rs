//! What the protocol costs in time: the added time of a loss, channels and members (Yu et al., figures 8
//! and 10), in virtual time, so that the numbers are the same on every machine.

mod simulator;

use ferrorail_test_extent::takes_all;
use simulator::World;
use simulator::histories::{run, steady};

/// Virtual nanoseconds of one broadcast in a loop, at the source.
fn per_broadcast(world: &World) -> u64 {
    let times = &world.nodes[0].times;
    (times[times.len() - 1].1 - times[100].0) / (times.len() as u64 - 100)
}

/// The paper's network: 8 bytes take 7 us from memory to memory, 5 of them in the hosts (700 MHz).
fn paper(members: u32, channels: u32) -> World {
    let mut history = steady(1, members, 1100, 8);
    history.config.channels = channels;
    history.network.latency = 2_000;
    history.costs = (1_500, 3_500);
    run(history)
}

#[test]
fn channels_amortise_the_synchronisation() {
    let times =
        [2, 4, 8, 16, 32, 64].map(|channels| (channels, per_broadcast(&paper(8, channels))));
    for (channels, time) in times {
        println!("{channels} channels, 8 members, 8 bytes: {time} ns a broadcast");
    }
    assert!(
        times[0].1 > 3 * times[3].1,
        "2 against 16 channels: {times:?}"
    );
}

#[test]
fn latency_hardly_depends_on_the_number_of_members() {
    let times =
        [2, 4, 8, 16, 32, 64, 128].map(|members| (members, per_broadcast(&paper(members, 16))));
    for (members, time) in times {
        println!("{members} members, 16 channels, 8 bytes: {time} ns a broadcast");
    }
    assert!(2 * times[6].1 <= 3 * times[0].1, "{times:?}");
}

/// From the source's call to the last receiver's return, in nanoseconds.
fn slowest(world: &World, call: usize) -> u64 {
    let ends = world.nodes.iter().map(|node| node.times[call].1);
    ends.max().unwrap() - world.nodes[world.history.calls[call].source as usize].times[call].0
}

#[test]
fn one_lost_packet_costs_less_than_five_round_trips() {
    for members in [2, 8, 32] {
        for (bytes, alone) in [(8, true), (8, false), (2000, false)] {
            let make = |lose| {
                let mut history = steady(3, members, 200, bytes);
                history.network.per_byte = 0.1;
                if alone {
                    // Each has another source, so that nothing later of the same one tells of the loss.
                    for (call, turn) in history.calls.iter_mut().zip(0..) {
                        call.source = turn % members;
                    }
                }
                history.network.lose_one = lose;
                run(history)
            };
            let good = make(None);
            let fragments = u64::from(good.history.config.fragments(bytes));
            let mut added = Vec::new();
            for call in (100..190).step_by(if takes_all() { 3 } else { 30 }) {
                let lost = call as u64 * fragments + call as u64 % fragments;
                let source = good.history.calls[call].source;
                let bad = make(Some((lost, (source + 1) % members)));
                added.push(slowest(&bad, call).saturating_sub(slowest(&good, call)));
            }
            added.sort_unstable();
            let (median, round_trip) = (added[added.len() / 2], 10_000 + 400);
            println!(
                "{members} members, {bytes} bytes, alone {alone}: median {:.1}, most {:.1} round trips",
                median as f64 / round_trip as f64,
                *added.last().unwrap() as f64 / round_trip as f64
            );
            assert!(median < 5 * round_trip, "{added:?}");
            assert!(added.iter().any(|&time| time > 0), "nothing was lost");
        }
    }
}
