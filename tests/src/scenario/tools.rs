//! Tools that wrap MPI calls: in front of ferrorail, behind it, in the program; and what the MPI library
//! calls by itself.

use super::{check_right, job, one_line, preload_in_front, preloads, run};
use crate::Setup;
use crate::job::Outcome;
use crate::mpi::Mpi;
use crate::program;
use crate::stats::Stats;
use anyhow::{Context, Result, ensure};

const WINDOWS: &str = "c/win_check.c";
const COLLECTIVES: &str = "c/collectives_check.c";
const FILES: &str = "c/files.c";

/// Programs under a tool, with their arguments and the reasons for which calls are left to the host.
const PROGRAMS: [(&str, &[&str], &[&str]); 2] = [
    (WINDOWS, &["allocate", "create"], &[]),
    (COLLECTIVES, &["20000", "1", "200"], &["inter-communicator"]),
];

/// Those in Fortran, which pass through a tool written in C where the host's bindings do.
const FORTRAN: [&str; 2] = ["c/windows_f08.f90", "c/allgather_f08.f90"];

/// Where a tool stands.
#[derive(Clone, Copy)]
enum Place {
    Front,
    Behind,
}

/// A tool in front sees every call, and ferrorail takes what it makes of them.
pub fn in_front(setup: &Setup, mpi: Mpi) -> Result<()> {
    all(setup, mpi, Place::Front)
}

/// A tool behind sees what ferrorail leaves; it disturbs nothing.
pub fn behind(setup: &Setup, mpi: Mpi) -> Result<()> {
    all(setup, mpi, Place::Behind)
}

fn all(setup: &Setup, mpi: Mpi, place: Place) -> Result<()> {
    for &wrapped in setup.drawn(&["ALL", "SOME", "COMPLETION"]) {
        let tool = program::build_tool(setup, mpi, wrapped)?
            .display()
            .to_string();
        for (source, arguments, reasons) in PROGRAMS {
            let (outcome, stats) = with_tool(setup, mpi, place, &tool, (source, arguments))
                .with_context(|| format!("{source} under a tool that wraps {wrapped}"))?;
            check_right(&outcome)?;
            stats.check_taken()?;
            let reasons: Vec<_> = reasons.iter().map(|&reason| reason.to_owned()).collect();
            stats.check_forwarded(&reasons)?;
            let seen = seen_by_tool(&outcome)?;
            ensure!(
                matches!(place, Place::Behind) || seen > 100,
                "{source}: the tool that wraps {wrapped} saw {seen} calls"
            );
        }
        let fortran = FORTRAN
            .iter()
            .filter(|_| wrapped == "ALL" && mpi != Mpi::Abi);
        for source in fortran {
            let (outcome, stats) = with_tool(setup, mpi, place, &tool, (source, &[]))?;
            check_right(&outcome)?;
            stats.check_taken()?;
            stats.check_forwarded(&[])?;
        }
    }
    Ok(())
}

/// A library that answers `PMPI_*` itself would hide calls of tools: all is left to the host, with a
/// line that says so.
pub fn rival(setup: &Setup, mpi: Mpi) -> Result<()> {
    let tool = program::build_tool(setup, mpi, "RIVAL")?
        .display()
        .to_string();
    let program: (_, &[&str]) = (COLLECTIVES, &["20000", "1", "200"]);
    let (outcome, stats) = with_tool(setup, mpi, Place::Front, &tool, program)?;
    check_right(&outcome)?;
    let reasons = [
        "inter-communicator",
        "PMPI_* bypasses ferrorail (see the warning)",
    ];
    stats.check_forwarded(&reasons.map(str::to_owned))?;
    let line = one_line(&outcome, "PMPI_*")?;
    ensure!(
        line.contains("tool_rival"),
        "the library is not named: {line}"
    );
    Ok(())
}

/// What the MPI library does for files goes through `PMPI_*` in MPICH, and stays its own.
pub fn files(setup: &Setup, mpi: Mpi) -> Result<()> {
    let (outcome, stats) = run(setup, job(setup, mpi, 2, (FILES, &[]), &SHAPE)?)?;
    check_right(&outcome)?;
    stats.check_forwarded(&[])?;
    let others: Vec<_> = stats
        .collectives
        .iter()
        .filter(|row| row.collective != "barrier")
        .map(|row| row.collective.as_str())
        .collect();
    ensure!(
        others.is_empty(),
        "the program only calls barriers, not {others:?}"
    );
    ensure!(stats.windows.is_empty(), "the program makes no window");
    Ok(())
}

const SHAPE: [(&str, &str); 2] = [
    ("FERRORAIL_FABRIC", "loopback"),
    ("FERRORAIL_NODE_SIZE", "2"),
];

fn with_tool(
    setup: &Setup,
    mpi: Mpi,
    place: Place,
    tool: &str,
    program: (&str, &[&str]),
) -> Result<(Outcome, Stats)> {
    let mut job = job(setup, mpi, 3, program, &SHAPE)?;
    match place {
        Place::Front => preload_in_front(&mut job, tool)?,
        Place::Behind => preloads(&mut job)?.push_str(&format!(":{tool}")),
    }
    run(setup, job)
}

/// How many calls the tool says it saw.
fn seen_by_tool(outcome: &Outcome) -> Result<u64> {
    let (_, rest) = outcome
        .stdout
        .split_once("tool: ")
        .context("the tool said nothing")?;
    Ok(rest.split_whitespace().next().unwrap_or("").parse()?)
}
