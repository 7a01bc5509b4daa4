//! Buffers whose registrations outlive an operation.

use super::{forms, with_windows};
use ferrorail_base::Rank;
use ferrorail_base::config::{Registration, WindowSettings};
use ferrorail_base::runs::Piece;
use ferrorail_base::sync::Ordering;
use ferrorail_engine::{OneSided, Shape, Update};

/// Registrations kept, reused and evicted so far.
fn registrations(window: &OneSided) -> [u64; 3] {
    let counters = window.counters();
    [&counters.kept, &counters.reused, &counters.evicted]
        .map(|counter| counter.load(Ordering::Relaxed))
}

const BYTES: usize = 32 << 10;
const SHAPE: Shape<'static> = Shape::Dense(Piece {
    offset: 0,
    bytes: BYTES,
});

/// Puts `from` at the start of the other rank's memory.
fn send(window: &OneSided, from: *const u8) {
    let other = Rank(1 - window.rank().0);
    // SAFETY: the buffer outlives the window, in which there is room.
    unsafe { window.put(from, &SHAPE, other, 0, &SHAPE) }.expect("in an epoch");
    window.flush(other).expect("locked");
}

/// Replaces what follows that there, as an accumulation.
fn replace(window: &OneSided, from: *const u8) {
    let other = Rank(1 - window.rank().0);
    let (at, origin) = (BYTES as i64 / 8, (from, &SHAPE));
    // SAFETY: as above.
    let replaced =
        unsafe { window.accumulate(origin, None, other, at, &SHAPE, 1, Update::Replace) };
    replaced.expect("in an epoch");
}

/// `kept` is 1 if the program promises to leave its buffers where they are, else 0.
fn use_buffers(window: &OneSided, base: *mut u64, buffers: &[Vec<u8>; 3], kept: u64) {
    let [one, two, three] = buffers.each_ref().map(|buffer| buffer.as_ptr());
    window.lock_all(false).expect("no epoch");
    send(window, one);
    send(window, one);
    assert_eq!(registrations(window), [kept, kept, 0]);
    send(window, two);
    send(window, three);
    assert_eq!(registrations(window), [3 * kept, kept, kept]);
    // It was evicted.
    send(window, one);
    assert_eq!(registrations(window), [4 * kept, kept, 2 * kept]);
    // The window's own memory is registered anyway.
    send(window, base.wrapping_add(BYTES / 4).cast());
    assert_eq!(registrations(window)[1], kept + 1);
    send(window, three);
    // Accumulations combine in memory of the library's, from which puts go; nothing is read that is replaced.
    let before = registrations(window);
    replace(window, one);
    replace(window, one);
    let after = registrations(window);
    assert_eq!((after[0], after[1]), (before[0] + 1, before[1] + 1));
    window.unlock_all().expect("locked");
    window.fence(false).expect("no epoch");
    // SAFETY: nobody writes between these fences.
    let found = unsafe { std::slice::from_raw_parts(base.cast::<u8>(), 2 * BYTES) };
    let is = |part: &[u8], fill| part.iter().all(|byte| *byte == fill);
    assert!(is(&found[..BYTES], 3), "the last put");
    assert!(is(&found[BYTES..], 1), "accumulated");
    window.fence(true).expect("no epoch");
}

#[test]
fn buffers_stay_registered_as_far_as_is_promised() {
    let buffers = [1, 2, 3].map(|fill| vec![fill; BYTES]);
    for registration in [Registration::Operation, Registration::Keep] {
        let windows = WindowSettings {
            registration,
            registrations_max: 2,
            ..WindowSettings::default()
        };
        let kept = u64::from(registration == Registration::Keep);
        with_windows(2, &forms(1, windows), None, |window, _, base| {
            use_buffers(window, base, &buffers, kept);
        });
    }
}
