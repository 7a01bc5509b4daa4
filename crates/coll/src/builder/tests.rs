//! Slots, phases and what is merged.

use super::*;

fn span(buffer: Buffer, first: u32, count: u32) -> Span {
    Span::new(buffer, first, count)
}

#[test]
fn adjacent_copies_of_one_round_become_one() {
    let topology = Topology::from_sizes(&[1]);
    let mut builder = ScheduleBuilder::new(&topology, Rank(0));
    let copy = |builder: &mut ScheduleBuilder<'_>, from, into, count| {
        builder.copy(
            span(Buffer::Scratch, from, count),
            span(Buffer::Recv, into, count),
        );
    };
    copy(&mut builder, 0, 4, 2);
    copy(&mut builder, 2, 6, 1);
    copy(&mut builder, 3, 0, 1);
    copy(&mut builder, 4, 1, 0);
    builder.end_round();
    copy(&mut builder, 4, 1, 1);
    let schedule = builder.finish(5);
    let counts: Vec<u32> = schedule
        .steps
        .iter()
        .map(|step| match step {
            Step::Copy { from, .. } => from.count,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(counts, [3, 1, 1]);
    assert_eq!(schedule.round_ends, [2, 3]);
}

#[test]
fn node_helpers_keep_phases_in_step() {
    let topology = Topology::from_sizes(&[2, 1]);
    let build = |rank| {
        let mut builder = ScheduleBuilder::new(&topology, Rank(rank));
        builder.node_gather(rank);
        builder.node_await_gather();
        builder.node_broadcast();
        builder.node_barrier();
        builder.finish(3).steps.split_off(1)
    };
    let leader = NodeRank(0);
    assert_eq!(
        build(0),
        [
            Step::NodeSignal { phase: 1 },
            Step::NodeAwaitAll { phase: 1 },
            Step::NodeSignal { phase: 2 },
            Step::NodeSignal { phase: 3 },
            Step::NodeAwaitAll { phase: 3 },
        ]
    );
    assert_eq!(
        build(1)[2..],
        [
            Step::NodeAwait {
                of: leader,
                phase: 2
            },
            Step::NodeSignal { phase: 3 },
            Step::NodeAwaitAll { phase: 3 },
        ]
    );
    assert_eq!(build(2), [], "a rank alone waits for nobody");
}

#[test]
#[should_panic(expected = "slots of puts")]
fn slots_of_rtrs_are_not_for_puts() {
    let topology = Topology::from_sizes(&[2]);
    let wire = Wire {
        port: 0,
        slot: rtr_base(2),
    };
    ScheduleBuilder::new(&topology, Rank(0)).await_put(Rank(1), wire, 1);
}

#[test]
fn a_total_is_reduced_where_it_is_put_within_the_node() {
    let topology = Topology::from_sizes(&[2, 1]);
    let (own, total) = (span(Buffer::Send, 0, 1), span(Buffer::Scratch, 1, 1));
    let arrival = span(Buffer::Scratch, 0, 1);
    let wire = Wire { port: 0, slot: 0 };
    let build = |to, put| {
        let mut builder = ScheduleBuilder::new(&topology, Rank(0));
        builder.await_put(Rank(2), wire, 1);
        builder.reduce(arrival, own, total);
        builder.end_round();
        builder.put_total(Rank(to), wire, put, arrival);
        builder.finish(2)
    };
    let near = build(1, total);
    assert!(matches!(near.steps[1], Step::PutReduced { to: Rank(1), into, .. } if into == arrival));
    assert_eq!(near.round_ends, [1, 2]);
    // To another node, and of something else.
    for far in [build(2, total), build(1, own)] {
        assert!(matches!(
            far.steps[1..],
            [Step::Reduce { .. }, Step::Put { .. }]
        ));
        assert_eq!(far.round_ends, [2, 3]);
    }
}
