//! What a paper found beside what was measured.

use super::figures::{Figure, Finding, HOST};
use super::report::Row;
use serde_json::{Value, json};

/// The value of `finding` in `rows`, of medians; `None` if something that it is made of was not measured.
fn measured(finding: &Finding, rows: &[Row]) -> Option<f64> {
    finding.ours.value(|curve, largest| {
        let alike = rows.iter().filter(|row| {
            let of_curve = curve == HOST || row.algorithm == curve;
            of_curve && row.bytes == finding.bytes && !row.barrier
        });
        let row = match largest {
            true => alike.max_by_key(|row| row.ranks)?,
            false => alike.min_by_key(|row| row.ranks)?,
        };
        match curve == HOST {
            true => Some(row.host.median_us()),
            false => row.counts().then(|| row.ferrorail.median_us()),
        }
    })
}

/// Prints a figure's claim and findings beside what `rows` make of them.
pub fn print(figure: &Figure, rows: &[Row]) {
    println!("#\n# {}: {}", figure.name, figure.claim);
    println!("# {:<44} {:<22} {:>12}", "", "Paper", "Here");
    for finding in figure.findings {
        let here = measured(finding, rows).map_or("not measured".to_owned(), |value| {
            format!("{value:.3} {}", finding.ours.unit())
        });
        println!("# {:<44} {:<22} {here:>12}", finding.what, finding.paper);
    }
}

/// The same for the report.
pub fn json(figure: &Figure, rows: &[Row]) -> Value {
    let findings = figure.findings.iter().map(|finding| {
        json!({
            "what": finding.what,
            "paper": finding.paper,
            "bytes": finding.bytes,
            "unit": finding.ours.unit(),
            "here": measured(finding, rows),
        })
    });
    findings.collect()
}
