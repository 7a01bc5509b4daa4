//! `ferrorail run`: start the ranks of a program that needs no MPI, on this host.

mod output;
mod ranks;
mod signals;
mod supervisor;

use crate::program::Program;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use ferrorail_base::config::{self, Kind};
use ferrorail_bootstrap::Rendezvous;
use ranks::Ranks;
use std::process::ExitCode;
use std::time::Duration;
use supervisor::{Limits, Supervisor};

/// How long ranks have between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// Start ranks of a program on this host; they find each other without MPI
///
/// The first rank that fails ends the others (SIGTERM, after 3 s SIGKILL), and its exit code is the
/// command's: 128 + N if signal N killed it, 124 after the time-out, 125 if no rank could be
/// started, 127 if the program is not found. Processes that a rank leaves behind in its process
/// group are killed. Rank 0 reads standard input unless it is a terminal.
#[derive(clap::Args)]
pub struct Args {
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=65536))]
    ranks: u32,
    /// Ranks per virtual node (FERRORAIL_NODE_SIZE)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    node_size: Option<u32>,
    /// Rails to use: a count or names (FERRORAIL_RAILS)
    #[arg(long)]
    rails: Option<String>,
    /// What carries bytes between nodes (FERRORAIL_FABRIC)
    #[arg(long, value_parser = fabrics())]
    fabric: Option<String>,
    /// End the ranks after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Put the rank in front of every line of output
    #[arg(long)]
    tag: bool,
    #[command(flatten)]
    program: Program,
}

/// Starts the ranks, watches over them and returns the first failure's exit code.
pub fn main(args: &Args) -> Result<ExitCode> {
    crate::start_log(&crate::settings());
    // Signals are taken before any thread or rank exists, so that none is lost or goes astray.
    let signals = signals::Signals::take().context("cannot receive signals")?;
    let rendezvous = Rendezvous::start(args.ranks).context("cannot open the rendezvous socket")?;
    let mut ranks = Ranks::new(args.tag);
    let started = ranks.start(
        args.ranks,
        &args.program.command,
        &args.variables(),
        &rendezvous,
    );
    if let Err(error) = started {
        ferrorail_base::complain(format_args!(
            "ferrorail run: {}: {error}",
            args.program.command[0].display()
        ));
        ranks.kill_all();
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => 127,
            std::io::ErrorKind::PermissionDenied => 126,
            _ => crate::EXIT_LAUNCHER,
        };
        return Ok(ExitCode::from(code));
    }
    let limits = Limits {
        timeout: args.timeout,
        grace: GRACE,
    };
    let code = Supervisor::new(ranks, signals, &rendezvous, limits).watch()?;
    Ok(ExitCode::from(code))
}

impl Args {
    /// Settings given as options.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let options = [
            (
                "FERRORAIL_NODE_SIZE",
                self.node_size.map(|size| size.to_string()),
            ),
            ("FERRORAIL_RAILS", self.rails.clone()),
            ("FERRORAIL_FABRIC", self.fabric.clone()),
        ];
        let given = |(name, value)| Some((name, value?));
        options.into_iter().filter_map(given).collect()
    }
}

/// The words of the setting, which are the option's.
fn fabrics() -> PossibleValuesParser {
    let words = config::TABLE
        .iter()
        .find_map(|setting| match setting.kind {
            Kind::Word(words) if setting.name == "FERRORAIL_FABRIC" => Some(words),
            _ => None,
        })
        .unwrap_or_default();
    PossibleValuesParser::new(words)
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 => {
            Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
        }
        _ => Err("not a positive number of seconds".into()),
    }
}
