//! The host MPI of this process, found at the first wrapped call, and the settings.

use ferrorail_base::complain;
use ferrorail_base::config::{self, Problem, Settings};
use ferrorail_base::sync::{AtomicBool, Ordering};
use ferrorail_mpi_abi::{Host, HostError};
use std::sync::OnceLock;

/// What is known once an MPI library is loaded.
pub struct Runtime {
    /// The MPI library.
    pub host: Host,
    settings: Settings,
    problems: Vec<Problem>,
    /// The variables that `settings` are read from.
    variables: Vec<(String, String)>,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// The runtime, or `None` while no usable MPI library is loaded (it may be loaded later).
pub fn get() -> Option<&'static Runtime> {
    RUNTIME.get().or_else(discover)
}

#[cold]
fn discover() -> Option<&'static Runtime> {
    static REFUSED: AtomicBool = AtomicBool::new(false);
    if REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    match Host::of_program() {
        Ok(host) => {
            if let Some(mapping) = host.mapping() {
                crate::caller::leave_alone(&mapping);
            }
            Some(RUNTIME.get_or_init(|| Runtime::new(host)))
        }
        Err(HostError::Absent) => None,
        Err(error) => {
            if !REFUSED.swap(true, Ordering::Relaxed) && launcher_rank() == 0 {
                complain(format_args!("ferrorail: {error}; every call is left to it"));
            }
            None
        }
    }
}

impl Runtime {
    fn new(host: Host) -> Self {
        let text = std::env::vars_os().map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        });
        let ours = text.filter(|(name, _)| name.starts_with(config::PREFIX));
        let variables: Vec<_> = ours.collect();
        let (settings, problems) = config::parse(variables.iter().cloned());
        Self {
            host,
            settings,
            problems,
            variables,
        }
    }

    /// The settings of this process.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is wrong with the variables.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The `FERRORAIL_*` variables of this process, as they were at the start.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }
}

/// This process's rank as its launcher tells it, before MPI is up; 0 if it does not.
fn launcher_rank() -> u32 {
    [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ]
    .iter()
    .find_map(|name| std::env::var(name).ok()?.parse().ok())
    .unwrap_or(0)
}
