//! Mistakes that a step or a schedule shows on its own.

use super::super::*;
use super::mutations::{FLAT, Team, is_copy, is_node_wait, is_put, is_signal, spans};
use crate::schedule::slot_limit;

#[test]
fn steps_out_of_range_are_refused() {
    type Case = (fn(&mut Step), fn(&Fault) -> bool);
    let put_cases: [Case; 6] = [
        (
            |step| {
                if let Step::Put { slot, .. } = step {
                    *slot = slot_limit(5) as Slot;
                }
            },
            |fault| *fault == Fault::SlotLimit(42),
        ),
        (
            |step| {
                if let Step::Put { port, .. } = step {
                    *port = 2;
                }
            },
            |fault| *fault == Fault::Port(2),
        ),
        (
            |step| {
                if let Step::Put { to, .. } = step {
                    *to = Rank(5);
                }
            },
            |fault| *fault == Fault::Peer(Rank(5)),
        ),
        (
            |step| spans(step).1.buffer = Buffer::Recv,
            |fault| *fault == Fault::Protocol(Buffer::Recv),
        ),
        (
            |step| spans(step).0.count += 1,
            |fault| *fault == Fault::Lengths { from: 2, into: 1 },
        ),
        (
            |step| spans(step).1.buffer = Buffer::Send,
            |fault| *fault == Fault::WritesSend,
        ),
    ];
    for (change, expected) in put_cases {
        let mut team = Team::scratch("direct", FLAT);
        let index = team.find(1, 0, is_put);
        change(&mut team.schedules[1].steps[index]);
        let error = team.fault();
        assert_eq!((error.rank, error.step), (Rank(1), Some(index)));
        assert!(expected(&error.kind), "{error}");
    }
}

#[test]
fn copies_stay_inside_their_buffers() {
    let mut team = Team::scratch("direct", FLAT);
    let index = team.find(0, 1, is_copy);
    spans(&mut team.schedules[0].steps[index]).1.first = 5;
    assert_eq!(team.fault().kind, Fault::OutOfBounds(Buffer::Recv));
}

#[test]
fn phases_rise_and_stay_in_range() {
    let mut team = Team::scratch("smp_bruck", &[2, 2, 1]);
    for (nth, phase) in [(1, 1), (0, 0), (1, 251)] {
        let index = team.find(0, nth, is_signal);
        let kept = std::mem::replace(
            &mut team.schedules[0].steps[index],
            Step::NodeSignal { phase },
        );
        assert_eq!(team.fault().kind, Fault::Phase(phase));
        team.schedules[0].steps[index] = kept;
    }
    let index = team.find(1, 0, is_node_wait);
    team.schedules[1].steps[index] = Step::NodeAwait {
        of: NodeRank(2),
        phase: 1,
    };
    assert_eq!(team.fault().kind, Fault::LocalRank(NodeRank(2)));
}

#[test]
fn declarations_must_be_right_on_all_ranks() {
    let mut team = Team::scratch("direct", FLAT);
    team.schedules[3].scratch_blocks = 4;
    let error = team.fault();
    assert_eq!(error.rank, Rank(3));
    let (declared, needed) = (4, 5);
    assert_eq!(error.kind, Fault::ScratchBlocks { declared, needed });
    team.schedules[3].scratch_blocks = 5;
    team.schedules[1].round_ends.push(0);
    assert_eq!(team.fault().kind, Fault::Rounds);
    team.schedules.pop();
    assert_eq!(team.fault().kind, Fault::ScheduleCount(4));
}

#[test]
fn errors_name_rank_and_step() {
    let mut team = Team::scratch("direct", FLAT);
    let index = team.find(1, 0, is_put);
    if let Step::Put { port, .. } = &mut team.schedules[1].steps[index] {
        *port = 7;
    }
    assert_eq!(
        team.fault().to_string(),
        "rank 1, step 1: port 7 is not below k"
    );
}
