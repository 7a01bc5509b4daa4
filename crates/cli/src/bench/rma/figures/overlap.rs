//! Computation beside communication: at the origin (figure 3.10), and at the target, which then
//! comes late to the end of the epoch (figure 3.11).

use super::bandwidth::burst;
use super::{Cell, Figure, Kind, PLAIN};
use crate::bench::rma::run::{Direction, Run, compute};
use crate::bench::rma::window::Need;
use anyhow::Result;
use std::time::Instant;

pub const OVERLAP: Figure = Figure {
    name: "rma-overlap",
    about: "a burst of puts with loops of 1000 additions after each",
    variants: &[("put", Need::Pscw)],
    bytes: "64K",
    parameter: Some(("loops", |_| vec![0, 1, 4, 16, 64])),
    kind: Kind::Burst,
    run: overlap,
    ..PLAIN
};

pub const SKEW: Figure = Figure {
    name: "rma-skew",
    about: "a burst of puts to a target that does loops of 10000 additions between post and wait: \
            the origin's time",
    variants: &[("put", Need::Pscw)],
    bytes: "64K",
    parameter: Some(("loops", |_| vec![0, 1, 4, 16, 64])),
    kind: Kind::Burst,
    run: skew,
    ..PLAIN
};

fn overlap(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let loops = cell.parameter;
    run.epochs(&[run.far()], 0, |run, iteration| {
        let first = iteration * run.burst;
        (first..first + run.burst).try_for_each(|index| {
            run.transfer(Direction::Put, index, 0)?;
            compute(1000 * loops);
            Ok(())
        })
    })
}

fn skew(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let far = run.far();
    if run.rank == 0 {
        for _ in 0..run.iterations {
            run.window().post(&[far])?;
            run.signal(far)?;
            compute(10_000 * cell.parameter);
            run.window().wait()?;
        }
        return Ok(None);
    }
    if run.rank != far {
        return Ok(None);
    }
    let time = run.timed_partly(|run, iteration| {
        // The epoch before may have kept the target: its lateness is not this one's.
        run.await_signal(0)?;
        let start = Instant::now();
        run.window().start(&[0])?;
        burst(run, Direction::Put, iteration)?;
        run.window().complete()?;
        Ok(start.elapsed())
    })?;
    Ok(Some(time))
}
