//! What a lock costs nobody else wants (figure 4.4).

use super::{Cell, Figure, PLAIN};
use crate::bench::rma::run::{Direction, Run};
use crate::bench::rma::window::Need;
use anyhow::Result;
use std::time::Instant;

pub const FIGURE: Figure = Figure {
    name: "rma-lock",
    about: "lock and unlock without contention, and each of them; with a put in between; \
            shared; fetch-and-op",
    variants: &[
        ("lock_unlock", Need::Lock),
        ("lock_put_unlock", Need::Lock),
        ("shared_unlock", Need::Lock),
        ("lock", Need::Flush),
        ("unlock", Need::Flush),
        ("fetch_and_op", Need::Flush),
    ],
    bytes: "8",
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    if run.rank != run.far() {
        return Ok(None);
    }
    let time = match cell.variant {
        "lock_put_unlock" => run.locks((0, true), |run, iteration| {
            run.transfer(Direction::Put, iteration, 0)
        }),
        "lock" | "unlock" => part(run, cell.variant == "lock"),
        "fetch_and_op" => run.timed_in_lock(|run, iteration| run.fetch_add(iteration, 0).map(drop)),
        kind => run.locks((0, kind == "lock_unlock"), |_, _| Ok(())),
    };
    Ok(Some(time?))
}

/// One half alone. A lock call may leave the work to what follows it, so a flush follows.
fn part(run: &mut Run<'_, '_>, acquiring: bool) -> Result<f64> {
    run.timed_partly(|run, _| {
        let start = Instant::now();
        run.window().lock(0, true)?;
        run.window().flush(0)?;
        let acquired = Instant::now();
        run.window().unlock(0)?;
        Ok(match acquiring {
            true => acquired - start,
            false => acquired.elapsed(),
        })
    })
}
