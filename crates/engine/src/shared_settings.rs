//! The settings that every rank of a team must share: rank 0's are in force.

use crate::OFFERED;
use ferrorail_base::config::{
    AccumulateChoice, AtomicsChoice, FabricChoice, Problem, Settings, ShmKind, StripeChoice,
};
use ferrorail_fabric::stripe::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a choice may depend on, besides the team itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedSettings {
    pub enable: bool,
    fabric: u8,
    pub node_size: Option<u32>,
    pub ports: Option<u8>,
    pub leaders: Option<u8>,
    pub stripe_threshold: u64,
    stripe_policy: u8,
    pub stripe_bytes_min: u64,
    pub algorithm: BTreeMap<String, String>,
    /// Text of the `FERRORAIL_TUNING` file, or why it cannot be read.
    pub tuning: Option<Result<String, String>>,
    pub scratch_bytes: u64,
    pub zero_copy: Option<bool>,
    shm: u8,
    pub cma: bool,
    pub stats: bool,
    pub reliable: bool,
    pub lock: Option<String>,
    accumulate: u8,
    atomics: u8,
}

impl SharedSettings {
    /// The part of `settings` that ranks must share.
    pub fn of(settings: &Settings) -> Self {
        let tuning = settings.tuning.as_ref().map(|path| {
            std::fs::read_to_string(path)
                .map_err(|error| format!("FERRORAIL_TUNING={}: {error}", path.display()))
        });
        Self {
            enable: settings.enable,
            fabric: settings.fabric as u8,
            node_size: settings.node_size,
            ports: settings.ports,
            leaders: settings.leaders,
            stripe_threshold: settings.stripe_threshold,
            stripe_policy: settings.stripe_policy as u8,
            stripe_bytes_min: settings.stripe_bytes_min,
            algorithm: settings.algorithm.clone(),
            tuning,
            scratch_bytes: settings.scratch_bytes,
            zero_copy: settings.zero_copy,
            shm: settings.shm as u8,
            cma: settings.cma,
            stats: settings.stats != ferrorail_base::config::StatsSink::Off,
            reliable: settings.reliable,
            lock: settings.lock.clone(),
            accumulate: settings.accumulate as u8,
            atomics: settings.atomics as u8,
        }
    }

    pub fn fabric(&self) -> FabricChoice {
        match self.fabric {
            f if f == FabricChoice::Loopback as u8 => FabricChoice::Loopback,
            f if f == FabricChoice::Verbs as u8 => FabricChoice::Verbs,
            _ => FabricChoice::Auto,
        }
    }

    pub fn stripe_policy(&self) -> Policy {
        match self.stripe_policy {
            p if p == StripeChoice::Even as u8 => Policy::Even,
            p if p == StripeChoice::Weighted as u8 => Policy::Weighted,
            p if p == StripeChoice::Adaptive as u8 => Policy::Adaptive,
            p if p == StripeChoice::RoundRobin as u8 => Policy::RoundRobin,
            _ => Policy::Nominal,
        }
    }

    pub fn accumulate(&self) -> AccumulateChoice {
        match self.accumulate {
            a if a == AccumulateChoice::Event as u8 => AccumulateChoice::Event,
            a if a == AccumulateChoice::Auto as u8 => AccumulateChoice::Auto,
            a if a == AccumulateChoice::Nic as u8 => AccumulateChoice::Nic,
            _ => AccumulateChoice::Origin,
        }
    }

    pub fn atomics(&self) -> AtomicsChoice {
        match self.atomics {
            a if a == AtomicsChoice::Cpu as u8 => AtomicsChoice::Cpu,
            a if a == AtomicsChoice::Nic as u8 => AtomicsChoice::Nic,
            _ => AtomicsChoice::Auto,
        }
    }

    pub fn shm(&self) -> ShmKind {
        match self.shm {
            s if s == ShmKind::Memfd as u8 => ShmKind::Memfd,
            s if s == ShmKind::Posix as u8 => ShmKind::Posix,
            _ => ShmKind::Auto,
        }
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
                let names: Vec<&str> = OFFERED.iter().map(|offered| offered.name()).collect();
                let hint = format!("no such collective; there are {}", names.join(", "));
                problems.push(complain(collective, algorithm, hint));
            }
            Some(known) => {
                if let Err(error) = ferrorail_coll::find(known, algorithm) {
                    problems.push(complain(collective, algorithm, error.to_string()));
                }
            }
        }
    }
    problems
}
