//! The `ferrorail` command: one module per subcommand.

#[macro_use]
mod output;

mod bench;
mod exec;
mod explain;
mod info;
mod library;
mod mpi;
mod program;
mod run;
mod tune;
mod value;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use ferrorail_base::config::{self, Settings};
use ferrorail_engine::open_rails;
use std::process::ExitCode;
use std::time::Duration;

/// What a subcommand that starts other programs exits with when it fails itself, as `env`,
/// `nohup` and `timeout` do.
const EXIT_LAUNCHER: u8 = 125;

/// Between a rank's last words and its end: launchers drop output that comes together with the end of a job.
const LAUNCHER_DELAY: Duration = Duration::from_millis(200);

/// MPI collectives over shared memory and RDMA rails, without recompiling
#[derive(Parser)]
#[command(name = "ferrorail", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Exec(exec::Args),
    Run(run::Args),
    Info(info::Args),
    Explain(explain::Args),
    Bench(Box<bench::Args>),
    Tune(Box<tune::Args>),
    #[command(hide = true)]
    ProbeMpi(mpi::ProbeArgs),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let is_rank = matches!(command, Command::Bench(_) | Command::Tune(_));
    let (result, failure) = match command {
        Command::Exec(args) => (exec::main(&args), EXIT_LAUNCHER),
        Command::Run(args) => (run::main(&args), EXIT_LAUNCHER),
        Command::Info(args) => (info::main(&args), 1),
        Command::Explain(args) => (explain::main(&args), 1),
        Command::Bench(args) => (bench::main(&args), 1),
        Command::Tune(args) => (tune::main(&args), 1),
        Command::ProbeMpi(args) => (mpi::probe(&args), 1),
    };
    result.unwrap_or_else(|error| {
        ferrorail_base::complain(format_args!("ferrorail: {error:#}"));
        if is_rank {
            std::thread::sleep(LAUNCHER_DELAY);
        }
        ExitCode::from(failure)
    })
}

/// This process's environment, as far as it is text.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    })
}

/// The settings of this process's environment; what is wrong with them goes to standard error.
fn settings() -> Settings {
    let (settings, problems) = config::parse(variables());
    let unknown = ferrorail_engine::algorithm_problems(&settings);
    for problem in problems.iter().chain(&unknown) {
        ferrorail_base::complain(format_args!("ferrorail: {problem}"));
    }
    settings
}

/// As many rails as `given`, or as open here.
fn rail_count(given: Option<u8>, settings: &Settings) -> anyhow::Result<u8> {
    if let Some(rails) = given {
        return Ok(rails);
    }
    let opened = open_rails(settings).context("cannot tell the number of rails: give --rails")?;
    Ok(opened.attributes().rails.len() as u8)
}

/// Sends the log of the libraries to standard error, as `FERRORAIL_LOG` says.
fn start_log(settings: &Settings) {
    let filter = tracing_subscriber::EnvFilter::try_new(&settings.log).unwrap_or_else(|error| {
        ferrorail_base::complain(format_args!(
            "ferrorail: FERRORAIL_LOG={}: {error}",
            settings.log
        ));
        tracing_subscriber::EnvFilter::new("warn")
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .init();
}
