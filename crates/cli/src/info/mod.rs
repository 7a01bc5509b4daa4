//! `ferrorail info`: what is here and what is in force.

mod report;
mod settings;

use anyhow::Result;
use std::io::Write;
use std::process::ExitCode;

/// Show the host's MPI, cores, rails, the settings in force and the algorithms
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the report.
pub fn main(args: &Args) -> Result<ExitCode> {
    let settings = crate::settings();
    crate::start_log(&settings);
    let report = report::collect(&settings)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", report::text(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}
