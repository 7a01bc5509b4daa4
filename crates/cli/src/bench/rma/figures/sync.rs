//! Synchronisation with nothing to do in between (figure 3.9).

use super::{Cell, Figure, PLAIN};
use crate::bench::rma::run::Run;
use crate::bench::rma::window::Need;
use anyhow::Result;

pub const FIGURE: Figure = Figure {
    name: "rma-sync",
    about: "synchronisation alone: fence; post, start, complete and wait with one target or all; \
            lock and unlock; all locked and unlocked; flush",
    variants: &[
        ("fence", Need::Fence),
        ("pscw", Need::Pscw),
        ("pscw_all", Need::Pscw),
        ("lock", Need::Lock),
        ("lock_all", Need::Flush),
        ("flush", Need::Flush),
    ],
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let far = run.far();
    match cell.variant {
        "fence" => {
            let time = run.timed(|run, _| run.window().fence(false))?;
            run.window().fence(true)?;
            Ok(Some(time))
        }
        "pscw" => run.epochs(&[far], 0, |_, _| Ok(())),
        "pscw_all" => Ok(Some(with_all(run)?)),
        _ if run.rank != far => Ok(None),
        "lock" => Ok(Some(run.timed(|run, _| {
            run.window().lock(0, true)?;
            run.window().unlock(0)
        })?)),
        "lock_all" => Ok(Some(run.timed(|run, _| {
            run.window().lock_all()?;
            run.window().unlock_all()
        })?)),
        _ => {
            run.window().lock_all()?;
            let time = run.timed(|run, _| run.window().flush(0))?;
            run.window().unlock_all()?;
            Ok(Some(time))
        }
    }
}

/// One origin, and every other rank a target.
fn with_all(run: &mut Run<'_, '_>) -> Result<f64> {
    let targets: Vec<u32> = (1..run.size).collect();
    run.timed(|run, _| {
        if run.rank == 0 {
            run.window().start(&targets)?;
            run.window().complete()
        } else {
            run.window().post(&[0])?;
            run.window().wait()
        }
    })
}
