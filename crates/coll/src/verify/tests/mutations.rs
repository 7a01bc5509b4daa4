//! Mistakes of order and agreement: each test breaks a right schedule in one way.

use super::super::*;
use crate::collective::Collective;
use crate::registry::find;
use crate::schedule::Span;
use crate::schedule::slot_limit;

pub(super) struct Team {
    topology: Topology,
    protocol: Protocol,
    pub(super) schedules: Vec<Schedule>,
}

impl Team {
    fn new(name: &str, sizes: &[u32], protocol: Protocol) -> Self {
        let topology = Topology::from_sizes(sizes);
        let algorithm = find(Collective::Allgather, name).expect("name");
        let schedules = algorithm.build_all(&topology, 2, protocol);
        let team = Self {
            topology,
            protocol,
            schedules,
        };
        assert_eq!(team.verify(), Ok(()));
        team
    }

    pub(super) fn scratch(name: &str, sizes: &[u32]) -> Self {
        Self::new(name, sizes, Protocol::Eager)
    }

    fn verify(&self) -> Result<(), VerifyError> {
        let task = Task {
            topology: &self.topology,
            ports: 2,
            protocol: self.protocol,
            root: Rank(0),
            slots: slot_limit(self.topology.size()),
            parts: 1,
            rank_order: true,
            semantics: Collective::Allgather.semantics(),
            in_place: false,
        };
        verify(&task, &self.schedules)
    }

    pub(super) fn fault(&self) -> VerifyError {
        self.verify().expect_err("a broken schedule")
    }

    /// Index of the `nth` step of `rank` that is like `wanted`.
    pub(super) fn find(&self, rank: usize, nth: usize, wanted: fn(&Step) -> bool) -> usize {
        let steps = self.schedules[rank].steps.iter().enumerate();
        let mut found = steps
            .filter(|(_, step)| wanted(step))
            .map(|(index, _)| index);
        found.nth(nth).expect("such a step")
    }

    pub(super) fn remove(&mut self, rank: usize, index: usize) {
        let schedule = &mut self.schedules[rank];
        schedule.steps.remove(index);
        for end in &mut schedule.round_ends {
            *end -= u32::from(*end as usize > index);
        }
    }

    pub(super) fn swap(&mut self, rank: usize, a: usize, b: usize) {
        self.schedules[rank].steps.swap(a, b);
    }
}

pub(super) fn is_put(step: &Step) -> bool {
    matches!(step, Step::Put { .. })
}

fn is_await(step: &Step) -> bool {
    matches!(step, Step::Await { .. })
}

pub(super) fn is_copy(step: &Step) -> bool {
    matches!(step, Step::Copy { .. })
}

pub(super) fn is_signal(step: &Step) -> bool {
    matches!(step, Step::NodeSignal { .. })
}

pub(super) fn is_node_wait(step: &Step) -> bool {
    matches!(step, Step::NodeAwait { .. } | Step::NodeAwaitAll { .. })
}

pub(super) const FLAT: &[u32] = &[1; 5];

pub(super) fn spans(step: &mut Step) -> (&mut Span, &mut Span) {
    match step {
        Step::Put { from, into, .. } | Step::Copy { from, into } => (from, into),
        other => panic!("{other:?} has no spans"),
    }
}

#[test]
fn a_dropped_await_reads_in_flight_or_undefined() {
    let mut team = Team::scratch("bruck", FLAT);
    let index = team.find(4, 0, is_await);
    team.remove(4, index);
    let error = team.fault();
    assert_eq!(error.rank, Rank(4), "it puts on what it has not awaited");
    assert!(matches!(
        error.kind,
        Fault::ReadInFlight { place, writer } if place.block == 1 && writer.rank == Rank(0)
    ));

    // Here the read comes even before the put is posted.
    let mut team = Team::scratch("bruck", FLAT);
    let index = team.find(3, 0, is_await);
    team.remove(3, index);
    let error = team.fault();
    assert_eq!(error.rank, Rank(3));
    assert!(matches!(error.kind, Fault::Undefined(place) if place.block == 1));
}

#[test]
fn a_dropped_last_await_of_zero_copy_is_never_awaited() {
    let mut team = Team::new("direct", FLAT, Protocol::Rendezvous);
    let index = team.find(2, 3, is_await);
    team.remove(2, index);
    assert!(matches!(team.fault().kind, Fault::NeverAwaited(_)));
}

#[test]
fn a_dropped_put_is_awaited_for_ever() {
    let mut team = Team::scratch("direct", FLAT);
    let index = team.find(1, 0, is_put);
    team.remove(1, index);
    let error = team.fault();
    assert_eq!(error.rank, Rank(2), "the first target of rank 1");
    assert!(matches!(
        error.kind,
        Fault::Deadlock(Step::Await { from: Rank(1), .. })
    ));
}

#[test]
fn a_missing_signal_is_awaited_for_ever() {
    let mut team = Team::scratch("smp_bruck", &[2, 2, 1]);
    let index = team.find(1, 0, is_signal);
    team.remove(1, index);
    let error = team.fault();
    assert_eq!(error.rank, Rank(0), "the leader waits for its node");
    assert_eq!(error.kind, Fault::Deadlock(Step::NodeAwaitAll { phase: 1 }));
    let mut release = Team::scratch("smp_gather_broadcast_tree", &[2, 2, 1]);
    let index = release.find(2, 1, is_signal);
    release.remove(2, index);
    let error = release.fault();
    assert_eq!(error.rank, Rank(3), "the local rank of that leader");
    assert!(matches!(
        error.kind,
        Fault::Deadlock(Step::NodeAwait { .. })
    ));
}

#[test]
fn a_missing_node_wait_is_a_race_in_node_memory() {
    let mut team = Team::scratch("smp_direct", &[3]);
    let index = team.find(2, 0, is_node_wait);
    team.remove(2, index);
    let error = team.fault();
    assert_eq!(error.rank, Rank(2));
    assert!(matches!(error.kind, Fault::ReadInFlight { .. }), "{error}");
}

#[test]
fn a_signal_before_its_copy_is_a_race() {
    let mut team = Team::scratch("smp_direct", &[3]);
    let (copy, signal) = (team.find(1, 0, is_copy), team.find(1, 0, is_signal));
    team.swap(1, copy, signal);
    let error = team.fault();
    assert!(matches!(error.kind, Fault::ReadInFlight { .. }), "{error}");
}

#[test]
fn a_copy_before_its_await_reads_in_flight() {
    let mut team = Team::scratch("direct", FLAT);
    let last = team.schedules[0].steps.len() - 1;
    let arrival = team.find(0, 3, is_await);
    assert!(is_copy(&team.schedules[0].steps[last]));
    team.swap(0, arrival, last);
    let error = team.fault();
    assert_eq!(error.rank, Rank(0));
    assert!(matches!(error.kind, Fault::ReadInFlight { .. }), "{error}");
}

#[test]
fn swapped_spans_end_with_a_wrong_result() {
    let mut team = Team::scratch("bruck", FLAT);
    let (one, other) = (team.find(2, 2, is_copy), team.find(2, 3, is_copy));
    let place = spans(&mut team.schedules[2].steps[one]).1.first;
    let there = spans(&mut team.schedules[2].steps[other]).1;
    let place = std::mem::replace(&mut there.first, place);
    spans(&mut team.schedules[2].steps[one]).1.first = place;
    let error = team.fault();
    assert_eq!((error.rank, error.step), (Rank(2), None));
    let expected = Fault::Result {
        block: 0,
        found: Some(3),
        expected: 0,
    };
    assert_eq!(error.kind, expected);
}

#[test]
fn a_put_to_the_wrong_place_is_a_conflict() {
    let mut team = Team::scratch("direct", FLAT);
    let index = team.find(1, 0, is_put);
    spans(&mut team.schedules[1].steps[index]).1.first = 2;
    let error = team.fault();
    assert_eq!((error.rank, error.step), (Rank(1), Some(index)));
    assert!(matches!(
        error.kind,
        Fault::WriteWhileWritten { place, .. } if place.rank == Rank(2) && place.block == 2
    ));
}

#[test]
fn a_write_over_a_block_that_is_being_put_is_refused() {
    let mut team = Team::scratch("ring", FLAT);
    let index = team.find(0, 0, is_put);
    let (put, _) = spans(&mut team.schedules[0].steps[index]);
    let own = *put;
    let copy = index + 1;
    team.schedules[0].steps[copy] = Step::Copy {
        from: Span::new(Buffer::Send, 0, 1),
        into: own,
    };
    let error = team.fault();
    assert_eq!((error.rank, error.step), (Rank(0), Some(copy)));
    assert!(matches!(
        error.kind,
        Fault::WriteWhileRead { reader, .. } if reader.step == index
    ));
}

#[test]
fn two_puts_into_one_block_are_refused() {
    let mut team = Team::scratch("direct", FLAT);
    for rank in [1, 2] {
        let to_zero = |step: &Step| matches!(step, Step::Put { to: Rank(0), .. });
        let index = team.find(rank, 0, to_zero);
        spans(&mut team.schedules[rank].steps[index]).1.first = 4;
    }
    let kind = team.fault().kind;
    assert!(matches!(kind, Fault::WriteWhileWritten { place, .. } if place.block == 4));
}

#[test]
fn a_duplicate_slot_is_refused() {
    let mut team = Team::scratch("direct", FLAT);
    let index = team.find(4, 0, is_put);
    if let Step::Put { slot, .. } = &mut team.schedules[4].steps[index] {
        *slot += 1;
    }
    let target = Rank(0);
    assert_eq!(team.fault().kind, Fault::SlotReused { slot: 1, target });
}

#[test]
fn both_ends_must_agree_on_length_port_and_origin() {
    let change: [fn(&mut Step); 3] = [
        |step| {
            if let Step::Await { blocks, .. } = step {
                *blocks += 1;
            }
        },
        |step| {
            if let Step::Await { port, .. } = step {
                *port ^= 1;
            }
        },
        |step| {
            if let Step::Await { from, .. } = step {
                *from = Rank((from.0 + 2) % 5);
            }
        },
    ];
    for change in change {
        let mut team = Team::scratch("bruck", FLAT);
        let index = team.find(0, 0, is_await);
        change(&mut team.schedules[0].steps[index]);
        let error = team.fault();
        assert_eq!((error.rank, error.step), (Rank(0), Some(index)));
        assert!(matches!(error.kind, Fault::Mismatch { .. }), "{error}");
    }
}

#[test]
fn zero_copy_needs_its_rtr() {
    let is_permission = |step: &Step| matches!(step, Step::AwaitRtr { .. });
    let mut team = Team::new("ring", FLAT, Protocol::Rendezvous);
    let index = team.find(2, 0, is_permission);
    team.remove(2, index);
    assert_eq!(team.fault().kind, Fault::NotPermitted(Rank(3)));

    let mut team = Team::new("direct", FLAT, Protocol::Rendezvous);
    let index = team.find(2, 0, |step| matches!(step, Step::SendRtr { .. }));
    team.remove(2, index);
    let deadlock = team.fault().kind;
    assert!(matches!(deadlock, Fault::Deadlock(_)), "{deadlock}");

    let mut team = Team::scratch("direct", FLAT);
    team.schedules[0].steps[0] = Step::SendRtr {
        to: Rank(1),
        slot: 40,
    };
    assert_eq!(team.fault().kind, Fault::RtrForEager);
}

#[test]
fn one_rtr_permits_all_puts() {
    let mut team = Team::new("direct", FLAT, Protocol::Rendezvous);
    let is_rtr = |step: &Step| matches!(step, Step::SendRtr { .. });
    let index = team.find(2, 0, is_rtr);
    let Step::SendRtr { to, .. } = team.schedules[2].steps[index] else {
        unreachable!("it was looked for");
    };
    let second = team.find(2, 1, is_rtr);
    team.schedules[2].steps[second] = Step::SendRtr { to, slot: 7 };
    assert_eq!(team.fault().kind, Fault::RtrTwice(to));
}

#[test]
fn rtrs_that_wait_for_each_other_deadlock() {
    let mut team = Team::new("ring", &[1, 1], Protocol::Rendezvous);
    for rank in 0..2 {
        // Each announces only after it has been permitted to send.
        let steps = &mut team.schedules[rank].steps;
        let position = |steps: &[Step], wanted: fn(&Step) -> bool| steps.iter().position(wanted);
        let send_rtr = position(steps, |s| matches!(s, Step::SendRtr { .. })).expect("one");
        let permission = position(steps, |s| matches!(s, Step::AwaitRtr { .. })).expect("one");
        steps.swap(send_rtr, permission);
    }
    let error = team.fault();
    assert!(matches!(error.kind, Fault::Deadlock(Step::AwaitRtr { .. })));
}
