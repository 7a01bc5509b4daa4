//! Ranks as threads of one process, with one context.

use ferrorail_base::config::{DomainChoice, FabricChoice, RailChoice, Settings};
use ferrorail_bootstrap::{InProcess, Oob};
use ferrorail_coll::{Collective, algorithms};
use ferrorail_engine::{
    Context, EngineError, LockAlgorithm, Memory, NoHost, Team, Window, WindowSpec,
};
use ferrorail_test_data::contents;
use ferrorail_test_extent::third;
use std::sync::Arc;

/// Ranks and ranks per node that tests of every algorithm go through.
pub const SHAPES: [(u32, u32); 9] = [
    (1, 1),
    (2, 1),
    (2, 2),
    (3, 2),
    (4, 2),
    (5, 3),
    (5, 1),
    (7, 2),
    (8, 8),
];

/// Ranks of a node, and what they take for the time of long messages by cross-memory attach; `None`: they measure it.
const ATTACH_PERCENTS: [(u32, Option<u32>); 8] = [
    (2, Some(1)),
    (2, Some(1000)),
    (2, None),
    (3, None),
    (4, Some(1)),
    (4, Some(1000)),
    (4, None),
    (7, None),
];

pub fn settings(node_size: u32, rails: u8) -> Settings {
    Settings {
        fabric: FabricChoice::Loopback,
        node_size: Some(node_size),
        rails: RailChoice::Count(rails),
        // A rank that fails must not leave the others waiting for it.
        peer_timeout_s: Some(60),
        ..Settings::default()
    }
}

/// `settings`, with `algorithm` for `collective` whatever the size.
pub fn forced(mut settings: Settings, collective: &str, algorithm: &str) -> Settings {
    settings
        .algorithm
        .insert(collective.into(), algorithm.into());
    settings
}

/// Runs `body(team)` on `size` ranks.
pub fn on_ranks(size: u32, settings: &Settings, body: impl Fn(&Team) + Sync) -> Arc<Context> {
    run_teams(size, settings, &|oob| Box::new(oob), &body)
}

/// As [`on_ranks`], with the few ranks of a node whose long messages go straight, through the segment, or as they measure.
pub fn on_few_ranks(body: impl Fn(&Team) + Sync) {
    for (size, attach_percent) in ATTACH_PERCENTS {
        let settings = Settings {
            attach_percent,
            ..settings(size, 1)
        };
        on_ranks(size, &settings, &body);
    }
}

/// As [`on_ranks`], with what `of` makes of each rank's exchange.
pub fn on_ranks_over<O: Oob + 'static>(
    size: u32,
    settings: &Settings,
    of: impl Fn(InProcess) -> O + Sync,
    body: impl Fn(&Team) + Sync,
) -> Arc<Context> {
    run_teams(size, settings, &|oob| Box::new(of(oob)), &body)
}

/// [`on_ranks_over`], compiled once for all tests.
fn run_teams(
    size: u32,
    settings: &Settings,
    of: &(dyn Fn(InProcess) -> Box<dyn Oob> + Sync),
    body: &(dyn Fn(&Team) + Sync),
) -> Arc<Context> {
    let context = Context::new(settings.clone(), Box::new(NoHost));
    on_worlds(size, 1, |mut oobs| {
        let oob = of(oobs.remove(0));
        let team = Team::create(&context, context.settings(), oob).expect("a team");
        body(&team);
        team.free();
    });
    context
}

/// Runs `body` on `size` ranks, with an exchange for each of `count` communicators.
pub fn on_worlds(size: u32, count: usize, body: impl Fn(Vec<InProcess>) + Sync) {
    run_worlds(size, count, &body);
}

/// [`on_worlds`], compiled once for all tests.
fn run_worlds(size: u32, count: usize, body: &(dyn Fn(Vec<InProcess>) + Sync)) {
    let mut worlds: Vec<_> = (0..count).map(|_| InProcess::world(size)).collect();
    std::thread::scope(|scope| {
        for _ in 0..size {
            let oobs = worlds.iter_mut().map(|world| world.remove(0)).collect();
            scope.spawn(move || body(oobs));
        }
    });
}

/// Ranks, ranks per node and ranks per domain that tests of algorithms over domains go through.
const DOMAINS: [(u32, u32, u32); 7] = [
    (3, 3, 2),
    (5, 5, 2),
    (7, 7, 3),
    (8, 8, 4),
    (5, 3, 2),
    (7, 4, 2),
    (11, 5, 2),
];

/// Teams of [`SHAPES`], over two rails, with every algorithm of `collective`; and over domains of nodes. Of the shapes
/// of each algorithm a third, beginning elsewhere with each.
pub fn settings_of(collective: Collective) -> Vec<(u32, Settings)> {
    let mut chosen = Vec::new();
    for (number, algorithm) in algorithms(collective).iter().enumerate() {
        let mut all = Vec::new();
        let of = |node_size, name: &str| forced(settings(node_size, 2), collective.name(), name);
        let shapes = SHAPES.into_iter();
        all.extend(shapes.map(|(size, node_size)| (size, of(node_size, algorithm.name))));
        if algorithm.smp_aware && !algorithm.multicast {
            let name = format!("{}:domains", algorithm.name);
            let goes = |&(size, node_size, _): &_| size == node_size || algorithm.by_domains;
            let shapes = DOMAINS.into_iter().filter(goes);
            let shapes = shapes.map(|(size, node_size, domain)| {
                let settings = Settings {
                    domains: DomainChoice::Ranks(domain),
                    ..of(node_size, &name)
                };
                (size, settings)
            });
            all.extend(shapes);
        }
        chosen.extend(third(&all, number).cloned());
    }
    chosen
}

/// Runs `body` on the teams of [`settings_of`] `collective`.
pub fn every_algorithm(collective: Collective, body: impl Fn(&Team) + Sync) {
    for (size, settings) in settings_of(collective) {
        on_ranks(size, &settings, &body);
    }
}

/// Whether an all-gather of `bytes` bytes is right.
pub fn allgather(team: &Team, op: usize, bytes: usize) -> Result<bool, EngineError> {
    let mine = contents(team.rank().0, 0, op, bytes);
    let mut all = vec![0xee; team.size() as usize * bytes];
    // SAFETY: the buffers hold `bytes` bytes, and that many per rank.
    unsafe { team.allgather(Some(mine.as_ptr()), all.as_mut_ptr(), bytes) }?;
    let mut blocks = (0..).zip(all.chunks_exact(bytes));
    Ok(blocks.all(|(from, block)| block == contents(from, 0, op, bytes)))
}

/// A window of memory of its own.
pub fn window(team: &Team, bytes: u64, unit: u64, lock: Option<LockAlgorithm>) -> Window {
    let spec = WindowSpec {
        lock,
        ..WindowSpec::new(Memory::Allocate, bytes, unit)
    };
    // SAFETY: the window brings its memory.
    unsafe { Window::create(team, spec) }.expect("a window")
}

/// Runs `body`, which is all of `test`, where no other test runs: whoever runs the tests, each may have a process or not.
pub fn in_a_process_of_its_own(test: &str, body: impl FnOnce()) {
    const ALONE: &str = "TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let program = std::env::current_exe().expect("a test program");
    let mut command = std::process::Command::new(program);
    command.args([test, "--exact"]).env(ALONE, "1");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
