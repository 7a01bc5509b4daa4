//! Bursts of messages, from one origin and from many (figures 3.7, 3.8 and 3.12).

use super::{Cell, Figure, Kind, PLAIN, others};
use crate::bench::rma::run::{Direction, Run};
use crate::bench::rma::window::Need;
use anyhow::Result;

pub const FIGURE: Figure = Figure {
    name: "rma-bandwidth",
    about: "a burst of puts or gets (--burst) in an epoch, or before a flush",
    variants: &[
        ("put", Need::Pscw),
        ("get", Need::Pscw),
        ("put_flush", Need::Flush),
        ("get_flush", Need::Flush),
    ],
    bytes: "64:1M:4",
    kind: Kind::Burst,
    run,
    ..PLAIN
};

pub const ORIGINS: Figure = Figure {
    name: "rma-origins",
    about: "bursts of puts of many origins to one target: bytes of all together",
    variants: &[("put", Need::Pscw), ("put_flush", Need::Flush)],
    bytes: "64K",
    parameter: Some(("origins", others)),
    kind: Kind::Burst,
    many_origins: true,
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let direction = Direction::of(cell.variant);
    let origins: Vec<u32> = match cell.parameter {
        0 => vec![run.far()],
        origins => (1..=origins as u32).collect(),
    };
    match cell.need {
        Need::Pscw => run.epochs(&origins, 0, |run, iteration| {
            burst(run, direction, iteration)
        }),
        _ if !origins.contains(&run.rank) => Ok(None),
        _ => {
            let time = run.timed_in_lock(|run, iteration| {
                burst(run, direction, iteration)?;
                run.window().flush(0)
            });
            time.map(Some)
        }
    }
}

/// Moves as many messages as a burst has, to or from rank 0.
pub fn burst(run: &mut Run<'_, '_>, direction: Direction, iteration: usize) -> Result<()> {
    let first = iteration * run.burst;
    (first..first + run.burst).try_for_each(|index| run.transfer(direction, index, 0))
}
