//! `ferrorail bench rma-…` under both launchers, on the stand-in for the preload library.

mod common;
#[path = "common/stand_in.rs"]
mod stand_in;

use common::{expect_code, read_json};
use serde_json::{Value, json};
use stand_in::{LAUNCHERS, StandIn};

#[test]
fn one_sided_communication_is_measured_beside_host_and_baseline() {
    let stand_in = StandIn::new("one-sided");
    // Debian's MPICH never yields a core: those that need more are left out.
    let few = "rma-latency rma-bandwidth rma-skew rma-messages";
    for ((launcher, family), figures) in LAUNCHERS.into_iter().zip(["rma", few]) {
        let json = stand_in.file("one-sided.json");
        let few = "--budget 1 --blocks 3 --iterations 2 --burst 3 --bytes 8,4K";
        let args = format!("{figures} {few} --baseline send-receive --json {json}");
        let (stdout, _) = expect_code(&mut stand_in.bench_of(launcher, &args), 0);
        assert!(
            stdout.contains(&format!("2 ranks, beside {family}")),
            "{stdout}"
        );
        let all = figures == "rma";
        let left_out = stdout.contains("# Not measured: rma-handover needs 3 ranks");
        assert_eq!(left_out, all, "{stdout}");
        let report = read_json(&json);
        let rows = report["rows"].as_array().unwrap();
        let of = |figure: &str, variant: &str| -> Vec<&Value> {
            let is = |row: &&Value| row["figure"] == figure && row["variant"] == variant;
            rows.iter().filter(is).collect()
        };
        for row in rows {
            assert_eq!(row["ferrorail"]["blocks"].as_array().unwrap().len(), 3);
            assert_eq!(row["forwarded"], false, "{row}");
        }
        let sizes: Vec<_> = of("rma-latency", "get")
            .iter()
            .map(|row| &row["bytes"])
            .collect();
        assert_eq!(sizes, [8, 4096]);
        let shown = [
            ("rma-latency", "put"),
            ("rma-sync", "fence"),
            ("rma-accumulate", "sum_lock"),
            ("rma-pairs", "lock_unlock"),
            ("rma-cpu", "additions"),
            ("rma-lock", "fetch_and_op"),
            ("rma-sync", "lock_all"),
        ];
        for (figure, variant) in shown.into_iter().take(if all { shown.len() } else { 1 }) {
            let row = of(figure, variant)[0];
            assert!(row["ratio"].as_f64().unwrap() > 0.0, "{row}");
            assert!(
                row["send_receive"]["median"].as_f64().unwrap() > 0.0,
                "{row}"
            );
        }
        let burst = of("rma-bandwidth", "put_flush")[1];
        assert_eq!(burst["burst_bytes"], 12288);
        assert!(
            burst["send_receive"]["median"].as_f64().unwrap() > 0.0,
            "{burst}"
        );
        let skewed = of("rma-skew", "put");
        assert_eq!(
            skewed[1]["parameter"],
            json!({ "name": "loops", "value": 1 })
        );
        let messages = of("rma-messages", "lock_unlock");
        assert_eq!(messages.len(), 1);
        let sides = ["ferrorail", "send_receive"].map(|side| &messages[0][side]["median"]);
        assert_eq!(
            (sides, &messages[0]["host"]),
            ([&json!(3.0); 2], &Value::Null)
        );
    }
}

#[test]
fn settings_are_compared_and_wrong_data_is_found_in_one_sided_communication() {
    let stand_in = StandIn::new("one-sided-vary");
    let few = "rma-lock --blocks 3 --iterations 2 --window create";
    let vary = format!("{few} --vary FERRORAIL_LOCK=queue,mcs");
    let (stdout, _) = expect_code(&mut stand_in.bench_of("mpirun.openmpi", &vary), 0);
    for lock in ["queue", "mcs"] {
        let rows = stdout.lines().filter(|line| line.contains(lock)).count();
        assert_eq!(rows, 6, "{stdout}");
    }
    let mut wrong = stand_in.bench_of("mpirun.openmpi", &format!("{few} --bytes 64"));
    let output = wrong.env("STAND_IN_CORRUPTS", "1").output().unwrap();
    let (_, stderr) = common::texts(&output);
    assert!(!output.status.success());
    assert!(
        stderr.contains("ferrorail, 64 bytes: put and get between fences: wrong data at rank 0"),
        "{stderr}"
    );
    let mut mixed = stand_in.bench_of("mpirun.openmpi", "rma-lock bcast");
    let (_, stderr) = common::texts(&mixed.output().unwrap());
    assert!(stderr.contains("in runs of their own"), "{stderr}");
}

/// Long operations under locks, which three ranks contend for: data is verified at each size.
#[test]
fn locks_of_the_baseline_exclude_and_pass_on() {
    let stand_in = StandIn::new("one-sided-locks");
    let json = stand_in.file("locks.json");
    let few = "rma-handover rma-delay rma-messages rma-bandwidth --budget 1 --blocks 3 --iterations 2 \
               --burst 3 --bytes 8,64K --baseline send-receive";
    let args = format!("{few} --json {json}");
    let (stdout, _) = expect_code(&mut stand_in.bench_on(3, "mpirun.openmpi", &args), 0);
    let report = read_json(&json);
    let rows = report["rows"].as_array().unwrap();
    for (figure, variant, count) in [
        ("rma-handover", "exclusive", 1),
        ("rma-delay", "exclusive", 1),
        ("rma-messages", "lock_unlock", 2),
        ("rma-bandwidth", "get_flush", 2),
    ] {
        let is = |row: &&Value| row["figure"] == figure && row["variant"] == variant;
        let found: Vec<_> = rows.iter().filter(is).collect();
        assert_eq!(found.len(), count, "{figure}: {stdout}");
        for row in found {
            let blocks = row["send_receive"]["blocks"].as_array().unwrap();
            assert_eq!(blocks.len(), 3, "{row}");
            // However many want it: request, grant, release.
            let three = blocks.iter().all(|messages| *messages == 3.0);
            assert!(three || figure != "rma-messages", "{row}");
        }
    }
}
