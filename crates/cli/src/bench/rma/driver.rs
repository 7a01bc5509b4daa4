//! The measurement: blocks of ours, the host's and the baseline's by turns.

use super::figures::{Cell, Figure, Kind};
use super::mpi_window::{LockMessages, Mpi};
use super::report::{self, Row};
use super::run::{Run, STRIDE, stride};
use super::send_receive::SendReceive;
use super::verify::verify;
use super::window::{Implementation, Window};
use super::{Baseline, Plan};
use crate::bench::buffers::Pool;
use crate::bench::instance::Instance;
use crate::bench::timing::{Block, Timing, everybodys};
use crate::bench::wrong_data::WrongData;
use crate::mpi;
use anyhow::{Context as _, Result, bail};
use ferrorail_mpi_abi::Host;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Instant;

/// Least bytes of a window that are one origin's, so that messages walk through more than a cache
/// line.
const REGION_BYTES: usize = 1 << 20;
/// Most bytes of all windows of a rank together.
const WINDOWS_BYTES_MAX: usize = 4 << 30;

/// One implementation.
struct Side<'a> {
    implementation: Box<dyn Implementation + 'a>,
    /// Which, in a complaint.
    name: String,
    /// Of which copy of our library.
    instance: Option<&'a Instance>,
}

/// One rank's view.
struct Driver<'a> {
    host: &'a Host,
    plan: &'a Plan<'a>,
    rank: u32,
    size: u32,
    burst: usize,
    round: u64,
}

/// Lengths of windows and buffers of a figure.
#[derive(Clone, Copy)]
struct Lengths {
    region: usize,
    regions: usize,
    windows: usize,
    /// The longest message.
    bytes: usize,
}

/// Measures what `plan` says; returns whether MPI was finalised on the way.
pub fn run(host: &Host, plan: &Plan, library: &Path) -> Result<bool> {
    let world = host.predefined().comm_world;
    let mut driver = Driver {
        host,
        plan,
        rank: host.comm_rank(world)?,
        size: host.comm_size(world)?,
        burst: plan.args.burst as usize,
        round: 0,
    };
    mpi::check_size(host, driver.size)?;
    for figure in &plan.figures {
        if driver.size < figure.ranks && !plan.all {
            bail!("{} needs {} ranks at least", figure.name, figure.ranks);
        }
    }
    let instances = driver.open_instances(library)?;
    let rows = driver.measure_all(&instances)?;
    if driver.rank == 0 {
        report::print_summary(&rows, plan);
        report::plot(&rows, plan)?;
        if let Some(path) = &plan.args.json {
            report::write_json(path, driver.size, host, plan, &rows)?;
        }
    }
    match instances.last().and_then(Instance::finalize) {
        Some(code) => {
            host.check("MPI_Finalize", code)?;
            Ok(true)
        }
        None => Ok(false),
    }
}

impl<'a> Driver<'a> {
    fn open_instances(&self, library: &Path) -> Result<Vec<Instance>> {
        let open = |variant| {
            Instance::open_variant(library, variant, |instance| {
                let side = self.ours(instance)?;
                side.implementation.window(STRIDE)?.free()
            })
        };
        match &self.plan.variants[..] {
            [] => Ok(vec![Instance::open(library)?]),
            variants => variants.iter().map(open).collect(),
        }
    }

    fn ours<'i>(&self, instance: &'i Instance) -> Result<Side<'i>>
    where
        'a: 'i,
    {
        let find = |name: &str| instance.symbol(&format!("MPI_{name}"));
        let messages = instance
            .symbol("ferrorail_lock_messages")
            .context("the library does not count the messages of locks")?;
        // SAFETY: the library has the MPI functions of these names there, and its own.
        let implementation = unsafe {
            let messages = std::mem::transmute::<NonNull<_>, LockMessages>(messages);
            Mpi::new(self.host, self.plan.args.window, find, Some(messages))?
        };
        Ok(Side {
            implementation: Box::new(implementation),
            name: instance.label().unwrap_or("ferrorail").to_owned(),
            instance: Some(instance),
        })
    }

    /// Ours, the host, the baseline.
    fn sides<'i>(&self, instances: &'i [Instance]) -> Result<Vec<Side<'i>>>
    where
        'a: 'i,
    {
        let ours = instances.iter().map(|instance| self.ours(instance));
        let mut sides: Vec<Side<'i>> = ours.collect::<Result<_>>()?;
        let find = |name: &str| self.host.function(&format!("PMPI_{name}"));
        // SAFETY: the host has the MPI functions of these names there.
        let host = unsafe { Mpi::new(self.host, self.plan.args.window, find, None)? };
        sides.push(Side {
            implementation: Box::new(host),
            name: "the host MPI".into(),
            instance: None,
        });
        if self.plan.baseline == Some(Baseline::SendReceive) {
            sides.push(Side {
                implementation: Box::new(SendReceive::new(self.host)),
                name: "send-receive".into(),
                instance: None,
            });
        }
        Ok(sides)
    }

    fn measure_all(&mut self, instances: &[Instance]) -> Result<Vec<Row>> {
        let sides = self.sides(instances)?;
        if self.rank == 0 {
            report::print_head(self.size, self.host, self.plan);
        }
        let mut rows = Vec::new();
        let (enough, too_few): (Vec<_>, Vec<_>) = self
            .plan
            .figures
            .iter()
            .partition(|figure| figure.ranks <= self.size);
        for figure in enough {
            for sides in self.together(&sides) {
                rows.extend(self.measure_figure(figure, &sides)?);
            }
        }
        if self.rank == 0 {
            for figure in too_few {
                outln!(
                    "# Not measured: {} needs {} ranks",
                    figure.name,
                    figure.ranks
                );
            }
        }
        Ok(rows)
    }

    fn lengths(&self, figure: &Figure, cells: &[Cell]) -> Result<Lengths> {
        let bytes = cells.iter().map(|cell| cell.bytes).max().unwrap_or(0);
        let several = |many: bool| if many { self.size as usize } else { 1 };
        let lengths = Lengths {
            region: (stride(bytes) * self.burst).max(REGION_BYTES),
            regions: several(figure.many_origins),
            windows: several(figure.many_windows),
            bytes,
        };
        let all = lengths.region * lengths.regions * lengths.windows;
        if all > WINDOWS_BYTES_MAX {
            bail!(
                "{}: bursts of {bytes} bytes need windows of {all} bytes",
                figure.name
            );
        }
        Ok(lengths)
    }

    /// The sides whose windows exist at the same time: all, but that in figures of papers each setting has a
    /// turn of its own, as windows may have threads that take cores from the others.
    fn together<'s, 'i>(&self, sides: &'s [Side<'i>]) -> Vec<Vec<&'s Side<'i>>> {
        let ours = || sides.iter().filter(|side| side.instance.is_some());
        let others = sides.iter().filter(|side| side.instance.is_none());
        match self.plan.paper {
            Some(_) => ours()
                .map(|side| std::iter::once(side).chain(others.clone()).collect())
                .collect(),
            None => vec![ours().chain(others).collect()],
        }
    }

    fn measure_figure(&mut self, figure: &'static Figure, sides: &[&Side<'_>]) -> Result<Vec<Row>> {
        let cells = self.plan.cells(figure, self.size);
        let lengths = self.lengths(figure, &cells)?;
        let mut windows = Vec::new();
        for side in sides {
            let bytes = lengths.region * lengths.regions;
            let make = |_| side.implementation.window(bytes);
            windows.push((0..lengths.windows).map(make).collect::<Result<Vec<_>>>()?);
        }
        let mut pool = Pool::new(self.buffers(lengths.bytes));
        let mut rows = Vec::new();
        let mut verified = Vec::new();
        for cell in &cells {
            if !verified.contains(&cell.bytes) {
                for (side, windows) in sides.iter().zip(&mut windows) {
                    self.verify(side, windows, lengths, cell, &mut pool)?;
                }
                verified.push(cell.bytes);
            }
            let measured = self.measure(figure, cell, sides, &mut windows, lengths, &mut pool)?;
            if self.rank == 0 {
                measured.iter().for_each(report::print_row);
            }
            rows.extend(measured);
        }
        for window in windows.into_iter().flatten() {
            window.free()?;
        }
        Ok(rows)
    }

    /// Lengths of the buffers for messages of `bytes`: one that is sent, a burst that is received.
    fn buffers(&self, bytes: usize) -> (usize, usize) {
        (bytes, stride(bytes) * self.burst)
    }

    fn with_run<'w, R>(
        &self,
        windows: &mut [Box<dyn Window + 'w>],
        lengths: Lengths,
        (bytes, iterations): (usize, usize),
        pool: &mut Pool,
        act: impl FnOnce(&mut Run<'_, 'w>) -> Result<R>,
    ) -> Result<R> {
        let mut buffers = pool.buffers(self.buffers(bytes));
        act(&mut Run {
            host: self.host,
            rank: self.rank,
            size: self.size,
            burst: self.burst,
            iterations,
            bytes,
            windows,
            buffers: &mut buffers,
            region: lengths.region,
            regions: lengths.regions,
        })
    }

    fn verify<'w>(
        &mut self,
        side: &Side<'_>,
        windows: &mut [Box<dyn Window + 'w>],
        lengths: Lengths,
        cell: &Cell,
        pool: &mut Pool,
    ) -> Result<()> {
        self.round += 1;
        let (round, one) = (self.round, (cell.bytes, 1));
        let wrong = self.with_run(windows, lengths, one, pool, |run| verify(run, round))?;
        let world = self.host.predefined().comm_world;
        WrongData::check(self.host, world, self.rank, wrong.is_some(), |first| {
            let what = wrong.unwrap_or("one-sided communication");
            format!(
                "{}, {} bytes: {what}: wrong data at rank {first}",
                side.name, cell.bytes
            )
        })
    }

    /// One row per copy of our library.
    fn measure<'w>(
        &mut self,
        figure: &'static Figure,
        cell: &Cell,
        sides: &[&Side<'_>],
        windows: &mut [Vec<Box<dyn Window + 'w>>],
        lengths: Lengths,
        pool: &mut Pool,
    ) -> Result<Vec<Row>> {
        let offered: Vec<usize> = (0..sides.len())
            .filter(|&side| sides[side].implementation.offers(cell.need))
            .collect();
        let mut block = |side: usize, iterations: u32| {
            let both = (cell.bytes, iterations as usize);
            self.with_run(&mut windows[side], lengths, both, pool, |run| {
                self.block(figure, cell, run)
            })
        };
        let forwarded = || -> Vec<u64> {
            let instances = sides.iter().filter_map(|side| side.instance);
            instances.map(Instance::forwarded_in_all).collect()
        };
        let before = forwarded();
        let (measured, iterations) = self
            .plan
            .limits
            .measure(offered.len(), |index, iterations| {
                block(offered[index], iterations)
            })?;
        let mut timings = vec![Timing::default(); sides.len()];
        for (&side, timing) in offered.iter().zip(measured) {
            timings[side] = timing;
        }
        let after = forwarded();
        let others = timings.split_off(before.len());
        let measured = |index: usize| {
            let found: Option<&Timing> = others.get(index);
            found.filter(|timing| !timing.blocks_us.is_empty()).cloned()
        };
        let rows = timings
            .into_iter()
            .enumerate()
            .map(|(index, ferrorail)| Row {
                figure,
                cell: *cell,
                burst: self.burst,
                setting: sides[index]
                    .instance
                    .and_then(Instance::label)
                    .map(str::to_owned),
                iterations,
                forwarded: before[index] != after[index] || after[index] == u64::MAX,
                ferrorail,
                host: measured(0),
                baseline: measured(1),
            });
        Ok(rows.collect())
    }

    /// All ranks learn the same numbers.
    fn block(&self, figure: &Figure, cell: &Cell, run: &mut Run<'_, '_>) -> Result<Block> {
        run.barrier()?;
        let start = Instant::now();
        let mine = (figure.run)(run, cell)?;
        let elapsed = start.elapsed().as_secs_f64() * 1e6 / run.iterations as f64;
        run.barrier()?;
        let world = self.host.predefined().comm_world;
        let all = everybodys(self.host, world, [mine.unwrap_or(f64::NAN), elapsed])?;
        let values = || {
            let values = all.iter().map(|both| both[0]);
            values.filter(|value| !value.is_nan())
        };
        Ok(Block {
            value: match figure.kind {
                Kind::Messages | Kind::MeanTime | Kind::Percent => {
                    values().sum::<f64>() / values().count() as f64
                }
                Kind::Time | Kind::Burst => values().fold(f64::NEG_INFINITY, f64::max),
            },
            elapsed_us: all.iter().map(|both| both[1]).fold(0.0, f64::max),
            lost: 0,
        })
    }
}
