//! What the library's threads take of a core while nothing happens (section 4.4.6): a handler that polls
//! takes all of it, one that sleeps none.

use super::{Cell, Figure, Kind, PLAIN};
use crate::bench::rma::run::Run;
use crate::bench::rma::window::Need;
use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The kernel counts the time of threads finely enough for that.
const ASLEEP: Duration = Duration::from_millis(20);

pub const FIGURE: Figure = Figure {
    name: "rma-idle",
    about: "per cent of a core that a process takes which has a window, has been locked, and sleeps",
    variants: &[("asleep", Need::Lock)],
    kind: Kind::Percent,
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, _: &Cell) -> Result<Option<f64>> {
    if run.rank == run.far() {
        run.window().lock(0, true)?;
        run.window().unlock(0)?;
    }
    run.barrier()?;
    let (start, before) = (Instant::now(), used()?);
    for _ in 0..run.iterations {
        std::thread::sleep(ASLEEP);
    }
    let share = (used()? - before).as_secs_f64() / start.elapsed().as_secs_f64();
    Ok(Some(100.0 * share))
}

/// Time of all threads of this process.
fn used() -> Result<Duration> {
    let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(Duration::from(used))
}
