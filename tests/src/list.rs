//! The test list: rows, and the cases that they stand for.

use crate::Extent;
use crate::mpi::Mpi;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Variables of a job.
pub type Environment = BTreeMap<String, String>;

/// The files of `tests/list`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Named lists of values that rows may vary a setting over.
    #[serde(default)]
    values: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    row: Vec<Row>,
}

/// One row: all its lists are multiplied out.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// `loopback`, `verbs`, `nodes` and so on: what `--only` selects.
    group: String,
    /// Source file, relative to `tests/`.
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    mpi: Vec<Mpi>,
    ranks: Vec<u32>,
    /// Machines over which the ranks are spread, in blocks.
    #[serde(default = "default_hosts")]
    hosts: u32,
    /// Ranks with which the row is part of the smoke test, if it is.
    smoke: Option<u32>,
    /// Settings that are the same in every case.
    #[serde(default)]
    set: Environment,
    /// Settings that take each of these values, or those of a named list (`@name`).
    #[serde(default)]
    vary: BTreeMap<String, Values>,
    /// Settings of communicators that take each of these values in turn within one job: its program
    /// loops over them (`c/settings.h`).
    #[serde(default)]
    each: BTreeMap<String, Values>,
    /// What a sample has each value of: `mpi`, `ranks`, or names of settings. Of cases that differ in the
    /// rest it has one.
    #[serde(default)]
    every: Vec<String>,
    /// Of how many values of `each` a sample has jobs, if not of all.
    each_of: Option<usize>,
    /// Whether a sample has none of it.
    #[serde(default)]
    larger: bool,
    /// Of the rows with the same word here a sample has one.
    one_of: Option<String>,
    #[serde(default = "Expect::usual")]
    expect: Expect,
    /// Whether the ranks wait most of the time.
    #[serde(default)]
    asleep: bool,
    #[serde(default = "default_timeout")]
    timeout_s: u64,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Values {
    Named(String),
    Listed(Vec<String>),
}

fn default_timeout() -> u64 {
    60
}

fn default_hosts() -> u32 {
    1
}

/// What must be seen besides exit status 0.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default = "Expect::usual")]
pub struct Expect {
    /// The statistics show calls that ferrorail carried.
    pub taken: bool,
    /// Every forced algorithm is among those that ran.
    pub forced: bool,
    /// Reasons for which calls may be, and have to be, left to the host.
    pub forwarded: Vec<String>,
    /// At least so many of a hundred collectives were carried.
    pub share: Option<u64>,
    /// Bytes on every rail, differing by less than 5 %.
    pub even_rails: bool,
    /// Lanes failed, and what they owed was carried by others.
    pub failover: bool,
    /// Chunks arrived damaged, and were sent again.
    pub damaged: bool,
    /// Counters of multicasts that are not 0, by their names in the statistics; a name after `no ` says
    /// that it is.
    pub multicast: Vec<String>,
    /// Registrations of user memory were refused, and messages went in pieces; else none.
    pub staged: bool,
    /// Lanes failed and were used again.
    pub readmissions: bool,
    /// The host packed some data, of types too irregular for ferrorail; else none.
    pub packed_by_host: bool,
    /// Rails that carried bytes, if it matters.
    pub rails_used: Option<usize>,
    /// Locks of targets on other nodes took two remote messages per acquisition and release at
    /// least, and this many at most.
    pub lock_messages: Option<f64>,
    /// Connections and memory are as `ferrorail info --estimate` would have it.
    pub estimated: bool,
    /// Pieces of text in the output.
    pub output: Vec<String>,
    /// Lines with this beginning are the same, in any order, as over the host alone.
    pub as_the_host: Option<String>,
}

impl Expect {
    /// What is expected unless a row says otherwise.
    pub fn usual() -> Self {
        Self {
            taken: true,
            forced: true,
            ..Self::default()
        }
    }
}

/// One job to run and judge.
#[derive(Clone, Debug)]
pub struct Case {
    /// Row, MPI, ranks and the settings that vary.
    pub name: String,
    /// The row's group.
    pub group: String,
    /// Source file, relative to `tests/`.
    pub program: String,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Host MPI.
    pub mpi: Mpi,
    /// Processes to start.
    pub ranks: u32,
    /// Machines to start them on.
    pub hosts: u32,
    /// Settings.
    pub environment: Environment,
    /// Settings of communicators, one set after the other; empty for a job without such.
    pub rounds: Vec<Environment>,
    /// What must be seen.
    pub expect: Expect,
    /// Whether the ranks wait most of the time.
    pub asleep: bool,
    /// Whether another seed would have another one in its place.
    pub drawn: bool,
    /// Limit for the whole job.
    pub timeout_s: u64,
}

/// Reads all files of a folder into one list.
pub fn read(folder: &Path) -> Result<List> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<_> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut list = List::default();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let part = parse(&text).with_context(|| file.display().to_string())?;
        list.values.extend(part.values);
        list.row.extend(part.row);
    }
    Ok(list)
}

impl List {
    /// The rows that [`Row::smoke`] tells, under Debian's MPIs and with one value for what they vary.
    pub fn smoke(mut self) -> Self {
        self.row.retain_mut(|row| {
            row.mpi.retain(|&mpi| mpi != Mpi::Abi);
            row.ranks = row.smoke.into_iter().collect();
            for values in row.vary.values_mut() {
                if let Values::Listed(values) = values {
                    values.truncate(1);
                }
            }
            !row.ranks.is_empty()
        });
        self
    }
}

fn parse(text: &str) -> Result<List> {
    Ok(toml::from_str(text)?)
}

/// Multiplies the rows out. The extent `All` makes a job of each round, and `Sample` takes what `seed`
/// draws.
pub fn expand(list: &List, extent: Extent, seed: u64) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for row in &list.row {
        if extent == Extent::Sample && !sample::has(list, row, seed) {
            continue;
        }
        let mut row = row.clone();
        if extent == Extent::All {
            let each = std::mem::take(&mut row.each);
            row.vary.extend(each);
        }
        let rounds = match row.each.is_empty() {
            true => Vec::new(),
            false => combinations(list, &row, &row.each)?,
        };
        let of_row = of_row(list, &row, &rounds)?;
        match extent {
            Extent::Sample => cases.extend(sample::of_row(&row, of_row, seed)),
            Extent::List | Extent::All => cases.extend(of_row),
        }
    }
    let mut names = BTreeSet::new();
    for Case { name, .. } in &cases {
        ensure!(names.insert(name), "{name} appears twice");
    }
    Ok(cases)
}

/// All cases of a row. Virtual nodes of at least as many ranks as there are all mean one node; only the first
/// of such cases is kept.
fn of_row(list: &List, row: &Row, rounds: &[Environment]) -> Result<Vec<Case>> {
    let (mut cases, mut seen) = (Vec::new(), BTreeSet::new());
    for varied in combinations(list, row, &row.vary)? {
        for &mpi in &row.mpi {
            for &ranks in &row.ranks {
                let case = case(row, mpi, ranks, &varied, rounds);
                if seen.insert((mpi.to_string(), ranks, meaning(&case.environment, ranks))) {
                    cases.push(case);
                }
            }
        }
    }
    Ok(cases)
}

/// Every choice of one value for each of `varied`, settings of `row`.
fn combinations(
    list: &List,
    row: &Row,
    varied: &BTreeMap<String, Values>,
) -> Result<Vec<Environment>> {
    let mut found = vec![Environment::new()];
    for (name, values) in varied {
        let values = match values {
            Values::Listed(values) => values,
            Values::Named(named) => named
                .strip_prefix('@')
                .and_then(|key| list.values.get(key))
                .with_context(|| format!("{}: no list of values {named}", row.name))?,
        };
        ensure!(!values.is_empty(), "{}: {name} has no values", row.name);
        let extended = found.iter().flat_map(|known| {
            values.iter().map(|value| {
                let mut known = known.clone();
                known.insert(name.clone(), value.clone());
                known
            })
        });
        found = extended.collect();
    }
    Ok(found)
}

fn case(row: &Row, mpi: Mpi, ranks: u32, varied: &Environment, rounds: &[Environment]) -> Case {
    let name = format!("{}/{mpi}/n{ranks}{}", row.name, words(varied));
    let mut seen = BTreeSet::new();
    let rounds = rounds
        .iter()
        .filter(|round| seen.insert(meaning(round, ranks)));
    let mut environment = row.set.clone();
    environment.extend(varied.clone());
    Case {
        name,
        group: row.group.clone(),
        program: row.program.clone(),
        arguments: row.arguments.clone(),
        mpi,
        ranks,
        hosts: row.hosts,
        environment,
        rounds: rounds.cloned().collect(),
        expect: row.expect.clone(),
        asleep: row.asleep,
        drawn: false,
        timeout_s: row.timeout_s,
    }
}

/// Settings as the names of cases spell them: `/setting=value` for each.
fn words(settings: &Environment) -> String {
    let word = |(setting, value): (&String, &String)| {
        let short = setting.strip_prefix("FERRORAIL_").unwrap_or(setting);
        let value = value.strip_prefix("allgather=").unwrap_or(value);
        format!("/{}={value}", short.to_lowercase())
    };
    settings.iter().map(word).collect()
}

/// The settings, with every node size that means one node of `ranks` written as 0.
fn meaning(settings: &Environment, ranks: u32) -> Environment {
    let mut settings = settings.clone();
    if let Some(size) = settings.get_mut("FERRORAIL_NODE_SIZE") {
        let one_node = size.parse::<u32>().is_ok_and(|size| size >= ranks);
        if one_node {
            *size = "0".into();
        }
    }
    settings
}

impl Case {
    /// The name, and that of each round where there are several.
    pub fn names(&self) -> Vec<String> {
        match self.rounds.is_empty() {
            true => vec![self.name.clone()],
            false => {
                let rounds = self.rounds.iter();
                rounds
                    .map(|round| format!("{}{}", self.name, words(round)))
                    .collect()
            }
        }
    }

    /// The settings of each round: those of the job, with its own.
    pub fn settings(&self) -> Vec<Environment> {
        let whole = |round: &Environment| {
            let mut all = self.environment.clone();
            all.extend(round.clone());
            all
        };
        match self.rounds.is_empty() {
            true => vec![self.environment.clone()],
            false => self.rounds.iter().map(whole).collect(),
        }
    }

    /// The rounds as `c/settings.h` reads them, in the variable `TEST_SETTINGS`.
    pub fn rounds_for_the_program(&self) -> Option<String> {
        let key = |(name, value): (&String, &String)| format!("{}={value}", name.to_lowercase());
        let round = |round: &Environment| round.iter().map(key).collect::<Vec<_>>().join(" ");
        let rounds: Vec<String> = self.rounds.iter().map(round).collect();
        (!rounds.is_empty()).then(|| rounds.join(";"))
    }
}

pub mod sample;

#[cfg(test)]
mod tests;
