//! Which MPI libraries this host has, and which one a launcher expects.

use anyhow::{Context, Result, bail};
use ferrorail_mpi_abi::{AbiKind, Host};
use serde_json::{Value, json};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Overrides every guess.
const VARIABLE: &str = "FERRORAIL_MPI_LIBRARY";
/// Names under which the dynamic linker finds MPI libraries: Open MPI, MPICH as Debian names it and
/// as its ABI initiative does, the standard ABI of MPI 5.
const NAMES: [&str; 4] = [
    "libmpi.so.40",
    "libmpich.so.12",
    "libmpi.so.12",
    "libmpi_abi.so.1",
];

/// Describe one MPI library as JSON; for `ferrorail info`, which must not load several into one
/// process
#[derive(clap::Args)]
pub struct ProbeArgs {
    library: PathBuf,
}

/// What [`installed`] runs in a process of its own.
pub fn probe(args: &ProbeArgs) -> Result<ExitCode> {
    outln!("{}", describe(&Host::open(&args.library)?));
    Ok(ExitCode::SUCCESS)
}

/// `abi`, `version` and `path` of a library.
pub fn describe(host: &Host) -> Value {
    json!({
        "abi": host.kind().to_string(),
        "version": host.short_version(),
        "path": host.path(),
    })
}

/// A library that was looked for.
pub struct Probed {
    /// As it was asked for.
    pub name: PathBuf,
    /// What [`describe`] says, or why it cannot be used.
    pub outcome: Result<Value, String>,
}

/// The library that the user names, with what is wrong with it, and those usual ones that work.
pub fn installed() -> Result<Vec<Probed>> {
    let given = given();
    let usual = NAMES.iter().map(PathBuf::from);
    let mut found: Vec<Probed> = Vec::new();
    for name in given.iter().cloned().chain(usual) {
        let outcome = probe_apart(&name)?;
        let known = |other: &Probed| match (&other.outcome, &outcome) {
            (Ok(other), Ok(this)) => other["path"] == this["path"],
            _ => false,
        };
        let wanted = outcome.is_ok() || given.as_ref() == Some(&name);
        if wanted && !found.iter().any(known) {
            found.push(Probed { name, outcome });
        }
    }
    Ok(found)
}

fn given() -> Option<PathBuf> {
    env::var_os(VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn probe_apart(name: &Path) -> Result<Result<Value, String>> {
    let output = Command::new(env::current_exe()?)
        .arg("probe-mpi")
        .arg(name)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .context("cannot start a process to look at MPI libraries")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = text.lines().last().unwrap_or("it crashed");
        return Ok(Err(reason.trim_start_matches("ferrorail: ").to_owned()));
    }
    Ok(serde_json::from_slice(&output.stdout).map_err(|error| error.to_string()))
}

/// The MPI launcher that started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Launcher {
    /// Interfaces of the libraries that understand it, likeliest first.
    kinds: &'static [AbiKind],
    /// Number of processes it says there are.
    size: Option<u32>,
}

const ANY: &[AbiKind] = &[AbiKind::OpenMpi, AbiKind::Mpich, AbiKind::Standard];
const MPICH_FAMILY: &[AbiKind] = &[AbiKind::Mpich, AbiKind::Standard];

impl Launcher {
    fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let size = |name| variable(name)?.parse().ok();
        if variable("OMPI_COMM_WORLD_SIZE").is_some() {
            return Self {
                kinds: &[AbiKind::OpenMpi],
                size: size("OMPI_COMM_WORLD_SIZE"),
            };
        }
        if variable("PMI_RANK").is_some() || variable("PMI_FD").is_some() {
            return Self {
                kinds: MPICH_FAMILY,
                size: size("PMI_SIZE"),
            };
        }
        Self {
            kinds: ANY,
            size: None,
        }
    }
}

/// Whether this process is a rank of an MPI job.
pub fn is_in_a_job() -> bool {
    Launcher::detect(|name| env::var(name).ok()).kinds != ANY
}

/// Opens the library that this process's launcher expects, without initialising it.
pub fn open() -> Result<Host> {
    if let Some(path) = given() {
        return Host::open(&path).with_context(|| format!("{VARIABLE}={}", path.display()));
    }
    let launcher = Launcher::detect(|name| env::var(name).ok());
    for kind in launcher.kinds {
        for name in names_of(*kind) {
            if let Ok(host) = Host::open(Path::new(name)) {
                return Ok(host);
            }
        }
    }
    let names: Vec<_> = launcher
        .kinds
        .iter()
        .flat_map(|kind| names_of(*kind))
        .copied()
        .collect();
    bail!("none of {} can be loaded: set {VARIABLE}", names.join(", "))
}

fn names_of(kind: AbiKind) -> &'static [&'static str] {
    match kind {
        AbiKind::OpenMpi => &NAMES[..1],
        AbiKind::Mpich => &NAMES[1..3],
        AbiKind::Standard => &NAMES[3..],
    }
}

/// Checks that the library and the launcher understood each other; otherwise every process believes
/// to be alone.
pub fn check_size(host: &Host, size: u32) -> Result<()> {
    let launcher = Launcher::detect(|name| env::var(name).ok());
    match launcher.size {
        Some(expected) if expected != size => bail!(
            "the launcher started {expected} processes but {} sees {size}: set {VARIABLE} to the launcher's library",
            host.path().unwrap_or_default()
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(given: &[(&str, &str)]) -> Launcher {
        Launcher::detect(|name| {
            let (_, value) = given.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        })
    }

    #[test]
    fn launchers_are_told_from_their_variables() {
        let open_mpi = detect(&[("OMPI_COMM_WORLD_SIZE", "4"), ("PMI_RANK", "0")]);
        assert_eq!(open_mpi.kinds, [AbiKind::OpenMpi]);
        assert_eq!(open_mpi.size, Some(4));
        let hydra = detect(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]);
        assert_eq!((hydra.kinds, hydra.size), (MPICH_FAMILY, Some(2)));
        assert_eq!(
            detect(&[]),
            Launcher {
                kinds: ANY,
                size: None
            }
        );
    }

    #[test]
    fn every_kind_has_names() {
        let all: Vec<_> = ANY
            .iter()
            .flat_map(|kind| names_of(*kind))
            .copied()
            .collect();
        assert_eq!(all, NAMES);
    }
}
