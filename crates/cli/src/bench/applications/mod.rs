//! `bench apps`: the applications of Qian and Afsahi (Cluster Computing 2008, table 1) with and without
//! ferrorail. They are compiled with the MPI library's own compiler and run as jobs of their own, whose
//! times they measure themselves.

mod job;
mod program;
mod report;

use super::figures::{self, Figure};
use super::timing::Timing;
use crate::{library, mpi};
use anyhow::{Result, bail};
use job::{By, Job, Launcher};
use program::{APPLICATIONS, Application, Folder};
use std::path::PathBuf;

/// What asks for all of it.
pub const NAME: &str = "apps";
/// The figure it repeats.
const FIGURE: &str = "qian2008:table1";
/// Ranks of jobs, one after another.
const RANKS: &[usize] = &[2, 4, 8, 16];
/// Jobs for each number of a table.
const BLOCKS: u32 = 5;

/// What is to be run, and by what.
#[derive(clap::Args)]
pub struct Options {
    /// With `apps`: folder with nbody.c and radix.c [default: tests/apps of the tree
    /// that this command was built in]
    #[arg(long, value_name = "FOLDER")]
    sources: Option<PathBuf>,
    /// With `apps`: the MPI library's compiler
    #[arg(long, value_name = "COMMAND", default_value = "mpicc")]
    compiler: String,
    /// With `apps`: the MPI library's launcher, which takes -n
    #[arg(long, value_name = "COMMAND", default_value = "mpirun")]
    launcher: String,
}

/// What is measured.
pub struct Plan<'a> {
    options: &'a Options,
    figure: &'static Figure,
    ranks: Vec<usize>,
    spreads: &'static [Spread],
    blocks: u32,
    iterations: Option<u32>,
    json: Option<PathBuf>,
}

/// Where the ranks of a job are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// On the nodes that they are on.
    Natural,
    /// On virtual nodes, as the paper's.
    Virtual,
}

impl Spread {
    const fn name(self) -> &'static str {
        match self {
            Self::Natural => "natural",
            Self::Virtual => "virtual",
        }
    }

    /// What is compared there: the paper's native all-gather stands for its machine's.
    const fn compared(self) -> &'static [By] {
        match self {
            Self::Natural => &[By::Host, By::Library],
            Self::Virtual => &[By::Host, By::Native, By::Library],
        }
    }
}

/// Jobs of one application with the same ranks, by one of those compared.
struct Row {
    application: &'static Application,
    spread: Spread,
    ranks: usize,
    by: By,
    /// Of the slowest rank.
    total: Timing,
    communication: Timing,
}

impl<'a> Plan<'a> {
    /// What `args` ask for; `None` if they ask for something else.
    ///
    /// # Errors
    /// One line about what does not fit.
    pub fn new(args: &'a super::Args) -> Result<Option<Self>> {
        let is_one = |name: &String| name == NAME || name == FIGURE;
        if !args.collectives.iter().any(is_one) {
            return Ok(None);
        }
        if args.collectives.len() > 1 {
            bail!("{NAME} starts jobs of its own: ask for nothing else beside it");
        }
        if !args.is_for_applications() {
            bail!(
                "{NAME} takes --job-sizes, --iterations, --blocks, --json, --sources, --compiler and --launcher only"
            );
        }
        if mpi::is_in_a_job() {
            bail!("{NAME} starts jobs of its own: run it without mpirun");
        }
        let figure = figures::named(&[FIGURE.to_owned()])?.expect("the figure is listed");
        let is_all = args.collectives[0] == NAME;
        let usual = match is_all {
            true => RANKS.to_vec(),
            false => vec![figure.machine.ranks as usize],
        };
        let ranks = args.job_sizes.clone().map_or(usual, |sizes| sizes.0);
        if let Some(few) = ranks.iter().find(|&&ranks| ranks < 2) {
            bail!("a job of {few} ranks does not communicate");
        }
        Ok(Some(Self {
            options: &args.applications,
            figure,
            ranks,
            spreads: match is_all {
                true => &[Spread::Natural, Spread::Virtual],
                false => &[Spread::Virtual],
            },
            blocks: args.blocks.unwrap_or(BLOCKS),
            iterations: args.iterations,
            json: args.json.clone(),
        }))
    }
}

/// Its line in the list.
pub fn listed() {
    outln!("{NAME:<15} N-BODY and RADIX with and without ferrorail, on natural and virtual nodes");
    outln!("{:<15} $ ferrorail bench {NAME}", "");
}

/// Compiles, runs and prints.
///
/// # Errors
/// One line: no sources, compiler or launcher; a job failed, gave another result with ferrorail than without,
/// or ferrorail did not take its all-gathers.
pub fn run(plan: &Plan) -> Result<()> {
    library::find()?;
    let sources = program::sources(plan.options.sources.as_deref())?;
    let folder = Folder::new()?;
    let launcher = Launcher::new(&plan.options.launcher, &folder, &plan.figure.machine);
    report::print_head(plan);
    let mut rows = Vec::new();
    for application in APPLICATIONS {
        let program = program::compile(&plan.options.compiler, &sources, &folder, application)?;
        for &ranks in &plan.ranks {
            for &spread in plan.spreads {
                let job = Job {
                    launcher: &launcher,
                    program: &program,
                    arguments: application.arguments(plan.iterations),
                    ranks,
                    is_virtual: spread == Spread::Virtual,
                };
                let measured = measure(&job, plan, application, spread)?;
                report::print_rows(&measured);
                rows.extend(measured);
            }
        }
    }
    report::finish(plan, &rows)
}

/// Jobs of those compared in turn, so that what disturbs the machine hits all alike.
fn measure(
    job: &Job,
    plan: &Plan,
    application: &'static Application,
    spread: Spread,
) -> Result<Vec<Row>> {
    let row = |&by: &By| Row {
        application,
        spread,
        ranks: job.ranks,
        by,
        total: Timing::default(),
        communication: Timing::default(),
    };
    let mut rows: Vec<Row> = spread.compared().iter().map(row).collect();
    let mut result: Option<String> = None;
    for _ in 0..plan.blocks {
        for row in &mut rows {
            let outcome = job.run(row.by)?;
            let first = result.get_or_insert_with(|| outcome.hash.clone());
            if *first != outcome.hash {
                bail!(
                    "{} on {} ranks gives another result by {}: {} instead of {first}",
                    application.name,
                    job.ranks,
                    row.by.name(),
                    outcome.hash
                );
            }
            row.total.blocks_us.push(outcome.total_us);
            row.communication.blocks_us.push(outcome.communication_us);
        }
    }
    Ok(rows)
}
