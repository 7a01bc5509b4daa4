//! Killed ranks, rails that do not open, shared memory that is too small.

use super::{LIMIT, explained, hash, in_mount_namespace, job, one_line, radix, reference, run};
use crate::Setup;
use crate::job::Outcome;
use crate::judge;
use crate::mpi::Mpi;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

const RANKS: u32 = 4;

/// A rank dies in the middle of all-gathers: the job ends as soon as the launcher ends it, and
/// nothing is left. Both on one node and across rails, with memfd and POSIX shared memory.
pub fn killed_rank(setup: &Setup, mpi: Mpi) -> Result<()> {
    let shapes = [
        ("0", "memfd", "64"),
        ("2", "memfd", "64"),
        ("2", "posix", "65536"),
    ];
    for (node_size, shm, ints) in shapes {
        let settings = [
            ("FERRORAIL_FABRIC", "loopback"),
            ("FERRORAIL_NODE_SIZE", node_size),
            ("FERRORAIL_SHM", shm),
        ];
        kill_one(setup, mpi, &settings, ints)
            .with_context(|| format!("nodes of {node_size}, {shm}, {ints} ints"))?;
    }
    Ok(())
}

/// The same over the host alone: the measure of what the launcher does by itself.
pub fn killed_rank_of_the_host(setup: &Setup) -> Result<()> {
    let host = setup.host_alone();
    kill_one(&host, Mpi::Open, &[], "64")
}

fn kill_one(setup: &Setup, mpi: Mpi, settings: &[(&str, &str)], ints: &str) -> Result<()> {
    // Launchers tear a job down within a second or two when a rank dies.
    const TEAR_DOWN: Duration = Duration::from_secs(10);
    let job = job(setup, mpi, RANKS, ("apps/forever.c", &[ints]), settings)?;
    let running = job.start(&judge::fresh_folder(setup)?)?;
    let mut victim = None;
    while victim.is_none() && running.elapsed() < LIMIT / 2 {
        std::thread::sleep(Duration::from_millis(20));
        victim = all_ranks_run(&running.stdout());
    }
    let killed = running.elapsed();
    if let Some(pid) = victim {
        kill(Pid::from_raw(pid), Signal::SIGKILL).context("cannot kill the rank")?;
    }
    let outcome = running.finish()?;
    let tear_down = outcome.elapsed.saturating_sub(killed);
    let check = || -> Result<()> {
        ensure!(
            victim.is_some(),
            "the ranks did not all start: {}",
            outcome.ending()
        );
        ensure!(
            outcome.status.is_some(),
            "the job went on after its rank was killed"
        );
        ensure!(
            outcome.status.is_some_and(|status| !status.success()),
            "the job ended well"
        );
        ensure!(tear_down < TEAR_DOWN, "it took {tear_down:?} to end");
        judge::check_clean(&outcome)
    };
    explained(&job, &outcome, check())
}

/// Once every rank has printed its process id: that of rank 1.
fn all_ranks_run(printed: &str) -> Option<i32> {
    let lines: Vec<&str> = printed
        .lines()
        .filter(|line| line.starts_with("rank "))
        .collect();
    let victim = lines
        .iter()
        .find_map(|line| line.strip_prefix("rank 1 pid "))?;
    (lines.len() == RANKS as usize).then(|| victim.trim().parse().ok())?
}

/// A rail that does not exist costs one clear line; the job runs on the others.
pub fn missing_rail(setup: &Setup) -> Result<()> {
    let expected = reference(setup, Mpi::Open)?;
    let job = radix(setup, Mpi::Open, &[("FERRORAIL_RAILS", "loop0,nonsense")])?;
    let (outcome, stats) = run(setup, job)?;
    one_line(&outcome, "nonsense")?;
    ensure!(hash(&outcome)? == expected, "the output differs");
    stats.check_taken()?;
    let names: Vec<&str> = stats.rails.iter().map(|rail| rail.rail.as_str()).collect();
    ensure!(names == ["loop0"], "rails: {}", names.join(", "));
    ensure!(stats.rails[0].bytes > 0, "nothing went over loop0");
    Ok(())
}

/// `/dev/shm` too small for a node segment: one line that names the setting, then the host's
/// collective.
pub fn tiny_dev_shm(setup: &Setup) -> Result<()> {
    let expected = reference(setup, Mpi::Open)?;
    // Open MPI's own segments would not fit either.
    let settings = [
        ("FERRORAIL_SHM", "posix"),
        ("OMPI_MCA_btl_vader_backing_directory", "/tmp"),
    ];
    let mut job = radix(setup, Mpi::Open, &settings)?;
    job.words = in_mount_namespace("mount -t tmpfs -o size=64k tmpfs /dev/shm", &job.words);
    let (outcome, stats) = run(setup, job)?;
    names_shm(&outcome)?;
    ensure!(hash(&outcome)? == expected, "the output differs");
    let forwarded: u64 = stats.forwarded.iter().map(|row| row.calls).sum();
    ensure!(forwarded > 0, "no call was left to the host");
    Ok(())
}

fn names_shm(outcome: &Outcome) -> Result<()> {
    let line = one_line(outcome, "/dev/shm")?;
    ensure!(
        line.contains("FERRORAIL_SHM"),
        "the line does not name the setting: {line}"
    );
    Ok(())
}
