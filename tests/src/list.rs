//! The test list: rows, and the cases that they stand for.

use crate::mpi::Mpi;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Variables of a job.
pub type Environment = BTreeMap<String, String>;

/// `testlist.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Named lists of values that rows may vary a setting over.
    #[serde(default)]
    values: BTreeMap<String, Vec<String>>,
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
    /// Settings that are the same in every case.
    #[serde(default)]
    set: Environment,
    /// Settings that take each of these values, or those of a named list (`@name`).
    #[serde(default)]
    vary: BTreeMap<String, Values>,
    #[serde(default)]
    expect: Expect,
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
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The statistics show calls that ferrorail carried.
    pub taken: bool,
    /// Every forced algorithm is among those that ran.
    pub forced: bool,
    /// Reasons for which calls may be, and have to be, left to the host.
    pub forwarded: Vec<String>,
    /// Bytes on every rail, differing by less than 5 %.
    pub even_rails: bool,
    /// Lanes failed, and what they owed was carried by others.
    pub failover: bool,
    /// Chunks arrived damaged, and were sent again.
    pub damaged: bool,
    /// Registrations of user memory were refused, and messages went in pieces; else none.
    pub bounced: bool,
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

impl Default for Expect {
    fn default() -> Self {
        Self {
            taken: true,
            forced: true,
            forwarded: Vec::new(),
            even_rails: false,
            failover: false,
            damaged: false,
            bounced: false,
            readmissions: false,
            packed_by_host: false,
            rails_used: None,
            lock_messages: None,
            estimated: false,
            output: Vec::new(),
            as_the_host: None,
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
    /// What must be seen.
    pub expect: Expect,
    /// Limit for the whole job.
    pub timeout_s: u64,
}

/// Reads the list.
pub fn parse(text: &str) -> Result<List> {
    toml::from_str(text).context("tests/testlist.toml")
}

/// Multiplies the rows out. Virtual nodes of at least as many ranks as there are all mean one
/// node; only the first of such cases is kept.
pub fn expand(list: &List) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut names = BTreeSet::new();
    for row in &list.row {
        let mut seen = BTreeSet::new();
        for varied in combinations(list, row)? {
            for &mpi in &row.mpi {
                for &ranks in &row.ranks {
                    let case = case(row, mpi, ranks, &varied);
                    if !seen.insert((mpi.to_string(), ranks, meaning(&case))) {
                        continue;
                    }
                    ensure!(
                        names.insert(case.name.clone()),
                        "{} appears twice",
                        case.name
                    );
                    cases.push(case);
                }
            }
        }
    }
    Ok(cases)
}

/// Every choice of one value for each varied setting.
fn combinations(list: &List, row: &Row) -> Result<Vec<Environment>> {
    let mut found = vec![Environment::new()];
    for (name, values) in &row.vary {
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

fn case(row: &Row, mpi: Mpi, ranks: u32, varied: &Environment) -> Case {
    let mut name = format!("{}/{mpi}/n{ranks}", row.name);
    for (setting, value) in varied {
        let short = setting.strip_prefix("FERRORAIL_").unwrap_or(setting);
        let value = value.strip_prefix("allgather=").unwrap_or(value);
        name.push_str(&format!("/{}={value}", short.to_lowercase()));
    }
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
        expect: row.expect.clone(),
        timeout_s: row.timeout_s,
    }
}

/// The settings, with every node size that means one node written as 0.
fn meaning(case: &Case) -> Environment {
    let mut environment = case.environment.clone();
    if let Some(size) = environment.get_mut("FERRORAIL_NODE_SIZE") {
        let one_node = size.parse::<u32>().is_ok_and(|size| size >= case.ranks);
        if one_node {
            *size = "0".into();
        }
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[values]\nalgorithms = ['allgather=ring', 'allgather=bruck']\n\
        [[row]]\nname = 'a'\ngroup = 'loopback'\nprogram = 'c/a.c'\nmpi = ['openmpi', 'abi']\n\
        ranks = [1, 4]\nset = { FERRORAIL_RAILS = '2' }\n\
        vary = { FERRORAIL_ALGORITHM = '@algorithms', FERRORAIL_NODE_SIZE = ['0', '2', '8'] }\n";

    #[test]
    fn rows_are_multiplied_out() {
        let cases = expand(&parse(LIST).unwrap()).unwrap();
        // Per MPI and algorithm: one shape of 1 rank, two of 4 (8 per node is one node, as is 0).
        assert_eq!(cases.len(), 2 * 2 * (1 + 2));
        let case = cases
            .iter()
            .find(|case| case.name == "a/abi/n4/algorithm=bruck/node_size=2")
            .unwrap();
        assert_eq!(case.environment["FERRORAIL_RAILS"], "2");
        assert_eq!(case.environment["FERRORAIL_ALGORITHM"], "allgather=bruck");
        assert!(case.expect.taken && case.expect.forwarded.is_empty());
    }

    #[test]
    fn mistakes_are_reported() {
        assert!(parse("[[row]]\nname = 'a'\n").is_err());
        let unknown = LIST.replace("@algorithms", "@algorithm");
        assert!(expand(&parse(&unknown).unwrap()).is_err());
        let twice = format!("{LIST}{}", &LIST[LIST.find("[[row]]").unwrap()..]);
        assert!(expand(&parse(&twice).unwrap()).is_err());
    }

    #[test]
    fn the_real_list_is_sound() {
        let list = parse(include_str!("../testlist.toml")).unwrap();
        let cases = expand(&list).unwrap();
        assert!(cases.iter().any(|case| case.group == "verbs"));
        for case in cases {
            let several = case.group == "nodes";
            assert_eq!(case.hosts > 1, several, "{}", case.name);
            let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&case.program);
            assert!(source.is_file(), "{}: no {}", case.name, case.program);
        }
    }

    /// Each algorithm that exists is forced, on loopback and on verbs.
    #[test]
    fn the_real_list_forces_every_algorithm() {
        use ferrorail_coll::algorithms;
        let cases = expand(&parse(include_str!("../testlist.toml")).unwrap()).unwrap();
        for &collective in ferrorail_engine::OFFERED {
            for algorithm in algorithms(collective) {
                let setting = format!("{}={}", collective.name(), algorithm.name);
                for group in ["loopback", "verbs"] {
                    let forced = cases.iter().any(|case| {
                        let value = case.environment.get("FERRORAIL_ALGORITHM");
                        case.group == group
                            && case.ranks > 4
                            && value.is_some_and(|all| all.split(',').any(|one| one == setting))
                    });
                    assert!(
                        forced,
                        "no {group} case of more than 4 ranks forces {setting}"
                    );
                }
            }
        }
    }
}
