//! `ferrorail bench`: measurements under mpirun.

mod buffers;
mod call;
mod instance;
mod measure;
mod operation;
mod report;
mod rma;
mod sizes;
mod timing;

use crate::{library, mpi};
use anyhow::{Result, bail};
use ferrorail_base::config;
use ferrorail_coll::{find, find_collective};
use ferrorail_mpi_abi::Host;
use measure::{Bench, WrongData};
use operation::{ELEMENT_BYTES, OPERATIONS, Operation};
use sizes::Sizes;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use timing::Limits;

/// Between the last words and MPI_Abort.
const ABORT_DELAY: Duration = Duration::from_millis(200);

/// Measure collectives or one-sided communication, ours beside the host's in one run: `mpirun -n 4
/// ferrorail bench --all`, `… bench rma-latency`
///
/// Blocks of calls of both implementations alternate and walk through rotating buffers; each cell's
/// data is checked once. The MPI library is the one the launcher belongs to, or
/// FERRORAIL_MPI_LIBRARY.
#[derive(clap::Args)]
#[command(after_help = rma::help())]
pub struct Args {
    /// Collectives to measure, such as allgather, or benchmarks of one-sided communication, such as
    /// rma-latency; `rma` is all of those
    #[arg(
        value_name = "NAME",
        conflicts_with = "all",
        required_unless_present = "all"
    )]
    collectives: Vec<String>,
    /// Measure all collectives
    #[arg(long)]
    all: bool,
    /// Bytes of a block, or of a vector: sizes, doubling ranges, ranges with another factor, e.g.
    /// `0,8:1K,4K:1M:4` [default: 4:1M, with --all 4:1M:4]
    #[arg(long, value_parser = sizes::parse)]
    bytes: Option<Sizes>,
    /// Time for one size of one collective, both implementations together; slow ones take longer
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
    /// Calls per block and implementation [default: what fits into the budget]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Blocks per implementation; fewer, but 3 at least, where a call takes long
    #[arg(long, value_name = "COUNT", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
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
    /// Measure rooted collectives also with the host's barrier after each call, without which the
    /// root may run ahead
    #[arg(long)]
    barrier: bool,
    /// Algorithms of a single collective to force, one after another [default: ferrorail's choice]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    algorithms: Vec<String>,
    /// Values of a setting to compare in one run, such as
    /// `FERRORAIL_STRIPE_POLICY=even,weighted,adaptive`; they stand where the algorithm does
    #[arg(long, value_parser = variants, value_name = "SETTING=VALUES", conflicts_with = "algorithms")]
    vary: Option<Variants>,
    /// Write machine, versions, settings and all blocks to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A setting, and the values of it that are compared.
#[derive(Clone)]
struct Variants {
    setting: String,
    values: Vec<String>,
}

fn variants(text: &str) -> Result<Variants, String> {
    let (setting, values) = text
        .split_once('=')
        .ok_or("a setting and its values, as in A=1,2")?;
    if !config::TABLE.iter().any(|row| row.name == setting) {
        return Err(format!("there is no setting {setting}"));
    }
    for value in values.split(',') {
        let (_, problems) = config::parse([(setting, value)]);
        if !problems.is_empty() {
            return Err(format!("{setting} cannot be `{value}`"));
        }
    }
    Ok(Variants {
        setting: setting.to_owned(),
        values: values.split(',').map(str::to_owned).collect(),
    })
}

/// What kind of communication.
enum Measured {
    Collectives(Plan),
    OneSided(rma::Plan),
}

/// Which collectives are measured, and how.
struct Plan {
    operations: Vec<&'static Operation>,
    sizes: Vec<usize>,
    limits: Limits,
    root: usize,
    barrier: bool,
    algorithms: Vec<String>,
    variants: Option<Variants>,
    json: Option<PathBuf>,
}

impl Args {
    fn limits(&self) -> Limits {
        Limits {
            budget: Duration::from_millis(self.budget),
            iterations: self.iterations,
            blocks: self.blocks,
        }
    }
}

impl Plan {
    fn new(args: &Args) -> Result<Self> {
        let operations: Vec<&Operation> = if args.all {
            OPERATIONS.iter().collect()
        } else {
            let named = args.collectives.iter().map(|name| Operation::named(name));
            named.collect::<Result<_>>()?
        };
        let all_sizes = if args.all { "4:1M:4" } else { "4:1M" };
        let sizes = match &args.bytes {
            Some(Sizes(sizes)) => sizes.clone(),
            None => sizes::parse(all_sizes).expect("a range").0,
        };
        let uneven = sizes.iter().find(|&&bytes| bytes % ELEMENT_BYTES != 0);
        if let (Some(bytes), Some(operation)) = (uneven, operations.iter().find(|o| o.reduces())) {
            let name = operation.name;
            bail!("{name} adds elements of {ELEMENT_BYTES} bytes, of which {bytes} is no multiple");
        }
        if !args.algorithms.is_empty() {
            let [operation] = operations[..] else {
                bail!("--algorithms is for a single collective");
            };
            let collective = find_collective(operation.name)?;
            for name in &args.algorithms {
                find(collective, name)?;
            }
        }
        Ok(Self {
            operations,
            sizes,
            limits: args.limits(),
            root: args.root as usize,
            barrier: args.barrier,
            algorithms: args.algorithms.clone(),
            variants: args.vary.clone(),
            json: args.json.clone(),
        })
    }

    /// Counts and displacements of vector forms are of 31 bits.
    fn check_size(&self, ranks: usize) -> Result<()> {
        if self.root >= ranks {
            bail!("--root {} is not one of {ranks} ranks", self.root);
        }
        let largest = self.sizes.iter().max().copied().unwrap_or(0);
        let total = largest.checked_mul(ranks);
        if total.is_none_or(|total| i32::try_from(total).is_err()) {
            bail!("{largest} bytes for each of {ranks} ranks are more than MPI's counts hold");
        }
        Ok(())
    }
}

/// Runs as one rank of an MPI job.
pub fn main(args: &Args) -> Result<ExitCode> {
    let measured = match rma::Plan::new(args)? {
        Some(plan) => Measured::OneSided(plan),
        None => Measured::Collectives(Plan::new(args)?),
    };
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
    let outcome = match &measured {
        Measured::Collectives(plan) => Bench::new(&host, plan).and_then(|mut b| b.run(&library)),
        Measured::OneSided(plan) => rma::run(&host, plan, &library),
    };
    match outcome {
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
                crate::complain(format_args!("ferrorail: {wrong}"));
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
    crate::complain(format_args!("ferrorail: rank {rank}: {error:#}"));
    // Launchers drop output that comes together with the end of the job.
    std::thread::sleep(ABORT_DELAY);
    // SAFETY: MPI is initialised.
    unsafe { (host.functions().abort)(world, 1) };
}
