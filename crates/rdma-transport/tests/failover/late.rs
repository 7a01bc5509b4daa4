//! What a lane that broke may still deliver.

use super::side::{drive, sides};
use super::support::until;
use super::{NEVER, settings};
use crate::conformance::Rails;
use ferrorail_base::sync::{Ordering, yield_now};
use std::time::{Duration, Instant};

/// A put that nothing proves to have arrived may still land, on top of what is written after it. It is
/// done again, and so counts as done, only when the peer has ended the lane.
#[test]
fn a_plain_put_is_done_again_when_it_can_no_longer_land() {
    let (left, right) = sides(&settings("loop0:down"), &settings(NEVER));
    left.mine.0.word(0).store(77, Ordering::Release);
    let put = left.put(left.theirs(), 0);
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
    assert_eq!(right.found(0), 0);
    let told = drive((&left, &right), || left.fabric.is_complete(put).unwrap());
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(right.found(0), 77);
}
