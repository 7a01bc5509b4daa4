//! Puts, notifications and gets: data, order, completion, back-pressure.

use super::Rails;
use super::memory::Memory;
use super::{Pair, at};
use ferrorail_base::RailId;
use ferrorail_fabric::{FabricError, Notification, Op, RemoteRegion, Tracking};

/// 1 B to 1 MB, odd sizes and offsets; the bytes around the target stay as they were.
pub fn puts_of_every_size_arrive_and_stay_inside<F: Rails>(pair: &Pair<F>) {
    const GUARD: usize = 64;
    let (mut source, mut target, remote) = pair.memories((1 << 20) + GUARD, (1 << 20) + 2 * GUARD);
    for rail in pair.rails() {
        for bytes in [1, 2, 7, 8, 63, 64, 65, 1000, 4096, 4097, 65_537, 1 << 20] {
            let (from, to) = (bytes % GUARD, GUARD - bytes % 3);
            source.fill_pattern(bytes as u64 + u64::from(rail.0));
            target.fill(0xa5);
            pair.carry(rail, &Op::put(source.slice(from, bytes), at(&remote, to)));
            pair.until("arrival", || {
                target.read(to, bytes) == source.read(from, bytes)
            });
            let after = to + bytes;
            for around in [0..to, after..target.bytes()] {
                let around = target.read(around.start, around.len());
                assert!(around.iter().all(|&byte| byte == 0xa5));
            }
        }
    }
    pair.a.release(pair.ab, remote);
}

/// More messages than any queue holds: notification i+1 shows every slot up to i.
pub fn notifications_follow_their_data<F: Rails>(pair: &Pair<F>) -> usize {
    const MESSAGES: usize = 3000;
    const SLOT: usize = 64;
    let word = MESSAGES * SLOT;
    let (mut source, mut target, remote) = pair.memories(MESSAGES * SLOT, MESSAGES * SLOT + 64);
    let mut refused = 0;
    for rail in pair.rails() {
        source.fill_pattern(99 + u64::from(rail.0));
        target.fill(0);
        let mut checked = 0;
        let check = |checked: &mut usize| {
            let arrived = target.load(word) as usize;
            assert!(
                arrived >= *checked && arrived <= MESSAGES,
                "notification {arrived}"
            );
            let (from, bytes) = (*checked * SLOT, (arrived - *checked) * SLOT);
            assert_eq!(
                target.read(from, bytes),
                source.read(from, bytes),
                "data after its word"
            );
            *checked = arrived;
        };
        let notify = |from, to, value| {
            let word = at(&remote, word);
            Op::notify(from, at(&remote, to), Notification { word, value })
        };
        let mut last = None;
        for i in 0..MESSAGES {
            let op = notify(source.slice(i * SLOT, SLOT), i * SLOT, i as u64 + 1);
            let (ticket, full) = pair.post((&pair.a, pair.ab), rail, &op, Tracking::Tracked);
            refused += full;
            last = Some(ticket);
            check(&mut checked);
        }
        pair.wait(&pair.a, last.unwrap());
        pair.until("last notification", || {
            check(&mut checked);
            checked == MESSAGES
        });
        pair.carry(rail, &notify(source.slice(0, 0), 0, u64::MAX));
        pair.until("notification without data", || {
            target.load(word) == u64::MAX
        });
    }
    pair.a.release(pair.ab, remote);
    refused
}

/// A payload that covers the word of its own notification leaves the notification's value there.
pub fn a_notification_is_stored_last<F: Rails>(pair: &Pair<F>) {
    const BYTES: usize = 1 << 16;
    let (mut source, mut target, remote) = pair.memories(BYTES, BYTES);
    source.fill(0x5a);
    for rail in pair.rails() {
        for (bytes, word) in [(8, 0), (64, 56), (BYTES, BYTES / 2), (BYTES, BYTES - 8)] {
            target.fill(0);
            let notification = Notification {
                word: at(&remote, word),
                value: 77,
            };
            let op = Op::notify(source.slice(0, bytes), at(&remote, 0), notification);
            pair.carry(rail, &op);
            pair.until("notification", || target.load(word) == 77);
            assert_eq!(target.read(0, word), vec![0x5a; word]);
            let rest = bytes - word - 8;
            assert_eq!(target.read(word + 8, rest), vec![0x5a; rest]);
        }
    }
    pair.a.release(pair.ab, remote);
}

/// Who sees the word sees the put before it, though nobody waited for that.
pub fn an_ordered_put_follows_what_was_put_before<F: Rails>(pair: &Pair<F>) {
    const ROUNDS: u64 = 100;
    const BYTES: usize = 10_000;
    let (mut source, mut target, remote) = pair.memories(BYTES + 8, BYTES + 8);
    for rail in pair.rails() {
        target.fill(0);
        for round in 1..=ROUNDS {
            source.fill_pattern(round);
            let word = source.load(BYTES);
            pair.start(rail, &Op::put(source.slice(0, BYTES), at(&remote, 0)));
            let ordered = Op::ordered(source.slice(BYTES, 8), at(&remote, BYTES));
            let ordered = pair.start(rail, &ordered);
            pair.until("the word", || target.load(BYTES) == word);
            assert_eq!(target.read(0, BYTES), source.read(0, BYTES));
            pair.wait(&pair.a, ordered);
        }
        let empty = Op::ordered(source.slice(0, 0), at(&remote, 0));
        pair.carry(rail, &empty);
    }
    pair.a.release(pair.ab, remote);
}

/// Of any length, the flag alone too.
pub fn eager_messages_arrive_whole<F: Rails>(pair: &Pair<F>) {
    let (mut source, mut target, remote) = pair.memories(1024, 1024);
    for rail in pair.rails() {
        for bytes in [8, 16, 24, 31, 64, 72, 576] {
            source.fill_pattern(bytes as u64);
            target.fill(0);
            let (from, to) = (1024 - bytes, 1016 - bytes);
            let op = Op::eager(source.slice(from, bytes), at(&remote, to), 1);
            pair.carry(rail, &op);
            pair.until("the message", || {
                target.read(to, bytes) == source.read(from, bytes)
            });
            let rest = target.bytes() - to - bytes;
            assert_eq!(target.read(to + bytes, rest), vec![0; rest]);
            assert_eq!(target.read(0, to), vec![0; to]);
        }
    }
    pair.a.release(pair.ab, remote);
}

pub fn gets_read_what_is_there<F: Rails>(pair: &Pair<F>) {
    let (mut here, mut there, remote) = pair.memories(1 << 18, 1 << 18);
    for rail in pair.rails() {
        for bytes in [1, 8, 100, 4097, 1 << 17] {
            there.fill_pattern(bytes as u64);
            here.fill(0);
            pair.carry(rail, &Op::get(at(&remote, 33), here.slice(16, bytes)));
            assert_eq!(here.read(16, bytes), there.read(33, bytes));
            assert_eq!(here.read(16 + bytes, 16), [0; 16]);
        }
    }
}

/// A region that travelled as an announcement, without import.
pub fn announced_private_memory_is_reachable<F: Rails>(pair: &Pair<F>) {
    if !pair.a.attributes().reaches_private_memory() {
        return;
    }
    let mut source = Memory::private(&pair.a, 8192);
    let mut target = Memory::private(&pair.b, 8192);
    let remote = RemoteRegion::from_wire(&RemoteRegion::of(target.region()).to_wire());
    for rail in pair.rails() {
        source.fill_pattern(u64::from(rail.0));
        target.fill(0);
        pair.carry(rail, &Op::put(source.slice(0, 8000), at(&remote, 100)));
        pair.until("arrival", || target.read(100, 8000) == source.read(0, 8000));
    }
}

pub fn a_tracked_operation_completes_the_silent_ones_before_it<F: Rails>(pair: &Pair<F>) {
    let (mut source, target, remote) = pair.memories(4096, 4096);
    source.fill_pattern(5);
    for rail in pair.rails() {
        let mut tickets = Vec::new();
        for i in 0..32 {
            let tracking = if i == 31 {
                Tracking::Tracked
            } else {
                Tracking::Silent
            };
            let op = Op::put(source.slice(i * 128, 128), at(&remote, i * 128));
            let (ticket, _) = pair.post((&pair.a, pair.ab), rail, &op, tracking);
            tickets.push(ticket);
        }
        assert!(
            tickets
                .windows(2)
                .all(|two| two[1].sequence == two[0].sequence + 1)
        );
        assert_eq!((tickets[0].sequence, tickets[0].rail), (1, rail));
        pair.wait(&pair.a, tickets[31]);
        assert!(
            tickets
                .iter()
                .all(|&ticket| pair.a.is_complete(ticket).unwrap())
        );
    }
    pair.until("arrival", || target.read(0, 4096) == source.read(0, 4096));
}

/// Four threads post to one peer on every rail at once; each sees its own tickets complete.
pub fn threads_share_a_fabric<F: Rails>(pair: &Pair<F>) {
    const THREADS: usize = 4;
    const MESSAGES: usize = 300;
    const SLOT: usize = 16;
    const BYTES: usize = THREADS * MESSAGES * SLOT;
    let (mut source, target, remote) = pair.memories(BYTES, BYTES);
    source.fill_pattern(11);
    let rails: Vec<RailId> = pair.rails().collect();
    let mut sequences: Vec<(RailId, u64)> = Vec::new();
    let post_all = |thread: usize| {
        let mut tickets = Vec::new();
        for message in 0..MESSAGES {
            let offset = (thread * MESSAGES + message) * SLOT;
            let op = Op::put(source.slice(offset, SLOT), at(&remote, offset));
            tickets.push(pair.start(rails[message % rails.len()], &op));
        }
        for &ticket in &tickets {
            pair.wait(&pair.a, ticket);
        }
        tickets
    };
    let post_all = &post_all;
    std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || post_all(thread)));
        for thread in threads {
            let tickets = thread.join().expect("a posting thread");
            sequences.extend(tickets.iter().map(|ticket| (ticket.rail, ticket.sequence)));
        }
    });
    sequences.sort();
    sequences.dedup();
    assert_eq!(sequences.len(), THREADS * MESSAGES, "tickets are unique");
    pair.until("arrival", || target.read(0, BYTES) == source.read(0, BYTES));
}

/// One small put from a to b and its completion, or the error it ended with.
#[allow(dead_code)] // Not every fabric's tests need it.
pub fn put_arrives<F: Rails>(pair: &Pair<F>, rail: RailId) -> Result<(), FabricError> {
    put_with(pair, rail, |_| {})
}

/// The error of a put to memory that the target never offered under that key.
#[allow(dead_code)] // As above.
pub fn put_with_wrong_key<F: Rails>(pair: &Pair<F>, rail: RailId) -> FabricError {
    let spoil = |region: &mut RemoteRegion| {
        for key in &mut region.rkeys {
            *key ^= 0x5a5a_5a00;
        }
    };
    put_with(pair, rail, spoil).expect_err("a wrong key")
}

fn put_with<F: Rails>(
    pair: &Pair<F>,
    rail: RailId,
    change: impl FnOnce(&mut RemoteRegion),
) -> Result<(), FabricError> {
    let mut source = Memory::private(&pair.a, 4096);
    let target = Memory::private(&pair.b, 4096);
    source.fill_pattern(1);
    let mut remote = RemoteRegion::of(target.region());
    change(&mut remote);
    let op = Op::put(source.slice(0, 4096), at(&remote, 0));
    let ticket = pair.try_start(rail, &op)?;
    while !pair.a.is_complete(ticket)? {
        pair.a.progress()?;
        pair.b.progress()?;
    }
    pair.until("arrival", || target.read(0, 4096) == source.read(0, 4096));
    Ok(())
}
