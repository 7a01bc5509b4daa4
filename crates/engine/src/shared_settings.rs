//! The settings that every rank of a team must share: rank 0's are in force.

use crate::{EngineError, OFFERED};
use ferrorail_base::config::{
    AccumulateChoice, AtomicsChoice, ChecksumChoice, DomainChoice, FabricChoice, Problem, Settings,
    ShmKind, StatsSink, StripeChoice, WindowSettings,
};
use ferrorail_base::names::hint;
use ferrorail_base::sync::Mutex;
use ferrorail_coll::select::Table;
use ferrorail_fabric::stripe::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a choice may depend on, besides the team itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedSettings {
    pub enable: bool,
    pub fabric: FabricChoice,
    pub node_size: Option<u32>,
    pub domains: DomainChoice,
    pub ports: Option<u8>,
    pub leaders: Option<u8>,
    pub queue_pairs_max: Option<u64>,
    pub stripe_threshold: u64,
    stripe_policy: StripeChoice,
    pub stripe_bytes_min: u64,
    pub algorithm: BTreeMap<String, String>,
    /// Of the `FERRORAIL_TUNING` file, if there is one: what tells its text, or its absence, apart.
    pub tuning: Option<u64>,
    pub scratch_bytes: Option<u64>,
    pub zero_copy: Option<bool>,
    pub shm: ShmKind,
    pub cma: bool,
    pub attach_percent: Option<u32>,
    pub stats: bool,
    pub reliable: bool,
    pub multicast: bool,
    pub bcast_channels: u32,
    pub bcast_eager_bytes: u64,
    pub bcast_reliable: bool,
    pub bcast_checksum: ChecksumChoice,
    pub lock: Option<String>,
    pub accumulate: AccumulateChoice,
    pub atomics: AtomicsChoice,
    pub windows: WindowSettings,
}

impl SharedSettings {
    /// The part of `settings` that ranks must share.
    pub fn of(settings: &Settings) -> Self {
        Self {
            enable: settings.enable,
            fabric: settings.fabric,
            node_size: settings.node_size,
            domains: settings.domains,
            ports: settings.ports,
            leaders: settings.leaders,
            queue_pairs_max: settings.queue_pairs_max,
            stripe_threshold: settings.stripe_threshold,
            stripe_policy: settings.stripe_policy,
            stripe_bytes_min: settings.stripe_bytes_min,
            algorithm: settings.algorithm.clone(),
            tuning: Tuning::of(settings).digest(),
            scratch_bytes: settings.scratch_bytes,
            zero_copy: settings.zero_copy,
            shm: settings.shm,
            cma: settings.cma,
            attach_percent: settings.attach_percent,
            stats: settings.stats != StatsSink::Off,
            reliable: settings.reliable,
            multicast: settings.multicast,
            bcast_channels: settings.bcast_channels,
            bcast_eager_bytes: settings.bcast_eager_bytes,
            bcast_reliable: settings.bcast_reliable,
            bcast_checksum: settings.bcast_checksum,
            lock: settings.lock.clone(),
            accumulate: settings.accumulate,
            atomics: settings.atomics,
            windows: settings.windows,
        }
    }

    pub fn stripe_policy(&self) -> Policy {
        match self.stripe_policy {
            StripeChoice::Auto => Policy::Nominal,
            StripeChoice::Even => Policy::Even,
            StripeChoice::Weighted => Policy::Weighted,
            StripeChoice::Adaptive => Policy::Adaptive,
            StripeChoice::RoundRobin => Policy::RoundRobin,
        }
    }
}

/// What is wrong with the file that `FERRORAIL_TUNING` names.
pub fn tuning_problem(settings: &Settings) -> Option<Problem> {
    let file = Tuning::of(settings).0?;
    Some(Problem {
        name: "FERRORAIL_TUNING".into(),
        hint: file.table().err()?,
        value: file.path,
    })
}

/// The file that `FERRORAIL_TUNING` names, if it names one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tuning(Option<TuningFile>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TuningFile {
    path: String,
    /// What it says, or why it cannot be read.
    text: Result<String, String>,
}

impl Tuning {
    /// Longest file that is read, so that its text can be sent at once.
    const BYTES_MAX: u64 = 64 << 20;

    /// This process's. The file is read when it is first asked for, and never again: all teams of a
    /// process have the same table.
    pub fn of(settings: &Settings) -> Self {
        static READ: Mutex<BTreeMap<PathBuf, Result<String, String>>> = Mutex::new(BTreeMap::new());
        let Some(path) = &settings.tuning else {
            return Self(None);
        };
        let mut read = READ.lock();
        let text = read.entry(path.clone());
        let text = text.or_insert_with(|| read_text(path, Self::BYTES_MAX));
        Self(Some(TuningFile {
            path: path.display().to_string(),
            text: text.clone(),
        }))
    }

    /// Equal for equal texts.
    fn digest(&self) -> Option<u64> {
        let text = match &self.0.as_ref()?.text {
            Ok(text) | Err(text) => text.as_bytes(),
        };
        // Fowler-Noll-Vo 1a: the same in every process.
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        Some(text.iter().fold(0xcbf2_9ce4_8422_2325, step))
    }

    /// The table, if one is named.
    pub fn table(&self) -> Result<Option<Table>, EngineError> {
        let Some(file) = &self.0 else {
            return Ok(None);
        };
        let told = |reason| format!("FERRORAIL_TUNING={}: {reason}", file.path);
        let table = file.table();
        table
            .map(Some)
            .map_err(|reason| EngineError::Tuning(told(reason)))
    }
}

impl TuningFile {
    /// The table, or what is wrong with the file.
    fn table(&self) -> Result<Table, String> {
        let text = self.text.as_ref().map_err(String::clone)?;
        Table::from_json(text).map_err(|error| error.to_string())
    }
}

fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    match read.map_err(|error| error.to_string())? as u64 > bytes_max {
        true => Err(format!("it has more than {bytes_max} bytes")),
        false => Ok(text),
    }
}

/// What is wrong with settings that name algorithms, for the report at start-up.
pub fn algorithm_problems(settings: &Settings) -> Vec<Problem> {
    let complain = |collective: &str, algorithm: &str, hint: String| Problem {
        name: "FERRORAIL_ALGORITHM".into(),
        value: format!("{collective}={algorithm}"),
        hint,
    };
    let mut problems = Vec::new();
    for (collective, algorithm) in &settings.algorithm {
        let offered = OFFERED.iter().find(|offered| offered.name() == collective);
        match offered.copied() {
            None => {
                let near = hint(collective, OFFERED.iter().map(|offered| offered.name()));
                let hint = format!("no such collective; {near}");
                problems.push(complain(collective, algorithm, hint));
            }
            Some(known) => {
                if let Err(error) = ferrorail_coll::named::named(known, algorithm) {
                    problems.push(complain(collective, algorithm, error.to_string()));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::config::{Kind, PER_COMMUNICATOR, TABLE, parse};

    /// What a team shares is what a communicator may have of its own, but for what its process does.
    #[test]
    fn communicators_may_have_what_teams_share() {
        let usual = SharedSettings::of(&Settings::default());
        for setting in TABLE {
            let value = match (setting.name, setting.kind) {
                ("FERRORAIL_ALGORITHM", _) => "allgather=ring",
                ("FERRORAIL_DOMAINS", _) => "off",
                ("FERRORAIL_TUNING", _) => "/nonexistent",
                ("FERRORAIL_ATTACH_PERCENT", _) => "7",
                ("FERRORAIL_LOG" | "FERRORAIL_STATS", _) => "1",
                (name, Kind::Text) if !PER_COMMUNICATOR.contains(&name) => "7",
                (_, Kind::Switch) if setting.default == "1" => "0",
                (_, Kind::Switch) => "1",
                (_, Kind::Word(words)) => {
                    words.iter().find(|word| **word != setting.default).unwrap()
                }
                (_, Kind::Number(least, _)) => match least {
                    0 => "2",
                    _ => "10",
                },
                _ => "24K",
            };
            let (settings, _) = parse([(setting.name, value)]);
            let shared = SharedSettings::of(&settings) != usual;
            let of_process = ["FERRORAIL_FABRIC", "FERRORAIL_STATS"].contains(&setting.name);
            let own = PER_COMMUNICATOR.contains(&setting.name);
            assert_eq!(own, shared && !of_process, "{}={value}", setting.name);
        }
    }

    #[test]
    fn a_table_is_read_once_and_not_beyond_bounds() {
        let path = std::env::temp_dir().join(format!("ferrorail-tuning-{}", std::process::id()));
        std::fs::write(&path, "some text").expect("written");
        let settings = Settings {
            tuning: Some(path.clone()),
            ..Settings::default()
        };
        let first = Tuning::of(&settings);
        std::fs::write(&path, "another text").expect("written");
        assert_eq!(Tuning::of(&settings), first);
        assert!(first.digest().is_some());
        let named = format!("FERRORAIL_TUNING={}: ", path.display());
        let why = first.table().err().expect("no table").to_string();
        assert!(
            why.contains(&named) && tuning_problem(&settings).is_some(),
            "{why}"
        );
        assert!(read_text(&path, 11).is_err_and(|why| why.contains("11 bytes")));
        assert_eq!(read_text(&path, 12).as_deref(), Ok("another text"));
        std::fs::remove_file(&path).expect("removed");
        assert!(read_text(&path, 12).is_err());
        assert_eq!(Tuning::of(&Settings::default()).digest(), None);
    }
}
