//! A stand-in for the preload library, and commands on it or on the library itself.

use super::common::{OPEN_MPI, expect_code, ferrorail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A directory with the stand-in, removed afterwards.
pub struct StandIn(pub PathBuf);

impl StandIn {
    /// Compiles it.
    pub fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("ferrorail-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let stand_in = Self(directory);
        let source = stand_in.0.join("stand_in.c");
        fs::write(&source, include_str!("stand_in.c")).unwrap();
        let mut compile = Command::new("cc");
        compile
            .args(["-shared", "-fPIC", "-o"])
            .arg(stand_in.library())
            .arg(source)
            .arg("-ldl");
        expect_code(&mut compile, 0);
        stand_in
    }

    /// A file in the directory.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Its file.
    pub fn library(&self) -> PathBuf {
        self.0.join("libferrorail.so")
    }

    #[allow(dead_code, reason = "of one test program")]
    /// `mpirun -n 2 ferrorail bench allgather ARGS`, with few calls.
    pub fn bench(&self, launcher: &str, args: &str) -> Command {
        let few = "allgather --blocks 3 --iterations 5";
        self.bench_of(launcher, &format!("{few} {args}"))
    }

    /// `mpirun -n 2 ferrorail bench ARGS`.
    pub fn bench_of(&self, launcher: &str, args: &str) -> Command {
        self.bench_on(2, launcher, args)
    }

    /// `mpirun -n RANKS ferrorail bench ARGS`; without bounds of the machine, unless ARGS have `--bounds`.
    pub fn bench_on(&self, ranks: u32, launcher: &str, args: &str) -> Command {
        let mut command = self.command(ranks, launcher, &format!("bench {args}"));
        if !args.contains("--bounds") {
            command.args(["--bounds", "off"]);
        }
        command
    }

    /// `mpirun -n RANKS ferrorail ARGS`.
    pub fn command(&self, ranks: u32, launcher: &str, args: &str) -> Command {
        let mut command = Command::new(launcher);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FERRORAIL_") {
                command.env_remove(name);
            }
        }
        if launcher.contains("openmpi") {
            command
                .envs(OPEN_MPI)
                .env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        }
        command
            .env("FERRORAIL_LIBRARY", self.library())
            .args(["-n", &ranks.to_string()])
            .arg(ferrorail().get_program())
            .args(args.split_whitespace());
        command
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The library itself, which a build of the workspace leaves beside the command.
#[allow(dead_code, reason = "not every test program takes it")]
pub fn built_library() -> PathBuf {
    PathBuf::from(ferrorail().get_program()).with_file_name("libferrorail.so")
}

/// Launchers, and the families of MPI libraries that they belong to.
#[allow(dead_code, reason = "not every test program takes all launchers")]
pub const LAUNCHERS: [(&str, &str); 2] =
    [("mpirun.openmpi", "Open MPI"), ("mpirun.mpich", "MPICH")];
