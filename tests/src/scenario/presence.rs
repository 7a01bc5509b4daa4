//! Ranks that make ferrorail keep away from communicators.

use super::{LIMIT, check_right, environment, job, one_line, preload, preloads, rails, run, words};
use crate::Setup;
use crate::judge;
use crate::mpi::Mpi;
use crate::program;
use anyhow::{Context, Result, ensure};

/// One of the ranks loads a driver for devices, after the world was used.
pub fn device_memory(setup: &Setup, mpi: Mpi) -> Result<()> {
    let driver = setup.work.join("libcuda.so.1");
    program::build_library(setup, &driver, "aids/device_driver.c")?;
    let driver = driver.display().to_string();
    for node_size in ["0", "1"] {
        for setting in ["auto", "none"] {
            let settings = [
                ("FERRORAIL_FABRIC", "loopback"),
                ("FERRORAIL_NODE_SIZE", node_size),
                ("FERRORAIL_DEVICE_MEMORY", setting),
            ];
            let program: (_, &[&str]) = ("c/device_memory.c", &[&driver, "1"]);
            let (outcome, stats) = run(setup, job(setup, mpi, 5, program, &settings)?)?;
            let particulars = || format!("nodes of {node_size}, {setting}");
            check_right(&outcome)?;
            stats.check_taken().with_context(particulars)?;
            let reasons: &[&str] = match setting {
                "none" => &[],
                _ => &["device memory possible", "not a window of ferrorail"],
            };
            let reasons: Vec<String> = reasons.iter().map(|&reason| reason.into()).collect();
            stats.check_forwarded(&reasons).with_context(particulars)?;
            match setting {
                "none" => judge::check_silence(&outcome.stderr)?,
                _ => drop(one_line(&outcome, "FERRORAIL_DEVICE_MEMORY=none")?),
            }
        }
    }
    Ok(())
}

/// A program that never calls `MPI_Init` runs as without ferrorail, which leaves no statistics then.
pub fn sessions_alone(setup: &Setup, mpi: Mpi) -> Result<()> {
    let settings = [("FERRORAIL_FABRIC", "loopback")];
    let mut job = job(setup, mpi, 3, ("c/sessions.c", &["alone"]), &settings)?;
    job.timeout = LIMIT / 2;
    let outcome = job.run(&judge::fresh_folder(setup)?)?;
    judge::check_end(&outcome).with_context(|| judge::excerpt(&outcome))?;
    check_right(&outcome)?;
    judge::check_silence(&outcome.stderr)
}

/// The launcher's environment preloads, which Open MPI does not pass on to other hosts: the job runs right
/// without ferrorail, and one line says whom it lacks.
pub fn preload_on_one_host(setup: &Setup) -> Result<()> {
    let program = words(setup, Mpi::Open, rails::SIZES, &["65536"])?;
    let hosts = (4, setup.hosts(2)?);
    let none = environment(&[]);
    let mut job = judge::launch_on(setup, Mpi::Open, hosts, &none, &program, 2 * LIMIT);
    preloads(&mut job)?;
    job.words.retain(|word| !word.starts_with("LD_PRELOAD="));
    job.environment.extend(preload(setup)?);
    let (outcome, stats) = run(setup, job)?;
    let judged = || -> Result<()> {
        ensure!(outcome.stdout.contains("right=yes"), "wrong data");
        let line = one_line(&outcome, "without ferrorail")?;
        ensure!(line.contains("mpirun -x LD_PRELOAD"), "no remedy: {line}");
        ensure!(stats.collectives.is_empty(), "some calls were taken");
        stats.check_forwarded(&["ranks without ferrorail".to_owned()])
    };
    judged().with_context(|| judge::excerpt(&outcome))
}
