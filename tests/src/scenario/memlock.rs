//! Limits of locked memory: where nothing can be registered, and where large buffers cannot.

use super::{check_right, one_line, run};
use crate::Setup;
use crate::job::Job;
use crate::judge;
use crate::mpi::Mpi;
use crate::stats::Stats;
use anyhow::{Context, Result, ensure};
use std::time::Duration;

const MOVING: &str = "c/moving_memory.c";

/// What the scenarios on devices run.
pub const PROGRAMS: &[(Mpi, &str)] = &[(Mpi::Open, MOVING), (Mpi::Mpich, MOVING)];

/// An ordinary limit, in bytes: no more than the front of a node segment can be registered.
const ORDINARY: u64 = 64 << 10;

/// What a limit may leave beside node segments, so that the receive buffers of four ranks' blocks of
/// [`BLOCK`] bytes cannot be registered.
const SPARE: u64 = 160 << 10;

const RAILS: u64 = 2;

const BLOCK: &str = "60000";

/// Emulated machines are slow.
const LIMIT: Duration = Duration::from_secs(120);

fn job(setup: &Setup, mpi: Mpi, settings: &[(&str, &str)]) -> Result<Job> {
    let shape = [("FERRORAIL_NODE_SIZE", "2"), ("FERRORAIL_RAILS", "2")];
    let settings = [&shape, settings].concat();
    let job = super::job(setup, mpi, 4, (MOVING, &[BLOCK, "1"]), &settings)?;
    Ok(Job {
        timeout: LIMIT,
        ..job
    })
}

/// The job as a user without privileges, who may lock `bytes` bytes.
fn limited(setup: &Setup, mpi: Mpi, bytes: u64) -> Result<Job> {
    let mut job = job(setup, mpi, &[("FERRORAIL_FABRIC", "verbs")])?;
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let mut words: Vec<String> = nobody.map(str::to_owned).into();
    let limit = format!("--memlock={bytes}:{bytes}");
    let rest = ["prlimit", &limit, "env", "HOME=/tmp", "TMPDIR=/tmp"];
    words.extend(rest.map(str::to_owned));
    words.append(&mut job.words);
    job.words = words;
    Ok(job)
}

/// On RDMA devices; one limit under each host, as emulated machines are slow, or the first alone.
pub fn on_devices(setup: &Setup) -> Result<()> {
    let segment = check_nothing(setup, limited(setup, Mpi::Open, ORDINARY)?)?;
    if setup.drawn(&["nothing", "pieces"]).contains(&"pieces") {
        // Each rail locks memory of its own.
        check_pieces(setup, limited(setup, Mpi::Mpich, RAILS * segment + SPARE)?)?;
    }
    Ok(())
}

/// On loopback rails that refuse as devices do, each by itself.
pub fn modelled(setup: &Setup) -> Result<()> {
    let modelled = |limit: u64| {
        let faults = format!("loop1:limit:bytes={limit}");
        let settings = [
            ("FERRORAIL_FABRIC", "loopback"),
            ("FERRORAIL_LOOPBACK_FAULTS", faults.as_str()),
        ];
        job(setup, Mpi::Open, &settings)
    };
    let segment = check_nothing(setup, modelled(ORDINARY)?)?;
    check_pieces(setup, modelled(segment + SPARE)?)
}

/// Where no node segment can be registered one line says so, and the host's collectives run. The length of
/// the node segment that the line names.
fn check_nothing(setup: &Setup, job: Job) -> Result<u64> {
    let (outcome, stats) = run(setup, job)?;
    let check = || -> Result<u64> {
        check_right(&outcome)?;
        let line = one_line(&outcome, "WARN")?;
        ensure!(line.contains("left to the host MPI"), "{line}");
        // Barriers take the front alone.
        let data = stats
            .collectives
            .iter()
            .filter(|row| row.collective != "barrier");
        let carried: u64 = data.map(|row| row.calls).sum();
        ensure!(carried == 0, "{carried} calls ran");
        stats.check_forwarded(&["no connection".to_owned()])?;
        let (_, bytes) = line.split_once(" failed for ").context("no length")?;
        let bytes = bytes.split(' ').next().unwrap_or_default();
        Ok(bytes.parse()?)
    };
    check().with_context(|| judge::excerpt(&outcome))
}

/// Where user buffers cannot be registered, ferrorail's collectives run all the same.
fn check_pieces(setup: &Setup, job: Job) -> Result<()> {
    let (outcome, stats) = run(setup, job)?;
    let check = |stats: &Stats| -> Result<()> {
        check_right(&outcome)?;
        // Each process says it once.
        let lines = outcome.stderr.lines();
        let lines = lines.filter(|line| line.contains("in pieces")).count();
        ensure!((1..=4).contains(&lines), "{lines} lines about it");
        stats.check_taken()?;
        stats.check_forwarded(&[])?;
        stats.check_staged(true)
    };
    check(&stats).with_context(|| judge::excerpt(&outcome))
}
