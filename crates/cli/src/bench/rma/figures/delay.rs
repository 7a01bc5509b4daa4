//! From the release of a lock to its acquisition by who waits for it, two origins in turns (figure 4.5).

use super::{Cell, Figure, Kind, PLAIN};
use crate::bench::mode::compute;
use crate::bench::rma::run::Run;
use crate::bench::rma::window::Need;
use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Longer than the request of who comes second takes.
const HELD: Duration = Duration::from_micros(200);

pub const FIGURE: Figure = Figure {
    name: "rma-delay",
    about: "from the release of a lock to its acquisition by another, who asked while it was held; on one \
            host, by its clock",
    variants: &[("exclusive", Need::Flush)],
    ranks: 3,
    kind: Kind::MeanTime,
    run,
    ..PLAIN
};

/// µs, alike at all processes of a host.
fn now() -> Result<f64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(now.tv_sec() as f64 * 1e6 + now.tv_nsec() as f64 / 1e3)
}

/// In even iterations rank 1 asks first, in odd ones rank 2; who comes second asks once told that the first
/// has the lock.
fn run(run: &mut Run<'_, '_>, _: &Cell) -> Result<Option<f64>> {
    if !(1..=2).contains(&run.rank) {
        run.barrier()?;
        for _ in 0..2 * run.iterations {
            run.largest(0.0)?;
        }
        return Ok(None);
    }
    let other = 3 - run.rank;
    let mut times = Vec::with_capacity(run.iterations);
    for iteration in 0..run.iterations {
        let is_first = (iteration % 2 == 0) == (run.rank == 1);
        if !is_first {
            run.await_signal(other)?;
        }
        run.window().lock(0, true)?;
        run.window().flush(0)?;
        let acquired = now()?;
        if is_first {
            run.signal(other)?;
        }
        compute(HELD);
        let released = now()?;
        run.window().unlock(0)?;
        times.push(if is_first { released } else { acquired });
        // Nobody asks again before both are through.
        let (a, b) = (run.rank.min(other), run.rank.max(other));
        if run.rank == a {
            run.signal(b)?;
            run.await_signal(b)?;
        } else {
            run.await_signal(a)?;
            run.signal(a)?;
        }
    }
    run.barrier()?;
    let mut sum = 0.0;
    for (iteration, &time) in times.iter().enumerate() {
        let is_first = (iteration % 2 == 0) == (run.rank == 1);
        let released = run.largest(if is_first { time } else { 0.0 })?;
        let acquired = run.largest(if is_first { 0.0 } else { time })?;
        sum += acquired - released;
    }
    Ok(Some(sum / run.iterations as f64))
}
