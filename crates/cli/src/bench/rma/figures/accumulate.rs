//! Sums of integers by their number (figure 3.13).

use super::{Bytes, Cell, Figure, PLAIN};
use crate::bench::rma::run::Run;
use crate::bench::rma::window::Need;
use anyhow::Result;

pub const FIGURE: Figure = Figure {
    name: "rma-accumulate",
    about: "one sum of integers of 4 bytes: in an epoch, with lock and unlock, before a flush",
    variants: &[
        ("sum", Need::Pscw),
        ("sum_lock", Need::Lock),
        ("sum_flush", Need::Flush),
    ],
    bytes: Bytes::Swept("4:64K:4"),
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let far = run.far();
    if cell.need == Need::Pscw {
        return run.epochs(&[far], 0, |run, iteration| run.add(iteration, 0));
    }
    if run.rank != far {
        return Ok(None);
    }
    if cell.need == Need::Lock {
        return Ok(Some(run.timed(|run, iteration| {
            run.window().lock(0, false)?;
            run.add(iteration, 0)?;
            run.window().unlock(0)
        })?));
    }
    run.window().lock_all()?;
    let time = run.timed(|run, iteration| {
        run.add(iteration, 0)?;
        run.window().flush(0)
    })?;
    run.window().unlock_all()?;
    Ok(Some(time))
}
