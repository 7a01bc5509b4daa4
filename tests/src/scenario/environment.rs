//! Hosts that lack libraries, launchers and programs that inherit the preload, misspelt settings.

use super::{
    LIMIT, environment, hash, in_mount_namespace, one_line, preload, radix, reference, run,
};
use crate::Setup;
use crate::job::{Job, Outcome};
use crate::judge;
use crate::mpi::Mpi;
use anyhow::{Context, Result, ensure};

/// Removes the optional libraries from a copy-on-write view of their folders.
const HIDE: &str = r#"
    scratch=$(mktemp -d); mount -t tmpfs tmpfs "$scratch"; number=0
    for folder in $(ldconfig -p | sed -n 's/.*=> \(.*\)\/lib\(ibverbs\|rdmacm\|hwloc\)\.so.*/\1/p' |
            xargs -r -n1 readlink -f | sort -u); do
        number=$((number + 1)); mkdir "$scratch/$number" "$scratch/$number-work"
        mount -t overlay overlay "$folder" \
            -o "lowerdir=$folder,upperdir=$scratch/$number,workdir=$scratch/$number-work"
        rm -f "$folder"/lib{ibverbs,rdmacm,hwloc}.so*
        ! ls "$folder" | grep -q -E '^lib(ibverbs|rdmacm|hwloc)\.so'
    done"#;

/// Without libibverbs, librdmacm and libhwloc the library loads and works. The wheel with the
/// MPI-5 ABI needs none of them; Debian's own MPI packages would not start.
pub fn libraries_absent(setup: &Setup) -> Result<()> {
    let expected = reference(setup, Mpi::Abi)?;
    let mut job = radix(setup, Mpi::Abi, &[])?;
    job.words = in_mount_namespace(HIDE.trim(), &job.words);
    let (outcome, stats) = run(setup, job)?;
    ensure!(hash(&outcome)? == expected, "the output differs");
    stats.check_taken()?;
    judge::check_silence(&outcome.stderr)
}

/// A launcher that inherits the preload prints and does nothing new, and its ranks still work.
pub fn launcher_undisturbed(setup: &Setup) -> Result<()> {
    for mpi in [Mpi::Open, Mpi::Mpich, Mpi::Abi] {
        let mut words = mpi.launcher(setup, 2, &[]);
        // Hydra may die of SIGPIPE when the program has ended before Hydra passes on its standard input.
        let program = "echo line; echo line >&2; sleep 0.2";
        words.extend(["sh", "-c", program].map(str::to_owned));
        compare_with_preload(setup, mpi, words).with_context(|| mpi.to_string())?;
    }
    let expected = reference(setup, Mpi::Open)?;
    let mut job = radix(setup, Mpi::Open, &[])?;
    // From the ranks' words to the environment of the launcher.
    job.words
        .retain(|word| word != "env" && !word.starts_with("LD_PRELOAD="));
    job.environment.extend(preload(setup)?);
    let (outcome, stats) = run(setup, job)?;
    ensure!(hash(&outcome)? == expected, "the output differs");
    stats.check_taken()
}

/// A program without MPI keeps its threads and descriptors, and prints nothing new.
pub fn plain_program(setup: &Setup) -> Result<()> {
    let look = "ls /proc/self/fd; grep Threads /proc/self/status; echo >&2";
    let words = ["sh", "-c", look].map(str::to_owned).to_vec();
    compare_with_preload(setup, Mpi::Open, words)
}

/// Runs the command with and without the preload, and loud settings; both must print the same.
fn compare_with_preload(setup: &Setup, mpi: Mpi, words: Vec<String>) -> Result<()> {
    let mut environment = environment(&[("FERRORAIL_LOG", "trace"), ("FERRORAIL_STATS", "1")]);
    for (name, value) in mpi.environment() {
        environment.insert((*name).into(), (*value).into());
    }
    let mut job = Job {
        words,
        environment,
        timeout: LIMIT,
    };
    let without = job.run(&judge::fresh_folder(setup)?)?;
    job.environment.extend(preload(setup)?);
    let with = job.run(&judge::fresh_folder(setup)?)?;
    for outcome in [&without, &with] {
        judge::check_end(outcome).with_context(|| judge::excerpt(outcome))?;
    }
    let printed = |outcome: &Outcome| format!("{}--\n{}", outcome.stdout, outcome.stderr);
    let (without, with) = (printed(&without), printed(&with));
    ensure!(
        without == with,
        "without the preload:\n{without}\nwith it:\n{with}"
    );
    Ok(())
}

/// A misspelt setting is reported once for the whole job, with the nearest valid one.
pub fn unknown_setting(setup: &Setup) -> Result<()> {
    reported(setup, ("FERRORAIL_NODE_SIZ", "2"), "FERRORAIL_NODE_SIZE?")
}

/// So is a misspelt value.
pub fn unknown_value(setup: &Setup) -> Result<()> {
    reported(setup, ("FERRORAIL_ZERO_COPY", "autp"), "did you mean auto?")
}

fn reported(setup: &Setup, setting: (&str, &str), hint: &str) -> Result<()> {
    let job = radix(setup, Mpi::Open, &[setting])?;
    let (outcome, stats) = run(setup, job)?;
    hash(&outcome)?;
    stats.check_taken()?;
    let line = one_line(&outcome, setting.0)?;
    ensure!(line.contains(hint), "`{hint}` is missing: {line}");
    Ok(())
}

/// `ferrorail exec` preloads the same file into programs of every MPI.
pub fn exec(setup: &Setup, mpi: Mpi) -> Result<()> {
    let expected = reference(setup, mpi)?;
    let mut job = radix(setup, mpi, &[])?;
    let env = job
        .words
        .iter()
        .position(|word| word == "env")
        .context("the job preloads")?;
    let command = setup.command.display().to_string();
    job.words.splice(env..env + 2, [command, "exec".into()]);
    let (outcome, stats) = run(setup, job)?;
    ensure!(hash(&outcome)? == expected, "the output differs");
    stats.check_taken()?;
    judge::check_silence(&outcome.stderr)
}
