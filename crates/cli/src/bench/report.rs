//! The table and the JSON file of a benchmark.

use super::timing::Timing;
use crate::mpi;
use anyhow::{Context, Result};
use ferrorail_base::config::TABLE;
use ferrorail_bootstrap::HostInfo;
use ferrorail_mpi_abi::Host;
use serde_json::{Map, Value, json};
use std::path::Path;

/// One size under one algorithm, beside the host's own.
pub struct Row {
    /// Bytes per rank.
    pub bytes: usize,
    /// Forced algorithm or `auto`.
    pub algorithm: String,
    /// Per block and implementation.
    pub iterations: u32,
    /// Ours.
    pub ferrorail: Timing,
    /// The host's.
    pub host: Timing,
}

impl Row {
    /// Ours by the host's, of the medians: below 1 we are faster.
    fn ratio(&self) -> f64 {
        self.ferrorail.median_us() / self.host.median_us()
    }

    fn json(&self) -> Value {
        let timing = |timing: &Timing| {
            json!({
                "median_us": timing.median_us(),
                "min_us": timing.min_us(),
                "blocks_us": timing.blocks_us,
            })
        };
        json!({
            "bytes": self.bytes,
            "algorithm": self.algorithm,
            "iterations": self.iterations,
            "ferrorail": timing(&self.ferrorail),
            "host": timing(&self.host),
            "ratio": self.ratio(),
        })
    }
}

/// Prints the head of the table.
pub fn print_head(ranks: u32, host: &Host) {
    println!(
        "# ferrorail {} all-gather, {ranks} ranks, beside {}",
        env!("CARGO_PKG_VERSION"),
        host.short_version()
    );
    println!("# us per call of the slowest rank: median and minimum over blocks; ratio of medians");
    println!(
        "{:<10} {:<20} {:>12} {:>12} {:>12} {:>12} {:>8}",
        "# Bytes", "Algorithm", "ferrorail", "min", "host", "min", "ratio"
    );
}

/// Prints one line of the table.
pub fn print_row(row: &Row) {
    println!(
        "{:<10} {:<20} {:>12.3} {:>12.3} {:>12.3} {:>12.3} {:>8.3}",
        row.bytes,
        row.algorithm,
        row.ferrorail.median_us(),
        row.ferrorail.min_us(),
        row.host.median_us(),
        row.host.min_us(),
        row.ratio()
    );
}

/// Writes everything that is needed to judge the numbers later.
pub fn write_json(path: &Path, ranks: u32, host: &Host, rows: &[Row]) -> Result<()> {
    let report = json!({
        "benchmark": "allgather",
        "ranks": ranks,
        "machine": machine(),
        "ferrorail": { "version": env!("CARGO_PKG_VERSION"), "library": crate::library::find()? },
        "mpi": mpi::describe(host),
        "settings": given_settings(),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&report)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn machine() -> Value {
    let info = HostInfo::probe();
    let system = nix::sys::utsname::uname().ok();
    let text =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    json!({
        "name": text(system.as_ref().map(|system| system.nodename())),
        "kernel": text(system.as_ref().map(|system| system.release())),
        "cpu": cpu_model(),
        "cores": info.cores,
        "processors": info.processors.len(),
        "numa_nodes": info.numa_nodes.len(),
    })
}

fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The settings of the environment; what is not there has its default.
fn given_settings() -> Value {
    let given = TABLE.iter().filter_map(|setting| {
        Some((
            setting.name.to_owned(),
            Value::from(std::env::var(setting.name).ok()?),
        ))
    });
    Value::Object(given.collect::<Map<_, _>>())
}
