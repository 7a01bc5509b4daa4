//! The statistics tell all calls of all ranks, whichever communicators they were on.

use super::{job, run};
use crate::Setup;
use crate::mpi::Mpi;
use anyhow::{Context, Result, ensure};

const PROGRAM: &str = "c/counted_calls.c";

/// Compares them with what the program counted.
pub fn complete(setup: &Setup, mpi: Mpi) -> Result<()> {
    let jobs: [(u32, &str, &str, &[&str]); 6] = [
        (1, "0", "1", &["alive"]),
        (4, "0", "1", &["alive"]),
        (5, "2", "1", &["freed"]),
        (5, "1", "1", &["alive", "world"]),
        (3, "0", "0", &["alive"]),
        (3, "0", "0", &["freed", "world"]),
    ];
    for (ranks, node_size, enable, arguments) in jobs {
        one(setup, mpi, ranks, (node_size, enable), arguments).with_context(|| {
            let words = arguments.join(" ");
            format!("{ranks} ranks, nodes of {node_size}, FERRORAIL_ENABLE={enable}, {words}")
        })?;
    }
    Ok(())
}

fn one(
    setup: &Setup,
    mpi: Mpi,
    ranks: u32,
    (node_size, enable): (&str, &str),
    arguments: &[&str],
) -> Result<()> {
    let settings = [
        ("FERRORAIL_FABRIC", "loopback"),
        ("FERRORAIL_NODE_SIZE", node_size),
        ("FERRORAIL_ENABLE", enable),
    ];
    let job = job(setup, mpi, ranks, (PROGRAM, arguments), &settings)?;
    let (outcome, stats) = run(setup, job)?;
    let number = |name: &str| -> Result<u64> {
        let (_, rest) = outcome.stdout.split_once(name).context("no number")?;
        Ok(rest.split_whitespace().next().unwrap_or("").parse()?)
    };
    let (calls, left) = (number("calls=")?, number("left=")?);
    let taken: u64 = stats.collectives.iter().map(|row| row.calls).sum();
    let forwarded: u64 = stats.forwarded.iter().map(|row| row.calls).sum();
    let expected = match enable {
        "0" => (0, calls + left),
        _ => (calls, left),
    };
    ensure!(
        (taken, forwarded) == expected,
        "{taken} calls taken and {forwarded} left, of {calls} and {left}"
    );
    let share = &stats.collective_calls;
    ensure!(
        (share.taken, share.all) == (taken, calls + left),
        "the share is of {share:?}"
    );
    Ok(())
}
