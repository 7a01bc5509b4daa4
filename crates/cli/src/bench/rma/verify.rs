//! Whether data arrives: every rank moves a message to its right neighbour and looks at it there.

use super::run::{Direction, Run};
use crate::bench::buffers::contents;
use anyhow::Result;

/// Puts, gets and adds one message with fences, then with locks; what was wrong at this rank, if
/// anything.
pub fn verify(run: &mut Run<'_, '_>, round: u64) -> Result<Option<&'static str>> {
    let mut wrong = None;
    let mut check = |holds: bool, what| {
        if !holds && wrong.is_none() {
            wrong = Some(what);
        }
    };
    check(fenced(run, round)?, "put and get between fences");
    if run.bytes.is_multiple_of(4) {
        check(added(run, round)?, "a sum between fences");
    }
    check(locked(run, !round)?, "put and get under a lock");
    Ok(wrong)
}

fn right(run: &Run<'_, '_>) -> u32 {
    (run.rank + 1) % run.size
}

/// Fills the send buffer and clears the receive buffer.
fn prepare(run: &mut Run<'_, '_>, round: u64) {
    let rank = run.rank as usize;
    let (send, recv) = run.buffers.slices(0);
    contents(send, rank, round, 0);
    recv.fill(0xff);
}

/// Whether the receive buffer holds what `of` makes of each element of the send buffer.
fn holds(run: &mut Run<'_, '_>, of: fn(i32) -> i32) -> bool {
    let bytes = run.bytes;
    let (send, recv) = run.buffers.slices(0);
    let (words, rest) = send.as_chunks::<4>();
    let expected = words
        .iter()
        .flat_map(|&word| of(i32::from_ne_bytes(word)).to_ne_bytes());
    expected
        .chain(rest.iter().copied())
        .eq(recv[..bytes].iter().copied())
}

fn fenced(run: &mut Run<'_, '_>, round: u64) -> Result<bool> {
    let right = right(run);
    prepare(run, round);
    run.window().fence(false)?;
    run.transfer(Direction::Put, 0, right)?;
    run.window().fence(false)?;
    run.transfer(Direction::Get, 0, right)?;
    run.window().fence(true)?;
    Ok(holds(run, |element| element))
}

/// Adds what is there already.
fn added(run: &mut Run<'_, '_>, round: u64) -> Result<bool> {
    let right = right(run);
    prepare(run, round);
    run.window().fence(false)?;
    run.add(0, right)?;
    run.window().fence(false)?;
    run.transfer(Direction::Get, 0, right)?;
    run.window().fence(true)?;
    Ok(holds(run, |element| element.wrapping_mul(2)))
}

fn locked(run: &mut Run<'_, '_>, round: u64) -> Result<bool> {
    let right = right(run);
    prepare(run, round);
    run.window().lock(right, true)?;
    run.transfer(Direction::Put, 0, right)?;
    run.window().unlock(right)?;
    run.window().lock(right, false)?;
    run.transfer(Direction::Get, 0, right)?;
    run.window().unlock(right)?;
    // Neighbours need this rank until they are through.
    run.barrier()?;
    Ok(holds(run, |element| element))
}
