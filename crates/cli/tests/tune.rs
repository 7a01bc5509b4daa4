//! `ferrorail tune`: the table that it writes, and that the library takes it.

mod common;
#[path = "common/stand_in.rs"]
mod stand_in;

use common::{expect_code, ferrorail, read_json};
use serde_json::{Value, json};
use stand_in::{StandIn, built_library};
use std::fs;

const LAUNCHER: &str = "mpirun.openmpi";
const FEW: &str = "--budget 1 --blocks 3";

/// The rules of a table, as collective, algorithm and limits of ranks.
fn rules(path: &str) -> Vec<(String, String, Value)> {
    let table = read_json(path);
    let rules = table["rules"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rules
        .map(|rule| {
            let (collective, algorithm) = (&rule["collective"], &rule["algorithm"]);
            (text(collective), text(algorithm), rule["ranks"].clone())
        })
        .collect()
}

#[test]
fn what_is_fastest_becomes_a_rule_and_other_rules_stay() {
    let stand_in = StandIn::new("tune-rules");
    let table = stand_in.file("tuning.json");
    let other = json!({ "version": 1, "rules": [
        { "collective": "bcast", "ranks": { "min": 64 }, "algorithm": "host" },
        { "collective": "gather", "bytes": { "max": 8 }, "algorithm": "direct" },
    ]});
    fs::write(&table, other.to_string()).unwrap();
    let kept = [
        ("bcast".to_owned(), "host".to_owned(), json!({ "min": 64 })),
        ("gather".to_owned(), "direct".to_owned(), Value::Null),
    ];
    for fastest in ["knomial", "multi_leader_knomial"] {
        let args = format!("tune bcast --no-host -o {table} --bytes 4 --buffers warm {FEW}");
        let mut tune = stand_in.command(2, LAUNCHER, &args);
        tune.env("STAND_IN_FAST", format!("bcast={fastest}"));
        let (stdout, _) = expect_code(&mut tune, 0);
        assert!(stdout.contains(&format!("  {fastest} by ")), "{stdout}");
        let mut expected = vec![(
            "bcast".to_owned(),
            fastest.to_owned(),
            json!({ "min": 2, "max": 2 }),
        )];
        expected.extend_from_slice(&kept);
        assert_eq!(rules(&table), expected);
    }
    let mut explain = ferrorail();
    explain
        .env("FERRORAIL_TUNING", &table)
        .args(["explain", "bcast", "--bytes", "4", "--ranks", "2"]);
    let (text, _) = expect_code(&mut explain, 0);
    let rule = format!("rule 0 of FERRORAIL_TUNING={table}: bcast");
    assert!(
        text.contains("multi_leader_knomial") && text.contains(&rule),
        "{text}"
    );
    // Where all else is slow the host has it, if it may.
    for (option, is_host) in [("", true), ("--no-host", false)] {
        let args = format!("tune bcast -o {table} --bytes 4 --buffers warm {FEW} {option}");
        let mut tune = stand_in.command(2, LAUNCHER, &args);
        tune.env("STAND_IN_FAST", "nothing");
        expect_code(&mut tune, 0);
        let has = rules(&table)[0].1 == "host" && rules(&table).len() == 3;
        assert_eq!(has, is_host, "{option}");
    }
}

#[test]
fn what_the_library_leaves_to_the_host_anyway_has_no_rule() {
    let stand_in = StandIn::new("tune-left");
    let table = stand_in.file("tuning.json");
    let args = format!("tune allreduce -o {table} --bytes 4 {FEW}");
    expect_code(&mut stand_in.command(2, LAUNCHER, &args), 0);
    assert_eq!(rules(&table), []);
}

#[test]
fn the_library_takes_the_table() {
    let stand_in = StandIn::new("tune-library");
    let (table, json) = (stand_in.file("tuning.json"), stand_in.file("all.json"));
    let few = "--budget 1 --blocks 1 --buffers rotating";
    let names = "bcast allgather alltoallv allreduce barrier";
    let args = format!(
        "tune {names} -o {table} --json {json} --bytes 4,64K --also domains,multicast {few}"
    );
    let command = |args: &str| {
        let mut command = stand_in.command(4, LAUNCHER, args);
        command
            .env("FERRORAIL_LIBRARY", built_library())
            .env("FERRORAIL_FABRIC", "loopback")
            .env("FERRORAIL_NODE_SIZE", "2");
        command
    };
    let (stdout, stderr) = expect_code(&mut command(&args), 0);
    assert!(
        stdout.contains("with these rules") && stderr.is_empty(),
        "{stdout}{stderr}"
    );
    let rows = read_json(&json)["rows"].as_array().unwrap().clone();
    let shapes: Vec<Value> = rows
        .iter()
        .map(|row| row["team"]["nodes"].clone())
        .collect();
    assert!(shapes.len() > 50 && shapes.iter().all(|nodes| *nodes == 2));
    // With a rule for the host and one for an algorithm, whatever was fastest. The benchmark checks its data.
    let text = fs::read_to_string(&table).unwrap();
    let host = r#"{"collective":"allgather","bytes":{"min":4,"max":4},"algorithm":"host"}"#;
    let ring = r#"{"collective":"allgather","bytes":{"min":65536,"max":65536},"algorithm":"ring"}"#;
    let first = format!("\"rules\": [{host},{ring},");
    let with_both = text
        .replacen("\"rules\": [", &first, 1)
        .replace(",\n  ]", "\n  ]");
    fs::write(&table, with_both).unwrap();
    let report = stand_in.file("bench.json");
    let few = "--bytes 4,64K --budget 1 --blocks 1 --bounds off --json";
    let mut bench = command(&format!("bench {names} {few} {report}"));
    expect_code(bench.env("FERRORAIL_TUNING", &table), 0);
    let report = read_json(&report);
    let forwarded = |bytes: u64| {
        let mut rows = report["rows"].as_array().unwrap().iter();
        let of_it = |row: &&Value| row["collective"] == "allgather" && row["bytes"] == bytes;
        rows.find(of_it).unwrap()["forwarded"].as_bool().unwrap()
    };
    assert!(forwarded(4) && !forwarded(64 << 10));
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    let stand_in = StandIn::new("tune-wrong");
    let file = stand_in.file("no.json");
    fs::write(&file, "{}").unwrap();
    for (args, message) in [
        (
            "tune bcats",
            "there is no benchmark \"bcats\"; did you mean \"bcast\"?",
        ),
        (
            "tune bcast -o /no/such/table.json",
            "cannot write /no/such/table.json",
        ),
        (
            &*format!("tune -o {file}"),
            "tuning table: missing field `version`",
        ),
        ("tune reduce --bytes 6", "of which 6 is no multiple"),
        ("tune bcast", "one rank has nothing to choose"),
    ] {
        let (_, stderr) = expect_code(&mut stand_in.command(1, LAUNCHER, args), 1);
        let lines: Vec<&str> = stderr
            .lines()
            .filter(|line| line.contains(message))
            .collect();
        assert_eq!(lines.len(), 1, "{args}: {stderr}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
}
