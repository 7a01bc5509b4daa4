//! The table, the summary and the JSON file.

use super::Plan;
use super::figures::{Cell, Figure, Kind};
use crate::bench::chart::{Chart, X};
use crate::bench::figures::{self as papers, HOST, Sample, Unit};
use crate::bench::report::{SLOWER, print_title, write_report};
use crate::bench::timing::{Means, Timing};
use anyhow::{Result, bail};
use ferrorail_mpi_abi::Host;
use serde_json::{Value, json};
use std::path::Path;

/// One point of a figure under one setting of ours, beside the host's own.
pub struct Row {
    /// The figure.
    pub figure: &'static Figure,
    /// The point.
    pub cell: Cell,
    /// Operations of a burst.
    pub burst: usize,
    /// The value that is compared with others.
    pub setting: Option<String>,
    /// Per block and implementation.
    pub iterations: u32,
    /// Whether ferrorail left calls to the host: the row then says nothing about it.
    pub forwarded: bool,
    /// Ours.
    pub ferrorail: Timing,
    /// The host's.
    pub host: Option<Timing>,
    /// Of send and receive.
    pub baseline: Option<Timing>,
}

/// What is shown where there is no number.
const NOTHING: &str = "-";

impl Row {
    /// Ours by the other's, of the medians: below 1 we are faster. Differences of times may be
    /// negative; they have no ratio.
    fn ratio_to(&self, other: Option<&Timing>) -> Option<f64> {
        let (ours, other) = (self.ferrorail.median_us(), other?.median_us());
        (ours > 0.0 && other > 0.0).then(|| ours / other)
    }

    fn ratio(&self) -> Option<f64> {
        self.ratio_to(self.host.as_ref())
    }

    fn name(&self) -> String {
        format!("{} {}", self.figure.name, self.cell.variant)
    }

    /// Bytes of an iteration, of all origins.
    fn burst_bytes(&self) -> Option<u64> {
        let origins = if self.figure.many_origins {
            self.cell.parameter
        } else {
            1
        };
        let bytes = (self.cell.bytes * self.burst) as u64 * origins;
        (self.figure.kind == Kind::Burst).then_some(bytes)
    }

    fn parameter(&self) -> Option<(&'static str, u64)> {
        let (name, _) = self.figure.parameter?;
        Some((name, self.cell.parameter))
    }

    fn json(&self) -> Value {
        let unit = match self.figure.kind {
            Kind::Messages => "messages",
            Kind::Percent => "%",
            Kind::Time | Kind::MeanTime | Kind::Burst => "us",
        };
        let timing = |timing: &Timing| {
            json!({
                "median": timing.median_us(),
                "min": timing.min_us(),
                "blocks": timing.blocks_us,
            })
        };
        json!({
            "figure": self.figure.name,
            "variant": self.cell.variant,
            "unit": unit,
            "bytes": self.cell.bytes,
            "parameter": self.parameter().map(|(name, value)| json!({ "name": name, "value": value })),
            "setting": self.setting,
            "iterations": self.iterations,
            "burst_bytes": self.burst_bytes(),
            "forwarded": self.forwarded,
            "ferrorail": timing(&self.ferrorail),
            "host": self.host.as_ref().map(timing),
            "send_receive": self.baseline.as_ref().map(timing),
            "ratio": self.ratio(),
        })
    }
}

/// Prints the head of the table.
pub fn print_head(ranks: u32, host: &Host, plan: &Plan) {
    print_title(ranks, host);
    if let Some((paper, _)) = plan.paper {
        papers::print_head(paper);
    }
    let mut kinds = plan.figures.iter().map(|figure| figure.kind);
    let others = match kinds.any(|kind| matches!(kind, Kind::Messages | Kind::Percent)) {
        true => ", but messages of rma-messages and per cent of a core of rma-idle",
        false => "",
    };
    outln!("# us of the slowest rank{others}: median and minimum over blocks; ratio of medians");
    out!(
        "{:<16} {:<18} {:<9} {:<14} {:<13} {:>10} {:>10} {:>10} {:>10} {:>7}",
        "# Figure",
        "Variant",
        "Bytes",
        "With",
        "Setting",
        "ferrorail",
        "min",
        "host",
        "min",
        "ratio"
    );
    if plan.baseline.is_some() {
        out!(" {:>12} {:>7}", "send-receive", "ratio");
    }
    outln!();
}

/// Prints one line of the table.
pub fn print_row(row: &Row) {
    let number =
        |value: Option<f64>| value.map_or(NOTHING.to_owned(), |value| format!("{value:.3}"));
    let host = row.host.as_ref();
    let with = row.parameter();
    let with = with.map_or(NOTHING.to_owned(), |(name, value)| {
        format!("{name}={value}")
    });
    out!(
        "{:<16} {:<18} {:<9} {:<14} {:<13} {:>10.3} {:>10.3} {:>10} {:>10} {:>7}",
        row.figure.name,
        row.cell.variant,
        row.cell.bytes,
        with,
        row.setting.as_deref().unwrap_or(NOTHING),
        row.ferrorail.median_us(),
        row.ferrorail.min_us(),
        number(host.map(Timing::median_us)),
        number(host.map(Timing::min_us)),
        number(row.ratio()),
    );
    if let Some(baseline) = &row.baseline {
        let ratio = number(row.ratio_to(Some(baseline)));
        out!(" {:>12.3} {ratio:>7}", baseline.median_us());
    }
    if let Some(bytes) = row.burst_bytes() {
        out!("  {:.0} MB/s", bytes as f64 / row.ferrorail.median_us());
        if let Some(host) = host {
            out!(", host {:.0}", bytes as f64 / host.median_us());
        }
    }
    outln!("{}", if row.forwarded { " forwarded" } else { "" });
}

/// Means of the ratios to the host of rows that ferrorail took.
fn means(rows: &[Row]) -> Means {
    Means::of(rows.iter().map(|row| {
        let ratio = row.ratio().filter(|_| !row.forwarded);
        (row.name(), ratio)
    }))
}

/// The medians that count, in the unit that is shown.
fn samples(rows: &[Row], plan: &Plan) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for row in rows {
        let part = plan.part(row.cell.variant);
        let value = |time_us: f64| match (unit(row, plan), row.burst_bytes()) {
            (Unit::Bandwidth, Some(bytes)) => bytes as f64 / time_us,
            _ => time_us,
        };
        let sample = |curve: &str, timing: &Timing| Sample {
            panel: part.map_or_else(|| row.name(), |part| part.panel.to_owned()),
            curve: curve.to_owned(),
            x: match row.figure.parameter {
                Some(_) => row.cell.parameter,
                None => row.cell.bytes as u64,
            },
            ranks: 0,
            value: value(timing.median_us()),
            best: value(timing.min_us()),
        };
        let mut add = |sample: Sample| {
            let is_new = !samples.iter().any(|other| other.is_at(&sample));
            samples.extend(is_new.then_some(sample));
        };
        if let Some(part) = part.filter(|part| !part.curve.is_empty()) {
            add(sample(&part.curve, &row.ferrorail));
            continue;
        }
        if let Some(host) = &row.host {
            add(sample(HOST, host));
        }
        if let Some(baseline) = &row.baseline {
            let names = plan.paper.map(|(_, shown)| shown.messages.as_str());
            let name = names.filter(|name| !name.is_empty());
            add(sample(name.unwrap_or("send-receive"), baseline));
        }
        if !row.forwarded {
            add(sample(
                row.setting.as_deref().unwrap_or("ferrorail"),
                &row.ferrorail,
            ));
        }
    }
    samples
}

fn unit(row: &Row, plan: &Plan) -> Unit {
    match (plan.paper, row.figure.kind) {
        (Some((paper, _)), _) => paper.unit,
        (None, Kind::Burst) => Unit::Bandwidth,
        (None, Kind::Messages) => Unit::Messages,
        (None, Kind::Percent) => Unit::Percent,
        (None, Kind::Time | Kind::MeanTime) => Unit::Time,
    }
}

/// Draws what was asked to be drawn: one benchmark.
pub fn plot(rows: &[Row], plan: &Plan) -> Result<()> {
    let (Some(path), Some(row)) = (&plan.args.plot, rows.first()) else {
        return Ok(());
    };
    let alike = |other: &Row| std::ptr::eq(other.figure, row.figure);
    if !rows.iter().all(alike) {
        bail!("--plot draws one benchmark at a time");
    }
    let samples = samples(rows, plan);
    let is_one_point = samples.iter().all(|sample| sample.x == samples[0].x);
    let chart = Chart {
        name: plan.paper.map_or(row.figure.name, |(paper, _)| &paper.name),
        title: plan
            .paper
            .map_or(row.figure.about, |(paper, _)| &paper.title),
        x: match row.figure.parameter {
            Some((name, _)) => X::Parameter(name),
            None if is_one_point => X::Parts,
            None => X::Bytes,
        },
        unit: unit(row, plan),
    };
    chart.write(path, &samples)
}

/// Prints means, and what is slower than the host's.
pub fn print_summary(rows: &[Row], plan: &Plan) {
    outln!("#\n# Geometric means of the ratios");
    let means = means(rows);
    for (name, mean) in means.by_name {
        let mean = mean.map_or(NOTHING.to_owned(), |mean| format!("{mean:.3}"));
        outln!("# {name:<32} {mean:>8}");
    }
    if let Some(mean) = means.all {
        outln!("# {:<32} {mean:>8.3}", "all");
    }
    let is_slower = |row: &&Row| !row.forwarded && row.ratio().is_some_and(|ratio| ratio > SLOWER);
    let slower = rows.iter().filter(is_slower).count();
    outln!(
        "# Rows slower than {SLOWER} times the host's: {slower} of {}",
        rows.len()
    );
    let forwarded = rows.iter().filter(|row| row.forwarded).count();
    if forwarded > 0 {
        outln!("# Rows left to the host, in no mean: {forwarded}");
    }
    if let Some((paper, _)) = plan.paper {
        papers::print(paper, &samples(rows, plan));
    }
}

/// Writes everything that is needed to judge the numbers later.
pub fn write_json(path: &Path, ranks: u32, host: &Host, plan: &Plan, rows: &[Row]) -> Result<()> {
    let report = json!({
        "benchmark": "one-sided",
        "figure": plan.paper.map(|(paper, _)| papers::json(paper, &samples(rows, plan))),
        "ranks": ranks,
        "burst": plan.args.burst,
        "window": format!("{:?}", plan.args.window).to_lowercase(),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    write_report(path, host, report, means(rows))
}
