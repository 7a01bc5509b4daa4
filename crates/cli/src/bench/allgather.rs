//! `ferrorail bench allgather`.

use super::buffers::Buffers;
use super::instance::{Allgather, Instance};
use super::report::{self, Row};
use super::sizes::{self, Sizes};
use super::timing::Timing;
use crate::{library, mpi};
use anyhow::Result;
use ferrorail_coll::{Collective, find};
use ferrorail_mpi_abi::{Comm, Host};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Unless told otherwise, a block lasts about so long.
const BLOCK_TIME: Duration = Duration::from_millis(20);
const ITERATIONS_MAX: u32 = 20_000;
const WARM_UP: u32 = 10;
/// Between the last words and MPI_Abort.
const ABORT_DELAY: Duration = Duration::from_millis(200);

/// Time MPI_Allgather, ours beside the host's in one run: `mpirun -n 4 ferrorail bench allgather`
#[derive(clap::Args)]
pub struct Args {
    /// Bytes per rank: sizes and doubling ranges, e.g. `0,8:1K`
    #[arg(long, default_value = "4:1M", value_parser = sizes::parse)]
    bytes: Sizes,
    /// Calls per block and implementation [default: what takes about 20 ms]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Blocks per implementation; they alternate
    #[arg(long, value_name = "COUNT", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// Algorithms to force, one after another [default: ferrorail's choice]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    algorithms: Vec<String>,
    /// Write machine, versions, settings and all blocks to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs as one rank of an MPI job.
pub fn main(args: &Args) -> Result<ExitCode> {
    for name in &args.algorithms {
        find(Collective::Allgather, name)?;
    }
    let library = library::find()?;
    let host = mpi::open()?;
    let null = std::ptr::null_mut;
    // SAFETY: null argument pointers are allowed since MPI 2.0.
    host.check("MPI_Init", unsafe {
        (host.functions().init)(null(), null().cast())
    })?;
    let mut bench = Bench::new(&host)?;
    match bench.run(args, &library) {
        Ok(finalized) => {
            if !finalized {
                host.finalize()?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let Some(wrong) = error.downcast_ref::<WrongData>() else {
                bench.abort(&error);
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

/// A rank received wrong data. Every rank knows, so that the job can end in order.
#[derive(Debug)]
struct WrongData {
    /// Whether this is the rank that tells.
    mine: bool,
    reason: String,
}

impl std::fmt::Display for WrongData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for WrongData {}

/// One rank's view.
struct Bench<'a> {
    host: &'a Host,
    world: Comm,
    rank: u32,
    size: u32,
    /// Number of the current contents of the buffers.
    round: u64,
}

impl<'a> Bench<'a> {
    fn new(host: &'a Host) -> Result<Self> {
        let world = host.predefined().comm_world;
        Ok(Self {
            host,
            world,
            rank: host.comm_rank(world)?,
            size: host.comm_size(world)?,
            round: 0,
        })
    }

    /// Returns whether MPI was finalised on the way.
    fn run(&mut self, args: &Args, library: &std::path::Path) -> Result<bool> {
        mpi::check_size(self.host, self.size)?;
        let instances = self.open_instances(args, library)?;
        if self.rank == 0 {
            report::print_head(self.size, self.host);
        }
        let mut rows = Vec::new();
        for &bytes in &args.bytes.0 {
            let measured = self.measure(bytes, &instances, args)?;
            if self.rank == 0 {
                measured.iter().for_each(report::print_row);
            }
            rows.extend(measured);
        }
        if let (0, Some(path)) = (self.rank, &args.json) {
            report::write_json(path, self.size, self.host, &rows)?;
        }
        match instances.last().and_then(Instance::finalize) {
            Some(code) => self
                .host
                .check("MPI_Finalize", code)
                .map(|()| true)
                .map_err(Into::into),
            None => Ok(false),
        }
    }

    fn open_instances(&mut self, args: &Args, library: &std::path::Path) -> Result<Vec<Instance>> {
        if args.algorithms.is_empty() {
            return Ok(vec![Instance::open(library)?]);
        }
        let mut instances = Vec::new();
        for algorithm in &args.algorithms {
            let instance = Instance::open_forced(library, algorithm)?;
            // The first call makes it read its settings.
            self.verify(8, instance.allgather, algorithm)?;
            instances.push(instance);
        }
        Ok(instances)
    }

    /// One row per instance.
    fn measure(&mut self, bytes: usize, instances: &[Instance], args: &Args) -> Result<Vec<Row>> {
        let host: Allgather = self.host.functions().allgather;
        self.verify(bytes, host, "the host MPI")?;
        for instance in instances {
            self.verify(bytes, instance.allgather, &instance.algorithm)?;
        }
        let calls: Vec<Allgather> = std::iter::once(host)
            .chain(instances.iter().map(|instance| instance.allgather))
            .collect();

        let mut buffers = Buffers::new(bytes, self.size as usize);
        let mut slowest_us = f64::MIN_POSITIVE;
        for &call in &calls {
            slowest_us = slowest_us.max(self.block(call, &mut buffers, bytes, WARM_UP)?);
        }
        let fitting = BLOCK_TIME.as_secs_f64() * 1e6 / slowest_us;
        let iterations = args
            .iterations
            .unwrap_or((fitting as u32).clamp(WARM_UP, ITERATIONS_MAX));

        let mut timings = vec![Timing::default(); calls.len()];
        for _ in 0..args.blocks {
            for (call, timing) in calls.iter().zip(&mut timings) {
                timing
                    .blocks_us
                    .push(self.block(*call, &mut buffers, bytes, iterations)?);
            }
        }
        let host = timings.remove(0);
        let rows = instances
            .iter()
            .zip(timings)
            .map(|(instance, ferrorail)| Row {
                bytes,
                algorithm: instance.algorithm.clone(),
                iterations,
                ferrorail,
                host: host.clone(),
            });
        Ok(rows.collect())
    }

    /// Time per call of the slowest rank in µs, the same number at every rank.
    fn block(
        &mut self,
        call: Allgather,
        buffers: &mut Buffers,
        bytes: usize,
        iterations: u32,
    ) -> Result<f64> {
        self.round += 1;
        buffers.refill(self.rank as usize, self.round);
        self.host.barrier(self.world)?;
        let start = Instant::now();
        for iteration in 0..iterations as usize {
            self.call(call, buffers, bytes, iteration)?;
        }
        let mine = start.elapsed().as_secs_f64() * 1e6 / f64::from(iterations);
        let mut all = vec![0; 8 * self.size as usize];
        self.host
            .allgather_bytes(&mine.to_le_bytes(), &mut all, self.world)?;
        let times = all
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&bytes| f64::from_le_bytes(bytes));
        Ok(times.fold(0.0, f64::max))
    }

    /// Calls once and compares every byte, at every rank.
    fn verify(&mut self, bytes: usize, call: Allgather, name: &str) -> Result<()> {
        let mut buffers = Buffers::new(bytes, self.size as usize);
        self.round += 1;
        buffers.refill(self.rank as usize, self.round);
        let pair = self.round as usize;
        self.call(call, &mut buffers, bytes, pair)?;
        let wrong = buffers.first_wrong(pair, self.round);
        let mine = wrong.map_or(i32::MAX, |_| self.rank as i32);
        let first = self.host.allreduce_min(mine, self.world)?;
        if first == i32::MAX {
            return Ok(());
        }
        let (from, at) = wrong.unwrap_or_default();
        Err(WrongData {
            mine: first == mine,
            reason: format!(
                "{name}: wrong data for {bytes} bytes: rank {from}'s byte {at} at rank {first}"
            ),
        }
        .into())
    }

    /// Ends the job: other ranks may be waiting in a call that this one will not make.
    fn abort(&self, error: &anyhow::Error) {
        crate::complain(format_args!("ferrorail: rank {}: {error:#}", self.rank));
        // Launchers drop output that comes together with the end of the job.
        std::thread::sleep(ABORT_DELAY);
        // SAFETY: MPI is initialised.
        unsafe { (self.host.functions().abort)(self.world, 1) };
    }

    fn call(
        &self,
        call: Allgather,
        buffers: &mut Buffers,
        bytes: usize,
        pair: usize,
    ) -> Result<()> {
        let (send, recv) = buffers.pair(pair);
        let byte = self.host.predefined().byte;
        // Sizes are at most 1 GiB.
        let count = bytes as i32;
        // SAFETY: the pair's buffers hold `bytes`, and `bytes` per rank; the handles are the host's.
        let code = unsafe {
            call(
                send.cast(),
                count,
                byte,
                recv.cast(),
                count,
                byte,
                self.world,
            )
        };
        Ok(self.host.check("MPI_Allgather", code)?)
    }
}
