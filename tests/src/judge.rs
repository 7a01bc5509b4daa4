//! One case of the test list, from launch to verdict.

use crate::Setup;
use crate::job::{Job, Outcome, WAIT_SIGNAL};
use crate::list::{Case, Environment};
use crate::mpi::Mpi;
use crate::pool::{Item, Load};
use crate::program;
use crate::stats::Stats;
use anyhow::{Context, Result, bail, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

/// Of so many ranks, those that spin while they wait leave a core to another job.
const LIGHT_RANKS: u32 = 3;

/// A case as something to run among others.
pub fn item(case: &Case) -> Item<'_> {
    let load = match (case.group.as_str(), case.asleep) {
        ("verbs" | "nodes", _) => Load::Alone,
        (_, true) => Load::Asleep,
        (_, false) if case.ranks <= LIGHT_RANKS && case.rounds.len() <= 1 => Load::Light,
        (_, false) => Load::Busy,
    };
    Item {
        name: &case.name,
        weight: case.rounds.len().max(1) as u64 * u64::from(case.ranks),
        load,
        run: Box::new(|setup| run(setup, case)),
    }
}

/// Runs a case; an error says what is wrong and how to see it again.
fn run(setup: &Setup, case: &Case) -> Result<()> {
    let folder = fresh_folder(setup)?;
    let statistics = folder.join("stats.json");
    let file = setup.library.as_ref().map(|_| statistics.as_path());
    let job = job(setup, case, file)?;
    let outcome = job.run(&folder)?;
    judge(setup, case, &outcome, &statistics)
        .with_context(|| format!("\n  {}\n{}", job.reproduce(), excerpt(&outcome)))
        .map_err(reorder)
}

/// The job that a case stands for; it leaves its statistics in the file.
pub fn job(setup: &Setup, case: &Case, statistics: Option<&Path>) -> Result<Job> {
    let executable = program::path(setup, case.mpi, &case.program);
    let mut arguments = vec![executable.display().to_string()];
    arguments.extend(case.arguments.clone());
    let timeout = Duration::from_secs(case.timeout_s);
    let mut settings = case.environment.clone();
    if let Some(file) = statistics {
        settings.insert("FERRORAIL_STATS".into(), file.display().to_string());
    }
    if let Some(rounds) = case.rounds_for_the_program() {
        settings.insert("TEST_SETTINGS".into(), rounds);
    }
    let hosts = setup.hosts(case.hosts)?;
    let (mpi, ranks) = (case.mpi, case.ranks);
    Ok(launch_on(
        setup,
        mpi,
        (ranks, hosts),
        &settings,
        &arguments,
        timeout,
    ))
}

/// A job of so many processes of a program on `hosts`, or on this one if there are none.
pub fn launch_on(
    setup: &Setup,
    mpi: Mpi,
    (ranks, hosts): (u32, &[String]),
    settings: &Environment,
    program: &[String],
    timeout: Duration,
) -> Job {
    let (launcher, preloads) = (
        mpi.launcher(setup, ranks, hosts),
        preloads(setup, mpi, (ranks, hosts)),
    );
    if hosts.is_empty() {
        return start(mpi, launcher, preloads, settings, program, timeout);
    }
    // Launchers differ in which variables reach other hosts: the ranks get them by their words.
    let mut words = vec!["env".to_owned()];
    words.extend(
        settings
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    words.extend_from_slice(program);
    let none = Environment::new();
    start(mpi, launcher, preloads, &none, &words, timeout)
}

/// A job of `ranks` processes of a program on this host.
pub fn launch(
    setup: &Setup,
    mpi: Mpi,
    ranks: u32,
    settings: &Environment,
    program: &[String],
    timeout: Duration,
) -> Job {
    launch_on(setup, mpi, (ranks, &[]), settings, program, timeout)
}

/// ferrorail, and what keeps MPICH's ranks from taking the cores from each other, and from hanging at the end
/// of jobs on several hosts.
fn preloads(setup: &Setup, mpi: Mpi, (ranks, hosts): (u32, &[String])) -> Vec<PathBuf> {
    let mut libraries: Vec<PathBuf> = setup.library.iter().cloned().collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if mpi.never_yields() && (ranks as usize > cores || !hosts.is_empty()) {
        libraries.push(program::give_way(setup));
    }
    libraries
}

/// The libraries are preloaded into the ranks alone: the launcher is left as it is.
fn start(
    mpi: Mpi,
    mut words: Vec<String>,
    preloads: Vec<PathBuf>,
    settings: &Environment,
    program: &[String],
    timeout: Duration,
) -> Job {
    let mut environment = settings.clone();
    for (name, value) in mpi.environment() {
        environment.insert((*name).into(), (*value).into());
    }
    if !preloads.is_empty() {
        let signal = (WAIT_SIGNAL as i32).to_string();
        environment.insert("FERRORAIL_WAIT_SIGNAL".into(), signal);
        let names: Vec<_> = preloads
            .iter()
            .map(|library| library.display().to_string())
            .collect();
        words.extend(["env".to_owned(), format!("LD_PRELOAD={}", names.join(":"))]);
    }
    words.extend(program.iter().cloned());
    Job {
        words,
        environment,
        timeout,
    }
}

/// An empty folder for the output of the one job that runs on the setup's lane.
pub fn fresh_folder(setup: &Setup) -> Result<PathBuf> {
    let folder = setup.work.join(format!("job{}", setup.lane));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot empty the folder of the last job")?;
    }
    std::fs::create_dir_all(&folder).context("cannot make a folder for the job")?;
    // Some jobs run as another user.
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&folder, everybody).context("cannot open the folder of the job")?;
    Ok(folder)
}

fn judge(setup: &Setup, case: &Case, outcome: &Outcome, statistics: &Path) -> Result<()> {
    check_end(outcome)?;
    let printed = format!("{}{}", outcome.stdout, outcome.stderr);
    for piece in &case.expect.output {
        ensure!(
            printed.contains(piece),
            "`{piece}` is missing in the output"
        );
    }
    if setup.library.is_none() {
        return Ok(());
    }
    let wanted = |line: &&str| case.expect.output.iter().any(|piece| line.contains(piece));
    let others: Vec<&str> = printed.lines().filter(|line| !wanted(line)).collect();
    check_silence(&others.join("\n"))?;
    let stats = Stats::read(statistics)?;
    // What runs for so long or is drawn does not run the same each time.
    if !case.drawn && case.program != "c/mixed_loop.c" {
        let place = match case.group.as_str() {
            place @ ("verbs" | "nodes") => place,
            _ => "loopback",
        };
        let lines = stats.ran().map(|row| format!("{place} {} {row}", case.mpi));
        let mut ran = setup.ran.lock().unwrap_or_else(PoisonError::into_inner);
        ran.extend(lines);
    }
    if case.expect.taken {
        stats.check_taken()?;
    }
    if case.expect.taken && case.expect.forced && case.ranks > 1 {
        for settings in case.settings() {
            stats.check_forced(case.ranks, case.hosts, &settings)?;
        }
    }
    stats.check_forwarded(&case.expect.forwarded)?;
    if let Some(percent) = case.expect.share {
        stats.check_share(percent)?;
    }
    stats.check_packing(case.expect.packed_by_host)?;
    if case.expect.even_rails {
        stats.check_even_rails()?;
    }
    if let Some(wanted) = case.expect.rails_used {
        stats.check_rails_used(wanted)?;
    }
    if let Some(most) = case.expect.lock_messages {
        stats.check_lock_messages(most)?;
    }
    if case.expect.estimated {
        let settings = ferrorail_base::config::parse(case.environment.clone()).0;
        stats.check_estimate(case.ranks, &settings)?;
    }
    if case.expect.failover {
        stats.check_failover()?;
    }
    stats.check_multicast(&case.expect.multicast)?;
    if case.expect.damaged {
        stats.check_damaged()?;
    }
    stats.check_staged(case.expect.staged)?;
    if case.expect.readmissions {
        stats.check_readmissions()?;
    }
    match &case.expect.as_the_host {
        Some(beginning) => check_as_the_host(setup, case, beginning, &outcome.stdout),
        None => Ok(()),
    }
}

/// Runs the case over the host alone too; what both print must be the same.
fn check_as_the_host(setup: &Setup, case: &Case, beginning: &str, printed: &str) -> Result<()> {
    let host = setup.host_alone();
    let outcome = job(&host, case, None)?.run(&fresh_folder(&host)?)?;
    let lines = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines.join("\n")
    };
    let (ours, theirs) = (lines(printed), lines(&outcome.stdout));
    ensure!(
        !theirs.is_empty(),
        "the host printed no line with `{beginning}`"
    );
    ensure!(
        ours == theirs,
        "the host printed\n{theirs}\nand ferrorail\n{ours}"
    );
    Ok(())
}

/// Exit status 0 in time, and nothing left behind.
pub fn check_end(outcome: &Outcome) -> Result<()> {
    if !outcome.status.is_some_and(|status| status.success()) {
        bail!("{}", outcome.ending());
    }
    check_clean(outcome)
}

/// Neither processes nor shared memory left.
pub fn check_clean(outcome: &Outcome) -> Result<()> {
    let (survivors, left) = (&outcome.survivors, &outcome.left);
    ensure!(
        survivors.is_empty(),
        "processes outlived the job: {}",
        survivors.join(", ")
    );
    ensure!(left.is_empty(), "left in /dev/shm: {}", left.join(", "));
    Ok(())
}

/// No line that ferrorail would only log when something is wrong.
pub fn check_silence(printed: &str) -> Result<()> {
    let loud = |line: &&str| {
        ["WARN", "ERROR", "panicked at"]
            .iter()
            .any(|word| line.contains(word))
    };
    match printed.lines().find(loud) {
        Some(line) => bail!("unexpected: {line}"),
        None => Ok(()),
    }
}

/// What each rank of ferrorail waited for when the time limit was reached, in the order of ranks.
pub fn waits(outcome: &Outcome) -> Vec<&str> {
    let rank_of = |line: &str| -> Option<u32> {
        let (rank, rest) = line.strip_prefix("ferrorail[")?.split_once("] ")?;
        rest.starts_with("waits ").then(|| rank.parse().ok())?
    };
    let lines = outcome.stderr.lines();
    let mut waits: Vec<_> = lines
        .filter_map(|line| Some((rank_of(line)?, line)))
        .collect();
    waits.sort_unstable();
    // Some launchers pass the signal on as well.
    waits.dedup();
    waits.into_iter().map(|(_, line)| line).collect()
}

/// What each rank of a job waited for that did not end, and the last lines that it printed, indented.
pub fn excerpt(outcome: &Outcome) -> String {
    let mut shown = String::new();
    let waits = waits(outcome);
    for line in &waits {
        shown.push_str(&format!("  | {line}\n"));
    }
    for text in [&outcome.stdout, &outcome.stderr] {
        let lines: Vec<&str> = text.lines().filter(|line| !waits.contains(line)).collect();
        // What the program said comes before what its launcher says of that.
        let begin = lines.len().min(8);
        let end = lines.len().saturating_sub(8).max(begin);
        for line in lines[..begin].iter().chain(&lines[end..]) {
            let line: String = line.chars().take(300).collect();
            shown.push_str(&format!("  | {line}\n"));
        }
    }
    shown.trim_end().to_owned()
}

/// The cause first, then the context: the verdict is read before the particulars.
fn reorder(error: anyhow::Error) -> anyhow::Error {
    let cause: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    anyhow::anyhow!("{}{error}", cause.join(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_and_panics_are_seen() {
        assert!(check_silence("keys=1\n").is_ok());
        assert!(check_silence("a\n2026 WARN ferrorail: b\n").is_err());
        assert!(check_silence("thread 'main' panicked at src/a.rs").is_err());
    }

    #[test]
    fn the_verdict_comes_first() {
        let error = anyhow::anyhow!("cause").context("\n  command");
        assert_eq!(reorder(error).to_string(), "cause\n  command");
    }
}
