//! Joining peers, counters, a process as its own peer, and giving back.

use super::Rails;
use super::memory::Memory;
use super::{Pair, at, process, whole};
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
    let mut source = Memory::shared(&pair.a, 4096);
    let mut target = Memory::shared(&pair.b, 4096);
    let remote = pair
        .a
        .import(pair.ab, &target.region().description)
        .unwrap();
    for rail in pair.rails() {
        let before = pair.a.counters(rail);
        assert_eq!((before.messages, before.bytes), (0, 0));
        let word = at(&remote, 0);
        let mut last = None;
        for bytes in [1000, 0] {
            let notification = Notification { word, value: 1 };
            let (from, to) = (whole(&source, 0, bytes), at(&remote, 8));
            let post = || {
                // SAFETY: `source` is not written again.
                unsafe {
                    let tracking = Tracking::Tracked;
                    pair.a
                        .post(pair.ab, rail, &Op::notify(from, to, notification), tracking)
                }
            };
            last = Some(pair.post(post).0);
        }
        pair.wait(&pair.a, last.unwrap());
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
    source.give_back(&pair.a);
    target.give_back(&pair.b);
}

pub fn a_process_reaches_itself<F: Rails>(pair: &Pair<F>) {
    let mut memory = Memory::shared(&pair.a, 8192);
    let (me, address) = pair.a.open_peer(process(1)).unwrap();
    pair.a.connect(me, &address).expect("connect to oneself");
    let remote = pair.a.import(me, &memory.region().description).unwrap();
    for rail in pair.rails() {
        memory.fill_pattern(u64::from(rail.0));
        let notification = Notification {
            word: at(&remote, 8184),
            value: 0x1234_5678_9abc_def0,
        };
        let (ticket, _) = pair.post(|| {
            // SAFETY: the source half is not written before the ticket completes.
            unsafe {
                let (from, to) = (whole(&memory, 0, 4000), at(&remote, 4096));
                pair.a.post(
                    me,
                    rail,
                    &Op::notify(from, to, notification),
                    Tracking::Tracked,
                )
            }
        });
        pair.wait(&pair.a, ticket);
        pair.until("own notification", || {
            memory.load(8184) == 0x1234_5678_9abc_def0
        });
        assert_eq!(memory.read(4096, 4000), memory.read(0, 4000));
    }
    memory.give_back(&pair.a);
}

pub fn memory_is_given_back<F: Rails>(pair: &Pair<F>) {
    for _ in 0..200 {
        let mut memory = Memory::shared(&pair.a, 1 << 16);
        let imported = pair
            .b
            .import(pair.ba, &memory.region().description)
            .unwrap();
        pair.b.release(pair.ba, imported);
        memory.give_back(&pair.a);
    }
}

pub fn bad_peer_data_is_refused<F: Rails>(pair: &Pair<F>) {
    let mut memory = Memory::shared(&pair.b, 4096);
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
    memory.give_back(&pair.b);
}
