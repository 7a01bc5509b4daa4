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

/// Where no rank knows the lengths of others a row stands for calls of all sizes.
#[test]
fn the_table_says_no_size_where_none_is_known() {
    let text = r#"{"version":"1","ranks":4,"nodes":1,"collectives":[],"rails":[],"forwarded":[]}"#;
    let mut report: Report = serde_json::from_str(text).unwrap();
    let named = |collective: &str| CallRow {
        collective: collective.into(),
        protocol: "rendezvous".into(),
        ..row("direct", 2)
    };
    report.collectives = ["allgatherv", "alltoallv", "barrier"].map(named).to_vec();
    let table = report.table();
    let lines = table.lines().filter(|line| line.contains("rendezvous"));
    let lengths = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (words[3].clone(), words[5].clone())
    };
    let lengths: Vec<_> = lines.clone().map(lengths).collect();
    let none = ("-".into(), "-".into());
    let known = ("8".into(), "80".into());
    assert_eq!(lengths, [known, none.clone(), none], "{table}");
    // Columns end where their titles do.
    let head = table.lines().find(|line| line.contains(" calls ")).unwrap();
    let end = head.find(" calls").unwrap() + " calls".len();
    for line in lines {
        assert!(line[..end].ends_with(" 10"), "{table}");
    }
}

#[test]
fn what_cannot_be_written_is_said() {
    let text = r#"{"version":"1","ranks":4,"nodes":1,"collectives":[],"rails":[],"forwarded":[]}"#;
    let report: Report = serde_json::from_str(text).unwrap();
    let said = report.write("/nowhere/file".as_ref()).unwrap_err();
    assert!(said.starts_with("/nowhere/file: No such file"), "{said}");
    assert!(said.ends_with(report.table().trim_end()), "{said}");
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
