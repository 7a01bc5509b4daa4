//! A target that computes in several threads while another rank uses its lock (figure 4.8): what that
//! costs either of them.

use super::{Cell, Figure, PLAIN};
use crate::bench::rma::run::{Direction, Run, compute};
use crate::bench::rma::window::Need;
use anyhow::Result;
use ferrorail_base::sync::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

pub const FIGURE: Figure = Figure {
    name: "rma-cpu",
    about: "the target computes in threads: lock, put and unlock by another rank, lock and unlock; \
            1000 additions of such a thread meanwhile",
    variants: &[
        ("lock_put_unlock", Need::Lock),
        ("lock_unlock", Need::Lock),
        ("additions", Need::Lock),
    ],
    bytes: "8",
    parameter: Some(("threads", |_| vec![1, 2, 4])),
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let of_origin = cell.variant != "additions";
    let puts = cell.variant != "lock_unlock";
    if run.rank == 0 {
        let each = computing(run, cell.parameter)?;
        return Ok((!of_origin).then_some(each));
    }
    let mut time = None;
    if run.rank == run.far() {
        time = Some(run.locks((0, true), |run, iteration| match puts {
            true => run.transfer(Direction::Put, iteration, 0),
            false => Ok(()),
        })?);
    }
    run.barrier()?;
    Ok(time.filter(|_| of_origin))
}

/// Computes until everybody is through; µs per 1000 additions of one thread.
fn computing(run: &mut Run<'_, '_>, threads: u64) -> Result<f64> {
    let (stop, loops) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let outcome = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Once at least, however short the block.
                loop {
                    compute(1000);
                    loops.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let outcome = run.barrier();
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    outcome?;
    let loops = loops.load(Ordering::Relaxed) as f64;
    Ok(start.elapsed().as_secs_f64() * 1e6 * threads as f64 / loops)
}
