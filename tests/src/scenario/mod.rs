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
use crate::pool::{Item, Load};
use crate::program;
use crate::stats::Stats;
use crate::{Extent, Setup};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

/// A test in code.
pub struct Scenario {
    /// What it shows.
    pub name: &'static str,
    /// `scenario`, or one that must be asked for.
    pub group: &'static str,
    /// Programs that it runs, compiled beforehand.
    pub programs: &'static [(Mpi, &'static str)],
    /// Whether it makes sense only with the library.
    pub preloads: bool,
    /// Of the scenarios of a family a sample has one; of those without a family it has all.
    family: Option<&'static str>,
    /// Runs it.
    pub run: fn(&Setup) -> Result<()>,
}

const fn scenario(name: &'static str, run: fn(&Setup) -> Result<()>) -> Scenario {
    Scenario {
        name,
        group: "scenario",
        programs: &[],
        preloads: true,
        family: None,
        run,
    }
}

impl Scenario {
    /// The same as one of a family.
    const fn of(self, family: &'static str) -> Self {
        Self {
            family: Some(family),
            ..self
        }
    }

    /// Whether it runs.
    pub fn is_in(&self, extent: Extent, seed: u64) -> bool {
        let all = ALL.iter().map(|one| (one.family, one.name));
        extent != Extent::Sample || sample::is_drawn(seed, self.family, all, self.name)
    }

    /// As something to run among others; most of the time scenarios wait.
    pub fn item(&self) -> Item<'_> {
        Item {
            name: self.name,
            weight: 1000,
            load: match self.group {
                "scenario" => Load::Asleep,
                _ => Load::Alone,
            },
            run: Box::new(|setup| (self.run)(setup)),
        }
    }
}

/// A scenario on several hosts: programs are compiled where there is a compiler.
const fn on_nodes(name: &'static str, run: fn(&Setup) -> Result<()>) -> Scenario {
    Scenario {
        group: "nodes",
        programs: rails::PROGRAMS,
        ..scenario(name, run)
    }
}

/// A scenario on RDMA devices: programs are compiled where there is a compiler.
const fn with_devices(name: &'static str, run: fn(&Setup) -> Result<()>) -> Scenario {
    Scenario {
        group: "verbs",
        programs: memlock::PROGRAMS,
        ..scenario(name, run)
    }
}

/// Every scenario.
pub const ALL: &[Scenario] = &[
    Scenario {
        preloads: false,
        ..scenario("killed-rank/host", faults::killed_rank_of_the_host)
    },
    scenario("killed-rank/openmpi", |setup| {
        faults::killed_rank(setup, Mpi::Open)
    })
    .of("killed rank"),
    scenario("killed-rank/mpich", |setup| {
        faults::killed_rank(setup, Mpi::Mpich)
    })
    .of("killed rank"),
    scenario("killed-rank/abi", |setup| {
        faults::killed_rank(setup, Mpi::Abi)
    })
    .of("killed rank"),
    scenario(
        "rail-that-cannot-be-opened",
        faults::rail_that_cannot_be_opened,
    ),
    scenario("rails-lost/openmpi", |setup| rails::lost(setup, Mpi::Open)),
    scenario("rails-lost/mpich", |setup| rails::lost(setup, Mpi::Mpich)),
    on_nodes("nodes-failing-rails", rails::failing).of("harm between nodes"),
    on_nodes("nodes-device-removed", rails::device_removed).of("harm between nodes"),
    on_nodes("nodes-rails-lost", rails::lost_between_nodes).of("harm between nodes"),
    on_nodes("nodes-shares", rails::shares).of("harm between nodes"),
    on_nodes("nodes-multicast-lossy", multicast::lossy).of("harm between nodes"),
    on_nodes("nodes-preload-on-one", presence::preload_on_one_host).of("harm between nodes"),
    scenario("device-memory/openmpi", |setup| {
        presence::device_memory(setup, Mpi::Open)
    })
    .of("device memory"),
    scenario("device-memory/mpich", |setup| {
        presence::device_memory(setup, Mpi::Mpich)
    })
    .of("device memory"),
    scenario("sessions-alone/mpich", |setup| {
        presence::sessions_alone(setup, Mpi::Mpich)
    }),
    scenario("sessions-alone/abi", |setup| {
        presence::sessions_alone(setup, Mpi::Abi)
    }),
    scenario("tiny-dev-shm", faults::tiny_dev_shm),
    scenario("memlock-modelled", memlock::modelled),
    with_devices("verbs-memlock", memlock::on_devices).of("refusals of devices"),
    scenario("failing-steps/openmpi", |setup| {
        steps::failing_steps(setup, Mpi::Open)
    })
    .of("failing steps"),
    scenario("failing-steps/mpich", |setup| {
        steps::failing_steps(setup, Mpi::Mpich)
    })
    .of("failing steps"),
    scenario("refused-memory/openmpi", |setup| {
        steps::refused_memory(setup, Mpi::Open)
    })
    .of("refused memory"),
    scenario("refused-memory/mpich", |setup| {
        steps::refused_memory(setup, Mpi::Mpich)
    })
    .of("refused memory"),
    Scenario {
        programs: steps::PROGRAMS,
        ..with_devices("verbs-failing-steps", steps::failing_on_devices)
    }
    .of("refusals of devices"),
    scenario("hang-tells/openmpi", |setup| steps::hang(setup, Mpi::Open)).of("hang tells"),
    scenario("hang-tells/mpich", |setup| steps::hang(setup, Mpi::Mpich)).of("hang tells"),
    scenario("stopped-rank/openmpi", |setup| {
        steps::stopped(setup, Mpi::Open)
    })
    .of("stopped or killed"),
    scenario("stopped-rank/mpich", |setup| {
        steps::stopped(setup, Mpi::Mpich)
    })
    .of("stopped or killed"),
    scenario("killed-rank-anywhere/openmpi", |setup| {
        steps::killed(setup, Mpi::Open)
    })
    .of("stopped or killed"),
    scenario("killed-rank-anywhere/mpich", |setup| {
        steps::killed(setup, Mpi::Mpich)
    })
    .of("stopped or killed"),
    scenario("stopped-for-ever/openmpi", |setup| {
        steps::stopped_for_ever(setup, Mpi::Open)
    })
    .of("stopped or killed"),
    scenario("stopped-for-ever/mpich", |setup| {
        steps::stopped_for_ever(setup, Mpi::Mpich)
    })
    .of("stopped or killed"),
    scenario("libraries-absent", environment::libraries_absent),
    scenario("launcher-undisturbed", environment::launcher_undisturbed),
    scenario(
        "plain-program-undisturbed",
        environment::plain_program_undisturbed,
    ),
    scenario("unknown-setting", environment::unknown_setting),
    scenario("unknown-value", environment::unknown_value),
    scenario("statistics-complete/openmpi", |setup| {
        statistics::complete(setup, Mpi::Open)
    })
    .of("statistics complete"),
    scenario("statistics-complete/mpich", |setup| {
        statistics::complete(setup, Mpi::Mpich)
    })
    .of("statistics complete"),
    scenario("tool-in-front/openmpi", |setup| {
        tools::in_front(setup, Mpi::Open)
    })
    .of("tool in front or behind"),
    scenario("tool-in-front/mpich", |setup| {
        tools::in_front(setup, Mpi::Mpich)
    })
    .of("tool in front or behind"),
    scenario("tool-in-front/abi", |setup| {
        tools::in_front(setup, Mpi::Abi)
    })
    .of("tool in front or behind"),
    scenario("tool-behind/openmpi", |setup| {
        tools::behind(setup, Mpi::Open)
    })
    .of("tool in front or behind"),
    scenario("tool-behind/mpich", |setup| {
        tools::behind(setup, Mpi::Mpich)
    })
    .of("tool in front or behind"),
    scenario("tool-that-hides-calls/openmpi", |setup| {
        tools::rival(setup, Mpi::Open)
    }),
    scenario("tool-that-hides-calls/mpich", |setup| {
        tools::rival(setup, Mpi::Mpich)
    }),
    scenario("files/openmpi", |setup| tools::files(setup, Mpi::Open)),
    scenario("files/mpich", |setup| tools::files(setup, Mpi::Mpich)),
    scenario("exec/openmpi", |setup| environment::exec(setup, Mpi::Open)),
    scenario("exec/mpich", |setup| environment::exec(setup, Mpi::Mpich)),
    scenario("exec/abi", |setup| environment::exec(setup, Mpi::Abi)),
];

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

/// A small sort on four ranks, two virtual nodes and two loopback rails, with more settings.
fn radix(setup: &Setup, mpi: Mpi, settings: &[(&str, &str)]) -> Result<Job> {
    let executable = program::build(setup, mpi, RADIX)?;
    let program = [
        executable.display().to_string(),
        "-n".into(),
        "20000".into(),
        "-s".into(),
        "1".into(),
    ];
    let mut all = environment(&[
        ("FERRORAIL_FABRIC", "loopback"),
        ("FERRORAIL_NODE_SIZE", "2"),
        ("FERRORAIL_RAILS", "2"),
    ]);
    all.extend(environment(settings));
    Ok(judge::launch(setup, mpi, 4, &all, &program, LIMIT))
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
    let particulars =
        |outcome: &Outcome| format!("{}\n{}", job.reproduce(), judge::excerpt(outcome));
    let outcome = job.run(&folder)?;
    judge::check_end(&outcome).with_context(|| particulars(&outcome))?;
    let stats = Stats::read(&statistics).with_context(|| particulars(&outcome))?;
    Ok((outcome, stats))
}

/// The same job over the host alone: what the output must be.
fn reference(setup: &Setup, mpi: Mpi) -> Result<String> {
    let host = setup.host_alone();
    let job = radix(&host, mpi, &[])?;
    let outcome = job.run(&judge::fresh_folder(&host)?)?;
    judge::check_end(&outcome).with_context(|| job.reproduce())?;
    hash(&outcome)
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
