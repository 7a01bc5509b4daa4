//! The table and the JSON file of applications.

use super::{By, Plan, Row, Spread};
use crate::bench::figures::{self, Sample};
use crate::bench::report::save;
use anyhow::Result;
use serde_json::{Value, json};

/// Prints the head of the table.
pub fn print_head(plan: &Plan) {
    outln!(
        "# Applications by {}, compiled by {}: jobs with and without ferrorail in turn",
        plan.options.launcher,
        plan.options.compiler
    );
    figures::print_head(plan.figure);
    let machine = &plan.figure.machine;
    let model = machine.settings(machine.ranks as usize, true, |_| false);
    let model: Vec<_> = model
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    outln!(
        "# virtual, for {} ranks: {}",
        machine.ranks,
        model.join(" ")
    );
    outln!(
        "# ms of the slowest rank, medians; speed-up over the host: of medians, and of the least disturbed jobs in parentheses"
    );
    outln!(
        "{:<13} {:<8} {:>5} {:<12} {:>10} {:>14} {:>16} {:>16}",
        "# Application",
        "Nodes",
        "Ranks",
        "By",
        "total",
        "communication",
        "application x",
        "communication x"
    );
}

/// How many times as fast as `base`: medians, and least disturbed.
fn gains(row: &Row, base: &Row) -> [[f64; 2]; 2] {
    [
        (&row.total, &base.total),
        (&row.communication, &base.communication),
    ]
    .map(|(ours, theirs)| {
        [
            theirs.median_us() / ours.median_us(),
            theirs.min_us() / ours.min_us(),
        ]
    })
}

/// Prints lines of those compared, the host first.
pub fn print_rows(rows: &[Row]) {
    for row in rows {
        let gains = gains(row, &rows[0]).map(|[median, best]| format!("{median:.2} ({best:.2})"));
        outln!(
            "{:<13} {:<8} {:>5} {:<12} {:>10.2} {:>14.2} {:>16} {:>16}",
            row.application.name,
            row.spread.name(),
            row.ranks,
            row.by.name(),
            row.total.median_us() / 1e3,
            row.communication.median_us() / 1e3,
            gains[0],
            gains[1],
        );
    }
}

/// What the paper's table is made of: virtual nodes, as its own.
fn samples(rows: &[Row]) -> Vec<Sample> {
    let rows = rows.iter().filter(|row| row.spread == Spread::Virtual);
    rows.flat_map(|row| {
        let times = [
            ("application", &row.total),
            ("communication", &row.communication),
        ];
        times.map(|(what, timing)| Sample {
            panel: format!("{}, {what}", row.application.name),
            curve: row.by.name().to_owned(),
            x: 0,
            ranks: row.ranks,
            value: timing.median_us(),
            best: timing.min_us(),
        })
    })
    .collect()
}

fn json_of(row: &Row, base: &Row) -> Value {
    let [application, communication] = gains(row, base).map(|[median, _]| median);
    json!({
        "application": row.application.name,
        "nodes": row.spread.name(),
        "ranks": row.ranks,
        "by": row.by.name(),
        "total_us": row.total.blocks_us,
        "communication_us": row.communication.blocks_us,
        "application_speedup": application,
        "communication_speedup": communication,
    })
}

/// Prints what the paper found, and writes what was asked for.
pub fn finish(plan: &Plan, rows: &[Row]) -> Result<()> {
    let samples = samples(rows);
    figures::print(plan.figure, &samples);
    let Some(path) = &plan.json else {
        return Ok(());
    };
    let tables = rows.chunk_by(|_, next| next.by != By::Host);
    let report = json!({
        "benchmark": super::NAME,
        "figure": figures::json(plan.figure, &samples),
        "launcher": plan.options.launcher,
        "compiler": plan.options.compiler,
        "rows": tables.flat_map(|rows| rows.iter().map(|row| json_of(row, &rows[0]))).collect::<Value>(),
    });
    save(path, report)
}
