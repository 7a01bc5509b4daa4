//! A set-up of which one step fails, and ranks that are stopped or killed.

use super::{LIMIT, check_right, explained, preload_in_front};
use crate::job::{Job, Outcome};
use crate::judge;
use crate::mpi::Mpi;
use crate::program;
use crate::{Extent, Setup};
use anyhow::{Context, Result, bail, ensure};
use std::time::Duration;

const STEPS: &str = "c/set_up_steps.c";
const SIZES: &str = "apps/sizes.c";
const REFUSED: &str = "c/refused_memory.c";
const HANGS: &str = "c/hangs.c";
const STOPPED: &str = "c/stopped.c";
const RANKS: u32 = 3;

/// How many of the steps are tried for each shape of nodes, unless all are.
const SAMPLES: u32 = 6;

/// Pieces of memory that its calls want at least.
const REFUSED_MIN: u32 = 8;

/// What the scenarios on devices run.
pub const PROGRAMS: &[(Mpi, &str)] = &[(Mpi::Open, STEPS), (Mpi::Open, SIZES)];

/// Each step of one rank's set-up fails in a job of its own (`aids/fail_step.c`): results are right all the
/// same, or all ranks get the same error and go on. A sample is drawn from the seed; the extent `all` tries each.
pub fn failing_steps(setup: &Setup, mpi: Mpi) -> Result<()> {
    let settings = [("FERRORAIL_FABRIC", "loopback")];
    for node_size in ["0", "1", "2"] {
        each_step(setup, mpi, node_size, (SAMPLES, ""), &settings)?;
    }
    Ok(())
}

/// The same on RDMA devices: one step of what is asked of verbs, and all queue pairs from one on; a sample has either. Then
/// a rail whose completions cannot be polled after a while.
pub fn failing_on_devices(setup: &Setup) -> Result<()> {
    for &(only, rest) in setup.drawn(&[("ibv_", ""), ("ibv_create_qp", "+")]) {
        let settings = [
            ("FERRORAIL_FABRIC", "verbs"),
            ("FERRORAIL_RAILS", "2"),
            ("FAIL_ONLY", only),
        ];
        each_step(setup, Mpi::Open, "1", (SAMPLES / 2, rest), &settings).with_context(|| only)?;
    }
    failing_polls(setup)
}

/// The other rail carries what the first does not, which all ranks leave.
fn failing_polls(setup: &Setup) -> Result<()> {
    for &polls in setup.drawn(&["0", "100", "1000"]) {
        let settings = [
            ("FERRORAIL_FABRIC", "verbs"),
            ("FERRORAIL_RAILS", "2"),
            ("FERRORAIL_NODE_SIZE", "1"),
        ];
        let mut job = job(setup, Mpi::Open, SIZES, &["65536"], &settings)?;
        preload_in_front(&mut job, &program::fail_step(setup).display().to_string())?;
        job.environment.insert("FAIL_POLLS".into(), polls.into());
        let outcome = job.run(&judge::fresh_folder(setup)?)?;
        let judged = judge::check_end(&outcome).and_then(|()| {
            let says = |line| outcome.stderr.contains(line);
            ensure!(outcome.stdout.contains("right=yes"), "wrong results");
            ensure!(says("polls fail"), "no poll failed");
            ensure!(says("ibv_poll_cq returned -1"), "nobody says what failed");
            Ok(())
        });
        explained(&job, &outcome, judged).with_context(|| format!("after {polls} polls"))?;
    }
    Ok(())
}

/// Each large piece of memory that calls with derived types want is refused to one rank, in one job for each shape of
/// nodes, or for the one drawn: all ranks get an error or what they should, and the job ends.
pub fn refused_memory(setup: &Setup, mpi: Mpi) -> Result<()> {
    for &node_size in setup.drawn(&["0", "1", "2"]) {
        let settings = [
            ("FERRORAIL_FABRIC", "loopback"),
            ("FERRORAIL_NODE_SIZE", node_size),
            ("FERRORAIL_LOG", "off"),
        ];
        let mut job = job(setup, mpi, REFUSED, &[], &settings)?;
        preload_in_front(&mut job, &program::fail_step(setup).display().to_string())?;
        let outcome = job.run(&judge::fresh_folder(setup)?)?;
        let refused = |line: &str| -> Option<u32> {
            line.strip_suffix(" refused")?
                .rsplit(' ')
                .next()?
                .parse()
                .ok()
        };
        let pieces: u32 = outcome.stdout.lines().filter_map(refused).sum();
        let judged = right(&outcome).and_then(|()| {
            ensure!(pieces >= REFUSED_MIN, "only {pieces} pieces were refused");
            Ok(())
        });
        explained(&job, &outcome, judged).with_context(|| format!("in nodes of {node_size}"))?;
    }
    Ok(())
}

/// Tries about so many of the steps in nodes of that size, or all. With `rest` of "+" the ones after fail too.
fn each_step(
    setup: &Setup,
    mpi: Mpi,
    node_size: &str,
    (samples, rest): (u32, &str),
    settings: &[(&str, &str)],
) -> Result<()> {
    let settings = [settings, &[("FERRORAIL_NODE_SIZE", node_size)]].concat();
    let attempt = |step: u32| -> Result<Outcome> {
        let mut job = job(setup, mpi, STEPS, &[], &settings)?;
        let library = program::fail_step(setup);
        preload_in_front(&mut job, &library.display().to_string())?;
        let failing = format!("{step}{}", if step == 0 { "" } else { rest });
        job.environment.insert("FAIL_STEP".into(), failing);
        let outcome = job.run(&judge::fresh_folder(setup)?)?;
        explained(&job, &outcome, right(&outcome))
            .with_context(|| format!("step {step} in nodes of {node_size}"))?;
        Ok(outcome)
    };
    let steps = steps_in(&attempt(0)?)?;
    ensure!(steps > 5, "only {steps} steps in nodes of {node_size}");
    let every = match setup.extent {
        Extent::Sample => steps.div_ceil(samples.div_ceil(2)),
        Extent::List => steps.div_ceil(samples),
        Extent::All => 1,
    };
    let first = 1 + u32::try_from(setup.seed % u64::from(every))?;
    let (mut tried, mut failed) = (0, 0);
    for step in (first..=steps).step_by(every as usize) {
        let outcome = attempt(step)?;
        tried += 1;
        failed += usize::from(outcome.stderr.contains(&format!("step {step} fails")));
    }
    // Some of the last steps are made in some runs only.
    ensure!(
        failed + (tried / 16).max(2) >= tried && failed > 0,
        "only {failed} of {tried} steps were made in nodes of {node_size}"
    );
    Ok(())
}

/// The job ended well, with right results.
fn right(outcome: &Outcome) -> Result<()> {
    judge::check_end(outcome)?;
    check_right(outcome)
}

/// How many steps the rank has made.
fn steps_in(outcome: &Outcome) -> Result<u32> {
    let steps = outcome
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("steps: "));
    Ok(steps.context("no steps were counted")?.trim().parse()?)
}

/// What is shown of a job that does not end says rank by rank what each waits for, whether in ferrorail, in the host
/// MPI or elsewhere.
pub fn hang(setup: &Setup, mpi: Mpi) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(4);
    let nodes = [
        ("FERRORAIL_FABRIC", "loopback"),
        ("FERRORAIL_NODE_SIZE", "2"),
    ];
    let mut job = super::job(setup, mpi, 4, (HANGS, &[]), &nodes)?;
    job.timeout = LIMIT;
    let outcome = job.run(&judge::fresh_folder(setup)?)?;
    let excerpt = judge::excerpt(&outcome);
    ensure!(outcome.status.is_none(), "the job ended\n{excerpt}");
    let lines: Vec<&str> = excerpt.lines().collect();
    let wanted = [
        "ferrorail[0] waits for rank 1 in allreduce",
        "ferrorail[1] waits in no call of ferrorail",
        "ferrorail[2] waits for rank",
        "ferrorail[3] waits in the host MPI, in barrier",
    ];
    for (rank, wanted) in wanted.into_iter().enumerate() {
        let line = lines.get(rank).copied().unwrap_or_default();
        ensure!(line.contains(wanted), "no line `{wanted}`\n{excerpt}");
    }
    Ok(())
}

/// Where rank 1 is stopped or killed.
const MOMENTS: [&str; 3] = ["collective", "lock", "finalize"];

/// A rank that is stopped for a second is late, no more.
pub fn stopped(setup: &Setup, mpi: Mpi) -> Result<()> {
    each_moment(setup, mpi, &MOMENTS, &["stop", "1"], &[], |outcome| {
        judge::check_end(outcome)?;
        let right = outcome.stdout.matches("ok=yes").count();
        ensure!(right == RANKS as usize, "{right} ranks are right");
        Ok(())
    })
}

/// When a rank is killed the job ends soon, and nothing is left.
pub fn killed(setup: &Setup, mpi: Mpi) -> Result<()> {
    each_moment(setup, mpi, &MOMENTS, &["kill"], &[], ended_badly)
}

/// A rank that is stopped and never goes on ends the job after `FERRORAIL_PEER_TIMEOUT`, with a line that says
/// who was waited for. In `MPI_Finalize` it is the host that waits, as it does alone.
pub fn stopped_for_ever(setup: &Setup, mpi: Mpi) -> Result<()> {
    let settings = [("FERRORAIL_PEER_TIMEOUT", "2")];
    each_moment(setup, mpi, &MOMENTS[..2], &["stop"], &settings, |outcome| {
        ended_badly(outcome)?;
        ensure!(
            outcome.stderr.contains("FERRORAIL_PEER_TIMEOUT") || outcome.stderr.contains("rank 1"),
            "no line says who was waited for"
        );
        Ok(())
    })
}

fn ended_badly(outcome: &Outcome) -> Result<()> {
    // Launchers tear a job down within a second or two when a rank ends.
    const TEAR_DOWN: Duration = Duration::from_secs(15);
    match outcome.status {
        None => bail!("the job went on after its rank broke"),
        Some(status) => ensure!(!status.success(), "the job ended well"),
    }
    ensure!(
        outcome.elapsed < TEAR_DOWN,
        "it took {:?} to end",
        outcome.elapsed
    );
    judge::check_clean(outcome)
}

/// Runs the program once for each moment, on one node and on virtual ones.
fn each_moment(
    setup: &Setup,
    mpi: Mpi,
    moments: &[&str],
    how: &[&str],
    settings: &[(&str, &str)],
    judge: impl Fn(&Outcome) -> Result<()>,
) -> Result<()> {
    for &node_size in setup.drawn(&["0", "1"]) {
        for &moment in moments {
            let shape = [
                ("FERRORAIL_FABRIC", "loopback"),
                ("FERRORAIL_NODE_SIZE", node_size),
            ];
            let settings = [settings, &shape].concat();
            let arguments = [&[moment], how].concat();
            let job = job(setup, mpi, STOPPED, &arguments, &settings)?;
            let outcome = job.run(&judge::fresh_folder(setup)?)?;
            let broke = outcome.stderr.contains("rank 1 breaks");
            let judged = judge(&outcome).and_then(|()| {
                ensure!(broke, "the rank did not break");
                Ok(())
            });
            explained(&job, &outcome, judged)
                .with_context(|| format!("{moment} in nodes of {node_size}"))?;
        }
    }
    Ok(())
}

/// On [`RANKS`] ranks, with time for emulated machines, which are slow.
fn job(
    setup: &Setup,
    mpi: Mpi,
    source: &str,
    arguments: &[&str],
    settings: &[(&str, &str)],
) -> Result<Job> {
    let job = super::job(setup, mpi, RANKS, (source, arguments), settings)?;
    Ok(Job {
        timeout: 2 * LIMIT,
        ..job
    })
}
