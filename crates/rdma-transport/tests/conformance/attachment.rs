//! Joining peers, counters, a process as its own peer, and giving back.

use super::Rails;
use super::memory::Memory;
use super::{Pair, at, process};
use ferrorail_fabric::{FabricError, Notification, Op, Tracking};

pub fn connecting_is_idempotent<F: Rails>(pair: &Pair<F>) {
    assert!(["loopback", "verbs"].contains(&pair.a.attributes().name));
    assert!(!pair.a.attributes().rails.is_empty());
    for (i, rail) in pair.a.attributes().rails.iter().enumerate() {
        assert!(!rail.name.is_empty());
        assert!(
            pair.a.attributes().rails[..i]
                .iter()
                .all(|other| other.name != rail.name)
        );
    }
    assert_eq!(pair.a.open_peer(process(2)).unwrap().0, pair.ab);
    assert_ne!(pair.a.open_peer(process(3)).unwrap().0, pair.ab);
    let opened = pair.b.open_peer(process(1)).unwrap();
    assert_eq!(pair.b.open_peer(process(1)).unwrap(), opened);
    let (_, address) = opened;
    pair.a.connect(pair.ab, &address).expect("a second connect");
}

pub fn counters_count_payload<F: Rails>(pair: &Pair<F>) {
    let (source, _target, remote) = pair.memories(4096, 4096);
    for rail in pair.rails() {
        let before = pair.a.counters(rail);
        assert_eq!((before.messages, before.bytes), (0, 0));
        let word = at(&remote, 0);
        for bytes in [1000, 0] {
            let (from, to) = (source.slice(0, bytes), at(&remote, 8));
            pair.carry(rail, &Op::notify(from, to, Notification { word, value: 1 }));
        }
        let after = pair.a.counters(rail);
        assert_eq!(
            (after.messages, after.bytes),
            (2, 1000),
            "a notification is no message"
        );
        assert_eq!(
            pair.b.counters(rail).messages,
            0,
            "the target posted nothing"
        );
    }
}

pub fn a_process_reaches_itself<F: Rails>(pair: &Pair<F>) {
    const VALUE: u64 = 0x1234_5678_9abc_def0;
    let mut memory = Memory::shared(&pair.a, 8192);
    let (me, address) = pair.a.open_peer(process(1)).unwrap();
    pair.a.connect(me, &address).expect("connect to oneself");
    let remote = pair.a.import(me, &memory.region().description).unwrap();
    for rail in pair.rails() {
        memory.fill_pattern(u64::from(rail.0));
        let notification = Notification {
            word: at(&remote, 8184),
            value: VALUE,
        };
        let op = Op::notify(memory.slice(0, 4000), at(&remote, 4096), notification);
        let (ticket, _) = pair.post((&pair.a, me), rail, &op, Tracking::Tracked);
        pair.wait(&pair.a, ticket);
        pair.until("own notification", || memory.load(8184) == VALUE);
        assert_eq!(memory.read(4096, 4000), memory.read(0, 4000));
    }
}

pub fn memory_is_given_back<F: Rails>(pair: &Pair<F>) {
    for _ in 0..200 {
        let memory = Memory::shared(&pair.a, 1 << 16);
        let imported = pair
            .b
            .import(pair.ba, &memory.region().description)
            .unwrap();
        pair.b.release(pair.ba, imported);
    }
}

pub fn bad_peer_data_is_refused<F: Rails>(pair: &Pair<F>) {
    let memory = Memory::shared(&pair.b, 4096);
    let description = &memory.region().description;
    let (_, address) = pair.b.open_peer(process(1)).unwrap();
    let (fresh, _) = pair.a.open_peer(process(9)).unwrap();
    for cut in [0, 1, 5] {
        let refused = pair.a.import(pair.ab, &description[..cut]);
        assert!(
            matches!(refused, Err(FabricError::BadPeerData { .. })),
            "{refused:?}"
        );
        let refused = pair
            .a
            .connect(fresh, &address[..cut.min(address.len() - 1)]);
        assert!(
            matches!(refused, Err(FabricError::BadPeerData { .. })),
            "{refused:?}"
        );
    }
}
