//! The table, the summary and the JSON file of a benchmark.

use super::bounds::{self, Bounds};
use super::chart::{Chart, X};
use super::figures::{self, HOST, Sample, Unit};
use super::operation::Operation;
use super::outcome::Outcome;
use super::plan::Plan;
use super::row::Row;
use super::timing::{Means, Timing};
use crate::mpi;
use anyhow::{Context, Result};
use ferrorail_base::config::TABLE;
use ferrorail_base::units::format_bytes;
use ferrorail_bootstrap::HostInfo;
use ferrorail_mpi_abi::Host;
use nix::unistd::SysconfVar;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Cells that take longer than this times the host's are listed.
pub const SLOWER: f64 = 1.1;

/// Means over the cells that ferrorail took.
fn means(rows: &[Row]) -> Means {
    Means::of(rows.iter().map(|row| {
        let ratio = row.counts().then(|| row.ratio());
        (row.kind(), ratio)
    }))
}

/// Cells slower than the host's, slowest first.
fn slower(rows: &[Row]) -> Vec<&Row> {
    let is_slower = |row: &&Row| row.counts() && row.ratio() > SLOWER;
    let mut slower: Vec<&Row> = rows.iter().filter(is_slower).collect();
    slower.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    slower
}

/// Prints what is measured where.
pub fn print_title(ranks: u32, host: &Host) {
    let (version, host) = (env!("CARGO_PKG_VERSION"), host.short_version());
    outln!("# ferrorail {version}, {ranks} ranks, beside {host}");
}

/// Prints the head of the table.
pub fn print_head(ranks: u32, host: &Host, plan: &Plan) {
    print_title(ranks, host);
    if let Some(figure) = plan.figure {
        figures::print_head(figure);
    }
    if !plan.shows_rows {
        return;
    }
    outln!("# us per call of the slowest rank: median and minimum over blocks; ratio of medians");
    if plan.bounds {
        outln!("# bound: what this machine needs at least; by bound: ferrorail's median by that");
    }
    let ranks = if plan.shows_ranks() { " Ranks " } else { "" };
    let bound = match plan.bounds {
        true => format!(" {:>12} {:>8}", "bound", "by bound"),
        false => String::new(),
    };
    outln!(
        "{:<20} {:<10}{ranks} {:<width$} {:>12} {:>12} {:>12} {:>12} {:>8}{bound}",
        "# Collective",
        "Bytes",
        "Algorithm",
        "ferrorail",
        "min",
        "host",
        "min",
        "ratio",
        width = plan.label_width()
    );
}

/// Prints what is measured next, where rows are not shown.
pub fn print_progress(operation: &Operation, ranks: usize, contenders: usize) {
    let name = operation.name;
    outln!("# {name:<20} {ranks} ranks, {contenders} ways beside the host's");
}

/// Prints one line of the table.
pub fn print_row(row: &Row, plan: &Plan) {
    let ranks = match plan.shows_ranks() {
        true => format!(" {:<6}", row.ranks),
        false => String::new(),
    };
    let bound = if plan.bounds {
        bound(row)
    } else {
        String::new()
    };
    outln!(
        "{:<20} {:<10}{ranks} {:<width$} {:>12.3} {:>12.3} {:>12.3} {:>12.3} {:>8.3}{bound}{}",
        row.name(),
        row.bytes,
        row.algorithm,
        row.ferrorail.median_us(),
        row.ferrorail.min_us(),
        row.host.median_us(),
        row.host.min_us(),
        row.ratio(),
        row.remarks(),
        width = plan.label_width()
    );
}

/// The columns about the bound.
fn bound(row: &Row) -> String {
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    format!(" {:>12} {:>8}", shown(row.bound_us), shown(row.by_bound()))
}

/// Says what came of it, in every form that was asked for.
pub fn finish(found: &Outcome<'_>, plan: &Plan) -> Result<()> {
    if let Some(bounds) = found.bounds {
        print_bounds(bounds);
    }
    print_summary(found.rows, found.missing, plan);
    plot(found.rows, plan)?;
    write(found, plan)
}

/// Writes everything that was measured to the file of `--json`, if there is one.
pub fn write(found: &Outcome<'_>, plan: &Plan) -> Result<()> {
    let Some(path) = &plan.json else {
        return Ok(());
    };
    let Outcome {
        rows,
        ranks,
        missing,
        ..
    } = *found;
    let bounds = found.bounds.and_then(|bounds| bounds.as_ref().ok());
    let report = json!({
        "benchmark": "collectives",
        "figure": plan.figure.map(|figure| figures::json(figure, &samples(rows, plan))),
        "ranks": ranks,
        "slower": slower(rows).into_iter().map(|row| json!({
            "collective": row.name(),
            "ranks": row.ranks,
            "bytes": row.bytes,
            "algorithm": row.algorithm,
            "ratio": row.ratio(),
        })).collect::<Vec<_>>(),
        "missing": missing,
        "bounds": bounds.map(Bounds::json),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    write_report(path, found.host, report, means(rows))
}

/// Prints what the machine can do.
fn print_bounds(found: &bounds::Found) {
    outln!("#");
    match found {
        Ok(bounds) => bounds.lines().iter().for_each(|line| outln!("{line}")),
        Err(reason) => outln!("# Bounds of this machine, ranks 0 and 1: not measured: {reason}"),
    }
}

/// Prints means, and what is slower than the host's or was not measured.
fn print_summary(rows: &[Row], missing: &[&str], plan: &Plan) {
    outln!("#\n# Geometric means of the ratios");
    let means = means(rows);
    for (name, mean) in means.by_name {
        match mean {
            Some(mean) => outln!("# {name:<30} {mean:>8.3}"),
            None => outln!("# {name:<30} not measured"),
        }
    }
    if let Some(mean) = means.all {
        outln!("# {:<30} {mean:>8.3}", "all");
    }
    let taken = rows.iter().filter(|row| row.counts()).count();
    let forwarded = rows.iter().filter(|row| row.forwarded).count();
    let plain = rows.iter().filter(|row| row.is_plain).count();
    let by_tree = rows.len() - taken - forwarded - plain;
    let slower = slower(rows);
    outln!(
        "# Cells slower than {SLOWER} times the host's: {} of {taken}",
        slower.len()
    );
    // The curves of a figure are compared with each other.
    let listed = slower.into_iter().filter(|_| plan.figure.is_none());
    for row in listed {
        let bytes = format_bytes(row.bytes as u64);
        outln!(
            "# {:<20} {bytes:<10} {:<20} {:>8.3}",
            row.name(),
            row.algorithm,
            row.ratio()
        );
    }
    if forwarded > 0 {
        outln!("# Cells left to the host, in no mean: {forwarded}");
    }
    if plain > 0 {
        outln!("# Cells of plain programs, in no mean: {plain}");
    }
    if by_tree > 0 {
        outln!("# Cells about multicast without any, in no mean: {by_tree}");
    }
    if !missing.is_empty() {
        outln!("# Not taken over by this library: {}", missing.join(", "));
    }
    if let Some(figure) = plan.figure {
        figures::print(figure, &samples(rows, plan));
    }
}

/// The medians of what counts, the host's too, in the figure's unit.
fn samples(rows: &[Row], plan: &Plan) -> Vec<Sample> {
    let unit = plan.figure.map_or(Unit::Time, |figure| figure.unit);
    let mut samples: Vec<Sample> = Vec::new();
    for row in rows {
        let value = |time_us: f64| match unit {
            Unit::Bandwidth => (row.bytes * row.ranks) as f64 / time_us,
            _ => time_us,
        };
        let sample = |curve: &str, timing: &Timing| Sample {
            panel: row.name(),
            curve: curve.to_owned(),
            x: row.bytes as u64,
            ranks: row.ranks,
            value: value(timing.median_us()),
            best: value(timing.min_us()),
        };
        let host = sample(HOST, &row.host);
        let is_new = !samples.iter().any(|other| other.is_at(&host));
        samples.extend(is_new.then_some(host));
        if row.counts() {
            samples.push(sample(&row.algorithm, &row.ferrorail));
        }
    }
    samples
}

/// Draws what was asked to be drawn.
fn plot(rows: &[Row], plan: &Plan) -> Result<()> {
    let Some(path) = &plan.plot else {
        return Ok(());
    };
    let chart = Chart {
        name: plan.figure.map_or("ferrorail bench", |figure| &figure.name),
        title: plan.figure.map_or("collectives", |figure| &figure.title),
        x: X::of_sizes(plan.sizes.len()),
        unit: plan.figure.map_or(Unit::Time, |figure| figure.unit),
    };
    chart.write(path, &samples(rows, plan))
}

/// Writes `report` with `means` and the MPI library.
pub fn write_report(path: &Path, host: &Host, mut report: Value, means: Means) -> Result<()> {
    let by_name = means.by_name.into_iter();
    report["geometric_mean"] = json!(means.all);
    report["geometric_means"] = by_name.map(|(name, mean)| (name, json!(mean))).collect();
    report["mpi"] = mpi::describe(host);
    save(path, report)
}

/// Writes `report` with what was measured where.
pub fn save(path: &Path, mut report: Value) -> Result<()> {
    report["machine"] = machine();
    report["ferrorail"] =
        json!({ "version": env!("CARGO_PKG_VERSION"), "library": crate::library::find()? });
    report["settings"] = given_settings();
    let text = serde_json::to_string_pretty(&report)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The machine of rank 0, and what of it the launcher leaves that rank.
fn machine() -> Value {
    let info = HostInfo::probe();
    let processors = nix::unistd::sysconf(SysconfVar::_NPROCESSORS_ONLN);
    let system = nix::sys::utsname::uname().ok();
    let text =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    json!({
        "name": text(system.as_ref().map(|system| system.nodename())),
        "kernel": text(system.as_ref().map(|system| system.release())),
        "cpu": cpu_model(),
        "processors": processors.ok().flatten(),
        "numa_nodes": info.numa_nodes.len(),
        "rank_0": { "cores": info.cores, "processors": info.processors.len() },
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, bytes: usize, ours: f64) -> Row {
        Row::measured(name, bytes, "auto", ours)
    }

    #[test]
    fn bounds_have_columns_of_their_own() {
        let mut row = row("bcast", 4, 3.0);
        assert_eq!(bound(&row), format!(" {:>12} {:>8}", "-", "-"));
        row.bound_us = Some(2.0);
        assert_eq!(bound(&row), "        2.000    1.500");
        assert_eq!(
            (row.json()["bound_us"].as_f64(), row.by_bound()),
            (Some(2.0), Some(1.5))
        );
    }

    #[test]
    fn forwarded_cells_count_nowhere() {
        let rows = [
            row("bcast", 4, 1.0),
            row("bcast", 16, 4.0),
            row("gather", 4, 2.4),
            Row {
                forwarded: true,
                ..row("scan", 4, 9.0)
            },
        ];
        let mean = |rows: &[Row]| means(rows).all;
        assert_eq!(mean(&rows[..2]), Some(1.0));
        assert!((mean(&rows).unwrap() - 1.2f64.powf(1.0 / 3.0)).abs() < 1e-12);
        assert_eq!(mean(&rows[3..]), None);
        let slower: Vec<_> = slower(&rows)
            .iter()
            .map(|row| (row.name(), row.bytes))
            .collect();
        assert_eq!(slower, [("bcast".into(), 16), ("gather".into(), 4)]);
        let names = means(&rows).by_name.into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), ["bcast", "gather", "scan"]);
    }
}
