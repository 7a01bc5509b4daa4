//! Calls that fail while a get of theirs is under way.

use super::*;
use crate::lock::Mode;
use crate::window::by_rail::tests::{Narrow, window};
use crate::window::outstanding::{After, Buffer};
use crate::window::{Shape, Update};
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::RAILS_MAX;
use std::sync::Arc;

const TARGET: Rank = Rank(1);

#[test]
fn what_a_failed_call_lent_is_not_written_to() {
    let fabric = Arc::new(Narrow::default());
    fabric.holds_gets.store(true, Ordering::Relaxed);
    let window = window(&fabric, 1);
    window
        .lock(TARGET, Mode::Exclusive, true)
        .expect("no lock yet");
    let (one, mut result) = (1u64, 0u64);
    let (origin, into) = (
        (&raw const one).cast::<u8>(),
        (&raw mut result).cast::<u8>(),
    );
    // SAFETY: eight bytes each.
    let swapped = unsafe { window.compare_and_swap(origin, origin, into, TARGET, 0, 8) };
    swapped.expect_err("nobody answers");
    let rails = window.rails();
    let all_go_nowhere = || {
        let outstanding = rails.outstanding();
        let mut pending = outstanding.pending.iter();
        pending.all(|one| matches!(one.after, After::CopyOut { bytes: 0, .. }))
    };
    assert!(rails.busy_target(&mut None).is_some() && all_go_nowhere());
    let (shape, replace) = (Shape::bytes_at(0, 8), Update::Replace);
    // SAFETY: as above.
    let accumulated = unsafe {
        window.accumulate(
            (origin, &shape),
            Some((into, &shape)),
            TARGET,
            0,
            &shape,
            8,
            replace,
        )
    };
    accumulated.expect_err("nobody answers");
    assert!(all_go_nowhere());
    fabric.holds_gets.store(false, Ordering::Relaxed);
    rails.progress().expect("gets complete");
    assert_eq!((result, rails.busy_target(&mut None)), (0, None));
    assert_eq!(
        rails.outstanding().free,
        u64::MAX,
        "all slots are free again"
    );
}

#[test]
fn only_memory_that_a_rail_may_reach_is_left_to_it() {
    let window = window(&Arc::default(), 1);
    let failed = || Err::<(), _>(WindowError::Attachment("on purpose"));
    let mut memory = vec![1u8; 8];
    window
        .lending_heap(&mut memory, |_| failed())
        .expect_err("on purpose");
    assert_eq!(memory, [1; 8], "nothing is under way");
    let nothing = [None; RAILS_MAX];
    let direct = After::GiveBack(Buffer::Segment);
    window
        .rails()
        .outstanding()
        .begin_all(TARGET, nothing, direct);
    window
        .lending_heap(&mut memory, |_| failed())
        .expect_err("on purpose");
    assert!(memory.is_empty());
    window.rails().progress().expect("nothing fails");
}
