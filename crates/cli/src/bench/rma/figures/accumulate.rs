//! Sums of integers by their number (figure 3.13).

use super::{Cell, Figure, PLAIN};
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
    bytes: "4:64K:4",
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let far = run.far();
    match cell.need {
        Need::Pscw => run.epochs(&[far], 0, |run, iteration| run.add(iteration, 0)),
        _ if run.rank != far => Ok(None),
        Need::Lock => {
            let time = run.locks((0, false), |run, iteration| run.add(iteration, 0));
            time.map(Some)
        }
        _ => {
            let time = run.timed_in_lock(|run, iteration| {
                run.add(iteration, 0)?;
                run.window().flush(0)
            });
            time.map(Some)
        }
    }
}
