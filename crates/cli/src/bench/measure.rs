//! The measurement itself, as one rank sees it.

use super::bounds;
use super::buffers::{Pool, contents};
use super::call::Function;
use super::cell::Cell;
use super::contender::Contender;
use super::instance::Instance;
use super::job_sizes::{Job, Team};
use super::mode::{Arrival, Mode};
use super::operation::{Form, Operation, Place};
use super::outcome::Outcome;
use super::plan::Plan;
use super::report;
use super::row::Row;
use super::side::Side;
use super::spread;
use super::timing::{Block, everybodys, largest};
use super::variant::{By, Variant};
use super::wrong_data::WrongData;
use crate::mpi;
use anyhow::{Result, anyhow};
use ferrorail_mpi_abi::Host;
use std::path::Path;
use std::time::{Duration, Instant};

/// Calls of the host that say how late ranks may come.
const LATE_CALLS: u32 = 10;

/// One rank's view.
pub struct Bench<'a> {
    host: &'a Host,
    plan: &'a Plan,
    job: Job<'a>,
    /// The ranks that are measured.
    team: Team,
    /// Number of the current contents of the buffers.
    round: u64,
    /// What the machine can do, once measured; rank 0 knows.
    bounds: Option<bounds::Found>,
}

impl<'a> Bench<'a> {
    pub fn new(host: &'a Host, plan: &'a Plan) -> Result<Self> {
        let job = Job::new(host, plan.root)?;
        Ok(Self {
            host,
            plan,
            team: job.all,
            job,
            round: 0,
            bounds: None,
        })
    }

    /// Measures, and has rank 0 `finish` with what came of it. Returns whether MPI was finalised on the way.
    pub fn run(
        &mut self,
        library: &Path,
        finish: impl FnOnce(&Outcome<'_>) -> Result<()>,
    ) -> Result<bool> {
        let place @ Place { rank, size, .. } = self.job.all.place;
        mpi::check_size(self.host, size as u32)?;
        self.plan.check_size(size)?;
        let job_sizes = self.plan.job_sizes(size)?;
        let longest = |side: fn((usize, usize)) -> usize| {
            let all = self.plan.operations.iter().flat_map(|operation| {
                let sizes = self.plan.sizes.iter();
                sizes.map(|&bytes| side(operation.lengths(place, bytes)))
            });
            all.max().unwrap_or(0)
        };
        let mut pool = Pool::new((longest(|both| both.0), longest(|both| both.1)));
        let contenders = self.open(library, &mut pool)?;
        if job_sizes.iter().all(|&ranks| ranks < size) {
            self.start_everywhere(&contenders)?;
        }
        if self.plan.bounds {
            self.bounds = Some(bounds::measure(
                self.host,
                &self.job,
                &self.plan.messages(),
            )?);
        }
        if rank == 0 {
            report::print_head(size as u32, self.host, self.plan);
        }
        let mut rows = Vec::new();
        let mut missing = Vec::new();
        let mut parts = 1u64..;
        for &operation in &self.plan.operations {
            let mut instances = contenders.iter().filter_map(|one| one.instance.as_ref());
            if instances.any(|instance| instance.function(operation).is_none()) {
                missing.push(operation.name);
                continue;
            }
            for &size in &job_sizes {
                let (part, job) = (parts.next().unwrap_or(0), self.job);
                let (plan, ranks) = (self.plan, job.all.place.size);
                let takes_part = |rank| plan.takes_part(rank, size, ranks);
                let measured = job.with(takes_part, |team| {
                    self.team = team;
                    if let Some(node_size) = plan.node_size(size, ranks).filter(|_| size < ranks) {
                        spread::tell(self.host, team.comm, node_size, &contenders)?;
                    }
                    // Alike at ranks that took part in what was before and at others.
                    self.round = part << 32;
                    self.measure_sizes(operation, &contenders, &mut pool)
                })?;
                rows.extend(measured.into_iter().flatten());
            }
        }
        if rank == 0 {
            finish(&Outcome {
                rows: &rows,
                missing: &missing,
                host: self.host,
                ranks: size as u32,
                bounds: self.bounds.as_ref(),
            })?;
        }
        let mut instances = contenders.iter().filter_map(|one| one.instance.as_ref());
        match instances.next_back().and_then(Instance::finalize) {
            Some(code) => {
                self.host.check("MPI_Finalize", code)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// What the machine needs at least for a call of `cell`, in µs. Who comes late on purpose does not wait for
    /// all that others do.
    fn least_us(&self, cell: &Cell<'_>) -> Option<f64> {
        match &self.bounds {
            Some(Ok(bounds)) if cell.mode.arrival == Arrival::Even => {
                let (name, ranks) = (cell.operation.name, self.team.place.size);
                bounds.least_us(name, ranks, cell.bytes, cell.mode.reuse)
            }
            _ => None,
        }
    }

    fn open(&mut self, library: &Path, pool: &mut Pool) -> Result<Vec<Contender>> {
        let plan = self.plan;
        let mut contenders = Vec::new();
        if plan.compares_default() {
            contenders.push(Contender {
                variant: None,
                instance: Some(Instance::open(library)?),
            });
        }
        let mut open = |variant: &Variant| -> Result<Contender> {
            let instance = match variant.by {
                By::RawMulticast | By::Plain(_) => None,
                By::Library | By::Multicast => {
                    let first_call = |instance: &Instance| self.begin(instance, variant, pool);
                    Some(Instance::open_variant(library, variant, first_call)?)
                }
            };
            Ok(Contender {
                variant: Some(variant.clone()),
                instance,
            })
        };
        for variant in &plan.variants {
            contenders.push(open(variant)?);
        }
        Ok(contenders)
    }

    /// Makes the first call, at which an instance reads its settings.
    fn begin(&mut self, instance: &Instance, variant: &Variant, pool: &mut Pool) -> Result<()> {
        let operation = self.plan.operations[0];
        let Some(function) = instance.function(operation) else {
            return Ok(());
        };
        let bytes = self.plan.sizes.iter().min().copied().unwrap_or(0);
        let mut cell = self.cell(operation, bytes, pool, Mode::PLAIN);
        self.verify(&mut cell, &mut Side::Mpi(function), &variant.label)
    }

    fn cell<'p>(
        &self,
        operation: &'static Operation,
        bytes: usize,
        pool: &'p mut Pool,
        mode: Mode,
    ) -> Cell<'p> {
        Cell::new(self.host, self.team, (operation, bytes, mode), pool)
    }

    fn measure_sizes(
        &mut self,
        operation: &'static Operation,
        contenders: &[Contender],
        pool: &mut Pool,
    ) -> Result<Vec<Row>> {
        let find = |name: &str| self.host.function(&format!("PMPI_{name}"));
        // SAFETY: the host has the MPI functions of these names there.
        let host = unsafe { Function::new(operation, find) };
        let host = host.ok_or_else(|| anyhow!("the MPI library has no {}", operation.name))?;
        let contenders: Vec<&Contender> = contenders
            .iter()
            .filter(|contender| contender.is_about(operation))
            .collect();
        let mut sides = vec![Side::Mpi(host)];
        for contender in &contenders {
            sides.push(Side::open(self.host, self.team, contender, operation)?);
        }
        let sizes = match operation.form {
            Form::Barrier => &[0],
            _ => self.plan.sizes.as_slice(),
        };
        let modes = self.plan.modes(operation);
        if self.team.place.rank == 0 && !self.plan.shows_rows {
            report::print_progress(operation, self.team.place.size, contenders.len());
        }
        let mut rows = Vec::new();
        for (&mode, &bytes) in modes.iter().flat_map(|m| sizes.iter().map(move |s| (m, s))) {
            let mut cell = self.cell(operation, bytes, pool, mode);
            let measured = self.measure(&mut cell, &mut sides, &contenders)?;
            if self.team.place.rank == 0 && self.plan.shows_rows {
                let print = |row: &Row| report::print_row(row, self.plan);
                measured.iter().for_each(print);
            }
            rows.extend(measured);
        }
        Ok(rows)
    }

    /// One row per contender; the host is the first side, followed by theirs.
    fn measure(
        &mut self,
        cell: &mut Cell<'_>,
        sides: &mut [Side<'_>],
        contenders: &[&Contender],
    ) -> Result<Vec<Row>> {
        let operation = cell.operation;
        let counts = || -> Vec<_> {
            let counts = contenders
                .iter()
                .map(|one| (one.forwarded(operation), one.multicasts()));
            counts.collect()
        };
        if operation.is_nonblocking {
            self.prepare_nonblocking(cell, &mut sides[1..], contenders)?;
        }
        let before = counts();
        for (index, side) in sides.iter_mut().enumerate() {
            let contender = index.checked_sub(1).map(|index| contenders[index]);
            let name = contender.map_or("the host MPI".to_owned(), |one| one.name(operation));
            self.verify(cell, side, &name)?;
        }
        if cell.mode.arrival == Arrival::Random {
            cell.late_us = self.block(cell, &mut sides[0], LATE_CALLS)?.value;
        }
        let limits = self.plan.limits;
        let (mut timings, iterations) = limits.measure(sides.len(), |index, iterations| {
            self.block(cell, &mut sides[index], iterations)
        })?;
        let after = counts();
        let host = timings.remove(0);
        let mut rows = Vec::new();
        for (index, (contender, ferrorail)) in contenders.iter().zip(timings).enumerate() {
            let (forwarded, sent) = after[index];
            let multicasts = match (before[index].1, sent) {
                (Some(before), Some(sent)) => Some(self.sum(sent - before)?),
                _ => None,
            };
            let (iterations, lost) = match &sides[1 + index] {
                Side::Raw(raw) => (iterations.min(raw.most(cell.bytes)?), Some(ferrorail.lost)),
                Side::Mpi(_) | Side::Plain(_) => (iterations, None),
            };
            let variant = contender.variant.as_ref();
            rows.push(Row {
                operation,
                figure: self.plan.figure,
                mode: cell.mode,
                ranks: self.team.place.size,
                facts: contender.facts(self.team.comm),
                bytes: cell.bytes,
                algorithm: contender.name(operation),
                settings: variant.map_or(Vec::new(), |variant| variant.settings.clone()),
                iterations,
                forwarded: before[index].0 != forwarded || forwarded == u64::MAX,
                multicasts,
                lost,
                is_plain: matches!(&sides[1 + index], Side::Plain(_)),
                ferrorail,
                host: host.clone(),
                bound_us: self.least_us(cell),
            });
        }
        Ok(rows)
    }

    /// Starts the library also on ranks that sleep all the while: its end, at which ranks report, is collective.
    fn start_everywhere(&self, contenders: &[Contender]) -> Result<()> {
        let world = self.job.all.comm;
        let mut barriers = contenders.iter().map(|one| one.barrier(world));
        Ok(barriers.try_for_each(|code| self.host.check("MPI_Barrier", code))?)
    }

    /// Has the library make what it needs for non-blocking calls, which takes a blocking one before and behind one.
    fn prepare_nonblocking(
        &mut self,
        cell: &mut Cell<'_>,
        sides: &mut [Side<'_>],
        contenders: &[&Contender],
    ) -> Result<()> {
        let comm = self.team.comm;
        for (side, contender) in sides.iter_mut().zip(contenders) {
            self.host.check("MPI_Barrier", contender.barrier(comm))?;
            self.verify(cell, side, &contender.name(cell.operation))?;
            self.host.check("MPI_Barrier", contender.barrier(comm))?;
        }
        Ok(())
    }

    /// Of all ranks that are measured.
    fn sum(&self, mine: u64) -> Result<u64> {
        let all = everybodys(self.host, self.team.comm, [mine as f64])?;
        Ok(all.into_iter().map(|[count]| count).sum::<f64>() as u64)
    }

    /// Time per call of the slowest rank, the same at every rank.
    fn block(
        &mut self,
        cell: &mut Cell<'_>,
        side: &mut Side<'_>,
        iterations: u32,
    ) -> Result<Block> {
        if let Side::Raw(raw) = side {
            let iterations = iterations.min(raw.most(cell.bytes)?);
            return raw.broadcast(iterations, cell.bytes, &mut cell.buffers, 0);
        }
        let comm = self.team.comm;
        self.host.barrier(comm)?;
        let start = Instant::now();
        let mut prepared = Duration::ZERO;
        for iteration in 0..iterations as usize {
            if cell.mode.prepares() {
                let start = Instant::now();
                cell.prepare(self.team.place, iteration);
                prepared += start.elapsed();
            }
            side.call(self.host, cell, iteration)?;
            if cell.mode.barrier {
                self.host.barrier(comm)?;
            }
        }
        let calls = start.elapsed().saturating_sub(prepared);
        let mine = calls.as_secs_f64() * 1e6 / f64::from(iterations);
        largest(self.host, comm, mine).map(Block::of)
    }

    /// Calls once and compares every byte, at every rank.
    fn verify(&mut self, cell: &mut Cell<'_>, side: &mut Side<'_>, name: &str) -> Result<()> {
        self.round += 1;
        let (place, pair) = (self.team.place, self.round as usize);
        let (send, recv) = cell.buffers.slices(pair);
        contents(send, place.rank, self.round, 0);
        recv.fill(0xff);
        if cell.operation.form == Form::Bcast && place.rank == place.root {
            contents(recv, place.rank, self.round, 0);
        }
        side.call(self.host, cell, pair)?;
        let expected = cell.operation.expected(place, cell.bytes, self.round);
        let (_, recv) = cell.buffers.slices(pair);
        let wrong = expected.and_then(|expected| {
            let mut bytes = recv.iter().zip(&expected);
            bytes.position(|(found, expected)| found != expected)
        });
        let (operation, bytes, at) = (cell.operation.name, cell.bytes, wrong.unwrap_or(0));
        let (comm, rank) = (self.team.comm, place.rank as u32);
        WrongData::check(self.host, comm, rank, wrong.is_some(), |first| {
            format!(
                "{operation}, {name}: wrong data for {bytes} bytes: byte {at} of the result at rank {first}"
            )
        })
    }
}
