//! mpi4py's own test suite, over the host MPI alone and with ferrorail: what passes without has to
//! pass with. `mpi4py/outcomes.py` runs the modules and writes down what came of each test;
//! `scripts/lib/mpi4py.sh` builds mpi4py for each host MPI.

use crate::Setup;
use crate::job::Outcome;
use crate::judge;
use crate::list::Environment;
use crate::mpi::Mpi;
use crate::pool::{Item, Load};
use crate::stats::Stats;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Collectives, windows, communicators, datatypes, operations and errors, as far as a few minutes go.
const USUAL: &str = "
    test_cco_buf test_cco_buf_inter test_cco_nb_buf test_cco_nb_vec test_cco_ngh_buf test_cco_obj
    test_cco_obj_inter test_cco_pr_buf test_cco_pr_vec test_cco_vec test_cco_vec_inter test_comm test_comm_inter
    test_comm_topo test_datatype test_errhandler test_exceptions test_msgzero test_op test_rma test_rma_nb test_win
";

/// What else may meet a preloaded library.
const REST: &str = "
    test_attributes test_buffer test_cco_ngh_obj test_cco_pr_ngh_buf test_group test_msgspec test_pack test_pickle
    test_status test_threads test_util_dtlib test_util_pkl5
";

/// Reasons for which calls may be left to the host: the suite also makes wrong ones.
const FORWARDED: &[&str] = &["inter-communicator", "invalid arguments"];

/// One run of the suite.
pub struct Suite {
    /// `mpi4py/MPI/nRANKS/ofNODE_SIZE`.
    pub name: String,
    mpi: Mpi,
    ranks: u32,
    node_size: u32,
    full: bool,
    limit: Duration,
}

/// Which runs there are.
pub struct Choice<'a> {
    /// All of the suite, on many rank counts.
    pub full: bool,
    /// On these rank counts under every MPI.
    pub ranks: Option<&'a [u32]>,
    /// Ranks of a virtual node in the runs chosen by the other two.
    pub node_size: u32,
}

/// The runs: as much as fits into two or three minutes, unless more is chosen.
pub fn suites(choice: &Choice) -> Vec<Suite> {
    const ALL: &[u32] = &[1, 2, 3, 4, 5, 7];
    const SHAPES: [(Mpi, u32, u32); 4] = [
        (Mpi::Open, 3, 2),
        (Mpi::Mpich, 3, 1),
        (Mpi::Abi, 1, 2),
        (Mpi::Abi, 5, 2),
    ];
    let by_hand = choice.full || choice.ranks.is_some();
    let shapes = if by_hand {
        let ranks = choice.ranks.unwrap_or(ALL);
        let of = |mpi| ranks.iter().map(move |&n| (mpi, n, choice.node_size));
        let all = [Mpi::Open, Mpi::Mpich, Mpi::Abi].into_iter();
        all.flat_map(of).collect()
    } else {
        SHAPES.to_vec()
    };
    let limit = Duration::from_secs(if by_hand { 3600 } else { 240 });
    let suites = shapes.into_iter().map(|(mpi, ranks, node_size)| Suite {
        name: format!("mpi4py/{mpi}/n{ranks}/of{node_size}"),
        mpi,
        ranks,
        node_size,
        full: choice.full,
        limit,
    });
    suites.collect()
}

/// What came of each test, of the worst rank.
type Outcomes = BTreeMap<String, String>;

impl Suite {
    /// As something to run among others.
    pub fn item(&self) -> Item<'_> {
        Item {
            name: &self.name,
            weight: 10_000,
            load: Load::Busy,
            run: Box::new(|setup| self.run(setup)),
        }
    }

    /// Runs the suite twice and compares.
    fn run(&self, setup: &Setup) -> Result<()> {
        let host = setup.host_alone();
        let (expected, _) = self.outcomes(&host, &Environment::new())?;
        let mut settings = Environment::new();
        let node_size = self.node_size.to_string();
        for (name, value) in [
            ("FERRORAIL_FABRIC", "loopback"),
            ("FERRORAIL_NODE_SIZE", &node_size),
        ] {
            settings.insert(name.into(), value.into());
        }
        let statistics = setup.work.join(format!("mpi4py-stats{}.json", setup.lane));
        settings.insert("FERRORAIL_STATS".into(), statistics.display().to_string());
        let (found, outcome) = self.outcomes(setup, &settings)?;
        let worse = compare(&expected, &found);
        ensure!(
            worse.is_empty(),
            "other than over the host alone:\n  {}\n{}",
            worse.join("\n  "),
            traces(&outcome)
        );
        if setup.library.is_some() {
            check_statistics(&Stats::read(&statistics)?)?;
        }
        Ok(())
    }

    fn outcomes(&self, setup: &Setup, settings: &Environment) -> Result<(Outcomes, Outcome)> {
        let folder = judge::fresh_folder(setup)?;
        let job = judge::launch(
            setup,
            self.mpi,
            self.ranks,
            settings,
            &self.command(setup, &folder)?,
            self.limit,
        );
        let outcome = job.run(&folder)?;
        let outcomes = read(&folder, self.ranks);
        let particulars = || {
            let running = outcomes.iter().filter(|(_, outcome)| *outcome == "start");
            let running: Vec<&str> = running.map(|(test, _)| test.as_str()).collect();
            let (command, end) = (job.reproduce(), judge::excerpt(&outcome));
            format!("while running {}\n  {command}\n{end}", running.join(", "))
        };
        judge::check_end(&outcome).with_context(particulars)?;
        ensure!(!outcomes.is_empty(), "no test ran: {}", particulars());
        Ok((outcomes, outcome))
    }

    fn command(&self, setup: &Setup, folder: &Path) -> Result<Vec<String>> {
        let prefix = &setup.mpi4py;
        let python = prefix.join(self.mpi.to_string()).join("bin/python");
        ensure!(
            python.is_file(),
            "{} is missing: scripts/lib/mpi4py.sh installs it",
            python.display()
        );
        let script = setup.root.join("tests/mpi4py/outcomes.py");
        let paths = [python, script, prefix.join("suite"), folder.to_owned()];
        let mut words: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        if !self.full {
            words.push("--without-numpy".into());
        }
        let rest = if self.full { REST } else { "" };
        let modules = USUAL.split_whitespace().chain(rest.split_whitespace());
        words.extend(modules.map(str::to_owned));
        Ok(words)
    }
}

/// Reads what the ranks wrote. A test that is worse on one rank counts as that.
fn read(folder: &Path, ranks: u32) -> Outcomes {
    let mut worst = Outcomes::new();
    for rank in 0..ranks {
        let text = std::fs::read_to_string(folder.join(rank.to_string())).unwrap_or_default();
        let mut of_rank = Outcomes::new();
        for (outcome, test) in text.lines().filter_map(|line| line.split_once(' ')) {
            let known = of_rank.entry(test.to_owned()).or_default();
            if known != "fail" {
                outcome.clone_into(known);
            }
        }
        for (test, outcome) in of_rank {
            let known = worst.entry(test).or_insert_with(|| outcome.clone());
            if severity(&outcome) > severity(known) {
                *known = outcome;
            }
        }
    }
    worst
}

fn severity(outcome: &str) -> u32 {
    match outcome {
        "skip" => 0,
        "ok" => 1,
        "expected" => 2,
        "fail" => 3,
        _ => 4,
    }
}

/// Tests whose outcome differs, unless it is better.
fn compare(expected: &Outcomes, found: &Outcomes) -> Vec<String> {
    let mut differing = Vec::new();
    for (test, outcome) in expected {
        let now = found.get(test).map_or("absent", String::as_str);
        // Skipped is what needs a kind of window that the host cannot make.
        let better = matches!(outcome.as_str(), "fail" | "skip") && now == "ok";
        if now != outcome && !better {
            differing.push(format!("{test}: {outcome}, now {now}"));
        }
    }
    let new = found.keys().filter(|test| !expected.contains_key(*test));
    differing.extend(new.map(|test| format!("{test}: only ran with ferrorail")));
    differing
}

/// Lines of the failing tests' traces that say what is wrong.
fn traces(outcome: &Outcome) -> String {
    let telling = |line: &&str| {
        ["FAIL: ", "ERROR: ", "Exception: ", "Error: ", "ferrorail["]
            .iter()
            .any(|piece| line.contains(piece))
    };
    let mut lines: Vec<&str> = outcome.stderr.lines().filter(telling).collect();
    lines.truncate(40);
    lines.iter().map(|line| format!("  | {line}\n")).collect()
}

/// Calls must have been carried, and those left to the host must be ones that ferrorail leaves.
fn check_statistics(stats: &Stats) -> Result<()> {
    stats.check_taken()?;
    for row in stats.unexplained() {
        ensure!(
            FORWARDED
                .iter()
                .any(|reason| row.reason.starts_with(reason)),
            "{} calls of {} were forwarded: {}",
            row.calls,
            row.collective,
            row.reason
        );
    }
    Ok(())
}

/// Where `scripts/lib/mpi4py.sh` installs mpi4py.
pub fn default_prefix() -> Result<PathBuf> {
    crate::mpi::cache_folder().map(|cache| cache.join("mpi4py-4.1.2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(pairs: &[(&str, &str)]) -> Outcomes {
        let owned = |&(test, outcome): &(&str, &str)| (test.to_owned(), outcome.to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn only_changes_for_the_worse_count() {
        let host = outcomes(&[("a", "ok"), ("b", "fail"), ("c", "skip"), ("d", "fail")]);
        assert!(compare(&host, &host).is_empty());
        let with = outcomes(&[("a", "fail"), ("b", "ok"), ("d", "start"), ("e", "ok")]);
        let differing = compare(&host, &with);
        let starts: Vec<&str> = differing.iter().map(|line| &line[..1]).collect();
        assert_eq!(starts, ["a", "c", "d", "e"], "{differing:?}");
    }

    #[test]
    fn the_worst_rank_counts() {
        let folder = std::env::temp_dir().join(format!("ferrorail-mpi4py-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("0"), "start a\nok a\nstart b\nok b\n").unwrap();
        std::fs::write(folder.join("1"), "start a\nfail a\nok a\nstart b\n").unwrap();
        let read = read(&folder, 2);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read, outcomes(&[("a", "fail"), ("b", "start")]));
    }
}
