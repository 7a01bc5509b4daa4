//! One job of an application: started, and what it says of itself.

use super::program::Folder;
use crate::bench::figures::{HOST, Machine, native_allgather};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Who carries collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The MPI library.
    Host,
    /// ferrorail, with what stands for the paper's native all-gather.
    Native,
    /// ferrorail as it chooses.
    Library,
}

impl By {
    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => HOST,
            Self::Native => &native_allgather().label,
            Self::Library => "ferrorail",
        }
    }
}

/// What starts jobs.
pub struct Launcher<'a> {
    command: &'a str,
    machine: &'a Machine,
    statistics: PathBuf,
}

impl<'a> Launcher<'a> {
    /// `command` takes `-n RANKS PROGRAM`.
    pub fn new(command: &'a str, folder: &Folder, machine: &'a Machine) -> Self {
        Self {
            command,
            machine,
            statistics: folder.file("statistics.json"),
        }
    }
}

/// A job, whoever carries its collectives.
pub struct Job<'a> {
    /// What starts it.
    pub launcher: &'a Launcher<'a>,
    /// The application.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How many.
    pub ranks: usize,
    /// Whether on nodes and rails as the paper's.
    pub is_virtual: bool,
}

/// In the line that rank 0 of an application ends with.
const RESULT: &str = "output_hash=";

/// What a job says of itself.
#[derive(Debug)]
pub struct Outcome {
    /// Of the slowest rank.
    pub total_us: f64,
    /// What the slowest rank spends in communication, and in waiting for others there.
    pub communication_us: f64,
    /// Of its result.
    pub hash: String,
    allgather_calls: u64,
}

impl Outcome {
    /// Reads the last line of `name=value` pairs.
    fn read(text: &str) -> Option<Self> {
        let line = text.lines().rfind(|line| line.contains(RESULT))?;
        let pairs = line.split_whitespace();
        let pairs: HashMap<_, _> = pairs.filter_map(|word| word.split_once('=')).collect();
        let seconds = |name| pairs.get(name)?.parse::<f64>().ok();
        Some(Self {
            total_us: seconds("total_seconds")? * 1e6,
            communication_us: seconds("communication_seconds")? * 1e6,
            hash: (*pairs.get("output_hash")?).to_owned(),
            allgather_calls: pairs.get("allgather_calls")?.parse().ok()?,
        })
    }
}

impl Job<'_> {
    /// Runs it to the end.
    ///
    /// # Errors
    /// One line: it cannot be started, fails, does not say its times, or ferrorail did not take its all-gathers.
    pub fn run(&self, by: By) -> Result<Outcome> {
        let output = self.command(by)?.output().with_context(|| {
            format!(
                "cannot run the launcher {}: name another with --launcher",
                self.launcher.command
            )
        })?;
        let name = self.program.file_name().unwrap_or_default().display();
        let what = format!("{name} on {} ranks by {}", self.ranks, by.name());
        if !output.status.success() {
            bail!("{what} failed: {}", reason(&output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        if text.matches(RESULT).count() > 1 {
            bail!(
                "{what}: each process is a job of its own, as --launcher and --compiler belong to different MPI libraries"
            );
        }
        let outcome =
            Outcome::read(&text).with_context(|| format!("{what} does not say its times"))?;
        if by != By::Host {
            let taken = self
                .taken()
                .with_context(|| format!("{what} left no statistics"))?;
            let made = outcome.allgather_calls * self.ranks as u64;
            if taken < made {
                bail!("{what}: ferrorail took {taken} all-gathers of {made}");
            }
        }
        Ok(outcome)
    }

    fn command(&self, by: By) -> Result<Command> {
        let launcher = self.launcher;
        let mut command = Command::new(launcher.command);
        command.args(["-n", &self.ranks.to_string()]);
        let given = |name: &str| env::var_os(name).is_some();
        let more_than_cores = [
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
        ];
        for (name, value) in more_than_cores.into_iter().filter(|(name, _)| !given(name)) {
            command.env(name, value);
        }
        if by != By::Host {
            command.arg(env::current_exe()?).arg("exec");
            command.env("FERRORAIL_STATS", &launcher.statistics);
            // That of the last job must not stand for this one's.
            let _ = fs::remove_file(&launcher.statistics);
        }
        if self.is_virtual {
            command.envs(launcher.machine.settings(self.ranks, true, given));
        }
        if by == By::Native {
            command.envs(native_allgather().settings.iter().cloned());
        }
        command.arg(self.program).args(&self.arguments);
        Ok(command)
    }

    /// All-gathers that ferrorail took in the last job, over all ranks.
    fn taken(&self) -> Result<u64> {
        let text = fs::read_to_string(&self.launcher.statistics)?;
        let statistics: Value = serde_json::from_str(&text)?;
        let rows = statistics["collectives"].as_array().into_iter().flatten();
        let allgathers = rows.filter(|row| row["collective"] == "allgather");
        Ok(allgathers.filter_map(|row| row["calls"].as_u64()).sum())
    }
}

/// What a job that failed says: of the application or ferrorail rather than of the launcher.
fn reason(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let telling = |line: &&str| line.contains(RESULT) || line.contains("ferrorail");
    let line = text.lines().find(telling);
    let last = || {
        text.lines()
            .rfind(|line| line.contains(char::is_alphabetic))
    };
    line.or_else(last)
        .unwrap_or("it says nothing")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_the_line_with_the_result() {
        let text = "a warning=1\nkeys=4 allgather_calls=6 communication_seconds=0.25 \
                    total_seconds=0.5 sorted=yes output_hash=12ab\nmore\n";
        let outcome = Outcome::read(text).unwrap();
        assert_eq!((outcome.total_us, outcome.communication_us), (5e5, 2.5e5));
        assert_eq!(
            (outcome.hash.as_str(), outcome.allgather_calls),
            ("12ab", 6)
        );
        assert!(Outcome::read("total_seconds=1 output_hash=0").is_none());
    }
}
