//! `ferrorail bench` under Open MPI's and MPICH's launcher, on a stand-in for the preload library:
//! what is tested is the measurement, not what is measured.

mod common;
#[path = "common/stand_in.rs"]
mod stand_in;

use common::{expect_code, read_json};
use serde_json::Value;
use stand_in::{LAUNCHERS, StandIn};
use std::process::Command;

#[test]
fn both_implementations_are_measured_in_one_run() {
    let stand_in = StandIn::new("bench");
    for (launcher, family) in LAUNCHERS {
        let json = stand_in.file("report.json");
        let args = format!("--bytes 0,8:16 --bounds on --json {json}");
        let (stdout, stderr) = expect_code(&mut stand_in.bench(launcher, &args), 0);
        assert!(
            stdout.contains(&format!("2 ranks, beside {family}")),
            "{stdout}"
        );
        let rows: Vec<Vec<&str>> = stdout
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let sizes: Vec<_> = rows.iter().map(|row| row[..3].join(" ")).collect();
        let mut expected = Vec::new();
        for name in ["allgather", "allgather+warm"] {
            expected.extend(["0", "8", "16"].map(|bytes| format!("{name} {bytes} auto")));
        }
        assert_eq!(sizes, expected);
        assert_eq!(stderr.matches("instance <>").count(), 2, "{stderr}");

        let report = read_json(&json);
        assert_eq!(report["ranks"], 2);
        assert!(report["mpi"]["version"].as_str().unwrap().contains(family));
        for (row, printed) in report["rows"].as_array().unwrap().iter().zip(&rows) {
            for (side, column) in [("ferrorail", 3), ("host", 5)] {
                let blocks = row[side]["blocks_us"].as_array().unwrap();
                assert_eq!(blocks.len(), 3);
                let mut times: Vec<f64> = blocks.iter().filter_map(Value::as_f64).collect();
                times.sort_by(f64::total_cmp);
                assert!(times[0] > 0.0);
                assert_eq!(row[side]["median_us"], times[1]);
                assert_eq!(printed[column], format!("{:.3}", times[1]));
            }
            // Of 8 bytes, and of nothing else that is measured here.
            assert_eq!(row["bound_us"].as_f64().is_some(), printed[1] == "8");
            assert_eq!(printed[8] == "-", printed[1] != "8");
        }
        // A round trip and a switch.
        expect_bounds(&stdout, &report["bounds"], 2);
    }
}

#[test]
fn long_messages_have_bounds_of_their_own_buffers() {
    let stand_in = StandIn::new("bounds");
    let json = stand_in.file("report.json");
    let args = format!("--bytes 256K,1M --bounds on --json {json}");
    let (launcher, _) = LAUNCHERS[0];
    let (stdout, _) = expect_code(&mut stand_in.bench(launcher, &args), 0);
    let report = read_json(&json);
    // The launcher binds ranks to cores; the machine has all the same.
    let machine = &report["machine"];
    let online = std::fs::read_to_string("/proc/stat").unwrap();
    let online = online.matches("\ncpu").count() as u64;
    assert_eq!(machine["processors"], online);
    assert!(machine["rank_0"]["processors"].as_u64().unwrap() <= online);
    let kinds = ["rotating", "warm"];
    expect_bounds(&stdout, &report["bounds"], 2 + 6 * kinds.len());
    let best = |name: &str, buffers: &str| {
        let mut all = report["bounds"]["quantities"].as_array().unwrap().iter();
        let found = all.find(|one| one["name"] == name && one["buffers"] == buffers);
        found.and_then(|one| one["best"].as_f64())
    };
    for row in report["rows"].as_array().unwrap() {
        let expected = match (&row["bytes"], &row["buffers"]) {
            (bytes, buffers) if *bytes == 1 << 20 => {
                let ways = ["allgather_rings", "allgather_cross_memory"];
                let ways = ways
                    .iter()
                    .filter_map(|way| best(way, buffers.as_str().unwrap()));
                ways.min_by(f64::total_cmp)
            }
            _ => None,
        };
        assert_eq!(row["bound_us"].as_f64(), expected, "{row}");
    }
}

/// A line for each of `count` numbers, which is one; cross-memory attach and pinning may be forbidden.
fn expect_bounds(stdout: &str, bounds: &Value, count: usize) {
    let lines = stdout.lines();
    let lines: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("# Bounds of this machine, ranks 0 and 1: "))
        .collect();
    let quantities = bounds["quantities"].as_array().unwrap();
    assert!(bounds["cores"].as_u64().unwrap() > 0);
    let counts = (lines.len(), quantities.len());
    assert_eq!(counts, (count, count), "{stdout}");
    for (line, quantity) in lines.into_iter().zip(quantities) {
        if line.ends_with("not allowed") {
            assert_eq!(quantity["best"], Value::Null);
            continue;
        }
        for value in ["median", "best"] {
            let value = quantity[value].as_f64().unwrap();
            assert!(value > 0.0 && value.is_finite(), "{quantity}");
            // As printed, to three places.
            let mut printed = line.split(' ').filter_map(|word| word.parse::<f64>().ok());
            let is_it = |printed: f64| (printed - value).abs() < 0.0006;
            assert!(printed.any(is_it), "{line}: {quantity}");
        }
        assert!(line.contains(quantity["unit"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn plain_programs_stand_beside_the_library() {
    let stand_in = StandIn::new("plain");
    for (launcher, _) in LAUNCHERS {
        let json = stand_in.file("plain.json");
        let args = format!("--bytes 8,128K --buffers warm --plain --json {json}");
        let (stdout, _) = expect_code(&mut stand_in.bench(launcher, &args), 0);
        let counted = "# Cells of plain programs, in no mean: 4";
        assert!(stdout.contains(counted), "{stdout}");
        let report = read_json(&json);
        let rows = report["rows"].as_array().unwrap();
        let algorithms: Vec<&str> = rows
            .iter()
            .filter_map(|row| row["algorithm"].as_str())
            .collect();
        let of_size = ["auto", "plain_slots", "plain_attach"];
        assert_eq!(algorithms, [of_size; 2].concat());
        assert!(rows.iter().all(|row| row["forwarded"] == false));
        // The mean is that of the library's two cells.
        let ratio = |row: &Value| row["ratio"].as_f64().unwrap().ln();
        let mean = f64::exp((ratio(&rows[0]) + ratio(&rows[3])) / 2.0);
        let means = report["geometric_means"]["allgather+warm"].as_f64();
        assert!((means.unwrap() - mean).abs() < 1e-9, "{report}");
    }
}

#[test]
fn algorithms_are_forced_on_instances_of_their_own() {
    let stand_in = StandIn::new("forced");
    for (launcher, _) in LAUNCHERS {
        let args = "--bytes 8 --buffers warm --algorithms bruck,direct";
        let (stdout, stderr) = expect_code(&mut stand_in.bench(launcher, args), 0);
        assert!(!stdout.contains("ound"), "{stdout}");
        let names: Vec<_> = stdout
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().nth(2).unwrap())
            .collect();
        assert_eq!(names, ["bruck", "direct"]);
        for forced in ["instance <allgather=bruck>", "instance <allgather=direct>"] {
            assert_eq!(stderr.matches(forced).count(), 2, "{stderr}");
        }
    }
}

#[test]
fn buffers_and_arrivals_are_what_was_asked_for() {
    let stand_in = StandIn::new("modes");
    let json = stand_in.file("modes.json");
    let args = format!("--bytes 8 --buffers dirty,warm --arrival random,even --json {json}");
    let (launcher, _) = LAUNCHERS[0];
    expect_code(&mut stand_in.bench(launcher, &args), 0);
    let report = read_json(&json);
    let rows = report["rows"].as_array().unwrap().iter();
    let modes: Vec<_> = rows
        .map(|row| {
            assert!(row["host"]["min_us"].as_f64().unwrap() > 0.0);
            (
                row["buffers"].as_str().unwrap(),
                row["arrival"].as_str().unwrap(),
            )
        })
        .collect();
    let all = [
        ("dirty", "random"),
        ("warm", "random"),
        ("dirty", "even"),
        ("warm", "even"),
    ];
    assert_eq!(modes, all);
    let means = report["geometric_means"].as_object().unwrap();
    assert!(means.contains_key("allgather+dirty+random"), "{means:?}");
}

#[test]
fn what_the_host_ran_is_not_reported_as_ours() {
    let stand_in = StandIn::new("forwards");
    for (launcher, _) in LAUNCHERS {
        let json = stand_in.file("all.json");
        let few = "--all --budget 2 --bytes 4:256:16 --buffers rotating --barrier";
        let args = format!("{few} --json {json}");
        let (stdout, _) = expect_code(&mut stand_in.bench_of(launcher, &args), 0);
        let report = read_json(&json);
        let cells = |collective: &str, barrier: bool| {
            let rows = report["rows"].as_array().unwrap().iter();
            let rows =
                rows.filter(|row| row["collective"] == collective && row["barrier"] == barrier);
            rows.map(|row| (row["bytes"].as_u64().unwrap(), row["forwarded"] == true))
                .collect::<Vec<_>>()
        };
        let taken = [(4, false), (64, false)];
        assert_eq!(cells("allgather", false), taken);
        assert_eq!(
            (cells("bcast", false), cells("bcast", true)),
            (taken.to_vec(), taken.to_vec())
        );
        assert_eq!(cells("allreduce", false), [(4, true), (64, true)]);
        assert_eq!(cells("allgather", true), []);
        assert_eq!(report["missing"].as_array().unwrap().len(), 13);
        assert_eq!(report["geometric_means"]["allreduce"], Value::Null);
        assert!(report["geometric_mean"].as_f64().unwrap() > 0.0);
        for part in [
            "bcast+barrier ",
            " forwarded\n",
            "# Cells left to the host, in no mean: 2",
        ] {
            assert!(stdout.contains(part), "{part}: {stdout}");
        }
        let missing = stdout
            .lines()
            .find(|line| line.starts_with("# Not taken over"));
        assert!(
            missing.is_some_and(|line| line.ends_with(", scan, exscan")),
            "{stdout}"
        );
    }
}

#[test]
fn wrong_data_is_told_once_and_ends_the_job() {
    let stand_in = StandIn::new("corrupt");
    for (launcher, _) in LAUNCHERS {
        let mut bench = stand_in.bench(launcher, "--bytes 8");
        let output = bench.env("STAND_IN_CORRUPTS", "1").output().unwrap();
        let (_, stderr) = common::texts(&output);
        assert!(!output.status.success());
        assert!(
            stderr.contains(
                "allgather, auto: wrong data for 8 bytes: byte 15 of the result at rank 0"
            ),
            "{stderr}"
        );
        assert_eq!(stderr.matches("wrong data").count(), 1, "{stderr}");
    }
}

#[test]
fn mistakes_are_named_before_anything_is_measured() {
    let stand_in = StandIn::new("mistakes");
    let expect = |mut bench: Command, text: &str| {
        let output = bench.output().unwrap();
        let (_, stderr) = common::texts(&output);
        assert!(!output.status.success());
        assert!(stderr.contains(text), "{text}: {stderr}");
    };
    expect(
        stand_in.bench("mpirun.mpich", "--algorithms brück"),
        "allgather has no algorithm \"brück\"; did you mean \"bruck\"?",
    );
    for (args, line) in [
        (
            "alreduce",
            "there is no benchmark \"alreduce\"; did you mean \"allreduce\"?",
        ),
        (
            "foo",
            "there is no benchmark \"foo\"; `ferrorail bench --list` lists them",
        ),
        (
            "scan --bytes 6",
            "scan adds elements of 4 bytes, of which 6 is no multiple",
        ),
        (
            "--all --algorithms ring",
            "--algorithms is for a single collective",
        ),
        (
            "rma-latency --buffers warm",
            "--buffers, --arrival, --root, --job-sizes and --plain are for collectives",
        ),
        ("bcast --root 2", "--root 2 is not one of 2 ranks"),
        ("bcast --bytes 1G", "are more than MPI's counts hold"),
    ] {
        expect(stand_in.bench_of("mpirun.mpich", args), line);
    }
    let json = stand_in.file("none.json");
    let args = format!("bcast --root 2 --json {json}");
    expect(stand_in.bench_of("mpirun.mpich", &args), "--root 2");
    assert!(!std::path::Path::new(&json).exists());
    let mut bench = stand_in.bench("mpirun.mpich", "");
    bench.env("FERRORAIL_LIBRARY", "/no/libferrorail.so");
    expect(
        bench,
        "FERRORAIL_LIBRARY=/no/libferrorail.so: there is no such file",
    );
    let mut bench = stand_in.bench("mpirun.mpich", "");
    bench.env("FERRORAIL_LIBRARY", stand_in.0.join("stand_in.c"));
    expect(bench, "stand_in.c: invalid ELF header");
    let mut bench = stand_in.bench("mpirun.mpich", "");
    bench.env("FERRORAIL_MPI_LIBRARY", "/no/libmpi.so");
    expect(
        bench,
        "FERRORAIL_MPI_LIBRARY=/no/libmpi.so: cannot open the MPI library",
    );
}
