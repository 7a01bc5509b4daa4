//! `ferrorail bench`: measurements under mpirun.

mod allgather;
mod buffers;
mod instance;
mod report;
mod sizes;
mod timing;

use anyhow::Result;
use std::process::ExitCode;

/// Measure ferrorail against the host MPI; start it with mpirun
///
/// The MPI library is the one the launcher belongs to, or FERRORAIL_MPI_LIBRARY.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(clap::Subcommand)]
enum Benchmark {
    Allgather(allgather::Args),
}

/// Runs the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    match &args.benchmark {
        Benchmark::Allgather(args) => allgather::main(args),
    }
}
