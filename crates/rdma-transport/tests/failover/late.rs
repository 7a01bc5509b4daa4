//! What a lane that broke may still deliver.

use super::side::sides;
use super::support::{at, slice, until};
use super::{NEVER, settings};
use crate::conformance::Rails;
use ferrorail_base::RailId;
use ferrorail_base::sync::{Ordering, yield_now};
use ferrorail_fabric::{Op, Tracking};
use std::time::{Duration, Instant};

/// A put that nothing proves to have arrived may still land, on top of what is written after it. It is
/// done again, and so counts as done, only when the peer has ended the lane.
#[test]
fn a_plain_put_is_done_again_when_it_can_no_longer_land() {
    let (left, right) = sides(&settings("loop0:down"), &settings(NEVER));
    let theirs = left.theirs.as_ref().unwrap();
    left.mine.0.word(0).store(77, Ordering::Release);
    let (from, to) = (slice(&left.mine.1, 0, 8), at(theirs, 0));
    // SAFETY: both live until the fabrics are gone, and the source stays as it is.
    let put = left.post(|fabric| unsafe {
        fabric.post(left.peer, RailId(0), &Op::put(from, to), Tracking::Tracked)
    });
    let put = put.unwrap();
    let step = || {
        left.fabric.progress().unwrap();
        yield_now();
    };
    until(|| {
        step();
        left.events()[0] > 0
    });
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(150) {
        step();
        assert!(
            !left.fabric.is_complete(put).unwrap(),
            "the peer heard nothing"
        );
    }
    assert_eq!(right.inbox.0.word(0).load(Ordering::Acquire), 0);
    until(|| {
        step();
        right.fabric.progress().unwrap();
        left.fabric.is_complete(put).unwrap()
    });
    assert_eq!(right.inbox.0.word(0).load(Ordering::Acquire), 77);
}
