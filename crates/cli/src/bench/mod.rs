//! `ferrorail bench`: measurements under mpirun.

mod applications;
mod bounds;
mod buffers;
mod call;
mod cell;
mod chart;
mod contender;
mod cutoffs;
mod figures;
mod instance;
pub mod job_sizes;
pub mod measure;
pub mod mode;
mod mpi_functions;
pub mod operation;
pub mod outcome;
mod plain;
pub mod plan;
mod raw;
pub mod report;
mod rma;
pub mod row;
mod shared;
mod side;
pub mod sizes;
mod spread;
pub mod timing;
mod transfer;
pub mod variant;
mod wrong_data;

use crate::{library, mpi};
use anyhow::{Context as _, Result, bail};
use ferrorail_base::names::nearest;
use ferrorail_mpi_abi::Host;
use figures::{Figure, What};
use measure::Bench;
use mode::{Arrival, Reuse};
use operation::{NEIGHBOURS, OPERATIONS};
use plan::Plan;
use sizes::Sizes;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use timing::Limits;
use variant::{Environment, Variant, Variants};
use wrong_data::WrongData;

/// Milliseconds for a cell: of any benchmark, and of a figure, which has several curves.
const BUDGET: u64 = 300;
const BUDGET_OF_FIGURE: u64 = 1000;
/// Blocks per implementation.
const BLOCKS: u32 = 11;

/// Measure collectives or one-sided communication, ours beside the host's in one run: `mpirun -n 4
/// ferrorail bench --all`, `… bench rma-latency`; repeat figures of papers: `… bench yu2005:fig10`
///
/// Blocks of calls of both implementations alternate; collectives walk through rotating buffers, and then
/// use the same ones in each call (rows named `+warm`). Each cell's data is checked once. The MPI library is the one the launcher belongs to, or
/// FERRORAIL_MPI_LIBRARY.
#[derive(clap::Args)]
#[command(after_help = rma::help())]
pub struct Args {
    /// Collectives to measure, such as allgather or iallgather, benchmarks of one-sided communication, such as
    /// rma-latency (`rma` is all of those), a figure of a paper, or `apps`: N-BODY and RADIX with and
    /// without ferrorail, in jobs that this command starts
    #[arg(
        value_name = "NAME",
        conflicts_with = "all",
        required_unless_present_any = ["all", "list"]
    )]
    collectives: Vec<String>,
    /// Measure all collectives
    #[arg(long)]
    all: bool,
    /// List collectives, figures and other benchmarks, with a line about each; needs no MPI job
    #[arg(long, exclusive = true)]
    list: bool,
    /// Bytes of a block, or of a vector: sizes, doubling ranges, ranges with another factor, e.g.
    /// `0,8:1K,4K:1M:4` [default: 4:1M, with --all 4:1M:4, with a
    /// figure the paper's]
    #[arg(long, value_parser = sizes::parse, visible_alias = "sizes")]
    bytes: Option<Sizes>,
    /// Ranks that take part, one number after another, in the form of --bytes: the first of the job,
    /// while the others sleep [default: all]
    #[arg(long, value_parser = sizes::parse, value_name = "RANKS", visible_alias = "ranks")]
    job_sizes: Option<Sizes>,
    /// Time for one size of one collective, all implementations together; slow ones take longer
    /// [default: 300, with a figure 1000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    budget: Option<u64>,
    /// Calls per block and implementation [default: what fits into the budget]; with `apps` time steps
    /// and sorts of a job
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Blocks per implementation; fewer, but 3 at least, where a call takes long [default: 11, jobs of
    /// `apps` 5]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: Option<u32>,
    /// Operations of a burst in one-sided communication
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    burst: u32,
    /// Memory of windows
    #[arg(long, value_enum, default_value_t = rma::Memory::Allocate)]
    window: rma::Memory,
    /// Measure one-sided communication also as it would be over the host's messages: operations are
    /// queued, and sent when the epoch ends
    #[arg(long, value_enum)]
    baseline: Option<rma::Baseline>,
    /// Root of rooted collectives
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// Buffers of successive calls, one choice after another [default: rotating,warm; with a figure
    /// rotating]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CHOICES")]
    buffers: Option<Vec<Reuse>>,
    /// When ranks begin a call, one choice after another [default: even]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CHOICES")]
    arrival: Option<Vec<Arrival>>,
    /// Measure rooted collectives also with the host's barrier after each call, without which the
    /// root may run ahead
    #[arg(long)]
    barrier: bool,
    /// Algorithms of a single collective to force, one after another, such as `bruck:ports=1,bruck:ports=2`
    /// [default: ferrorail's choice]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    algorithms: Vec<String>,
    /// Values of a setting to compare in one run, such as
    /// `FERRORAIL_STRIPE_POLICY=even,weighted,adaptive`; they stand where the algorithm does
    #[arg(long, value_parser = variant::parse, value_name = "SETTING=VALUES", conflicts_with = "algorithms")]
    vary: Option<Variants>,
    /// Measure also what ranks 0 and 1 of one host can do at best, and show what follows for cells of
    /// collectives outside of figures
    #[arg(long, value_enum, default_value_t = bounds::Wanted::On)]
    bounds: bounds::Wanted,
    /// Compare also with plain programs, which do without MPI what a collective needs: rows `plain_slots`, through shared
    /// memory, `plain_attach`, by cross-memory attach, and for all-reduce `plain_combine`; ranks of one host
    #[arg(long, conflicts_with_all = ["algorithms", "vary"])]
    plain: bool,
    /// Write machine, versions, settings and all blocks to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the curves into this file (SVG), on logarithmic axes
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    applications: applications::Options,
}

/// What kind of communication.
enum Measured<'a> {
    Collectives(Plan),
    OneSided(rma::Plan<'a>),
    Transfers(transfer::Plan<'a>),
}

impl Args {
    /// With `budget_ms` where none is given.
    fn limits(&self, budget_ms: u64) -> Limits {
        Limits {
            budget: Duration::from_millis(self.budget.unwrap_or(budget_ms)),
            iterations: self.iterations,
            blocks: self.blocks.unwrap_or(BLOCKS),
        }
    }

    /// Sizes of `--bytes`, which has the form of `usual`.
    fn sizes_or(&self, usual: &str) -> Vec<usize> {
        let given = self.bytes.as_ref().map(|Sizes(sizes)| sizes.clone());
        given.unwrap_or_else(|| sizes::parse(usual).expect("a range").0)
    }

    /// Whether something is asked for that only collectives have.
    fn is_for_collectives(&self) -> bool {
        let modes = self.barrier || self.buffers.is_some() || self.arrival.is_some();
        modes || self.plain || self.root != 0 || self.job_sizes.is_some()
    }

    /// Whether nothing is asked for that only measurements inside a job have.
    fn is_for_applications(&self) -> bool {
        let others = [
            self.bytes.is_some(),
            self.budget.is_some(),
            self.baseline.is_some(),
            self.barrier,
            self.buffers.is_some(),
            self.arrival.is_some(),
            !self.algorithms.is_empty(),
            self.vary.is_some(),
            self.plain,
            self.plot.is_some(),
        ];
        others.iter().all(|other| !other)
    }

    /// The files to come.
    fn outputs(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.json, &self.plot].into_iter().flatten()
    }

    /// Of `--vary`.
    fn variants(&self) -> Vec<Variant> {
        self.vary.clone().map_or(Vec::new(), |Variants(all)| all)
    }
}

/// The one of `all`, things of a kind, that is called `name`.
///
/// # Errors
/// One line with the nearest name, if one is near.
fn find<'a, T>(kind: &str, name: &str, all: &'a [T], name_of: fn(&T) -> &str) -> Result<&'a T> {
    if let Some(found) = all.iter().find(|one| name_of(one) == name) {
        return Ok(found);
    }
    match nearest(name, all.iter().map(name_of)) {
        Some(nearest) => bail!("there is no {kind} {name:?}; did you mean {nearest:?}?"),
        None => bail!("there is no {kind} {name:?}; `ferrorail bench --list` lists them"),
    }
}

/// The word with a capital.
fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Prints what has a name.
fn list() {
    let collectives: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
    outln!("collectives     {}", collectives.join(", "));
    outln!(
        "{:<15} and their non-blocking forms, awaited at once: iallreduce and so on",
        ""
    );
    let neighbours: Vec<&str> = NEIGHBOURS.iter().map(|operation| operation.name).collect();
    outln!(
        "{:<15} and in a closed ring, not with --all: {}",
        "",
        neighbours.join(", ")
    );
    outln!("{:<15} $ mpirun -n 4 ferrorail bench allgather bcast", "");
    for figure in figures::all() {
        outln!("{:<15} {}", figure.name, figure.line());
        outln!("{:<15} $ {}", "", figure.command());
    }
    let figure = &cutoffs::FIGURE;
    outln!("{:<15} {}", figure.name, figure.claim);
    outln!("{:<15} $ mpirun -n 4 ferrorail bench cutoffs", "");
    applications::listed();
    for (name, about) in rma::listed() {
        outln!("{name:<15} {about}");
    }
}

/// What the arguments ask for; `None` if it needs no measurement, and has been said.
fn measured(args: &Args) -> Result<Option<(Measured<'_>, Option<&'static Figure>)>> {
    if args.collectives.iter().any(|name| name == cutoffs::NAME) {
        if args.collectives.len() > 1 || !args.algorithms.is_empty() || args.vary.is_some() {
            bail!("{} are measured alone", cutoffs::NAME);
        }
        let measured = Measured::Transfers(transfer::Plan::new(args, &cutoffs::FIGURE)?);
        return Ok(Some((measured, None)));
    }
    let Some(figure) = figures::named(&args.collectives)? else {
        let measured = match rma::Plan::new(args)? {
            Some(plan) => Measured::OneSided(plan),
            None => Measured::Collectives(Plan::new(args, None)?),
        };
        return Ok(Some((measured, None)));
    };
    if !args.algorithms.is_empty() || args.vary.is_some() || args.plain {
        bail!(
            "--algorithms, --vary and --plain are for collectives: a figure says what it compares"
        );
    }
    let measured = match &figure.what {
        What::Applications => bail!("{} is measured by jobs of its own", applications::NAME),
        What::Shown(command) => {
            outln!("# {}, {}: {}", figure.name, figure.title, figure.claim);
            outln!("{command}");
            return Ok(None);
        }
        What::Transfers(_) => Measured::Transfers(transfer::Plan::new(args, figure)?),
        What::OneSided(shown) => Measured::OneSided(rma::Plan::of_paper(args, figure, shown)?),
        What::Collectives(_) => Measured::Collectives(Plan::new(args, Some(figure))?),
    };
    Ok(Some((measured, Some(figure))))
}

/// Settings that model the machine of `figure`, as long as the result lives.
fn model(host: &Host, figure: Option<&Figure>) -> Result<Environment> {
    let mut settings = Vec::new();
    if let Some(figure) = figure {
        let ranks = host.comm_size(host.predefined().comm_world)? as usize;
        let one_host = figures::is_one_host(host, ranks)?;
        let given = |name: &str| std::env::var_os(name).is_some();
        settings = figure.machine.settings(ranks, one_host, given);
    }
    // SAFETY: this process has one thread; those of the MPI library do not look at the environment.
    Ok(unsafe { Environment::with(&settings) })
}

/// Runs as one rank of an MPI job.
pub fn main(args: &Args) -> Result<ExitCode> {
    if args.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(plan) = applications::Plan::new(args)? {
        check_outputs(args.outputs())?;
        applications::run(&plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some((measured, figure)) = measured(args)? else {
        return Ok(ExitCode::SUCCESS);
    };
    as_rank(args.outputs(), |host, library| {
        let _environment = model(host, figure)?;
        match &measured {
            Measured::Collectives(plan) => {
                Bench::new(host, plan)?.run(library, |found| report::finish(found, plan))
            }
            Measured::OneSided(plan) => rma::run(host, plan, library),
            Measured::Transfers(plan) => transfer::run(host, plan).map(|()| false),
        }
    })
}

/// Whether the files to come can be written, before anything is measured; none is left that was not there.
fn check_outputs<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Result<()> {
    for path in paths {
        let is_new = !path.exists();
        let opened = File::options().append(true).create(true).open(path);
        opened.with_context(|| format!("cannot write {}", path.display()))?;
        if is_new {
            std::fs::remove_file(path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Runs `act` as one rank of an MPI job, with the host MPI and the path of the library; it says whether it has finalised MPI.
/// Rank 0 can write the files `outputs`.
pub fn as_rank<'p>(
    outputs: impl Iterator<Item = &'p PathBuf>,
    act: impl FnOnce(&Host, &Path) -> Result<bool>,
) -> Result<ExitCode> {
    let library = library::find()?;
    // The library is opened after MPI_Init, on all ranks.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("FERRORAIL_PRESENCE", "assume") };
    let host = mpi::open()?;
    let null = std::ptr::null_mut;
    // SAFETY: null argument pointers are allowed since MPI 2.0.
    host.check("MPI_Init", unsafe {
        (host.functions().init)(null(), null().cast())
    })?;
    let writes = host.comm_rank(host.predefined().comm_world)? == 0;
    if writes && let Err(error) = check_outputs(outputs) {
        abort(&host, &error);
        return Ok(ExitCode::FAILURE);
    }
    match act(&host, &library) {
        Ok(finalized) => {
            if !finalized {
                host.finalize()?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let Some(wrong) = error.downcast_ref::<WrongData>() else {
                abort(&host, &error);
                return Ok(ExitCode::FAILURE);
            };
            if wrong.mine {
                ferrorail_base::complain(format_args!("ferrorail: {wrong}"));
            }
            host.finalize()?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Ends the job: other ranks may be waiting in a call that this one will not make.
fn abort(host: &Host, error: &anyhow::Error) {
    let world = host.predefined().comm_world;
    let rank = host.comm_rank(world).unwrap_or(0);
    ferrorail_base::complain(format_args!("ferrorail: rank {rank}: {error:#}"));
    std::thread::sleep(crate::LAUNCHER_DELAY);
    // SAFETY: MPI is initialised.
    unsafe { (host.functions().abort)(world, 1) };
}
