//! Remote atomics towards each other.

use super::Rails;
use super::memory::Memory;
use super::{Pair, at, process, whole};
use ferrorail_fabric::{AtomicScope, FabricError, Op, Tracking};

/// Both sides add to one word at once; then a chain of compare-and-swaps.
pub fn atomics_exclude_each_other<F: Rails>(pair: &Pair<F>) {
    const ADDS: u64 = 200;
    if pair.a.attributes().atomics == AtomicScope::None {
        return;
    }
    let mut results = [Memory::shared(&pair.a, 64), Memory::shared(&pair.b, 64)];
    let mut words = Memory::shared(&pair.b, 4096);
    let description = words.region().description.clone();
    let (me, address) = pair.b.open_peer(process(2)).unwrap();
    pair.b.connect(me, &address).expect("connect to oneself");
    let sides = [(&pair.a, pair.ab), (&pair.b, me)];
    // Under AtomicScope::Rail only one device's operations exclude each other.
    for rail in pair.rails() {
        words.fill(0);
        std::thread::scope(|scope| {
            for ((fabric, peer), result) in sides.into_iter().zip(&results) {
                let description = &description;
                scope.spawn(move || {
                    let remote = fabric.import(peer, description).unwrap();
                    let mut previous = None;
                    for _ in 0..ADDS {
                        let (ticket, _) = pair.post(|| {
                            // SAFETY: `result` is not touched before the ticket completes.
                            unsafe {
                                let into = whole(result, 8, 8);
                                fabric.post(
                                    peer,
                                    rail,
                                    &Op::fetch_add(at(&remote, 64), 3, into, None),
                                    Tracking::Tracked,
                                )
                            }
                        });
                        pair.wait(fabric, ticket);
                        let old = result.load(8);
                        assert!(
                            previous < Some(old) && old % 3 == 0,
                            "{previous:?} then {old}"
                        );
                        previous = Some(old);
                    }
                });
            }
        });
        assert_eq!(words.load(64), 2 * ADDS * 3);
        let remote = pair.a.import(pair.ab, &description).unwrap();
        for (compare, swap, old) in [(0, 5, 0), (0, 6, 5), (5, u64::MAX, 5)] {
            let (ticket, _) = pair.post(|| {
                // SAFETY: the result is not touched before the ticket completes.
                unsafe {
                    let into = whole(&results[0], 16, 8);
                    pair.a.post(
                        pair.ab,
                        rail,
                        &Op::compare_swap(at(&remote, 128), compare, swap, into),
                        Tracking::Tracked,
                    )
                }
            });
            pair.wait(&pair.a, ticket);
            assert_eq!(results[0].load(16), old);
        }
        assert_eq!(words.load(128), u64::MAX);
    }
    results[0].give_back(&pair.a);
    results[1].give_back(&pair.b);
    words.give_back(&pair.b);
}

/// Who finds a word added to finds what was put before, though nobody waited for the put.
pub fn additions_follow_puts<F: Rails>(pair: &Pair<F>) {
    const ROUNDS: u8 = 200;
    if pair.a.attributes().atomics == AtomicScope::None {
        return;
    }
    let (mut data, mut result) = (Memory::shared(&pair.a, 64), Memory::shared(&pair.a, 64));
    let mut words = Memory::shared(&pair.b, 4096);
    let description = &words.region().description;
    let remote = pair.a.import(pair.ab, description).unwrap();
    for rail in pair.rails() {
        words.fill(0);
        for round in 1..=ROUNDS {
            data.fill(round);
            let (put, _) = pair.post(|| {
                let from = whole(&data, 0, 8);
                // SAFETY: the source is left alone until the addition behind it is complete.
                unsafe {
                    pair.a.post(
                        pair.ab,
                        rail,
                        &Op::put(from, at(&remote, 0)),
                        Tracking::Tracked,
                    )
                }
            });
            let (added, _) = pair.post(|| {
                let into = whole(&result, 0, 8);
                let post = |behind| {
                    let op = Op::fetch_add(at(&remote, 64), 1, into, behind);
                    // SAFETY: the result is not touched before the ticket completes.
                    unsafe { pair.a.post(pair.ab, rail, &op, Tracking::Tracked) }
                };
                match post(Some(put)) {
                    Err(FabricError::WouldBlock) if pair.a.is_complete(put)? => post(None),
                    posted => posted,
                }
            });
            pair.until("the addition", || words.load(64) == u64::from(round));
            assert_eq!(words.load(0), u64::from_ne_bytes([round; 8]));
            pair.wait(&pair.a, added);
            assert_eq!(result.load(0), u64::from(round) - 1);
        }
    }
    data.give_back(&pair.a);
    result.give_back(&pair.a);
    words.give_back(&pair.b);
}
