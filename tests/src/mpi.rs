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

    /// The launcher and its arguments, up to the program. On several hosts the ranks are placed in
    /// blocks.
    pub fn launcher(self, setup: &Setup, ranks: u32, hosts: &[String]) -> Vec<String> {
        let mut words: Vec<String> = match self {
            Mpi::Open => vec!["mpirun.openmpi".into(), "--oversubscribe".into()],
            Mpi::Mpich => vec!["mpirun.mpich".into()],
            Mpi::Abi => vec![setup.abi_prefix.join("bin/mpiexec").display().to_string()],
        };
        if !hosts.is_empty() {
            let option = match self {
                Mpi::Open => "-H",
                Mpi::Mpich | Mpi::Abi => "-hosts",
            };
            words.extend([option.to_owned(), blocks(hosts, ranks)]);
            if self == Mpi::Open {
                words.extend(["--map-by", "slot", "--bind-to", "none"].map(str::to_owned));
            }
        }
        words.extend(["-n".to_owned(), ranks.to_string()]);
        words
    }

    /// Whether ranks that wait keep their core, however many there are.
    pub fn never_yields(self) -> bool {
        matches!(self, Mpi::Mpich | Mpi::Abi)
    }

    /// Environment that the launcher needs on the machines of users and CI alike.
    pub fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // Containers and CI run as root, which Open MPI wants confirmed. Its other message layers look for
            // their networks for 0.2 s, as long as all else that a short job does.
            Mpi::Open => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_pml", "ob1"),
                NO_HWLOC_PLUGINS,
            ],
            Mpi::Mpich | Mpi::Abi => &[NO_HWLOC_PLUGINS],
        }
    }
}

/// hwloc's plugins load X11 and OpenCL in each rank, to look for devices that no test needs.
const NO_HWLOC_PLUGINS: (&str, &str) = ("HWLOC_PLUGINS_PATH", "/nonexistent");

/// The hosts with the number of ranks on each, as all launchers read them: `a:2,b:1`.
fn blocks(hosts: &[String], ranks: u32) -> String {
    let count = hosts.len() as u32;
    let sizes = (0..count).map(|host| ranks / count + u32::from(host < ranks % count));
    let words = hosts.iter().zip(sizes).filter(|&(_, size)| size > 0);
    let words: Vec<String> = words.map(|(host, size)| format!("{host}:{size}")).collect();
    words.join(",")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_spread_in_blocks() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(blocks(&hosts, 3), "a:1,b:1,c:1");
        assert_eq!(blocks(&hosts, 8), "a:3,b:3,c:2");
        assert_eq!(blocks(&hosts, 2), "a:1,b:1");
    }
}
