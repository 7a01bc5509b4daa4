//! Mistakes of reductions, cut vectors and synchronisation: each breaks a right schedule.

use super::super::*;
use super::mutations::spans;
use crate::collective::Collective;
use crate::registry::find;
use crate::schedule::Span;
use crate::schedule::slot_limit;

struct Broken {
    topology: Topology,
    semantics: Semantics,
    parts: u32,
    rank_order: bool,
    schedules: Vec<Schedule>,
}

impl Broken {
    /// Right schedules, to be broken, with root 0 and two ports.
    fn new(collective: Collective, name: &str, sizes: &[u32]) -> Self {
        let topology = Topology::from_sizes(sizes);
        let algorithm = find(collective, name).expect("name");
        let team = Self {
            schedules: algorithm.build_all(&topology, 2, Protocol::Eager),
            semantics: collective.semantics(),
            parts: algorithm.cut.parts(topology.size()),
            rank_order: true,
            topology,
        };
        assert_eq!(team.verify(), Ok(()));
        team
    }

    fn verify(&self) -> Result<(), VerifyError> {
        let task = Task {
            topology: &self.topology,
            ports: 2,
            protocol: Protocol::Eager,
            root: Rank(0),
            slots: slot_limit(self.topology.size()),
            semantics: self.semantics,
            parts: self.parts,
            rank_order: self.rank_order,
            in_place: false,
        };
        verify(&task, &self.schedules)
    }

    fn fault(&self) -> Fault {
        self.verify().expect_err("a broken schedule").kind
    }

    /// The `nth` reduction of `rank`.
    fn reduction(&mut self, rank: usize, nth: usize) -> &mut Step {
        let steps = self.schedules[rank].steps.iter_mut();
        let mut found = steps.filter(|step| matches!(step, Step::Reduce { .. }));
        found.nth(nth).expect("such a step")
    }
}

fn flip(step: &mut Step) {
    if let Step::Reduce { left, right, .. } = step {
        std::mem::swap(left, right);
    }
}

fn right(step: &mut Step) -> &mut Span {
    match step {
        Step::Reduce { right, .. } => right,
        other => panic!("{other:?} reduces nothing"),
    }
}

#[test]
fn a_contribution_reduced_twice_is_refused() {
    let mut team = Broken::new(Collective::Allreduce, "smp_recursive_multiplying", &[3]);
    right(team.reduction(1, 1)).first = 1;
    assert_eq!(team.fault(), Fault::ReducedTwice(Rank(1)));
}

#[test]
fn the_wrong_order_is_refused_unless_the_operation_commutes() {
    let mut team = Broken::new(Collective::Reduce, "knomial", &[1; 4]);
    flip(team.reduction(0, 0));
    let fault = team.fault();
    let expected = 0..4;
    assert!(
        matches!(&fault, Fault::Contributions { found, expected: e, .. }
            if found[..2] == [1, 0] && *e == expected),
        "{fault}"
    );
    team.rank_order = false;
    assert_eq!(team.verify(), Ok(()));
}

#[test]
fn a_missing_contribution_is_refused() {
    let mut team = Broken::new(Collective::Scan, "smp_linear", &[4]);
    let last = team.schedules[3].steps.pop().expect("a reduction");
    assert!(matches!(last, Step::Reduce { .. }));
    *team.schedules[3].round_ends.last_mut().expect("a round") -= 1;
    let fault = Fault::Contributions {
        block: 0,
        found: vec![0, 1, 2],
        expected: 0..4,
    };
    assert_eq!(team.fault(), fault);
}

#[test]
fn another_bracketing_of_one_rank_is_refused() {
    let mut team = Broken::new(Collective::Allreduce, "smp_recursive_multiplying", &[3]);
    // (0 1) 2 becomes 0 (1 2) on rank 2, which spoils its own copy of 1 for nobody.
    let steps = &mut team.schedules[2].steps;
    let first = steps.iter().position(|s| matches!(s, Step::Reduce { .. }));
    let first = first.expect("a reduction");
    let result = Span::recv(0, 1);
    let reduce = |left, right| Step::Reduce {
        left: Span::node(left, 1),
        right,
        into: result,
        like: None,
    };
    steps[first] = reduce(1, Span::node(2, 1));
    steps[first + 1] = reduce(0, result);
    assert_eq!(team.fault(), Fault::Bracketing(0));
    team.semantics.uniform = false;
    assert_eq!(team.verify(), Ok(()));
}

#[test]
fn blocks_of_different_owners_do_not_reduce() {
    let mut team = Broken::new(Collective::ReduceScatterBlock, "direct", &[1; 3]);
    right(team.reduction(0, 0)).first = 1;
    assert_eq!(team.fault(), Fault::ReducedParts { left: 0, right: 1 });
}

#[test]
fn a_reduction_before_its_arrival_is_refused() {
    let mut team = Broken::new(Collective::Reduce, "knomial", &[1; 2]);
    let steps = &mut team.schedules[0].steps;
    let arrival = steps.iter().position(|s| matches!(s, Step::Await { .. }));
    let arrival = arrival.expect("one");
    steps.swap(arrival, arrival + 1);
    let fault = team.fault();
    assert!(
        matches!(fault, Fault::ReadInFlight { .. } | Fault::Undefined(_)),
        "{fault}"
    );
}

#[test]
fn reductions_keep_to_their_buffers() {
    let mut team = Broken::new(Collective::Allreduce, "smp_recursive_multiplying", &[3]);
    if let Step::Reduce { into, .. } = team.reduction(0, 0) {
        into.buffer = Buffer::Send;
    }
    assert_eq!(team.fault(), Fault::WritesSend);
    let mut team = Broken::new(Collective::Reduce, "knomial", &[1; 2]);
    right(team.reduction(0, 0)).count = 2;
    assert_eq!(team.fault(), Fault::Lengths { from: 2, into: 1 });
}

/// The chain of four ranks of a node, of which 2 reduces into the scratch of 1.
fn chain() -> (Broken, usize) {
    let team = Broken::new(Collective::Reduce, "chain", &[4]);
    let mut steps = team.schedules[2].steps.iter();
    let put = steps.position(|step| matches!(step, Step::PutReduced { .. }));
    (team, put.expect("one"))
}

#[test]
fn a_reduction_is_put_within_the_node_and_into_scratch() {
    let (mut team, put) = chain();
    if let Step::PutReduced { into, .. } = &mut team.schedules[2].steps[put] {
        into.buffer = Buffer::Recv;
    }
    assert_eq!(team.fault(), Fault::Protocol(Buffer::Recv));
    let (mut team, _) = chain();
    team.topology = Topology::from_sizes(&[2, 2]);
    assert_eq!(team.fault(), Fault::Protocol(Buffer::Scratch));
}

#[test]
fn a_reduction_is_put_after_its_operand_has_come() {
    let (mut team, put) = chain();
    team.schedules[2].steps.swap(put - 1, put);
    let fault = team.fault();
    assert!(
        matches!(fault, Fault::ReadInFlight { .. } | Fault::Undefined(_)),
        "{fault}"
    );
}

#[test]
fn copies_of_cut_vectors_say_which_parts_they_move() {
    let mut team = Broken::new(Collective::Bcast, "pipelined", &[1; 3]);
    let steps = &mut team.schedules[1].steps;
    let copy = steps.iter().position(|s| matches!(s, Step::Copy { .. }));
    spans(&mut steps[copy.expect("one")]).1.buffer = Buffer::Scratch;
    assert_eq!(team.fault(), Fault::Cut);
}

#[test]
fn a_barrier_must_hear_of_everyone() {
    let mut team = Broken::new(Collective::Barrier, "dissemination", &[1; 4]);
    for schedule in &mut team.schedules {
        // Drops the second round.
        let kept = schedule.round_ends[0];
        schedule.steps.truncate(kept as usize);
        schedule.round_ends = vec![kept];
    }
    assert_eq!(team.fault(), Fault::NotSynchronised(Rank(1)));
}

#[test]
fn rooted_collectives_do_not_claim_to_synchronise() {
    for &collective in Collective::ALL {
        assert!(!(collective.is_rooted() && collective.synchronising()));
    }
    let mut team = Broken::new(Collective::Bcast, "knomial", &[1; 3]);
    team.semantics.synchronising = true;
    assert!(matches!(team.fault(), Fault::NotSynchronised(_)));
}
