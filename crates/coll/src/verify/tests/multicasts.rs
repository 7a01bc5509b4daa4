//! Mistakes in multicasts: each test breaks a right schedule in one way.

use super::super::*;
use super::mutations::{Team, is_copy};
use crate::schedule::Span;

const NODES: &[u32] = &[2, 1, 2];

fn is_multicast(step: &Step) -> bool {
    matches!(step, Step::Multicast { .. })
}

fn awaits(step: &Step) -> bool {
    matches!(step, Step::AwaitMulticast { .. })
}

#[test]
fn every_other_leader_awaits_a_multicast() {
    let mut team = Team::scratch("smp_multicast", NODES);
    let index = team.find(2, 0, awaits);
    team.remove(2, index);
    assert_eq!(team.fault().kind, Fault::NotReceived(Rank(2)));
}

#[test]
fn who_awaits_more_than_is_sent_waits_for_ever() {
    let mut team = Team::scratch("smp_multicast", NODES);
    let index = team.find(0, 0, is_multicast);
    team.remove(0, index);
    assert!(matches!(
        team.fault().kind,
        Fault::Deadlock(Step::AwaitMulticast { from: Rank(0), .. })
    ));
}

#[test]
fn both_ends_agree_about_the_length() {
    let mut team = Team::scratch("smp_multicast", NODES);
    let index = team.find(0, 0, is_multicast);
    if let Step::Multicast { from } = &mut team.schedules[0].steps[index] {
        from.count = 1;
    }
    assert_eq!(team.fault().kind, Fault::NotReceived(Rank(2)));
}

#[test]
fn leaders_alone_have_multicasts() {
    let mut team = Team::scratch("smp_multicast", NODES);
    let index = team.find(0, 0, is_multicast);
    let step = team.schedules[0].steps[index];
    team.schedules[1].steps.insert(0, step);
    for end in &mut team.schedules[1].round_ends {
        *end += 1;
    }
    let error = team.fault();
    assert_eq!(
        (error.rank, error.kind),
        (Rank(1), Fault::NotLeader(Rank(1)))
    );
}

#[test]
fn nothing_is_read_where_a_multicast_may_still_land() {
    let mut team = Team::scratch("smp_multicast", &[1, 1]);
    let (index, copy) = (team.find(0, 0, awaits), team.find(0, 2, is_copy));
    team.swap(0, index, copy);
    assert!(matches!(
        team.fault().kind,
        Fault::Undefined(_) | Fault::ReadInFlight { .. }
    ));
}

#[test]
fn a_multicast_stays_inside_its_buffer_and_its_protocol() {
    let mut team = Team::scratch("smp_multicast", NODES);
    let index = team.find(0, 0, awaits);
    let (rank, step) = (0, &mut team.schedules[0].steps[index]);
    if let Step::AwaitMulticast { into, .. } = step {
        *into = Span::send(0, 1);
    }
    let error = team.fault();
    assert_eq!((error.rank, error.kind), (Rank(rank), Fault::WritesSend));
}
