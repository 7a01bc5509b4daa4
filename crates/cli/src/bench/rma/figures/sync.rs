//! Synchronisation with nothing to do in between (figure 3.9), also by how many origins there are, or targets.

use super::{Cell, Figure, PLAIN, others};
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

pub const ORIGINS: Figure = Figure {
    name: "rma-sync-origins",
    about: "post, start, complete and wait alone: of many origins with one target, of one with many targets",
    variants: &[("origins", Need::Pscw), ("targets", Need::Pscw)],
    parameter: Some(("peers", others)),
    run: peers,
    ..PLAIN
};

fn peers(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let others: Vec<u32> = (1..=cell.parameter as u32).collect();
    if cell.variant == "origins" {
        return run.epochs(&others, 0, |_, _| Ok(()));
    }
    if u64::from(run.rank) > cell.parameter {
        return Ok(None);
    }
    with_targets(run, &others).map(Some)
}

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let far = run.far();
    match cell.variant {
        "fence" => {
            let time = run.timed(|run, _| run.window().fence(false))?;
            run.window().fence(true)?;
            Ok(Some(time))
        }
        "pscw" => run.epochs(&[far], 0, |_, _| Ok(())),
        "pscw_all" => {
            let targets: Vec<u32> = (1..run.size).collect();
            Ok(Some(with_targets(run, &targets)?))
        }
        _ if run.rank != far => Ok(None),
        "lock" => run.locks((0, true), |_, _| Ok(())).map(Some),
        "lock_all" => Ok(Some(run.timed(|run, _| {
            run.window().lock_all()?;
            run.window().unlock_all()
        })?)),
        _ => {
            let time = run.timed_in_lock(|run, _| run.window().flush(0));
            time.map(Some)
        }
    }
}

/// Rank 0 is the origin.
fn with_targets(run: &mut Run<'_, '_>, targets: &[u32]) -> Result<f64> {
    run.timed(|run, _| {
        if run.rank == 0 {
            run.window().start(targets)?;
            run.window().complete()
        } else {
            run.window().post(&[0])?;
            run.window().wait()
        }
    })
}
