//! Whether data arrives: every rank moves a message to its right neighbour and looks at it there.

use super::run::{Direction, Run};
use crate::bench::buffers::contents;
use anyhow::Result;

/// Puts, gets and adds one message with fences, then with locks; counts under one lock that all ranks want;
/// what was wrong at this rank, if anything.
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
    check(excluded(run, round)?, "words under contended locks");
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

/// Two words of rank 0's memory, which are equal whenever nobody changes them.
const TWINS: [usize; 2] = [0, 8];

/// Whether all increments of rank 0's words are there, which each rank makes under an exclusive lock, and no
/// reader under a shared lock sees one without the other.
fn excluded(run: &mut Run<'_, '_>, start: u64) -> Result<bool> {
    if run.rank == 0 {
        for at in TWINS {
            write(run, start, at)?;
        }
    }
    run.barrier()?;
    let mut holds = true;
    for _ in 0..2 {
        change(run)?;
        holds &= twins(run)?.is_some();
    }
    run.barrier()?;
    let end = start.wrapping_add(2 * u64::from(run.size));
    holds &= twins(run)? == Some(end);
    run.barrier()?;
    Ok(holds)
}

/// Reads one of the words, and writes both, one after the other.
fn change(run: &mut Run<'_, '_>) -> Result<()> {
    run.window().lock(0, true)?;
    let value = read(run, TWINS[0])?.wrapping_add(1);
    for at in TWINS {
        put(run, value, at)?;
    }
    run.window().unlock(0)
}

/// Their value, if it is the same and stays so; read more than once, to hold the lock longer than a writer.
fn twins(run: &mut Run<'_, '_>) -> Result<Option<u64>> {
    run.window().lock(0, false)?;
    let first = read(run, TWINS[0])?;
    let mut same = true;
    for at in [TWINS[1], TWINS[0], TWINS[1]] {
        same &= read(run, at)? == first;
    }
    run.window().unlock(0)?;
    Ok(same.then_some(first))
}

/// Writes a word under a lock of its own.
fn write(run: &mut Run<'_, '_>, value: u64, at: usize) -> Result<()> {
    run.window().lock(0, true)?;
    put(run, value, at)?;
    run.window().unlock(0)
}

/// Under a lock; it is there on return.
fn put(run: &mut Run<'_, '_>, value: u64, at: usize) -> Result<()> {
    // SAFETY: the word lives until the flush is over; windows are longer.
    unsafe { run.window().put((&raw const value).cast(), 8, 0, at)? };
    run.window().flush(0)
}

/// Under a lock.
fn read(run: &mut Run<'_, '_>, at: usize) -> Result<u64> {
    let mut value = u64::MAX;
    let to = &raw mut value;
    // SAFETY: as in `put`.
    unsafe { run.window().get(to.cast(), 8, 0, at)? };
    run.window().flush(0)?;
    // SAFETY: a live word, written through this pointer.
    Ok(unsafe { to.read_volatile() })
}
