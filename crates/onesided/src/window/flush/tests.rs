//! Calls that wait while other threads go on starting operations.

use crate::window::by_rail::tests::{GET, Narrow, PEER, window};
use crate::window::outstanding::{After, Buffer};
use ferrorail_base::sync::Ordering;
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::Ticket;
use std::sync::Arc;

const TARGET: Rank = Rank(1);

#[test]
fn a_call_waits_for_what_was_begun_before_it() {
    let fabric = Arc::new(Narrow::default());
    let window = window(&fabric, 1);
    let rails = window.rails();
    let hold = |holds| fabric.holds_gets.store(holds, Ordering::Relaxed);
    let begin = || {
        let ticket = Ticket {
            peer: PEER,
            rail: RailId(0),
            sequence: GET,
        };
        let buffer = After::GiveBack(Buffer::Segment);
        rails.outstanding().begin(TARGET, ticket, buffer);
    };
    let (mut whole, mut here, mut all, mut users) = (None, None, None, None);
    let mut done = || {
        [
            rails.is_idle(TARGET, &mut whole).expect("nothing fails"),
            rails.is_idle_here(TARGET, &mut here).expect("as above"),
            rails.busy_target(&mut all).is_none(),
            rails.user_of_buffers(&mut users).is_none(),
        ]
    };
    hold(true);
    begin();
    assert_eq!(done(), [false; 4]);
    hold(false);
    rails.progress().expect("it completes");
    hold(true);
    begin();
    assert_eq!(done(), [true; 4], "another one is under way now");
    assert!(!rails.is_idle(TARGET, &mut None).expect("as above"));
    hold(false);
    rails.progress().expect("it completes as well");
}
