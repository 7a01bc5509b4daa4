//! Multicasts between machines whose rails lose, double and overtake what they carry.

use super::rails::{MULTICASTS, rail};
use super::{check_right, environment, explained, words};
use crate::Setup;
use crate::judge;
use crate::mpi::Mpi;
use crate::stats::Stats;
use anyhow::{Context, Result};
use std::time::Duration;

/// What rails do to packets, how long the messages then are, and how many the root is ahead.
type Network = (&'static [&'static str], [&'static str; 3]);

const NETWORKS: &[Network] = &[
    (&["loss", "0%"], ["13", "4194304", "1000"]),
    (&["loss", "0.1%"], ["13", "4194304", "1000"]),
    (
        &["delay", "300us", "loss", "1%", "reorder", "20%"],
        ["13", "300000", "300"],
    ),
    (&["loss", "5%", "duplicate", "2%"], ["5", "100000", "100"]),
    (&["loss", "20%"], ["5", "20000", "100"]),
];

/// The one that every run tries; those with many failures (`--failures`) try all.
const USUAL: usize = 3;

/// Connections lose as much, and try again that often before another rail takes over.
const RAIL_RETRIES: &str = "7";

/// Broadcasts and all-gathers from every root over lossy rails: no wrong byte, no hang.
pub fn lossy(setup: &Setup) -> Result<()> {
    let networks = match setup.failures as usize > NETWORKS.len() {
        true => NETWORKS,
        false => &NETWORKS[USUAL..=USUAL],
    };
    networks.iter().try_for_each(|network| {
        let rules = [&["slow"], network.0].concat();
        let done = [0, 1]
            .into_iter()
            .try_for_each(|index| rail("all", index, &rules))
            .and_then(|()| run(setup, network));
        for index in [0, 1] {
            rail("all", index, &["restore"])?;
        }
        done.with_context(|| network.0.join(" "))
    })
}

fn run(setup: &Setup, (rules, arguments): &Network) -> Result<()> {
    let folder = judge::fresh_folder(setup)?;
    let statistics = folder.join("stats.json");
    let mut settings = environment(&[
        ("FERRORAIL_FABRIC", "verbs"),
        ("FERRORAIL_RAILS", "2"),
        ("FERRORAIL_RAIL_RETRIES", RAIL_RETRIES),
        (
            "FERRORAIL_ALGORITHM",
            "bcast=smp_multicast,allgather=smp_multicast,allreduce=smp_reduce_multicast",
        ),
    ]);
    settings.insert("FERRORAIL_STATS".into(), statistics.display().to_string());
    let program = words(setup, Mpi::Mpich, MULTICASTS, arguments)?;
    let hosts = (4, setup.hosts(2)?);
    let limit = Duration::from_secs(240);
    let job = judge::launch_on(setup, Mpi::Mpich, hosts, &settings, &program, limit);
    let outcome = job.run(&folder)?;
    let right = judge::check_end(&outcome).and_then(|()| {
        check_right(&outcome)?;
        let stats = Stats::read(&statistics)?;
        stats.check_multicast(&["messages", "no refused"].map(str::to_owned))?;
        let counters = serde_json::to_string(&stats.multicast)?;
        println!(
            "     {}: {:.1?}, {counters}",
            rules.join(" "),
            outcome.elapsed
        );
        Ok(())
    });
    explained(&job, &outcome, right)
}
