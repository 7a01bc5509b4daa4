//! How long a lock takes from one holder to the next (figure 4.5).

use super::{Cell, Figure, Kind, PLAIN};
use crate::bench::mode::compute;
use crate::bench::rma::run::Run;
use crate::bench::rma::window::Need;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Longer than an acquisition takes, so that there is always somebody waiting.
const HELD: Duration = Duration::from_micros(100);

pub const FIGURE: Figure = Figure {
    name: "rma-handover",
    about: "time per holder beyond the 100 us for which each holds the lock that others wait for",
    variants: &[("exclusive", Need::Flush)],
    parameter: Some(("contenders", |ranks| (2..u64::from(ranks)).collect())),
    ranks: 3,
    kind: Kind::MeanTime,
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    if run.rank == 0 || u64::from(run.rank) > cell.parameter {
        run.barrier()?;
        run.largest(0.0)?;
        return Ok(None);
    }
    let start = Instant::now();
    let mut held = Duration::ZERO;
    run.timed(|run, _| {
        run.window().lock(0, true)?;
        run.window().flush(0)?;
        let acquired = Instant::now();
        compute(HELD);
        // A preempted holder holds longer.
        held += acquired.elapsed();
        run.window().unlock(0)
    })?;
    run.barrier()?;
    // From the first start until all were through every contender held the lock so many times, one
    // after another.
    let all = run.largest(start.elapsed().as_secs_f64() * 1e6)? / run.iterations as f64;
    let held = held.as_secs_f64() * 1e6 / run.iterations as f64;
    Ok(Some(all / cell.parameter as f64 - held))
}
