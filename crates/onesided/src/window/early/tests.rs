//! What a thread wishes for.

use super::WISHES;
use crate::lock::Mode;
use crate::window::by_rail::tests::window;
use crate::window::held::Held;
use ferrorail_base::Rank;
use std::sync::Arc;

#[test]
fn a_lock_is_wished_for_once() {
    let (first, second) = (window(&Arc::default(), 1), window(&Arc::default(), 1));
    for window in [&first, &second, &first] {
        window.held[1].set(Held::wanted(Mode::Exclusive));
        assert!(window.add_wish(Rank(1)).is_some());
    }
    let places = || {
        WISHES.with_borrow(|wishes| {
            wishes
                .iter()
                .map(|wish| wish.is_for(&first, Rank(1)))
                .collect::<Vec<_>>()
        })
    };
    // The last call's comes last.
    assert_eq!(places(), [false, true]);
    second.held[1].set(Held::NOTHING);
    assert_eq!(first.add_wish(Rank(1)), Some(true));
    assert_eq!(places(), [true]);
}
