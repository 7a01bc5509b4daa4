//! Histories to start from, and running them to a good end.

use super::{Call, End, History, Random, World};
use ferrorail_multicast::Checksum;

/// Broadcasts of `bytes` from one source.
pub fn steady(seed: u64, members: u32, messages: usize, bytes: usize) -> History {
    let mut history = History::new(seed, members);
    history.network.latency = 5_000;
    history.network.depth = 100_000;
    history.calls = vec![Call { source: 0, bytes }; messages];
    history
}

/// A history in which anything may happen but crashes and failing paths.
pub fn any(seed: u64, members: u32) -> History {
    let mut random = Random(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) + 1);
    let mut history = History::new(seed, members);
    let config = &mut history.config;
    config.rails = random.between(1, 3) as u8;
    config.channels = random.one(&[2, 2, 3, 4, 8, 16, 16, 33, 64]);
    config.fragment_bytes = random.one(&[16, 64, 64, 200, 1000]);
    config.channel_bytes = config.fragment_bytes * random.between(1, 6) as usize;
    config.window = random.one(&[4, 8, 16, 64]);
    config.arity = random.between(2, 5) as u32;
    config.direct_nacks_up_to = random.one(&[4, 16]);
    config.timers.initial_round_trip = random.one(&[5_000, 50_000, 1_000_000]);
    history.overlap = random.between(1, 4) as usize;
    let network = &mut history.network;
    network.latency = random.one(&[1_000, 5_000, 20_000]);
    network.per_byte = 0.1;
    network.depth = 100_000;
    if random.below(5) > 0 {
        network.loss = random.one(&[0.0, 0.001, 0.01, 0.05, 0.3]);
        network.loss_at_sender = random.one(&[0.0, 0.0, 0.01, 0.1]);
        network.duplicate = random.one(&[0.0, 0.01, 0.2]);
        network.damage = random.one(&[0.0, 0.0, 0.01, 0.1]);
        network.reorder = random.one(&[0.0, 0.01, 0.3]);
        network.delay = random.one(&[2_000, 50_000, 5_000_000]);
        network.refuse = random.one(&[0.0, 0.1]);
        network.stale = random.one(&[0.0, 0.1]);
        if random.chance(0.2) {
            network.poor = Some((random.below(members.into()) as u32, 0.3));
        }
    }
    let checksums = [Checksum::Crc32c, Checksum::Additive, Checksum::None];
    config.checksum = random.one(&checksums[..if network.damage > 0.0 { 2 } else { 3 }]);
    let roots = random.below(3);
    let root = random.below(members.into()) as u32;
    let most = random.one(&[
        config.channel_bytes as u64,
        20 * config.fragment_bytes as u64,
    ]);
    for _ in 0..random.between(1, 60) {
        let source = if roots == 0 {
            root
        } else {
            random.below(members.into()) as u32
        };
        let bytes = random.below(most + 1) as usize;
        history.calls.push(Call { source, bytes });
    }
    if random.chance(0.1) {
        let call = random.below(history.calls.len() as u64) as usize;
        history.calls[call].bytes = random.between(1, 300) as usize * config.fragment_bytes;
    }
    for _ in 0..random.below(4) {
        let length = random.one(&[10_000, 1_000_000, 2_000_000_000]);
        let call = random.below(history.calls.len() as u64) as usize;
        history
            .pauses
            .push((random.below(members.into()) as u32, call, length));
    }
    history
}

/// Runs a history to its end, which must be a good one.
pub fn run(history: History) -> World {
    let (seed, messages) = (history.seed, history.calls.len());
    let fragments: u64 = history
        .calls
        .iter()
        .map(|c| u64::from(history.config.fragments(c.bytes)))
        .sum();
    let (members, channels) = (
        u64::from(history.config.members),
        history.config.channels as usize,
    );
    let overlap = history.overlap;
    let mut world = World::new(history);
    let end = world.run();
    if end != End::Done {
        for (me, node) in world.nodes.iter().enumerate() {
            eprintln!("member {me}: {:?} {:?}", node.finished, node.session);
        }
        panic!(
            "{end:?} at {} ns: seed {seed} {:?}",
            world.now, world.history
        );
    }
    let most = 3 * channels + overlap + 2;
    for node in &world.nodes {
        assert!(
            node.held_most <= most,
            "{} messages held: seed {seed}",
            node.held_most
        );
    }
    let bound = 40 * members * (fragments + messages as u64 + 20);
    let sent = world.datagrams();
    assert!(
        sent < bound,
        "{sent} datagrams for {fragments} fragments of {messages}: seed {seed}"
    );
    world
}
