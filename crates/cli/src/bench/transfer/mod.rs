//! Messages without any collective: puts and gets over rails, copies through shared memory.
//!
//! * `rails`: two ranks that reach each other's memory over rails; * `node`: ranks that share memory;
//! * `report`: the table and the JSON file.

mod node;
mod rails;
mod report;

use super::figures::{Figure, Transfer, What};
use super::job_sizes::{Job, Team};
use super::timing::{Block, Limits, Timing, largest};
use super::wrong_data::WrongData;
use super::{Args, BUDGET_OF_FIGURE};
use anyhow::{Result, bail};
use ferrorail_mpi_abi::Host;
use std::time::Instant;

/// Which ranks a transfer is between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parties {
    /// Rank 0 and the last.
    Ends,
    /// So many, from rank 0 on.
    First(usize),
}

impl Transfer {
    fn parties(self) -> Parties {
        match self {
            Self::Put { .. } | Self::Ping { .. } | Self::Get => Parties::Ends,
            Self::SharedBuffer => Parties::First(2),
            Self::Copies(ranks) => Parties::First(ranks),
        }
    }

    /// Messages that move in the time of one.
    fn at_once(self) -> usize {
        match self {
            Self::Put { both_ways, .. } => 1 + usize::from(both_ways),
            Self::Copies(ranks) => ranks,
            _ => 1,
        }
    }
}

/// What is measured, and how.
pub struct Plan<'a> {
    args: &'a Args,
    /// The figure that is repeated.
    figure: &'static Figure,
    /// What is compared.
    curves: &'static [(String, Transfer)],
    sizes: Vec<usize>,
    limits: Limits,
}

impl<'a> Plan<'a> {
    /// From a figure about transfers.
    ///
    /// # Errors
    /// One line about options that are for something else.
    pub fn new(args: &'a Args, figure: &'static Figure) -> Result<Self> {
        let What::Transfers(curves) = &figure.what else {
            bail!("{} is not about transfers", figure.name);
        };
        if args.is_for_collectives() {
            bail!(
                "--barrier, --buffers, --arrival, --root, --job-sizes and --plain are for collectives"
            );
        }
        let sizes = args.sizes_or(&figure.bytes);
        if sizes.contains(&0) {
            bail!("{} needs messages of a byte at least", figure.name);
        }
        Ok(Self {
            args,
            figure,
            curves,
            sizes,
            limits: args.limits(BUDGET_OF_FIGURE),
        })
    }
}

/// One size of one curve.
struct Row {
    curve: &'static str,
    transfer: Transfer,
    bytes: usize,
    ranks: usize,
    iterations: u32,
    timing: Timing,
}

/// What carries out transfers between some ranks.
trait Carrier {
    /// `iterations` messages of `bytes`, starting with message `first`; at all ranks of the team.
    fn carry(&mut self, transfer: Transfer, bytes: usize, iterations: usize) -> Result<()>;

    /// Writes what is sent in `round`; then moves one message and says whether it came as it was.
    fn check(&mut self, transfer: Transfer, bytes: usize, round: u64) -> Result<bool>;
}

/// Measures what `plan` says.
///
/// # Errors
/// What rails, shared memory or the MPI library say.
pub fn run(host: &Host, plan: &Plan) -> Result<()> {
    let job = Job::new(host, 0)?;
    let ranks = job.all.place.size;
    if ranks < 2 {
        bail!("{} needs 2 ranks at least", plan.figure.name);
    }
    if job.all.place.rank == 0 {
        report::print_head(ranks as u32, host, plan);
    }
    let mut rows = Vec::new();
    let mut round = 0;
    for &bytes in &plan.sizes {
        let mut done: Vec<Parties> = Vec::new();
        for &(_, transfer) in plan.curves {
            let parties = transfer.parties();
            let missing = matches!(parties, Parties::First(count) if count > ranks);
            if missing || done.contains(&parties) {
                continue;
            }
            done.push(parties);
            let takes_part = |rank: usize| match parties {
                Parties::Ends => rank == 0 || rank == ranks - 1,
                Parties::First(count) => rank < count,
            };
            round += 1;
            let measured = job.with(takes_part, |team| {
                measure(host, team, plan, parties, bytes, round)
            })?;
            let measured = measured.into_iter().flatten();
            rows.extend(measured.inspect(|row| {
                if job.all.place.rank == 0 {
                    report::print_row(row);
                }
            }));
        }
    }
    if job.all.place.rank == 0 {
        report::finish(&rows, host, ranks as u32, plan)?;
    }
    Ok(())
}

/// All curves between these parties, blocks by turns.
fn measure(
    host: &Host,
    team: Team,
    plan: &Plan,
    parties: Parties,
    bytes: usize,
    round: u64,
) -> Result<Vec<Row>> {
    let curves = plan.curves.iter();
    let curves: Vec<_> = curves
        .filter(|(_, transfer)| transfer.parties() == parties)
        .collect();
    let mut carrier: Box<dyn Carrier> = match parties {
        Parties::Ends => Box::new(rails::Ends::open(
            host,
            team,
            bytes,
            plan.args.burst as usize,
        )?),
        Parties::First(_) => Box::new(node::Shared::open(host, team, bytes)?),
    };
    for (name, transfer) in curves.iter().copied() {
        let right = carrier.check(*transfer, bytes, round)?;
        WrongData::check(host, team.comm, team.place.rank as u32, !right, |first| {
            format!("{name}: wrong data for {bytes} bytes at rank {first}")
        })?;
    }
    let block = |index: usize, iterations: u32| -> Result<Block> {
        let &(_, transfer) = curves[index];
        host.barrier(team.comm)?;
        let start = Instant::now();
        carrier.carry(transfer, bytes, iterations as usize)?;
        let mine = start.elapsed().as_secs_f64() * 1e6 / f64::from(iterations);
        largest(host, team.comm, mine).map(Block::of)
    };
    let (timings, iterations) = plan.limits.measure(curves.len(), block)?;
    let rows = curves.into_iter().zip(timings);
    Ok(rows
        .map(|((curve, transfer), timing)| Row {
            curve,
            transfer: *transfer,
            bytes,
            ranks: team.place.size,
            iterations,
            timing,
        })
        .collect())
}
