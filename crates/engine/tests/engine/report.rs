//! What statistics print and write.

use ferrorail_engine::{CallRow, Report};

fn row(algorithm: &str, nodes: u32) -> CallRow {
    CallRow {
        collective: "allgather".into(),
        algorithm: algorithm.into(),
        protocol: "eager".into(),
        size_class_bytes: 8,
        ranks: 4,
        nodes,
        calls: 10,
        bytes: 80,
        chosen_by: "forced".into(),
        rounds: 30,
        messages: 30,
        predicted_total_us: 20.0,
    }
}

#[test]
fn the_table_has_one_line_for_all_shapes() {
    let text = r#"{"version":"1","ranks":4,"nodes":1,"collectives":[],"rails":[],"forwarded":[]}"#;
    let mut report: Report = serde_json::from_str(text).unwrap();
    report.collectives = vec![row("ring", 1), row("bruck", 1), row("ring", 4)];
    let table = report.table();
    let lines: Vec<&str> = table
        .lines()
        .filter(|line| line.contains("allgather"))
        .collect();
    assert_eq!(lines.len(), 2, "{table}");
    let ring: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(ring[1..6], ["ring", "eager", "8", "20", "160"], "{table}");
    let written = serde_json::to_value(&report).unwrap();
    assert_eq!(written["collectives"][2]["nodes"], 4);
}

/// Files of versions that did not tell shapes apart are still read.
#[test]
fn rows_without_a_shape_are_read() {
    let mut old = serde_json::to_value(row("ring", 2)).unwrap();
    let fields = old.as_object_mut().unwrap();
    fields.remove("ranks");
    fields.remove("nodes");
    let read: CallRow = serde_json::from_value(old).unwrap();
    assert_eq!((read.ranks, read.nodes), (0, 0));
}
