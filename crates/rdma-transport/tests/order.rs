//! What must follow an operation does not overtake it while failover does that one again.

#[allow(dead_code)]
mod conformance;

use conformance::Rails;
use conformance::memory::Memory;
use conformance::{Pair, at, process, whole};
use ferrorail_base::RailId;
use ferrorail_base::config::{RailChoice, Settings};
use ferrorail_fabric::{FabricError, LaneId, Op, Tracking, Transition};
use ferrorail_rdma_transport::failover::Failover;
use ferrorail_rdma_transport::loopback::LoopbackTransport;
use std::sync::Arc;

/// Long enough for a lane to end while a put is under way.
const LATENCY_NS: u64 = 20_000_000;

fn open(index: u64) -> Failover {
    open_with(index, 2)
}

fn open_with(index: u64, rails: u8) -> Failover {
    let settings = Settings {
        loopback_latency_ns: LATENCY_NS,
        rails: RailChoice::Count(rails),
        rail_probe_ms: None,
        ..Settings::default()
    };
    let fabric = LoopbackTransport::open_as(process(index), &settings).unwrap();
    Failover::new(Arc::new(fabric), process(index), &settings)
}

#[test]
fn an_addition_waits_for_a_put_whose_lane_ended() {
    let pair = Pair::new((open(1), open(2)));
    let rail = RailId(0);
    let (mut data, result) = (Memory::shared(&pair.a, 64), Memory::shared(&pair.a, 64));
    let words = Memory::shared(&pair.b, 4096);
    let remote = pair.a.import(pair.ab, &words.region().description);
    let remote = remote.unwrap();
    data.fill(7);
    // SAFETY: all memory lives to the end, and is left alone until the tickets are complete.
    let (put, _) = pair.post(|| unsafe {
        let from = whole(&data, 0, 8);
        pair.a.post(
            pair.ab,
            rail,
            &Op::put(from, at(&remote, 0)),
            Tracking::Tracked,
        )
    });
    let add = || {
        let into = whole(&result, 0, 8);
        let op = Op::fetch_add(at(&remote, 64), 1, into, Some(put));
        // SAFETY: as above.
        unsafe { pair.a.post(pair.ab, rail, &op, Tracking::Tracked) }
    };
    pair.a
        .inner()
        .change_lane(
            LaneId {
                peer: pair.ab,
                rail,
            },
            Transition::End,
        )
        .unwrap();
    let refused = |added| matches!(added, Err(FabricError::WouldBlock));
    assert!(refused(add()), "another rail would overtake the put");
    assert_eq!((words.load(0), words.load(64)), (0, 0));
    pair.wait(&pair.a, put);
    assert_eq!(words.load(0), u64::from_ne_bytes([7; 8]), "done again");
    assert!(refused(add()), "nothing is left to follow");
    let (added, _) = pair.post(|| {
        let into = whole(&result, 0, 8);
        // SAFETY: as above.
        unsafe {
            pair.a.post(
                pair.ab,
                rail,
                &Op::fetch_add(at(&remote, 64), 1, into, None),
                Tracking::Tracked,
            )
        }
    });
    pair.wait(&pair.a, added);
    assert_eq!(words.load(64), 1);
}

#[test]
fn an_addition_goes_out_behind_a_put_under_way() -> Result<(), FabricError> {
    let pair = Pair::new((open(1), open(2)));
    let (mut data, result) = (Memory::shared(&pair.a, 64), Memory::shared(&pair.a, 64));
    let words = Memory::shared(&pair.b, 4096);
    let remote = pair.a.import(pair.ab, &words.region().description)?;
    data.fill(7);
    // SAFETY: all memory lives to the end, and is left alone until the tickets are complete.
    let added = unsafe {
        let (from, into) = (whole(&data, 0, 8), whole(&result, 0, 8));
        let to = at(&remote, 0);
        let put = pair
            .a
            .post(pair.ab, RailId(1), &Op::put(from, to), Tracking::Tracked)?;
        let op = Op::fetch_add(at(&remote, 64), 1, into, Some(put));
        pair.a.post(pair.ab, RailId(1), &op, Tracking::Tracked)?
    };
    pair.wait(&pair.a, added);
    assert_eq!(words.load(0), u64::from_ne_bytes([7; 8]));
    assert_eq!(words.load(64), 1);
    Ok(())
}

/// The second lane owes what it does again for the first, and is owed for when it ends as well.
#[test]
fn what_is_done_again_on_a_lane_that_ends_too_is_done_on_a_third() {
    let pair = Pair::new((open_with(1, 3), open_with(2, 3)));
    let mut data = Memory::shared(&pair.a, 64);
    let words = Memory::shared(&pair.b, 4096);
    let remote = pair.a.import(pair.ab, &words.region().description);
    let remote = remote.unwrap();
    data.fill(7);
    let (put, _) = pair.post(|| {
        let op = Op::put(whole(&data, 0, 8), at(&remote, 0));
        // SAFETY: all memory lives to the end, and is left alone until the ticket is complete.
        unsafe { pair.a.post(pair.ab, RailId(0), &op, Tracking::Tracked) }
    });
    let arrived = || words.load(0) != 0;
    for rail in [RailId(0), RailId(1)] {
        let peer = pair.ab;
        let lane = LaneId { peer, rail };
        pair.a.inner().change_lane(lane, Transition::End).unwrap();
        // Where this process was kept from running, it may have arrived before the second lane ended.
        pair.until("doing it again", || {
            assert!(!pair.a.is_complete(put).unwrap() || arrived());
            pair.a.statistics().rails[rail.index()].resent > 0 || arrived()
        });
    }
    pair.wait(&pair.a, put);
    assert_eq!(words.load(0), u64::from_ne_bytes([7; 8]));
}
