//! The host MPIs: how to compile for them and how to start ranks.

use crate::Setup;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;

/// Version of the wheel with the MPI-5 ABI; `scripts/lib/mpi_abi.sh` installs it.
const ABI_FOLDER: &str = "mpi-abi-5.0.2";

/// A host MPI.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Mpi {
    /// Debian's Open MPI.
    #[serde(rename = "openmpi")]
    Open,
    /// Debian's MPICH.
    Mpich,
    /// MPICH 5 through the standard ABI of MPI 5.
    Abi,
}

impl fmt::Display for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mpi::Open => "openmpi",
            Mpi::Mpich => "mpich",
            Mpi::Abi => "abi",
        })
    }
}

impl Mpi {
    /// The compiler for C, or for Fortran.
    pub fn compiler(self, setup: &Setup, fortran: bool) -> Result<String> {
        Ok(match (self, fortran) {
            (Mpi::Open, false) => "mpicc.openmpi".into(),
            (Mpi::Open, true) => "mpif90.openmpi".into(),
            (Mpi::Mpich, false) => "mpicc.mpich".into(),
            (Mpi::Mpich, true) => "mpif90.mpich".into(),
            (Mpi::Abi, false) => setup.abi_prefix.join("bin/mpicc_abi").display().to_string(),
            (Mpi::Abi, true) => anyhow::bail!("the MPI-5 ABI wheel has no Fortran compiler"),
        })
    }

    /// The launcher and its arguments, up to the program.
    pub fn launcher(self, setup: &Setup, ranks: u32) -> Vec<String> {
        let ranks = ranks.to_string();
        let words: Vec<&str> = match self {
            Mpi::Open => vec!["mpirun.openmpi", "--oversubscribe", "-n", &ranks],
            Mpi::Mpich => vec!["mpirun.mpich", "-n", &ranks],
            Mpi::Abi => {
                let launcher = setup.abi_prefix.join("bin/mpiexec");
                return vec![launcher.display().to_string(), "-n".into(), ranks];
            }
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Environment that the launcher needs on the machines of users and CI alike.
    pub fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // Containers and CI run as root, which Open MPI wants confirmed.
            Mpi::Open => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ],
            Mpi::Mpich => &[],
            // Its ranks spin; without this, jobs of more ranks than cores take several times as long.
            Mpi::Abi => &[("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")],
        }
    }
}

/// Where `scripts/test` installs the wheel with the MPI-5 ABI.
pub fn default_abi_prefix() -> Result<PathBuf> {
    cache_folder().map(|cache| cache.join(ABI_FOLDER))
}

/// Where downloads that outlive a clone are kept.
pub fn cache_folder() -> Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => std::env::home_dir()
            .context("neither XDG_CACHE_HOME nor HOME is set")?
            .join(".cache"),
    };
    Ok(cache.join("ferrorail"))
}
