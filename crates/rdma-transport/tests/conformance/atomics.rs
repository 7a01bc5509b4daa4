//! Remote atomics towards each other.

use super::Rails;
use super::memory::Memory;
use super::{Pair, at, process};
use ferrorail_fabric::{AtomicScope, FabricError, Op, Tracking};

/// Both sides add to one word at once; then a chain of compare-and-swaps.
pub fn atomics_exclude_each_other<F: Rails>(pair: &Pair<F>) {
    const ADDS: u64 = 200;
    if pair.a.attributes().atomics == AtomicScope::None {
        return;
    }
    let results = [Memory::shared(&pair.a, 64), Memory::shared(&pair.b, 64)];
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
                    let add = Op::fetch_add(at(&remote, 64), 3, result.slice(8, 8), None);
                    let mut previous = None;
                    for _ in 0..ADDS {
                        let (ticket, _) = pair.post((fabric, peer), rail, &add, Tracking::Tracked);
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
            let into = results[0].slice(16, 8);
            pair.carry(
                rail,
                &Op::compare_swap(at(&remote, 128), compare, swap, into),
            );
            assert_eq!(results[0].load(16), old);
        }
        assert_eq!(words.load(128), u64::MAX);
    }
}

/// Who finds a word added to finds what was put before, though nobody waited for the put.
pub fn additions_follow_puts<F: Rails>(pair: &Pair<F>) {
    const ROUNDS: u8 = 200;
    if pair.a.attributes().atomics == AtomicScope::None {
        return;
    }
    let (mut data, mut words, remote) = pair.memories(64, 4096);
    let result = Memory::shared(&pair.a, 64);
    for rail in pair.rails() {
        words.fill(0);
        for round in 1..=ROUNDS {
            data.fill(round);
            let put = pair.start(rail, &Op::put(data.slice(0, 8), at(&remote, 0)));
            let post = |behind| {
                let into = result.slice(0, 8);
                pair.try_start(rail, &Op::fetch_add(at(&remote, 64), 1, into, behind))
            };
            let (added, _) = pair.retry(|| match post(Some(put)) {
                Err(FabricError::WouldBlock) if pair.a.is_complete(put)? => post(None),
                posted => posted,
            });
            pair.until("the addition", || words.load(64) == u64::from(round));
            assert_eq!(words.load(0), u64::from_ne_bytes([round; 8]));
            pair.wait(&pair.a, added);
            assert_eq!(result.load(0), u64::from(round) - 1);
        }
    }
}
