//! The table and the JSON file of transfers.

use super::{Plan, Row};
use crate::bench::chart::{Chart, X};
use crate::bench::figures::{self, Sample, Unit};
use crate::bench::report::{print_title, write_report};
use crate::bench::timing::Means;
use anyhow::Result;
use ferrorail_mpi_abi::Host;
use serde_json::{Value, json};

impl Row {
    /// MB/s of all that moves at once.
    fn bandwidth(&self, time_us: f64) -> f64 {
        (self.bytes * self.transfer.at_once()) as f64 / time_us
    }

    fn sample(&self, unit: Unit) -> Sample {
        let value = |time_us| match unit {
            Unit::Bandwidth => self.bandwidth(time_us),
            _ => time_us,
        };
        Sample {
            panel: String::new(),
            curve: self.curve.to_owned(),
            x: self.bytes as u64,
            ranks: 0,
            value: value(self.timing.median_us()),
            best: value(self.timing.min_us()),
        }
    }

    fn json(&self) -> Value {
        json!({
            "curve": self.curve,
            "ranks": self.ranks,
            "bytes": self.bytes,
            "iterations": self.iterations,
            "median_us": self.timing.median_us(),
            "min_us": self.timing.min_us(),
            "mb_per_s": self.bandwidth(self.timing.median_us()),
            "blocks_us": self.timing.blocks_us,
        })
    }
}

/// Prints the head of the table.
pub fn print_head(ranks: u32, host: &Host, plan: &Plan) {
    print_title(ranks, host);
    figures::print_head(plan.figure);
    outln!(
        "# us per message of the slowest rank: median and minimum over blocks; MB/s of all at once"
    );
    outln!(
        "{:<20} {:<10} {:>6} {:>12} {:>12} {:>12}",
        "# Curve",
        "Bytes",
        "Ranks",
        "median",
        "min",
        "MB/s"
    );
}

/// Prints one line of the table.
pub fn print_row(row: &Row) {
    outln!(
        "{:<20} {:<10} {:>6} {:>12.3} {:>12.3} {:>12.2}",
        row.curve,
        row.bytes,
        row.ranks,
        row.timing.median_us(),
        row.timing.min_us(),
        row.bandwidth(row.timing.median_us())
    );
}

/// Prints what the paper found, and writes what was asked for.
pub fn finish(rows: &[Row], host: &Host, ranks: u32, plan: &Plan) -> Result<()> {
    let unit = plan.figure.unit;
    let samples: Vec<Sample> = rows.iter().map(|row| row.sample(unit)).collect();
    figures::print(plan.figure, &samples);
    if let Some(path) = &plan.args.plot {
        let chart = Chart {
            name: &plan.figure.name,
            title: &plan.figure.title,
            x: X::Bytes,
            unit,
        };
        chart.write(path, &samples)?;
    }
    let Some(path) = &plan.args.json else {
        return Ok(());
    };
    let report = json!({
        "benchmark": "transfers",
        "figure": figures::json(plan.figure, &samples),
        "ranks": ranks,
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    write_report(path, host, report, Means::of(std::iter::empty()))
}
