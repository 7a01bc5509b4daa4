//! `ferrorail info`: what is here and what is in force.

mod estimate;
mod report;
mod settings;
mod tree;

use crate::value;
use anyhow::Result;
use ferrorail_engine::tuning_problem;
use std::process::ExitCode;

/// Show the host's MPI, cores, rails, the settings in force and the algorithms
#[derive(clap::Args)]
pub struct Args {
    /// Show instead what a communicator takes: connections, queue pairs, memory and scratch
    ///
    /// Counted from the algorithms that would be chosen, under the FERRORAIL_ settings of the
    /// environment. No device is opened if --rails is given.
    #[arg(long, requires = "nodes")]
    estimate: bool,
    /// Nodes of the communicator
    #[arg(long, value_name = "N", requires = "estimate", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    nodes: Option<u32>,
    /// Ranks per node
    #[arg(long, value_name = "N", requires = "estimate", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 10))]
    node_size: u32,
    /// Rails of a node [default: as many as open here]
    #[arg(long, value_name = "N", requires = "estimate", value_parser = clap::value_parser!(u8).range(1..=8))]
    rails: Option<u8>,
    /// k of the multi-port algorithms [default: FERRORAIL_PORTS, else the number of rails]
    #[arg(long, value_name = "N", requires = "estimate", value_parser = clap::value_parser!(u8).range(1..=8))]
    ports: Option<u8>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the report.
pub fn main(args: &Args) -> Result<ExitCode> {
    let settings = crate::settings();
    crate::start_log(&settings);
    let Some(nodes) = args.nodes else {
        if let Some(problem) = tuning_problem(&settings) {
            ferrorail_base::complain(format_args!("ferrorail: {problem}"));
        }
        return value::print(args.json, &report::collect(&settings)?, report::text);
    };
    let wanted = estimate::Wanted {
        nodes,
        node_size: args.node_size,
        rails: args.rails,
        ports: args.ports,
    };
    let estimated = estimate::collect(&wanted, &settings)?;
    let report = serde_json::to_value(&estimated)?;
    value::print(args.json, &report, |_| estimate::text(&estimated))
}
