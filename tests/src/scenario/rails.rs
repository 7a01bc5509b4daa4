//! Rails that fail and come back, that are all lost, or that differ in speed. Between nodes the
//! command `rail` of `scripts/soft-roce` does that to them.

use super::{LIMIT, check_right, environment, explained, job, words};
use crate::Setup;
use crate::job::{Outcome, Running};
use crate::judge;
use crate::list::Environment;
use crate::mpi::Mpi;
use crate::stats::Stats;
use anyhow::{Context, Result, bail, ensure};
use ferrorail_base::random::SplitMix64;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const MIXED: &str = "c/mixed_loop.c";
pub(super) const SIZES: &str = "apps/sizes.c";
pub(super) const MULTICASTS: &str = "c/multicast_check.c";

/// What the scenarios on nodes run.
pub const PROGRAMS: &[(Mpi, &str)] = &[
    (Mpi::Open, MIXED),
    (Mpi::Open, SIZES),
    (Mpi::Mpich, MULTICASTS),
];

const RANKS: u32 = 4;

/// Longest that a step may take on emulated machines that share two cores.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// All rails go down: every rank gets an error through its handler, soon, and nobody hangs.
pub fn lost(setup: &Setup, mpi: Mpi) -> Result<()> {
    let program: (_, &[&str]) = (MIXED, &["1", "30000", "100000", "3000"]);
    let settings = [
        ("FERRORAIL_FABRIC", "loopback"),
        ("FERRORAIL_NODE_SIZE", "2"),
        ("FERRORAIL_RAIL_TIMEOUT", "40"),
        ("FERRORAIL_LOG", "off"),
        (
            "FERRORAIL_LOOPBACK_FAULTS",
            "loop1:down:after=200,loop0:down:after=300",
        ),
    ];
    let job = job(setup, mpi, RANKS, program, &settings)?;
    let outcome = job.run(&judge::fresh_folder(setup)?)?;
    explained(&job, &outcome, check_lost(&outcome))
}

fn check_lost(outcome: &Outcome) -> Result<()> {
    judge::check_end(outcome)?;
    let told = outcome.stdout.matches("lost: class").count();
    ensure!(told == RANKS as usize, "{told} of {RANKS} ranks were told");
    Ok(())
}

/// Settings of jobs between nodes. Their log says when lanes fail and come back.
fn between_nodes() -> Environment {
    environment(&[
        ("FERRORAIL_FABRIC", "verbs"),
        ("FERRORAIL_RAILS", "2"),
        ("FERRORAIL_RAIL_TIMEOUT", "1000"),
        ("FERRORAIL_RAIL_PROBE", "200"),
        ("FERRORAIL_LOG", "ferrorail_rdma_transport=debug"),
    ])
}

/// `rail` in the guests: `host` is one of them, or `all`.
pub(super) fn rail(host: &str, rail: u64, act: &[&str]) -> Result<()> {
    let status = rail_command(host, rail, act)
        .status()
        .context("cannot run `rail`: this needs the guests of scripts/soft-roce")?;
    ensure!(status.success(), "rail {rail} {}: {status}", act.join(" "));
    Ok(())
}

fn rail_command(host: &str, rail: u64, act: &[&str]) -> Command {
    let mut command = Command::new("rail");
    command.args(["--on", host, &rail.to_string()]).args(act);
    command
}

/// Random rails fail at random moments while collectives run, and come back: no wrong byte, no hang,
/// and every lane that failed is used again.
pub fn failing(setup: &Setup) -> Result<()> {
    let limit = TIME_LIMIT * (2 + setup.failures);
    mixed_loop(setup, limit, break_rails, Stats::check_readmissions)
}

/// The card of a rail is pulled out of one node while collectives run, and with it goes the device: no wrong
/// byte, no hang, the other rail takes over. The kernel keeps what is left of an rxe device for those who
/// have it open, so the removal ends when the job has. Where packets of a queue pair are still on the card it waits up to 50 s in
/// the verb that destroys the pair, and warns: seldom, and on busy cores, but then a rank ends that much later.
pub fn device_removed(setup: &Setup) -> Result<()> {
    let host = &setup.hosts[1];
    let mut removal = None;
    let remove = |_: &Setup, running: &mut Running| {
        wait_for_loop(running)?;
        let pull = rail_command(host, 1, &["pull"]).spawn();
        removal = Some(pull.context("cannot run `rail`")?);
        wait_for(running, "the other rail to take over", |job| {
            job.stderr().contains("other rails take over")
        })?;
        // Long enough for calls of all kinds and sizes.
        std::thread::sleep(Duration::from_secs(5));
        Ok(())
    };
    let ran = mixed_loop(setup, 2 * LIMIT, remove, Stats::check_failover);
    if let Some(mut removal) = removal {
        let status = removal.wait().context("cannot wait for `rail`")?;
        ensure!(status.success(), "rail 1 pull: {status}");
        rail(host, 1, &["plug"])?;
    }
    ran
}

/// Runs mixed collectives between two nodes while `harm` is done to their rails, then has the
/// statistics judged.
fn mixed_loop(
    setup: &Setup,
    limit: Duration,
    harm: impl FnOnce(&Setup, &mut Running) -> Result<()>,
    judge: impl FnOnce(&Stats) -> Result<()>,
) -> Result<()> {
    let folder = judge::fresh_folder(setup)?;
    let stop = folder.join("stop");
    let seed = setup.seed.to_string();
    let stop_word = stop.display().to_string();
    let arguments = [&seed, &stop_word, "60000"];
    let program = words(setup, Mpi::Open, MIXED, &arguments)?;
    let statistics = folder.join("stats.json");
    let mut settings = between_nodes();
    settings.insert("FERRORAIL_STATS".into(), statistics.display().to_string());
    let hosts = (RANKS, setup.hosts(2)?);
    let job = judge::launch_on(setup, Mpi::Open, hosts, &settings, &program, limit);
    let mut running = job.start(&folder)?;
    let harmed = harm(setup, &mut running);
    std::fs::write(&stop, "").context("cannot end the job")?;
    let outcome = running.finish()?;
    let judged = harmed.and_then(|()| check_harmed(&outcome, &statistics, judge));
    explained(&job, &outcome, judged).with_context(|| format!("--seed {seed}"))
}

fn wait_for_loop(running: &mut Running) -> Result<()> {
    wait_for(running, "the loop to begin", |job| {
        job.stdout().contains("running")
    })
}

fn check_harmed(
    outcome: &Outcome,
    statistics: &Path,
    judge: impl FnOnce(&Stats) -> Result<()>,
) -> Result<()> {
    judge::check_end(outcome)?;
    check_right(outcome)?;
    let stats = Stats::read(statistics)?;
    judge(&stats)?;
    for row in &stats.rails {
        let (failures, readmissions) = (row.failures, row.readmissions);
        println!(
            "     {}: failed {failures} times, used again {readmissions} times",
            row.rail
        );
    }
    Ok(())
}

/// One failure after another. Between them all lanes are in use: the job cannot do without both
/// rails at once.
fn break_rails(setup: &Setup, running: &mut Running) -> Result<()> {
    let mut draw = SplitMix64(setup.seed);
    wait_for_loop(running)?;
    for number in 0..setup.failures {
        std::thread::sleep(Duration::from_millis(draw.below(1500)));
        let place = draw.below(3) as usize;
        let host = ["all", &setup.hosts[0], &setup.hosts[1]][place];
        let index = draw.below(2);
        let act = ["down", "cut"][draw.below(2) as usize];
        let lasts = Duration::from_millis(200 + draw.below(4000));
        println!("     failure {number}: rail {index} of {host} {act} for {lasts:?}");
        let before = taken_over(running);
        rail(host, index, &[act])?;
        // Not only when the rail is back. The device may need four times its time-out.
        wait_within(
            Duration::from_secs(6),
            running,
            "both sides to leave it",
            |job| taken_over(job) >= before + 2,
        )
        .with_context(|| format!("at failure {number}"))?;
        std::thread::sleep(lasts);
        rail(host, index, &["restore"])?;
        // What the fault did may still show for as long as a lane takes to break.
        std::thread::sleep(Duration::from_millis(2500));
        wait_for(running, "all lanes to be in use again", all_in_use)
            .with_context(|| format!("after failure {number}"))?;
    }
    Ok(())
}

/// Whether every lane that failed was taken into use again, by what the ranks have logged.
fn all_in_use(running: &Running) -> bool {
    taken_over(running) == running.stderr().matches("is in use again").count()
}

/// Ends of lanes that were left, by what the ranks have logged.
fn taken_over(running: &Running) -> usize {
    running.stderr().matches("other rails take over").count()
}

fn wait_for(running: &mut Running, what: &str, seen: impl FnMut(&Running) -> bool) -> Result<()> {
    wait_within(TIME_LIMIT, running, what, seen)
}

fn wait_within(
    limit: Duration,
    running: &mut Running,
    what: &str,
    mut seen: impl FnMut(&Running) -> bool,
) -> Result<()> {
    let time_limit = running.elapsed() + limit;
    while !seen(running) {
        ensure!(
            !running.is_over()?,
            "the job ended while it waited for {what}"
        );
        ensure!(running.elapsed() < time_limit, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Both rails between the nodes are cut: every rank gets an error in bounded time.
pub fn lost_between_nodes(setup: &Setup) -> Result<()> {
    // A lane may take four times its time-out to break, and whoever only waits looks every 500 ms.
    let program = words(setup, Mpi::Open, MIXED, &["1", "120000", "20000", "15000"])?;
    let hosts = (RANKS, setup.hosts(2)?);
    let job = judge::launch_on(
        setup,
        Mpi::Open,
        hosts,
        &between_nodes(),
        &program,
        2 * LIMIT,
    );
    let folder = judge::fresh_folder(setup)?;
    let mut running = job.start(&folder)?;
    let cut = wait_for_loop(&mut running)
        .and_then(|()| rail("all", 0, &["cut"]))
        .and_then(|()| rail("all", 1, &["cut"]));
    let outcome = running.finish()?;
    for index in [0, 1] {
        rail("all", index, &["restore"])?;
    }
    let judged = cut.and_then(|()| check_lost(&outcome));
    explained(&job, &outcome, judged)
}

/// One rail has a quarter of the other's speed: `even` does not mind, `weighted` and `adaptive` send
/// over it what it can take.
pub fn shares(setup: &Setup) -> Result<()> {
    // Slow enough that the rails, not the emulated processors, are what takes time.
    let rates = ["40mbit", "10mbit"];
    for (index, rate) in (0..).zip(rates) {
        rail("all", index, &["slow", "rate", rate])?;
    }
    let judged = setup
        .drawn(&["even", "weighted", "adaptive"])
        .iter()
        .try_for_each(|&policy| {
            let stats = run_policy(setup, policy).with_context(|| policy.to_owned())?;
            let [fast, slow] = stats.rails.as_slice() else {
                bail!("{policy}: {} rails", stats.rails.len());
            };
            println!("     {policy}: {} and {} bytes", fast.bytes, slow.bytes);
            let right = match policy {
                "even" => slow.bytes.abs_diff(fast.bytes) * 20 < fast.bytes,
                _ => slow.bytes * 2 < fast.bytes,
            };
            ensure!(
                right,
                "{policy}: {} bytes over the fast rail, {} over one of a quarter of its speed",
                fast.bytes,
                slow.bytes
            );
            Ok(())
        });
    for index in [0, 1] {
        rail("all", index, &["restore"])?;
    }
    judged
}

fn run_policy(setup: &Setup, policy: &str) -> Result<Stats> {
    let folder = judge::fresh_folder(setup)?;
    let statistics = folder.join("stats.json");
    let mut settings = between_nodes();
    settings.remove("FERRORAIL_LOG");
    // Queues of a slow rail are long.
    settings.insert("FERRORAIL_RAIL_TIMEOUT".into(), "40000".into());
    settings.insert("FERRORAIL_STRIPE_POLICY".into(), policy.into());
    settings.insert("FERRORAIL_STATS".into(), statistics.display().to_string());
    let program = words(setup, Mpi::Open, SIZES, &["524288"])?;
    let hosts = (2, setup.hosts(2)?);
    let job = judge::launch_on(setup, Mpi::Open, hosts, &settings, &program, 2 * LIMIT);
    let outcome = job.run(&folder)?;
    explained(&job, &outcome, judge::check_end(&outcome))?;
    Stats::read(&statistics)
}
