//! Runs MPI programs with ferrorail preloaded, under every host MPI, and judges them.
//!
//! The files of `list/` are the matrix: rows of programs, MPI libraries, rank counts and settings, whose
//! cross product are the cases. What a row cannot say (a killed rank, a missing library, a full
//! `/dev/shm`) is a scenario in `scenario/`. Each case is one launched job under a time limit. It
//! passes if the program says so (exit status), the statistics show that ferrorail carried the
//! calls, nothing is logged that was not expected, and neither processes nor shared memory are left.
//!
//! | file | holds |
//! |---|---|
//! | `list.rs` | the test list and its expansion into cases; `list/sample.rs` what a sample has of them |
//! | `mpi.rs` | the host MPIs: compilers and launchers |
//! | `program.rs` | compiling the C and Fortran programs, and `aids/`, into `target/tests` |
//! | `mpi4py.rs` | mpi4py's test suite, without and with ferrorail |
//! | `random.rs` | jobs drawn from a seed |
//! | `job.rs` | launching one job, its time limit, what it leaves behind |
//! | `stats.rs` | reading and judging the statistics file |
//! | `judge.rs` | one case from launch to verdict |
//! | `pool.rs` | several at a time, and the tally |
//! | `scenario/` | faults and environments |
//!
//! Failing cases print the command that reproduces them.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    reason = "the locks of this program are its own"
)]

mod job;
mod judge;
mod list;
mod mpi;
mod mpi4py;
mod pool;
mod program;
mod random;
mod scenario;
mod stats;
mod stopwatch;

use anyhow::{Context, Result, bail};
use clap::Parser;
use pool::{Item, Tally};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Runs the integration tests.
#[derive(Parser)]
struct Arguments {
    /// Groups, and cases whose name contains one of these words (one that is a group's name means the group alone).
    /// Group `verbs` needs RDMA devices, `nodes` several hosts with them, `mpi4py` needs that built, `random`
    /// time: they run only when asked for.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Folder of libferrorail.so and ferrorail.
    #[arg(long, default_value = "target/release")]
    release: PathBuf,
    /// Folder for compiled programs and statistics.
    #[arg(long, default_value = "target/tests")]
    work: PathBuf,
    /// Prefix of an MPI library with the MPI-5 ABI.
    #[arg(long)]
    abi_prefix: Option<PathBuf>,
    /// Prefix of mpi4py and its test suite.
    #[arg(long)]
    mpi4py_prefix: Option<PathBuf>,
    /// Rank counts of mpi4py's test suite, under every MPI, such as 1,2,5
    #[arg(long, value_delimiter = ',')]
    mpi4py_ranks: Option<Vec<u32>>,
    /// Ranks of a virtual node in those.
    #[arg(long, default_value_t = 2)]
    mpi4py_node_size: u32,
    /// Hosts that launchers reach, this one first, for the group `nodes`.
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
    /// What samples, the jobs of group `random` and the faults of group `nodes` are drawn from; another
    /// one each time unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// How much of it all runs.
    #[arg(long, value_enum, default_value_t)]
    extent: Extent,
    /// How often a rail fails in `nodes-failing-rails`: once, 2 or 20 times by the extent.
    #[arg(long)]
    failures: Option<u32>,
    /// Only the twenty jobs or so that `scripts/check` runs.
    #[arg(long)]
    smoke: bool,
    /// Print the names of the cases and stop.
    #[arg(long)]
    list: bool,
    /// Compile the programs of the chosen cases and stop.
    #[arg(long)]
    compile: bool,
    /// One job after the other, also where they wait most of the time.
    #[arg(long)]
    serial: bool,
    /// Run the programs over the host MPI alone, to check the programs themselves.
    #[arg(long)]
    without_ferrorail: bool,
    /// Print a line for passing cases too, and what ran on which shape (`scripts/lib/coverage.py`).
    #[arg(long, short)]
    verbose: bool,
}

/// How much of what the tests could try a run has the time for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Extent {
    /// Of cases that differ in little one, drawn from the seed.
    Sample,
    /// Every case of the list and every scenario.
    #[default]
    List,
    /// Besides a job of its own for each setting that a program would loop over, every step of a
    /// set-up, ten times as many random jobs, mpi4py's whole suite.
    All,
}

/// What every case needs to know.
#[derive(Clone)]
pub struct Setup {
    /// The repository.
    root: PathBuf,
    /// The preload library; `None` runs over the host alone.
    library: Option<PathBuf>,
    /// The `ferrorail` command.
    command: PathBuf,
    /// Folder for compiled programs and statistics.
    work: PathBuf,
    /// Which of the jobs that run at a time this is for.
    lane: usize,
    /// Prefix of the MPI library with the MPI-5 ABI.
    abi_prefix: PathBuf,
    /// Prefix of mpi4py and its test suite.
    mpi4py: PathBuf,
    /// Hosts for jobs that span several.
    hosts: Vec<String>,
    /// What faults are drawn from.
    seed: u64,
    /// How often a rail fails.
    failures: u32,
    /// How much of it all runs.
    extent: Extent,
    /// What ran on which shape, according to statistics, in lines.
    ran: Arc<Mutex<BTreeSet<String>>>,
}

impl Setup {
    /// The same without ferrorail.
    fn host_alone(&self) -> Self {
        Self {
            library: None,
            ..self.clone()
        }
    }

    /// What a scenario tries of what differs in little: one, drawn from the seed, where a sample runs, otherwise all.
    fn drawn<'a, T: Hash>(&self, all: &'a [T]) -> &'a [T] {
        match self.extent {
            Extent::Sample => list::sample::one_of(self.seed, all),
            Extent::List | Extent::All => all,
        }
    }

    /// As many hosts as a job wants; none if it runs here.
    fn hosts(&self, wanted: u32) -> Result<&[String]> {
        match wanted as usize {
            0 | 1 => Ok(&[]),
            wanted => self.hosts.get(..wanted).with_context(|| {
                let known = self.hosts.len();
                format!("needs {wanted} hosts and knows {known}: see --hosts")
            }),
        }
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ferrorail-tests: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let setup = prepare(arguments)?;
    let mut list = list::read(&setup.root.join("tests/list"))?;
    if arguments.smoke {
        list = list.smoke();
    }
    let seed = setup.seed;
    let mut cases = list::expand(&list, setup.extent, seed)?;
    cases.extend(random::cases(seed, setup.extent));
    let cases: Vec<_> = cases
        .iter()
        .filter(|case| selected(&arguments.only, &case.group, &case.name))
        .collect();
    let all = scenario::all();
    let scenarios: Vec<_> = all
        .iter()
        .filter(|scenario| setup.library.is_some() || !scenario.row.preloads)
        .filter(|_| !arguments.smoke)
        .filter(|scenario| selected(&arguments.only, scenario.row.group, &scenario.name))
        .filter(|scenario| scenario.is_in(setup.extent, seed, &all))
        .collect();
    let choice = mpi4py::Choice {
        full: setup.extent == Extent::All,
        ranks: arguments.mpi4py_ranks.as_deref(),
        node_size: arguments.mpi4py_node_size,
    };
    let suites: Vec<_> = mpi4py::suites(&choice)
        .into_iter()
        .filter(|suite| selected(&arguments.only, "mpi4py", &suite.name))
        .collect();
    if cases.is_empty() && scenarios.is_empty() && suites.is_empty() {
        bail!("no case matches {}", arguments.only.join(","));
    }
    if arguments.list {
        let cases = cases.iter().flat_map(|case| case.names());
        cases.for_each(|name| println!("{name}"));
        scenarios.iter().for_each(|s| println!("{}", s.name));
        suites.iter().for_each(|suite| println!("{}", suite.name));
        return Ok(true);
    }
    compile(&setup, &cases, &scenarios)?;
    if arguments.compile {
        return Ok(true);
    }
    if cases.iter().any(|case| case.drawn) || scenarios.iter().any(|s| s.row.group == "nodes") {
        println!("what is left to chance is drawn from --seed {seed}");
    }
    let mut items: Vec<Item> = Vec::new();
    items.extend(suites.iter().map(mpi4py::Suite::item));
    items.extend(scenarios.iter().map(|scenario| scenario.item()));
    items.extend(cases.iter().map(|case| judge::item(case)));
    let before = job::shared_memory();
    let mut tally = Tally::new(arguments.verbose);
    pool::run(&setup, !arguments.serial, items, &mut tally);
    for left in job::unclaimed(&before) {
        let outcome = Err(anyhow::anyhow!("in /dev/shm"));
        tally.count(
            &format!("left-by-some-job/{left}"),
            Duration::ZERO,
            &outcome,
        );
    }
    if arguments.verbose {
        let ran = setup.ran.lock().unwrap_or_else(PoisonError::into_inner);
        ran.iter().for_each(|line| println!("ran  {line}"));
    }
    Ok(tally.finish())
}

/// Compiles what the cases and scenarios run.
fn compile(setup: &Setup, cases: &[&list::Case], scenarios: &[&scenario::Scenario]) -> Result<()> {
    program::build_aids(setup)?;
    let mut programs: Vec<(mpi::Mpi, &str)> = Vec::new();
    programs.extend(cases.iter().map(|case| (case.mpi, &*case.program)));
    programs.extend(scenarios.iter().flat_map(|scenario| scenario.row.programs));
    programs.sort_by_key(|&(mpi, program)| (mpi.to_string(), program));
    programs.dedup();
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    pool::each(lanes, &programs, |&(mpi, program)| {
        program::build(setup, mpi, program).map(drop)
    })
}

fn prepare(arguments: &Arguments) -> Result<Setup> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("the crate has a parent folder")?;
    std::fs::create_dir_all(root.join(&arguments.work)).context("cannot make the work folder")?;
    let library = root.join(&arguments.release).join("libferrorail.so");
    if !arguments.without_ferrorail && !arguments.list && !library.is_file() {
        bail!("{} is not built", library.display());
    }
    let abi_prefix = match &arguments.abi_prefix {
        Some(prefix) => prefix.clone(),
        None => mpi::default_abi_prefix()?,
    };
    let mpi4py = match &arguments.mpi4py_prefix {
        Some(prefix) => prefix.clone(),
        None => mpi4py::default_prefix()?,
    };
    Ok(Setup {
        root: root.to_owned(),
        library: (!arguments.without_ferrorail).then_some(library),
        command: root.join(&arguments.release).join("ferrorail"),
        work: root.join(&arguments.work),
        lane: 0,
        abi_prefix,
        mpi4py,
        hosts: arguments.hosts.clone(),
        seed: arguments.seed.unwrap_or_else(random::new_seed),
        failures: arguments.failures.unwrap_or(match arguments.extent {
            Extent::Sample => 1,
            Extent::List => 2,
            Extent::All => 20,
        }),
        extent: arguments.extent,
        ran: Arc::default(),
    })
}

/// Groups that must be asked for: most machines lack what they need, or the time.
const ASKED_FOR: [&str; 4] = ["verbs", "nodes", "mpi4py", "random"];

/// Whether the words ask for this case. A word that is the name of a group in `ASKED_FOR` chooses no case of another:
/// the stage of emulated machines is not for each case between virtual nodes.
fn selected(words: &[String], group: &str, name: &str) -> bool {
    if ASKED_FOR.contains(&group) && !words.iter().any(|word| word.contains(group)) {
        return false;
    }
    let matches = |word: &String| match ASKED_FOR.contains(&word.as_str()) {
        true => group == word,
        false => group == word || name.contains(word.as_str()),
    };
    words.is_empty() || words.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_cases_run_only_when_asked_for() {
        assert!(selected(&[], "loopback", "a/openmpi/n2"));
        assert!(!selected(&[], "verbs", "a/openmpi/n2"));
        assert!(selected(&["verbs".into()], "verbs", "a/openmpi/n2"));
        assert!(!selected(&["openmpi".into()], "verbs", "a/openmpi/n2"));
        assert!(!selected(&["verbs".into()], "nodes", "a/openmpi/n2"));
        assert!(selected(&["nodes".into()], "nodes", "a/openmpi/n2"));
        assert!(!selected(
            &["nodes".into()],
            "loopback",
            "between-nodes/openmpi/n2"
        ));
        assert!(selected(&["mpi4py/abi".into()], "mpi4py", "mpi4py/abi/n2"));
        assert!(selected(
            &["mpich".into(), "n2".into()],
            "loopback",
            "a/openmpi/n2"
        ));
        assert!(!selected(&["mpich".into()], "loopback", "a/openmpi/n2"));
    }
}
