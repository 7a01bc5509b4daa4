//! What a thread wishes for.

use super::{Of, WISHES};
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
        assert!(window.add_wish(Of::One(Rank(1))).is_some());
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
    assert_eq!(first.add_wish(Of::One(Rank(1))), Some(true));
    assert_eq!(places(), [true]);
}

#[test]
fn all_of_a_window_are_one_wish_until_its_epoch_ends() {
    let (first, second) = (window(&Arc::default(), 1), window(&Arc::default(), 1));
    let wishes =
        || WISHES.with_borrow(|wishes| wishes.iter().map(|wish| wish.of).collect::<Vec<_>>());
    first.lock_all(false).expect("no lock yet");
    assert_eq!(wishes(), [Of::All(1)]);
    first.unlock_all().expect("nothing was used");
    first.lock_all(false).expect("no lock any more");
    assert_eq!(wishes(), [Of::All(2)], "the last epoch's");
    let stale = WISHES.with_borrow(|wishes| wishes[0].clone());
    assert!(stale.unfulfilled().is_some());
    first.unlock_all().expect("nothing was used");
    first.lock_all(false).expect("no lock any more");
    assert!(stale.unfulfilled().is_none(), "another epoch's locks");
    // Of the same window nobody waits for the others.
    first.await_earlier(Rank(1)).expect("nothing is waited for");
    assert!(first.held(Rank(1)).is_wanted());
    first.unlock_all().expect("nothing was used");
    second
        .await_earlier(Rank(1))
        .expect("nothing is waited for");
    assert_eq!(wishes(), []);
}
