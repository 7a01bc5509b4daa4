//! How long one message takes (figures 3.5 and 3.6), and what two take by send and receive.

use super::{Cell, Figure, PLAIN};
use crate::bench::rma::run::{Direction, Run};
use crate::bench::rma::window::Need;
use anyhow::Result;
use ferrorail_mpi_abi::RequestList;
use std::ffi::c_int;

const TAG: c_int = 2;

pub const FIGURE: Figure = Figure {
    name: "rma-latency",
    about: "an epoch of one put or get, two ranks in turns; both at once, and both by messages; put or get with a flush",
    variants: &[
        ("put", Need::Pscw),
        ("get", Need::Pscw),
        ("put_both_ways", Need::Fence),
        ("get_both_ways", Need::Fence),
        ("messages_both_ways", Need::Messages),
        ("put_flush", Need::Flush),
        ("get_flush", Need::Flush),
    ],
    bytes: "8:1M:8",
    run,
    ..PLAIN
};

fn run(run: &mut Run<'_, '_>, cell: &Cell) -> Result<Option<f64>> {
    let direction = Direction::of(cell.variant);
    match cell.need {
        Need::Pscw => in_turns(run, direction),
        Need::Fence => both_ways(run, direction),
        Need::Messages => by_messages(run),
        _ => flushed(run, direction),
    }
}

/// Two epochs per iteration, one in each direction.
fn in_turns(run: &mut Run<'_, '_>, direction: Direction) -> Result<Option<f64>> {
    let Some(other) = run.partner() else {
        return Ok(None);
    };
    let first = run.rank == 0;
    let both = run.timed(|run, iteration| {
        for origin in [first, !first] {
            if origin {
                run.window().start(&[other])?;
                run.transfer(direction, iteration, other)?;
                run.window().complete()?;
            } else {
                run.window().post(&[other])?;
                run.window().wait()?;
            }
        }
        Ok(())
    })?;
    Ok(Some(both / 2.0))
}

fn both_ways(run: &mut Run<'_, '_>, direction: Direction) -> Result<Option<f64>> {
    let other = run.partner();
    run.window().fence(false)?;
    let time = run.timed(|run, iteration| {
        if let Some(other) = other {
            run.transfer(direction, iteration, other)?;
        }
        run.window().fence(false)
    })?;
    run.window().fence(true)?;
    Ok(Some(time))
}

/// What both-way traffic takes without any window: two-sided communication, which the host does.
fn by_messages(run: &mut Run<'_, '_>) -> Result<Option<f64>> {
    let Some(other) = run.partner() else {
        return Ok(None);
    };
    let (world, bytes) = (run.host.predefined().comm_world, run.bytes);
    let time = run.timed(|run, iteration| {
        let (send, recv) = run.buffers.slices(iteration);
        let mut requests = RequestList::with_capacity(run.host.kind(), 2);
        // SAFETY: both buffers stay until the requests are complete; an error ends the job.
        unsafe {
            run.host
                .start_receive(&mut recv[..bytes], other, TAG, world, &mut requests)?;
            run.host
                .start_send(send, other, TAG, world, &mut requests)?;
        }
        Ok(run.host.wait_all(&mut requests)?)
    })?;
    Ok(Some(time))
}

fn flushed(run: &mut Run<'_, '_>, direction: Direction) -> Result<Option<f64>> {
    if run.rank != run.far() {
        return Ok(None);
    }
    let time = run.timed_in_lock(|run, iteration| {
        run.transfer(direction, iteration, 0)?;
        run.window().flush(0)
    });
    time.map(Some)
}
