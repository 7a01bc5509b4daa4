//! Tests that a row of the list cannot say: faults, and unusual environments.

mod environment;
mod faults;
mod memlock;
mod multicast;
mod presence;
mod rails;
mod statistics;
mod steps;
mod tools;

use crate::job::{Job, Outcome};
use crate::judge;
use crate::list::{Environment, sample};
use crate::mpi::Mpi;
use crate::pool::{Act, Item, Load};
use crate::program;
use crate::stats::Stats;
use crate::{Extent, Setup};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

/// What a scenario does.
enum Body {
    /// The same whatever the host MPI.
    Alone(fn(&Setup) -> Result<()>),
    /// For each of these, a scenario of its own.
    Under(&'static [Mpi], fn(&Setup, Mpi) -> Result<()>),
}

/// A test in code, or one for each of several host MPIs.
pub struct Row {
    name: &'static str,
    /// `scenario`, or one that must be asked for.
    pub group: &'static str,
    /// Programs that it runs, compiled beforehand.
    pub programs: &'static [(Mpi, &'static str)],
    /// Whether it makes sense only with the library.
    pub preloads: bool,
    /// Of the scenarios of a family a sample has one; of those without a family it has all.
    family: Option<&'static str>,
    body: Body,
}

/// A test in code.
pub struct Scenario {
    /// What it shows: the row's name, and the host MPI where there are several.
    pub name: String,
    /// Its row.
    pub row: &'static Row,
    run: Act<'static>,
}

impl Scenario {
    /// Whether it runs; `all` are there.
    pub fn is_in(&self, extent: Extent, seed: u64, all: &[Self]) -> bool {
        let all = all.iter().map(|one| (one.row.family, &one.name));
        extent != Extent::Sample || sample::is_drawn(seed, self.row.family, all, &self.name)
    }

    /// As something to run among others; most of the time scenarios wait.
    pub fn item(&self) -> Item<'_> {
        Item {
            name: &self.name,
            weight: 1000,
            load: match self.row.group {
                "scenario" => Load::Asleep,
                _ => Load::Alone,
            },
            run: Box::new(|setup| (self.run)(setup)),
        }
    }
}

const fn row(name: &'static str, body: Body) -> Row {
    Row {
        name,
        group: "scenario",
        programs: &[],
        preloads: true,
        family: None,
        body,
    }
}

const fn alone(name: &'static str, run: fn(&Setup) -> Result<()>) -> Row {
    row(name, Body::Alone(run))
}

/// Under Debian's MPIs.
const fn both(name: &'static str, run: fn(&Setup, Mpi) -> Result<()>) -> Row {
    row(name, Body::Under(&[Mpi::Open, Mpi::Mpich], run))
}

/// Under these and that with the MPI-5 ABI.
const fn each(name: &'static str, run: fn(&Setup, Mpi) -> Result<()>) -> Row {
    row(name, Body::Under(&[Mpi::Open, Mpi::Mpich, Mpi::Abi], run))
}

/// A scenario on several hosts: programs are compiled where there is a compiler.
const fn on_nodes(name: &'static str, run: fn(&Setup) -> Result<()>) -> Row {
    Row {
        group: "nodes",
        programs: rails::PROGRAMS,
        ..alone(name, run).of("harm between nodes")
    }
}

/// A scenario on RDMA devices: programs are compiled where there is a compiler.
const fn with_devices(
    name: &'static str,
    programs: &'static [(Mpi, &'static str)],
    run: fn(&Setup) -> Result<()>,
) -> Row {
    Row {
        group: "verbs",
        programs,
        ..alone(name, run).of("refusals of devices")
    }
}

impl Row {
    /// The same as one of a family.
    const fn of(self, family: &'static str) -> Self {
        Self {
            family: Some(family),
            ..self
        }
    }

    fn scenarios(&'static self) -> Vec<Scenario> {
        match self.body {
            Body::Alone(run) => vec![Scenario {
                name: self.name.to_owned(),
                row: self,
                run: Box::new(run),
            }],
            Body::Under(mpis, run) => {
                let scenarios = mpis.iter().map(|&mpi| Scenario {
                    name: format!("{}/{mpi}", self.name),
                    row: self,
                    run: Box::new(move |setup| run(setup, mpi)),
                });
                scenarios.collect()
            }
        }
    }
}

const NEITHER_OPEN: &[Mpi] = &[Mpi::Mpich, Mpi::Abi];

static ROWS: &[Row] = &[
    Row {
        preloads: false,
        ..alone("killed-rank/host", faults::killed_rank_of_the_host)
    },
    each("killed-rank", faults::killed_rank).of("killed rank"),
    alone("rail-that-cannot-be-opened", faults::missing_rail),
    both("rails-lost", rails::lost),
    on_nodes("nodes-failing-rails", rails::failing),
    on_nodes("nodes-device-removed", rails::device_removed),
    on_nodes("nodes-rails-lost", rails::lost_between_nodes),
    on_nodes("nodes-shares", rails::shares),
    on_nodes("nodes-multicast-lossy", multicast::lossy),
    on_nodes("nodes-preload-on-one", presence::preload_on_one_host),
    both("device-memory", presence::device_memory).of("device memory"),
    row(
        "sessions-alone",
        Body::Under(NEITHER_OPEN, presence::sessions_alone),
    ),
    alone("tiny-dev-shm", faults::tiny_dev_shm),
    alone("memlock-modelled", memlock::modelled),
    with_devices("verbs-memlock", memlock::PROGRAMS, memlock::on_devices),
    both("failing-steps", steps::failing_steps).of("failing steps"),
    both("refused-memory", steps::refused_memory).of("refused memory"),
    with_devices(
        "verbs-failing-steps",
        steps::PROGRAMS,
        steps::failing_on_devices,
    ),
    both("hang-tells", steps::hang).of("hang tells"),
    both("stopped-rank", steps::stopped).of("stopped or killed"),
    both("killed-rank-anywhere", steps::killed).of("stopped or killed"),
    both("stopped-for-ever", steps::stopped_for_ever).of("stopped or killed"),
    alone("libraries-absent", environment::libraries_absent),
    alone("launcher-undisturbed", environment::launcher_undisturbed),
    alone("plain-program-undisturbed", environment::plain_program),
    alone("unknown-setting", environment::unknown_setting),
    alone("unknown-value", environment::unknown_value),
    both("statistics-complete", statistics::complete).of("statistics complete"),
    each("tool-in-front", tools::in_front).of("tool in front or behind"),
    both("tool-behind", tools::behind).of("tool in front or behind"),
    both("tool-that-hides-calls", tools::rival),
    both("files", tools::files),
    each("exec", environment::exec),
];

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    ROWS.iter().flat_map(Row::scenarios).collect()
}

/// The application that scenarios run: small, and its output is known by its hash.
const RADIX: &str = "apps/radix.c";

/// Limit for a job of a scenario.
const LIMIT: Duration = Duration::from_secs(60);

/// The command line that runs `words` after `script`, in a mount namespace of its own.
fn in_mount_namespace(script: &str, words: &[String]) -> Vec<String> {
    let mut wrapped = vec!["unshare".to_owned(), "--mount".into()];
    if !nix::unistd::geteuid().is_root() {
        wrapped.push("--map-root-user".into());
    }
    let script = format!("set -euo pipefail; {script}; exec \"$@\"");
    wrapped.extend(["bash", "-c", &script, "bash"].map(str::to_owned));
    wrapped.extend(words.iter().cloned());
    wrapped
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let owned = pairs
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()));
    owned.collect()
}

/// The program of `source`, which is compiled if need be, and its arguments.
fn words(setup: &Setup, mpi: Mpi, source: &str, arguments: &[&str]) -> Result<Vec<String>> {
    let executable = program::build(setup, mpi, source)?;
    let mut words = vec![executable.display().to_string()];
    words.extend(arguments.iter().map(|&word| word.to_owned()));
    Ok(words)
}

/// A program with arguments on so many ranks of this host.
fn job(
    setup: &Setup,
    mpi: Mpi,
    ranks: u32,
    (source, arguments): (&str, &[&str]),
    settings: &[(&str, &str)],
) -> Result<Job> {
    let words = words(setup, mpi, source, arguments)?;
    let settings = environment(settings);
    Ok(judge::launch(setup, mpi, ranks, &settings, &words, LIMIT))
}

/// A small sort on four ranks, two virtual nodes and two loopback rails, with more settings.
fn radix(setup: &Setup, mpi: Mpi, settings: &[(&str, &str)]) -> Result<Job> {
    let shape = [
        ("FERRORAIL_FABRIC", "loopback"),
        ("FERRORAIL_NODE_SIZE", "2"),
        ("FERRORAIL_RAILS", "2"),
    ];
    let program: (_, &[&str]) = (RADIX, &["-n", "20000", "-s", "1"]);
    job(setup, mpi, 4, program, &[&shape, settings].concat())
}

/// What the job's ranks preload: `LD_PRELOAD=` and the libraries.
fn preloads(job: &mut Job) -> Result<&mut String> {
    let mut words = job.words.iter_mut();
    words
        .find(|word| word.starts_with("LD_PRELOAD="))
        .context("the job preloads")
}

/// What a launcher's environment has to say for its ranks to preload ferrorail.
fn preload(setup: &Setup) -> Result<Environment> {
    let library = setup.library.as_ref().context("this needs the library")?;
    Ok(environment(&[(
        "LD_PRELOAD",
        &library.display().to_string(),
    )]))
}

/// Preloads a library into the job's ranks, before the others.
fn preload_in_front(job: &mut Job, library: &str) -> Result<()> {
    preloads(job)?.insert_str("LD_PRELOAD=".len(), &format!("{library}:"));
    Ok(())
}

/// Runs a job with statistics; it must end well. Returns what it printed and the statistics.
fn run(setup: &Setup, mut job: Job) -> Result<(Outcome, Stats)> {
    let folder = judge::fresh_folder(setup)?;
    let statistics = folder.join("stats.json");
    let file = statistics.display().to_string();
    job.environment.insert("FERRORAIL_STATS".into(), file);
    let outcome = job.run(&folder)?;
    let stats = judge::check_end(&outcome).and_then(|()| Stats::read(&statistics));
    let stats = explained(&job, &outcome, stats)?;
    Ok((outcome, stats))
}

/// With what shows a failure again, and how it looked.
fn explained<T>(job: &Job, outcome: &Outcome, result: Result<T>) -> Result<T> {
    result.with_context(|| format!("\n  {}\n{}", job.reproduce(), judge::excerpt(outcome)))
}

/// Whether the program says that all data is right.
fn check_right(outcome: &Outcome) -> Result<()> {
    let is_right = outcome.stdout.contains("ok=yes");
    ensure!(is_right, "wrong data\n{}", judge::excerpt(outcome));
    Ok(())
}

/// The same job over the host alone: what the output must be.
fn reference(setup: &Setup, mpi: Mpi) -> Result<String> {
    let host = setup.host_alone();
    let job = radix(&host, mpi, &[])?;
    let try_once = || {
        let outcome = job.run(&judge::fresh_folder(&host)?)?;
        judge::check_end(&outcome).with_context(|| job.reproduce())?;
        hash(&outcome)
    };
    // Open MPI 4.1.4 has ended with a segmentation fault by itself, twice in some thousand jobs: in a thread whose library
    // it had unloaded.
    try_once().or_else(|_| try_once())
}

/// The hash of the sorted keys; an error if they are not sorted.
fn hash(outcome: &Outcome) -> Result<String> {
    let printed = &outcome.stdout;
    ensure!(
        printed.contains("sorted=yes"),
        "the keys are not sorted: {printed}"
    );
    let (_, rest) = printed
        .split_once("output_hash=")
        .context("no hash was printed")?;
    Ok(rest.split_whitespace().next().unwrap_or("").to_owned())
}

/// Lines of the standard error that contain `word`; there must be just one, over all ranks.
fn one_line<'a>(outcome: &'a Outcome, word: &str) -> Result<&'a str> {
    let lines: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| line.contains(word))
        .collect();
    ensure!(
        lines.len() == 1,
        "{} lines name {word}:\n{}",
        lines.len(),
        outcome.stderr
    );
    Ok(lines[0])
}
