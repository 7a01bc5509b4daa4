//! Locks that do not conflict: of different windows of one target (figure 4.6), and of different
//! targets (figure 4.9).

use super::{Cell, Figure, PLAIN, others};
use crate::bench::rma::run::Run;
use crate::bench::rma::window::Need;
use anyhow::Result;

pub const WINDOWS: Figure = Figure {
    name: "rma-windows",
    about: "lock and unlock of one target by many origins, each on a window of its own",
    variants: &[("lock_unlock", Need::Lock)],
    parameter: Some(("origins", others)),
    many_windows: true,
    run: windows,
    ..PLAIN
};

pub const PAIRS: Figure = Figure {
    name: "rma-pairs",
    about: "lock and unlock by several origins, each of a target of its own",
    variants: &[("lock_unlock", Need::Lock)],
    parameter: Some(("pairs", |ranks| (1..=u64::from(ranks / 2)).collect())),
    run: pairs,
    ..PLAIN
};

fn windows(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    if run.rank == 0 || u64::from(run.rank) > cell.parameter {
        return Ok(None);
    }
    let mine = run.rank as usize;
    Ok(Some(run.timed(|run, _| {
        run.windows[mine].lock(0, true)?;
        run.windows[mine].unlock(0)
    })?))
}

fn pairs(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let target = run.far() - run.rank;
    if u64::from(run.rank) >= cell.parameter {
        return Ok(None);
    }
    run.locks((target, true), |_, _| Ok(())).map(Some)
}
