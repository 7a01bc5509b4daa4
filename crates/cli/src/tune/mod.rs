//! `ferrorail tune`: which algorithms are fastest for jobs like this one, as a table for `FERRORAIL_TUNING`.

mod candidates;
mod fastest;
mod table;

use crate::bench::job_sizes::JobSizes;
use crate::bench::measure::Bench;
use crate::bench::mode::{Arrival, Reuse};
use crate::bench::operation::OPERATIONS;
use crate::bench::outcome::Outcome;
use crate::bench::plan::{Plan, all_named, check_elements};
use crate::bench::sizes::{self, Sizes};
use crate::bench::timing::Limits;
use crate::bench::{as_rank, report};
use anyhow::{Result, bail};
use candidates::Also;
use ferrorail_base::units::format_bytes;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Settings that would keep the shipped rules from being measured.
const CHOOSING: [&str; 2] = ["FERRORAIL_TUNING", "FERRORAIL_ALGORITHM"];

/// Find the fastest algorithms for jobs like this one, and write them as a table for FERRORAIL_TUNING: `mpirun -n 8
/// ferrorail tune`
///
/// Measures every algorithm of each collective, by both protocols, beside what the shipped rules choose and beside the
/// host MPI. Where one of them is at least 1.1 times as fast as what ships, the table has a rule for it, also for the host
/// MPI. A rule is for communicators of this shape: with up to as many ranks, nodes and ranks on a node as were measured,
/// and more than half as many; for all others the shipped rules hold.
#[derive(clap::Args)]
pub struct Args {
    /// Collectives to measure, such as allgather [default: all]
    #[arg(value_name = "NAME")]
    collectives: Vec<String>,
    /// The table; rules that it has for other shapes or other collectives stay
    #[arg(
        long,
        short,
        value_name = "FILE.json",
        default_value = "ferrorail-tuning.json"
    )]
    output: PathBuf,
    /// Bytes of a block, or of a vector, as in `ferrorail bench`; what is best at one size is taken from above the size
    /// before on, and at the last one for all longer ones
    #[arg(long, value_parser = sizes::parse, default_value = "4:1M:4", visible_alias = "sizes")]
    bytes: Sizes,
    /// Ranks that take part, one number after another, in the form of --bytes: the first of the job, while the others
    /// sleep [default: all]
    #[arg(long, value_parser = sizes::parse, value_name = "RANKS", visible_alias = "ranks")]
    job_sizes: Option<Sizes>,
    /// Time in milliseconds for one size of one collective, all ways together, with one choice of buffers
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
    /// Blocks of calls of each way
    #[arg(long, value_name = "COUNT", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// Buffers of successive calls; of several choices the geometric mean of the times counts
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "CHOICES",
        default_value = "rotating,warm"
    )]
    buffers: Vec<Reuse>,
    /// Compare also algorithms over the domains of a node, or those that send multicasts between nodes
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMS")]
    also: Vec<Also>,
    /// Write no rules that leave collectives to the host MPI
    #[arg(long)]
    no_host: bool,
    /// Write machine, versions, settings and everything measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    fn plan(&self) -> Result<Plan> {
        let operations = match self.collectives.is_empty() {
            true => OPERATIONS.iter().collect(),
            false => all_named(&self.collectives)?,
        };
        check_elements(&self.bytes.0, &operations)?;
        let mut sizes = self.bytes.0.clone();
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Plan {
            figure: None,
            variants: candidates::variants(&operations, &self.also),
            operations,
            sizes,
            limits: Limits {
                budget: Duration::from_millis(self.budget),
                iterations: None,
                blocks: self.blocks,
            },
            root: 0,
            reuses: self.buffers.clone(),
            arrivals: vec![Arrival::Even],
            barrier: false,
            bounds: false,
            json: self.json.clone(),
            plot: None,
            shows_rows: false,
            job_sizes: match &self.job_sizes {
                Some(Sizes(ranks)) => JobSizes::Given(ranks.clone()),
                None => JobSizes::Whole,
            },
        })
    }

    /// Writes the table, and says what is in it.
    fn finish(&self, found: &Outcome<'_>, plan: &Plan, before: table::Before) -> Result<()> {
        let cells = fastest::cells(found.rows, &self.also);
        let chosen = fastest::choose(&cells, !self.no_host);
        let rules = table::rules(&chosen);
        print(&chosen, &cells);
        before.write_with(rules, &self.output)?;
        outln!("# FERRORAIL_TUNING={} uses this", self.output.display());
        report::write(found, plan)
    }
}

/// Prints what is chosen beside what ships.
fn print(chosen: &[fastest::Chosen<'_>], cells: &[fastest::Cell]) {
    outln!("#\n# us per call of the slowest rank");
    outln!(
        "# {:<20} {:>5} {:<15} {:>10} {:>10} {:>10}",
        "Collective",
        "ranks",
        "up to bytes",
        "as shipped",
        "chosen",
        "host"
    );
    for one in chosen.iter().filter(|one| one.way != fastest::Way::Shipped) {
        for cell in &one.cells {
            outln!(
                "# {:<20} {:>5} {:<15} {:>10.3} {:>10.3} {:>10.3}  {}",
                cell.collective.name(),
                cell.facts.ranks,
                format_bytes(cell.bytes),
                cell.shipped_us,
                one.way.us(cell),
                cell.host_us,
                one.way
            );
        }
    }
    let means = fastest::means(chosen);
    if let Some((shipped, with_rules)) = means {
        outln!(
            "# {} cells, geometric means by the host's times: {shipped:.3} as shipped, {with_rules:.3} with these rules",
            cells.len()
        );
    }
}

/// Runs as one rank of an MPI job.
pub fn main(args: &Args) -> Result<ExitCode> {
    let plan = args.plan()?;
    let before = table::Before::read(&args.output)?;
    for name in CHOOSING {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::remove_var(name) };
    }
    let outputs = [Some(&args.output), args.json.as_ref()];
    as_rank(outputs.into_iter().flatten(), |host, library| {
        if host.comm_size(host.predefined().comm_world)? == 1 {
            bail!(
                "one rank has nothing to choose: start as many as the program has, as in `mpirun -n 8 ferrorail tune`"
            );
        }
        let finish = |found: &Outcome<'_>| args.finish(found, &plan, before);
        Bench::new(host, &plan)?.run(library, finish)
    })
}
