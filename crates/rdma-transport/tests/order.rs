//! What must follow an operation does not overtake it while failover does that one again.

#[allow(dead_code)]
mod conformance;

use conformance::Rails;
use conformance::memory::Memory;
use conformance::{Pair, at, process};
use ferrorail_base::RailId;
use ferrorail_base::config::{RailChoice, Settings};
use ferrorail_fabric::{FabricError, LaneId, Op, Transition};
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

/// Ends a's side of the lane to b on `rail`.
fn end(pair: &Pair<Failover>, rail: RailId) {
    let peer = pair.ab;
    let lane = LaneId { peer, rail };
    pair.a.inner().change_lane(lane, Transition::End).unwrap();
}

#[test]
fn an_addition_waits_for_a_put_whose_lane_ended() {
    let pair = Pair::new((open(1), open(2)));
    let rail = RailId(0);
    let (mut data, words, remote) = pair.memories(64, 4096);
    let result = Memory::shared(&pair.a, 64);
    data.fill(7);
    let put = pair.start(rail, &Op::put(data.slice(0, 8), at(&remote, 0)));
    let add = || {
        let op = Op::fetch_add(at(&remote, 64), 1, result.slice(0, 8), Some(put));
        pair.try_start(rail, &op)
    };
    end(&pair, rail);
    let refused = |added| matches!(added, Err(FabricError::WouldBlock));
    assert!(refused(add()), "another rail would overtake the put");
    assert_eq!((words.load(0), words.load(64)), (0, 0));
    pair.wait(&pair.a, put);
    assert_eq!(words.load(0), u64::from_ne_bytes([7; 8]), "done again");
    assert!(refused(add()), "nothing is left to follow");
    let op = Op::fetch_add(at(&remote, 64), 1, result.slice(0, 8), None);
    let added = pair.start(rail, &op);
    pair.wait(&pair.a, added);
    assert_eq!(words.load(64), 1);
}

#[test]
fn an_addition_goes_out_behind_a_put_under_way() -> Result<(), FabricError> {
    let pair = Pair::new((open(1), open(2)));
    let (mut data, words, remote) = pair.memories(64, 4096);
    let result = Memory::shared(&pair.a, 64);
    data.fill(7);
    let put = Op::put(data.slice(0, 8), at(&remote, 0));
    let put = pair.try_start(RailId(1), &put)?;
    let add = Op::fetch_add(at(&remote, 64), 1, result.slice(0, 8), Some(put));
    let added = pair.try_start(RailId(1), &add)?;
    pair.wait(&pair.a, added);
    assert_eq!(words.load(0), u64::from_ne_bytes([7; 8]));
    assert_eq!(words.load(64), 1);
    Ok(())
}

/// The second lane owes what it does again for the first, and is owed for when it ends as well.
#[test]
fn what_is_done_again_on_a_lane_that_ends_too_is_done_on_a_third() {
    let pair = Pair::new((open_with(1, 3), open_with(2, 3)));
    let (mut data, words, remote) = pair.memories(64, 4096);
    data.fill(7);
    let put = pair.start(RailId(0), &Op::put(data.slice(0, 8), at(&remote, 0)));
    let arrived = || words.load(0) != 0;
    for rail in [RailId(0), RailId(1)] {
        end(&pair, rail);
        // Where this process was kept from running, it may have arrived before the second lane ended.
        pair.until("doing it again", || {
            assert!(!pair.a.is_complete(put).unwrap() || arrived());
            pair.a.statistics().rails[rail.index()].resent > 0 || arrived()
        });
    }
    pair.wait(&pair.a, put);
    assert_eq!(words.load(0), u64::from_ne_bytes([7; 8]));
}
