//! `ferrorail bench yu2005:fig…` and `--job-sizes`: on the stand-in for the preload library, and on the
//! library itself, which a build of the workspace leaves beside the command.

mod common;
#[path = "common/stand_in.rs"]
mod stand_in;

use common::{expect_code, ferrorail, read_json, texts};
use ferrorail_test_extent::third;
use serde_json::Value;
use stand_in::StandIn;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Open MPI's launcher: ranks that share a core wait for each other, which MPICH's do by spinning.
const LAUNCHER: &str = "mpirun.openmpi";

/// A figure, its curves, and the ranks that take part of four.
struct Expected {
    name: &'static str,
    curves: &'static [&'static str],
    ranks: &'static [u64],
    bytes: &'static str,
}

const TREE_AND_MULTICAST: &[&str] = &["LA-MPI generic", "LA-MPI HW"];

const FIGURES: [Expected; 7] = [
    expected("fig1", TREE_AND_MULTICAST, &[4], "4,1K"),
    expected("fig2", &["raw multicast", "LA-MPI HW"], &[4], "4,10000"),
    expected("fig7", TREE_AND_MULTICAST, &[4], "4,64K"),
    expected("fig8", TREE_AND_MULTICAST, &[2, 4], "8"),
    expected(
        "fig9",
        &["reliable, CRC32C", "reliable, additive", "unreliable"],
        &[4],
        "256,1M",
    ),
    expected(
        "fig10",
        &[
            "2 channels",
            "4 channels",
            "8 channels",
            "16 channels",
            "32 channels",
            "64 channels",
        ],
        &[4],
        "8",
    ),
    expected(
        "loss",
        &["no loss", "0.1 % lost", "1 % lost", "5 % lost"],
        &[4],
        "8,64K",
    ),
];

const fn expected(
    name: &'static str,
    curves: &'static [&'static str],
    ranks: &'static [u64],
    bytes: &'static str,
) -> Expected {
    Expected {
        name,
        curves,
        ranks,
        bytes,
    }
}

/// Measures a figure on 4 ranks that are nodes of their own; the table, standard error and the report.
#[track_caller]
fn measure(
    stand_in: &StandIn,
    library: &Path,
    figure: &Expected,
    change: impl FnOnce(&mut Command),
) -> (String, String, Value) {
    let json = stand_in.file(&format!("{}.json", figure.name));
    let few = format!(
        "--budget 1 --blocks 3 --iterations 2 --bytes {}",
        figure.bytes
    );
    let args = format!("yu2005:{} {few} --json {json}", figure.name);
    let mut bench = stand_in.bench_on(4, LAUNCHER, &args);
    bench
        .env("FERRORAIL_LIBRARY", library)
        .env("FERRORAIL_FABRIC", "loopback")
        .env("FERRORAIL_NODE_SIZE", "1")
        .env("OMPI_MCA_pml", "ob1");
    change(&mut bench);
    let (stdout, stderr) = expect_code(&mut bench, 0);
    (stdout, stderr, read_json(&json))
}

/// Curves, ranks and sizes of a figure are in the table and in the report, and what the paper found stands
/// beside what was measured.
#[track_caller]
fn check(figure: &Expected, table: &str, report: &Value) {
    let name = format!("yu2005:{}", figure.name);
    assert_eq!(report["figure"]["name"], name.as_str());
    let rows = report["rows"].as_array().unwrap();
    let lines: Vec<_> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(rows.len(), lines.len(), "{table}");
    let sizes = figure.bytes.split(',').count();
    assert_eq!(rows.len(), sizes * figure.ranks.len() * figure.curves.len());
    for (index, (row, line)) in rows.iter().zip(&lines).enumerate() {
        let curve = figure.curves[index % figure.curves.len()];
        assert_eq!(row["algorithm"], curve);
        assert_eq!(
            row["ranks"],
            figure.ranks[index / figure.curves.len() / sizes]
        );
        assert!(line.contains(curve), "{line}");
        assert_eq!(row["forwarded"], false);
        assert_eq!(row["ferrorail"]["blocks_us"].as_array().unwrap().len(), 3);
        assert!(row["ferrorail"]["median_us"].as_f64().unwrap() > 0.0);
        let is_raw = curve == "raw multicast";
        assert_eq!(row["lost"].is_u64(), is_raw, "{row}");
        let is_multicast = !is_raw && curve != "LA-MPI generic";
        let sent = row["multicasts"].as_u64();
        assert_eq!(sent.is_some_and(|sent| sent >= 6), is_multicast, "{row}");
    }
    let (_, beside) = table.split_once(" Paper ").expect("the paper's findings");
    let findings = report["figure"]["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        let here = finding["here"].as_f64();
        assert!(here.is_some(), "{finding}");
        let what = finding["what"].as_str().unwrap();
        let start = format!("# {what} ");
        let line = beside.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("no {what}: {table}"));
        assert!(line.contains(finding["paper"].as_str().unwrap()), "{line}");
        let shown = line.strip_suffix(finding["unit"].as_str().unwrap());
        let shown = shown.and_then(|line| line.trim_end().rsplit(' ').next());
        let shown: f64 = shown.unwrap().parse().unwrap();
        // A half of the last digit may be rounded either way.
        assert!((shown - here.unwrap()).abs() < 0.000_6, "{line}: {here:?}");
    }
}

#[test]
fn figures_are_listed_without_a_job() {
    let (stdout, _) = expect_code(ferrorail().args(["bench", "--list"]), 0);
    for figure in FIGURES {
        let start = format!("yu2005:{} ", figure.name);
        let line = stdout.lines().find(|line| line.starts_with(&start));
        assert!(line.is_some_and(|line| line.len() > 40), "{stdout}");
    }
    assert!(stdout.lines().any(|line| line.starts_with("rma-lock ")));
    assert!(stdout.contains("reduce_scatter_block, scan"), "{stdout}");
}

#[test]
fn figures_give_each_curve_its_settings() {
    let stand_in = StandIn::new("figures");
    let library = stand_in.library();
    for figure in third(&FIGURES, 0) {
        let (table, stderr, report) = measure(&stand_in, &library, figure, |_| ());
        check(figure, &table, &report);
        let opened = |settings: &str| stderr.matches(&format!("broadcasts <{settings}>")).count();
        let of_rank = |settings: &str| assert_eq!(opened(settings), 4, "{settings}: {stderr}");
        match figure.name {
            "fig9" => {
                of_rank("bcast=smp_multicast  1 crc32c");
                of_rank("bcast=smp_multicast  1 additive");
                of_rank("bcast=smp_multicast  0 ");
            }
            "fig10" => {
                for channels in ["2", "4", "8", "16", "32", "64"] {
                    of_rank(&format!("bcast=smp_multicast {channels}  "));
                }
            }
            "loss" => assert_eq!(opened("bcast=smp_multicast   "), 4 * 4, "{stderr}"),
            "fig2" => of_rank("bcast=smp_multicast   "),
            _ => {
                of_rank("bcast=knomial   ");
                of_rank("bcast=smp_multicast   ");
            }
        }
        let given = report["settings"].as_object().unwrap();
        assert!(!given.contains_key("FERRORAIL_ALGORITHM"), "{given:?}");
        let settings = &report["rows"].as_array().unwrap().last().unwrap()["settings"];
        assert_eq!(settings["FERRORAIL_ALGORITHM"], "bcast=smp_multicast");
    }
}

#[test]
fn what_a_tree_did_is_not_reported_as_multicast() {
    let stand_in = StandIn::new("no-multicast");
    let figure = &FIGURES[0];
    let (table, _, report) = measure(&stand_in, &stand_in.library(), figure, |bench| {
        bench.env("STAND_IN_HAS_NO_MULTICAST", "1");
    });
    let marked = table
        .lines()
        .filter(|line| line.ends_with(" no multicast"))
        .count();
    assert_eq!(marked, 2, "{table}");
    assert_eq!(report["rows"][1]["multicasts"], 0);
    assert_eq!(report["geometric_means"]["LA-MPI HW"], Value::Null);
    assert!(report["geometric_means"]["LA-MPI generic"].is_f64());
    assert_eq!(report["figure"]["findings"][0]["here"], Value::Null);
    let words = [
        "Cells about multicast without any, in no mean: 2",
        "not measured",
    ];
    assert!(words.iter().all(|word| table.contains(word)), "{table}");
}

/// The preload library beside the command, where a build of the workspace leaves it.
fn built_library() -> PathBuf {
    let command = PathBuf::from(ferrorail().get_program());
    let library = command.with_file_name("libferrorail.so");
    assert!(
        library.is_file(),
        "{} is not there: build the package ferrorail-capi first, in the same profile",
        library.display()
    );
    library
}

#[test]
fn figures_are_measured_on_the_library() {
    let library = built_library();
    let stand_in = StandIn::new("figures-of-library");
    for figure in third(&FIGURES, 1) {
        let (table, _, report) = measure(&stand_in, &library, figure, |_| ());
        check(figure, &table, &report);
    }
}

#[test]
fn jobs_of_several_sizes_are_measured_in_one_run() {
    let stand_in = StandIn::new("job-sizes");
    let json = stand_in.file("sizes.json");
    let few = "allgather bcast --blocks 3 --iterations 2 --bytes 8,64 --buffers rotating";
    let args = format!("{few} --job-sizes 3,1,2 --json {json}");
    let (stdout, _) = expect_code(&mut stand_in.bench_on(3, LAUNCHER, &args), 0);
    let lines = stdout.lines().filter(|line| !line.starts_with('#'));
    let cells: Vec<String> = lines
        .map(|line| {
            line.split_whitespace()
                .take(4)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let mut expected = Vec::new();
    for collective in ["allgather", "bcast"] {
        for ranks in [3, 1, 2] {
            for bytes in [8, 64] {
                expected.push(format!("{collective} {bytes} {ranks} auto"));
            }
        }
    }
    assert_eq!(cells, expected);
    let report = read_json(&json);
    assert_eq!(report["ranks"], 3);
    let rows = report["rows"].as_array().unwrap().iter();
    let ranks: Vec<_> = rows.map(|row| row["ranks"].as_u64().unwrap()).collect();
    assert_eq!(ranks, [3, 3, 1, 1, 2, 2].repeat(2));
}

#[test]
fn a_job_ends_of_which_a_rank_only_sleeps() {
    let stand_in = StandIn::new("job-sizes-of-library");
    let args = "neighbor_alltoall --blocks 3 --iterations 2 --bytes 8 --job-sizes 2";
    let mut bench = stand_in.bench_on(3, LAUNCHER, args);
    expect_code(bench.env("FERRORAIL_LIBRARY", built_library()), 0);
}

#[test]
fn sleeping_ranks_learn_of_wrong_data() {
    let stand_in = StandIn::new("job-sizes-wrong");
    let args = "allgather --blocks 3 --iterations 2 --bytes 8 --job-sizes 2";
    let mut bench = stand_in.bench_on(3, LAUNCHER, args);
    let output = bench.env("STAND_IN_CORRUPTS", "1").output().unwrap();
    let (_, stderr) = texts(&output);
    assert!(!output.status.success());
    assert_eq!(
        stderr.matches("wrong data for 8 bytes").count(),
        1,
        "{stderr}"
    );
    assert!(!stderr.contains("at another rank"), "{stderr}");
}

#[test]
fn mistakes_about_figures_are_named() {
    let stand_in = StandIn::new("figure-mistakes");
    for (args, line) in [
        (
            "yu2005:fig77",
            "there is no figure \"yu2005:fig77\"; did you mean \"yu2005:fig7\"?",
        ),
        (
            "yu2005:fig1 bcast",
            "yu2005:fig1 is measured in a run of its own",
        ),
        (
            "yu2005:fig1 --algorithms knomial",
            "--algorithms, --vary and --plain are for collectives",
        ),
        (
            "yu2005:fig2 --barrier",
            "--barrier, --buffers and --arrival are for calls of MPI",
        ),
        (
            "bcast --job-sizes 4",
            "a job of 2 ranks cannot measure with 4 of them",
        ),
        (
            "rma-lock --job-sizes 2",
            "--job-sizes and --plain are for collectives",
        ),
        ("yu2005:fig2 --bytes 1G", "are more than MPI's counts hold"),
    ] {
        // Open MPI's takes a second to end a job that fails.
        let output = stand_in.bench_of("mpirun.mpich", args).output().unwrap();
        let (_, stderr) = texts(&output);
        assert!(!output.status.success());
        assert!(stderr.contains(line), "{line}: {stderr}");
    }
}
