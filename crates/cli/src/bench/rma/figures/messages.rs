//! Remote messages of an acquisition and release under contention (figure 4.7), as ferrorail counts
//! them, none inside a node, and the baseline.

use super::{Cell, Figure, Kind, PLAIN, others};
use crate::bench::rma::run::Run;
use crate::bench::rma::window::Need;
use anyhow::{Context, Result};

pub const FIGURE: Figure = Figure {
    name: "rma-messages",
    about: "remote messages per lock and unlock by how many want it; the host counts none",
    variants: &[("lock_unlock", Need::CountedLock)],
    parameter: Some(("contenders", others)),
    kind: Kind::Messages,
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    if run.rank == 0 || u64::from(run.rank) > cell.parameter {
        return Ok(None);
    }
    let counted = |run: &mut Run<'_, '_>| {
        let counted = run.window().lock_messages();
        counted.context("no messages of this window are counted")
    };
    let (_, before) = counted(run)?;
    run.locks((0, true), |_, _| Ok(()))?;
    let (_, after) = counted(run)?;
    Ok(Some((after - before) as f64 / run.iterations as f64))
}
