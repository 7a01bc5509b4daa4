//! Rails that refuse registrations: messages of the pairs concerned go in pieces, and are right. The
//! ranks are threads of one process, so that chance says which of them is refused.

use super::ranks::{SHAPES, forced, on_ranks, settings};
use ferrorail_base::Rank;
use ferrorail_base::config::Settings;
use ferrorail_coll::{Collective, Protocol, algorithms};
use ferrorail_engine::{Context, Team};
use ferrorail_test_data::{assert_same, contents, row};
use std::sync::Arc;

const SIZES: [usize; 3] = [1, 5000, 70_001];

fn call(team: &Team, collective: Collective, op: usize, bytes: usize) {
    let (me, ranks) = (team.rank().0, team.size());
    let root = op as u32 % ranks;
    let from_all = |to| row(ranks, |from| contents(from, to, op, bytes));
    let for_all = |from| row(ranks, |to| contents(from, to, op, bytes));
    let (send, wanted) = match collective {
        Collective::Allgather => (contents(me, 0, op, bytes), from_all(0)),
        Collective::Alltoall => (for_all(me), from_all(me)),
        Collective::Gather if me == root => (contents(me, 0, op, bytes), from_all(0)),
        Collective::Gather => (contents(me, 0, op, bytes), Vec::new()),
        Collective::Scatter => (for_all(root), contents(root, me, op, bytes)),
        Collective::Bcast => (Vec::new(), contents(root, 0, op, bytes)),
        _ => unreachable!("not tested here"),
    };
    let mut recv = match collective == Collective::Bcast && me == root {
        true => wanted.clone(),
        false => vec![0xee; wanted.len()],
    };
    let (from, into, root) = (send.as_ptr(), recv.as_mut_ptr(), Rank(root));
    // SAFETY: the buffers hold what the collective reads and writes, and are this thread's.
    let outcome = unsafe {
        match collective {
            Collective::Allgather => team.allgather(Some(from), into, bytes),
            Collective::Alltoall => team.alltoall(from, into, bytes),
            Collective::Gather => team.gather(Some(from), into, bytes, root),
            Collective::Scatter => team.scatter(from, Some(into), bytes, root),
            _ => team.bcast(into, bytes, root),
        }
    };
    outcome.expect("a result");
    let what = format_args!("{collective:?} {op} of {bytes} bytes at {me}");
    assert_same(&recv, &wanted, what);
}

/// Runs every size under `faults`; what was refused must have gone in pieces.
fn run(collective: Collective, ranks: u32, settings: &Settings) -> Arc<Context> {
    let context = on_ranks(ranks, settings, |team| {
        for (op, bytes) in SIZES.into_iter().cycle().take(6).enumerate() {
            call(team, collective, op, bytes);
        }
    });
    check(&context, collective, ranks);
    context
}

fn check(context: &Context, collective: Collective, ranks: u32) {
    let counts = context.stats().zero_copy();
    assert!(
        counts.refused > 0 && counts.staged_messages > 0,
        "{collective:?} on {ranks}: {counts:?}"
    );
    assert!(counts.staged_bytes > counts.staged_messages);
}

const COLLECTIVES: [Collective; 5] = [
    Collective::Allgather,
    Collective::Alltoall,
    Collective::Gather,
    Collective::Scatter,
    Collective::Bcast,
];

fn refusing(node_size: u32, rails: u8, faults: &str) -> Settings {
    Settings {
        zero_copy: Some(true),
        loopback_faults: faults.into(),
        ..settings(node_size, rails)
    }
}

#[test]
fn every_algorithm_is_right_whoever_is_refused() {
    for collective in COLLECTIVES {
        // Multicasts are copied into their datagrams.
        let puts = algorithms(collective).iter().filter(|a| !a.multicast);
        for algorithm in puts.filter(|algorithm| algorithm.supports(Protocol::Rendezvous)) {
            for (ranks, node_size) in [SHAPES[3], SHAPES[5], SHAPES[6]] {
                for faults in ["loop0:refuse:every=1", "loop1:refuse:every=2"] {
                    let settings = refusing(node_size, 2, faults);
                    let mut settings = forced(settings, collective.name(), algorithm.name);
                    // What has no room in scratch would not go straight to user memory.
                    settings.scratch_bytes = Some(4 << 20);
                    run(collective, ranks, &settings);
                }
            }
        }
    }
}

#[test]
fn pieces_may_be_short_and_checked() {
    for collective in COLLECTIVES {
        for (scratch_bytes, reliable) in [(4096, false), (4096, true), (64 << 10, true)] {
            let damage = match reliable {
                true => ",loop0:corrupt:every=13,loop1:corrupt:every=17",
                false => "",
            };
            let settings = Settings {
                scratch_bytes: Some(scratch_bytes),
                reliable,
                ..refusing(1, 3, &format!("loop2:refuse:every=2{damage}"))
            };
            run(collective, 4, &settings);
        }
    }
}

#[test]
fn rails_may_fail_besides() {
    for after in [40, 75, 110] {
        let faults = format!(
            "loop0:refuse:every=1,loop0:down:after={after},loop1:mute:after={},loop2:down:after={}",
            after + 60,
            after + 130
        );
        let settings = Settings {
            rail_timeout_ms: 100,
            ..refusing(1, 4, &faults)
        };
        let context = run(Collective::Alltoall, 5, &settings);
        let fabric = &context.opened_rails()[0];
        let failures = (0..4).map(|rail| fabric.statistics().rails[rail].failures);
        assert!(failures.sum::<u64>() > 0, "{faults}");
    }
}
