//! The measurement itself, as one rank sees it.

use super::buffers::{Buffers, Pool, contents};
use super::call::{Arguments, Function};
use super::instance::Instance;
use super::operation::{Form, Operation, Place};
use super::report::{self, Row};
use super::timing::{Timing, everybodys};
use super::{Plan, Variants};
use crate::mpi;
use anyhow::{Result, anyhow};
use ferrorail_mpi_abi::{Comm, Host};
use std::path::Path;
use std::time::Instant;

/// A rank received wrong data. Every rank knows, so that the job can end in order.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct WrongData {
    /// Whether this is the rank that tells.
    pub mine: bool,
    reason: String,
}

impl WrongData {
    /// Unless all ranks found right data. `describe` says what is wrong where: with a rank.
    pub fn check(
        host: &Host,
        rank: u32,
        is_wrong: bool,
        describe: impl FnOnce(i32) -> String,
    ) -> Result<()> {
        let mine = if is_wrong { rank as i32 } else { i32::MAX };
        let first = host.allreduce_min(mine, host.predefined().comm_world)?;
        if first == i32::MAX {
            return Ok(());
        }
        let (mine, reason) = (first == mine, describe(first));
        Err(Self { mine, reason }.into())
    }
}

/// One rank's view.
pub struct Bench<'a> {
    host: &'a Host,
    plan: &'a Plan,
    world: Comm,
    place: Place,
    /// Number of the current contents of the buffers.
    round: u64,
}

/// One size of one collective, ready to be called.
struct Cell<'a> {
    operation: &'static Operation,
    bytes: usize,
    arguments: Arguments,
    buffers: Buffers<'a>,
    /// Whether the host's barrier follows each call.
    barrier: bool,
}

impl<'a> Bench<'a> {
    pub fn new(host: &'a Host, plan: &'a Plan) -> Result<Self> {
        let world = host.predefined().comm_world;
        Ok(Self {
            host,
            plan,
            world,
            place: Place {
                rank: host.comm_rank(world)? as usize,
                size: host.comm_size(world)? as usize,
                root: plan.root,
            },
            round: 0,
        })
    }

    /// Returns whether MPI was finalised on the way.
    pub fn run(&mut self, library: &Path) -> Result<bool> {
        let Place { rank, size, .. } = self.place;
        mpi::check_size(self.host, size as u32)?;
        self.plan.check_size(size)?;
        let longest = |side: fn((usize, usize)) -> usize| {
            let all = self.plan.operations.iter().flat_map(|operation| {
                let sizes = self.plan.sizes.iter();
                sizes.map(|&bytes| side(operation.lengths(self.place, bytes)))
            });
            all.max().unwrap_or(0)
        };
        let mut pool = Pool::new((longest(|both| both.0), longest(|both| both.1)));
        let instances = self.open_instances(library, &mut pool)?;
        if rank == 0 {
            report::print_head(size as u32, self.host);
        }
        let mut rows = Vec::new();
        let mut missing = Vec::new();
        for &operation in &self.plan.operations {
            if instances[0].function(operation).is_none() {
                missing.push(operation.name);
                continue;
            }
            rows.extend(self.measure_sizes(operation, &instances, &mut pool)?);
        }
        if rank == 0 {
            report::print_summary(&rows, &missing);
            if let Some(path) = &self.plan.json {
                report::write_json(path, size as u32, self.host, &rows, &missing)?;
            }
        }
        match instances.last().and_then(Instance::finalize) {
            Some(code) => {
                self.host.check("MPI_Finalize", code)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn open_instances(&mut self, library: &Path, pool: &mut Pool) -> Result<Vec<Instance>> {
        let operation = self.plan.operations[0];
        let mut instances = Vec::new();
        if let Some(Variants { setting, values }) = &self.plan.variants {
            for value in values {
                let instance = Instance::open_with(library, (setting, value), value)?;
                instances.push(self.begin(instance, operation, pool, value)?);
            }
        }
        for algorithm in &self.plan.algorithms {
            let instance = Instance::open_forced(library, operation, algorithm)?;
            instances.push(self.begin(instance, operation, pool, algorithm)?);
        }
        if instances.is_empty() {
            instances.push(Instance::open(library)?);
        }
        Ok(instances)
    }

    /// Makes the first call, at which an instance reads its settings.
    fn begin(
        &mut self,
        instance: Instance,
        operation: &'static Operation,
        pool: &mut Pool,
        name: &str,
    ) -> Result<Instance> {
        if let Some(function) = self.ours(&instance, operation) {
            let bytes = self.plan.sizes.iter().min().copied().unwrap_or(0);
            let mut cell = self.cell(operation, bytes, pool, false);
            self.verify(&mut cell, function, name)?;
        }
        Ok(instance)
    }

    fn ours(&self, instance: &Instance, operation: &Operation) -> Option<Function> {
        let address = instance.function(operation)?;
        // SAFETY: the library has the MPI function of that name there.
        Some(unsafe { Function::new(operation, address) })
    }

    fn cell<'p>(
        &self,
        operation: &'static Operation,
        bytes: usize,
        pool: &'p mut Pool,
        barrier: bool,
    ) -> Cell<'p> {
        let Place { size, root, .. } = self.place;
        Cell {
            operation,
            bytes,
            arguments: Arguments::new(self.host, operation, size, root, bytes),
            buffers: pool.buffers(operation.lengths(self.place, bytes)),
            barrier,
        }
    }

    fn measure_sizes(
        &mut self,
        operation: &'static Operation,
        instances: &[Instance],
        pool: &mut Pool,
    ) -> Result<Vec<Row>> {
        let symbol = format!("PMPI_{}", operation.symbol);
        let address = self.host.function(&symbol);
        let address = address.ok_or_else(|| anyhow!("the MPI library has no {symbol}"))?;
        // SAFETY: the host has the MPI function of that name there.
        let host = unsafe { Function::new(operation, address) };
        let sizes = match operation.form {
            Form::Barrier => &[0],
            _ => self.plan.sizes.as_slice(),
        };
        let modes = match self.plan.barrier && operation.is_rooted() {
            true => &[false, true][..],
            false => &[false],
        };
        let mut rows = Vec::new();
        for (&barrier, &bytes) in modes.iter().flat_map(|m| sizes.iter().map(move |s| (m, s))) {
            let mut cell = self.cell(operation, bytes, pool, barrier);
            let measured = self.measure(&mut cell, host, instances)?;
            if self.place.rank == 0 {
                measured.iter().for_each(report::print_row);
            }
            rows.extend(measured);
        }
        Ok(rows)
    }

    /// One row per instance.
    fn measure(
        &mut self,
        cell: &mut Cell<'_>,
        host: Function,
        instances: &[Instance],
    ) -> Result<Vec<Row>> {
        let operation = cell.operation;
        let forwarded = || instances.iter().map(|i| i.forwarded(operation)).collect();
        let before: Vec<u64> = forwarded();
        self.verify(cell, host, "the host MPI")?;
        let mut functions = vec![host];
        for instance in instances {
            let ours = self.ours(instance, operation).expect("looked for before");
            self.verify(cell, ours, &instance.algorithm(operation))?;
            functions.push(ours);
        }
        let limits = self.plan.limits;
        let (blocks, iterations) = limits.amount(functions.len(), |index, iterations| {
            self.block(cell, functions[index], iterations)
        })?;
        let mut timings = vec![Timing::default(); functions.len()];
        for _ in 0..blocks {
            for (function, timing) in functions.iter().zip(&mut timings) {
                let block = self.block(cell, *function, iterations)?;
                timing.blocks_us.push(block);
            }
        }
        let after = forwarded();
        let host = timings.remove(0);
        let rows = instances.iter().zip(timings).enumerate();
        let rows = rows.map(|(index, (instance, ferrorail))| Row {
            operation,
            barrier: cell.barrier,
            bytes: cell.bytes,
            algorithm: instance.algorithm(operation),
            iterations,
            forwarded: before[index] != after[index] || after[index] == u64::MAX,
            ferrorail,
            host: host.clone(),
        });
        Ok(rows.collect())
    }

    /// Time per call of the slowest rank in µs, the same number at every rank.
    fn block(&mut self, cell: &mut Cell<'_>, call: Function, iterations: u32) -> Result<f64> {
        self.host.barrier(self.world)?;
        let start = Instant::now();
        for iteration in 0..iterations as usize {
            self.call(cell, call, iteration)?;
            if cell.barrier {
                self.host.barrier(self.world)?;
            }
        }
        let mine = start.elapsed().as_secs_f64() * 1e6 / f64::from(iterations);
        let all = everybodys(self.host, [mine])?;
        Ok(all.into_iter().map(|[time]| time).fold(0.0, f64::max))
    }

    /// Calls once and compares every byte, at every rank.
    fn verify(&mut self, cell: &mut Cell<'_>, call: Function, name: &str) -> Result<()> {
        self.round += 1;
        let (place, pair) = (self.place, self.round as usize);
        let (send, recv) = cell.buffers.slices(pair);
        contents(send, place.rank, self.round, 0);
        recv.fill(0xff);
        if cell.operation.form == Form::Bcast && place.rank == place.root {
            contents(recv, place.rank, self.round, 0);
        }
        self.call(cell, call, pair)?;
        let expected = cell.operation.expected(place, cell.bytes, self.round);
        let (_, recv) = cell.buffers.slices(pair);
        let wrong = expected.and_then(|expected| {
            let mut bytes = recv.iter().zip(&expected);
            bytes.position(|(found, expected)| found != expected)
        });
        let (operation, bytes, at) = (cell.operation.name, cell.bytes, wrong.unwrap_or(0));
        WrongData::check(self.host, place.rank as u32, wrong.is_some(), |first| {
            format!(
                "{operation}, {name}: wrong data for {bytes} bytes: byte {at} of the result at rank {first}"
            )
        })
    }

    fn call(&self, cell: &mut Cell<'_>, call: Function, pair: usize) -> Result<()> {
        let (send, recv) = cell.buffers.pair(pair);
        // SAFETY: the buffers have the lengths that the operation states for these arguments.
        let code = unsafe { call.call(&cell.arguments, send, recv) };
        Ok(self.host.check(cell.operation.symbol, code)?)
    }
}
