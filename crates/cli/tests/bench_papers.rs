//! Every figure of the papers by Qian and Afsahi and of Jiang's thesis, and `cutoffs`, in small on the library
//! itself, which a build of the workspace leaves beside the command. `bench_figures.rs` has those of Yu et al.

mod common;
#[path = "common/stand_in.rs"]
mod stand_in;

use common::{OPEN_MPI, expect_code, ferrorail, read_json};
use ferrorail_test_extent::third;
use serde_json::Value;
use stand_in::{StandIn, built_library};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// Open MPI's launcher: ranks that share a core wait for each other, which MPICH's do by spinning.
const LAUNCHER: &str = "mpirun.openmpi";

/// A figure, the ranks it is measured on here, its sizes (none for those that it has), its curves.
struct Expected(&'static str, u32, &'static str, &'static [&'static str]);

const SEVEN: &[&str] = &[
    "elan_gather",
    "Direct",
    "Standard Exchange",
    "Bruck",
    "SMP-aware Gather and Broadcast",
    "SMP-aware Direct",
    "SMP-aware Bruck",
];
const RAILS: &[&str] = &["single-rail", "dual-rail"];
const NODE: &[&str] = &[
    "shm_p2p", "elan_put", "1-memcpy", "2-memcpy", "3-memcpy", "4-memcpy",
];
const IN_NODE: &[&str] = &[
    "elan_gather",
    "shm_gather",
    "elan_hbcast",
    "elan_bcast",
    "shm_bcast",
];
const RDMA: &[&str] = &["RDMA based"];
const LOCKS: &[&str] = &["Dedicated Thread", "Event Driven", "Test&Set", "MCS"];
const LOCKS_AND_THREADS: &[&str] = &[LOCKS[0], "Multiple Threads", LOCKS[1], LOCKS[2], LOCKS[3]];
const LOCKS_AND_AT_ONCE: &[&str] = &[
    LOCKS[0],
    LOCKS[1],
    LOCKS[2],
    "Test&Set without back-off",
    LOCKS[3],
];

const COLLECTIVES: &[Expected] = &[
    Expected("qian2008:fig3", 4, "4,4K", IN_NODE),
    Expected(
        "qian2008:fig9",
        4,
        "4,4K",
        &["elan_gather", "tree", "Direct"],
    ),
    Expected(
        "qian2008:fig10",
        4,
        "4,2K",
        &["elan_alltoall", "Direct", "Standard Exchange", "Bruck"],
    ),
    Expected("qian2008:fig11", 8, "4,32K", SEVEN),
    Expected("icpp2007:fig2", 4, "4", IN_NODE),
    Expected("icpp2007:fig5", 4, "4", SEVEN),
    Expected(
        "hpcs2007:fig2",
        4,
        "256K",
        &[
            "gather, single-rail",
            "gather, dual-rail",
            "all-gather, single-rail",
            "all-gather, dual-rail",
        ],
    ),
    Expected(
        "hpcs2007:fig5",
        4,
        "4,32K",
        &["elan_gather", "Direct", "Standard Exchange", "Bruck"],
    ),
];
const TRANSFERS: &[Expected] = &[
    Expected("qian2008:fig1", 2, "4,4K,1M", RAILS),
    Expected(
        "qian2008:sec4.1",
        2,
        "4",
        &[
            "write, single-rail",
            "write, dual-rail",
            "read, single-rail",
        ],
    ),
    Expected("qian2008:fig2", 4, "4,64K", NODE),
    Expected("icpp2007:fig1", 4, "5", NODE),
    Expected("hpcs2007:fig1", 2, "1K", RAILS),
];
const ACTIVE: &[Expected] = &[
    Expected("jiang2004:fig3.5", 2, "4,64K", RDMA),
    Expected("jiang2004:fig3.6", 2, "4,64K", RDMA),
    Expected("jiang2004:fig3.7", 2, "4K", RDMA),
    Expected("jiang2004:fig3.8", 2, "64", RDMA),
    Expected(
        "jiang2004:fig3.9",
        3,
        "",
        &["RDMA based", "RDMA based, bit vectors"],
    ),
    Expected("jiang2004:fig3.10", 2, "4K", RDMA),
    Expected("jiang2004:fig3.11", 2, "4K", RDMA),
    Expected("jiang2004:fig3.12", 3, "4K", RDMA),
    Expected(
        "jiang2004:fig3.13",
        2,
        "4,64K",
        &["RDMA based", "Event Driven"],
    ),
];
const PASSIVE: &[Expected] = &[
    Expected("jiang2004:fig4.4", 2, "", LOCKS),
    Expected("jiang2004:fig4.5", 3, "", LOCKS),
    Expected("jiang2004:fig4.6", 3, "", LOCKS_AND_THREADS),
    Expected("jiang2004:fig4.7", 3, "", LOCKS_AND_AT_ONCE),
    Expected("jiang2004:fig4.8", 2, "", LOCKS),
    Expected("jiang2004:sec4.4.6", 2, "", LOCKS),
    Expected("jiang2004:fig4.9", 4, "", LOCKS),
];

const APPLICATIONS: &[Expected] = &[Expected(
    "qian2008:table1",
    2,
    "",
    &["host", "elan_gather", "ferrorail"],
)];
/// Runs a figure in small: table, report and picture.
fn measure(stand_in: &StandIn, figure: &Expected) -> (String, Value, String) {
    let &Expected(name, ranks, bytes, _) = figure;
    let file = |ending: &str| stand_in.file(&format!("{}.{ending}", name.replace(':', "-")));
    let (json, svg) = (file("json"), file("svg"));
    let sizes = match bytes {
        "" => String::new(),
        bytes => format!("--bytes {bytes}"),
    };
    let few = "--budget 1 --blocks 3 --iterations 2";
    let args = format!("{name} {few} {sizes} --json {json} --plot {svg}");
    let mut bench = stand_in.bench_on(ranks, LAUNCHER, &args);
    bench
        .env("FERRORAIL_LIBRARY", built_library())
        .env("OMPI_MCA_pml", "ob1");
    let (table, _) = expect_code(&mut bench, 0);
    (table, read_json(&json), fs::read_to_string(svg).unwrap())
}

/// Curves are in table, report and picture, their numbers above 0, and what the paper found is beside.
fn check(figure: &Expected, table: &str, report: &Value, svg: &str) {
    let Expected(name, _, _, curves) = figure;
    assert_eq!(report["figure"]["name"], *name);
    let rows = report["rows"].as_array().unwrap();
    let mut found = BTreeSet::new();
    for row in rows {
        let names = ["curve", "algorithm", "setting"].into_iter();
        found.extend(names.filter_map(|name| row[name].as_str()));
        let times = [
            &row["median_us"],
            &row["ferrorail"]["median_us"],
            &row["ferrorail"]["median"],
        ];
        let times: Vec<f64> = times.into_iter().filter_map(Value::as_f64).collect();
        // Inside a node no message is counted, and who sleeps may take no time at all.
        let may_be_none = row["unit"] == "messages" || row["unit"] == "%";
        let is_right = |time: &f64| *time > 0.0 || may_be_none && *time == 0.0;
        assert!(
            times.len() == 1 && times.iter().all(is_right),
            "{name}: {row}"
        );
        assert_ne!(row["forwarded"], true, "{name}: {row}");
    }
    assert_eq!(found, curves.iter().copied().collect(), "{name}");
    for curve in *curves {
        assert!(table.contains(curve), "{name}, {curve}: {table}");
        let drawn = curve.replace('&', "&amp;");
        assert!(
            svg.contains(&format!("\n{drawn}\n")),
            "{name}: no {curve} in {svg}"
        );
    }
    assert!(svg.contains(&format!("\n{name}: ")), "{svg}");
    for finding in report["figure"]["findings"].as_array().unwrap() {
        let line = format!("# {} ", finding["what"].as_str().unwrap());
        assert!(table.contains(&line), "{name}: {line}: {table}");
    }
}

fn measure_all(figures: &[Expected], directory: &str) {
    let stand_in = StandIn::new(directory);
    for figure in third(figures, 0) {
        let (table, report, svg) = measure(&stand_in, figure);
        check(figure, &table, &report, &svg);
    }
}

#[test]
fn collectives() {
    measure_all(COLLECTIVES, "papers-collectives");
}

#[test]
fn transfers() {
    measure_all(TRANSFERS, "papers-transfers");
}

#[test]
fn active_synchronisation() {
    measure_all(ACTIVE, "papers-active");
}

#[test]
fn passive_synchronisation() {
    measure_all(PASSIVE, "papers-passive");
}

/// `ferrorail bench ARGS`, which starts jobs of its own, of few steps.
fn applications(args: &str) -> Command {
    let few = "--blocks 1 --iterations 1 --compiler mpicc.openmpi --launcher";
    let args = format!("bench {args} {few} {LAUNCHER}");
    let mut command = ferrorail();
    command.args(args.split_whitespace()).envs(OPEN_MPI);
    command
}

#[test]
fn applications_run_with_and_without_ferrorail() {
    let stand_in = StandIn::new("papers-applications");
    let json = stand_in.file("apps.json");
    let Expected(name, _, _, curves) = &APPLICATIONS[0];
    let args = format!("apps --ranks 3 --json {json}");
    let (table, _) = expect_code(&mut applications(&args), 0);
    let report = read_json(&json);
    let rows = report["rows"].as_array().unwrap();
    let places = rows.iter().map(|row| {
        let name = |name: &str| row[name].as_str().unwrap();
        let ranks = row["ranks"].as_u64().unwrap();
        (name("application"), ranks, name("nodes"), name("by"))
    });
    let mut expected = Vec::new();
    for application in ["N-BODY", "RADIX"] {
        let natural = ["host", "ferrorail"].map(|by| (application, 3, "natural", by));
        expected.extend(natural);
        expected.extend(curves.iter().map(|&by| (application, 3, "virtual", by)));
    }
    assert_eq!(places.collect::<Vec<_>>(), expected);
    for row in rows {
        let time = |name: &str| row[name][0].as_f64().unwrap();
        let (total, communication) = (time("total_us"), time("communication_us"));
        assert!(0.0 < communication && communication < total, "{row}");
        let is_host = row["by"] == "host";
        let gain = row["communication_speedup"].as_f64().unwrap();
        assert!(if is_host { gain == 1.0 } else { gain > 0.0 }, "{row}");
    }
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.count(), expected.len(), "{table}");
    assert_eq!(report["figure"]["name"], *name);
    let findings = report["figure"]["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 4);
    for finding in findings {
        assert!(finding["here"].as_f64().unwrap() > 0.0, "{finding}");
    }
}

#[test]
fn applications_that_cannot_run_are_one_line() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/apps");
    for (args, reason) in [
        ("apps --sources /nowhere", "nbody.c and radix.c"),
        ("apps gather", "nothing else"),
        ("apps --plot a.svg", "--job-sizes"),
        (
            "apps --json /nowhere/a.json",
            "cannot write /nowhere/a.json",
        ),
        ("qian2008:table1 --ranks 1", "does not communicate"),
    ] {
        let (_, stderr) = expect_code(&mut applications(args), 1);
        assert!(stderr.contains(reason), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    for (option, value, reason) in [
        ("--compiler", "no-such", "cannot run the MPI compiler"),
        ("--launcher", "no-such", "cannot run the launcher"),
        ("--launcher", "mpirun.mpich", "different MPI libraries"),
    ] {
        let mut command = ferrorail();
        command.args(["bench", "apps", "--ranks", "2", "--iterations", "1"]);
        command.args(["--sources", sources, option, value]);
        command.envs(OPEN_MPI);
        if option == "--launcher" {
            command.args(["--compiler", "mpicc.openmpi"]);
        }
        let (_, stderr) = expect_code(&mut command, 1);
        assert!(stderr.contains(reason), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    let mut inside = applications("apps");
    let (_, stderr) = expect_code(inside.env("OMPI_COMM_WORLD_SIZE", "2"), 1);
    assert!(stderr.contains("run it without mpirun"), "{stderr}");
}

#[test]
fn fewer_processes_are_spread_over_the_nodes() {
    let stand_in = StandIn::new("papers-spread");
    let figure = Expected("hpcs2007:fig5", 8, "64", COLLECTIVES[7].3);
    let (table, report, _) = measure(&stand_in, &figure);
    let rows = report["rows"].as_array().unwrap();
    let ranks: Vec<_> = rows
        .iter()
        .map(|row| row["ranks"].as_u64().unwrap())
        .collect();
    assert_eq!(ranks, [4, 4, 4, 4, 8, 8, 8, 8]);
    assert!(table.contains("FERRORAIL_NODE_SIZE=2"), "{table}");
}

/// The figures of these papers that the list has, measured or drawn.
#[test]
fn drawings_name_a_command_and_all_others_are_tested() {
    let (list, _) = expect_code(ferrorail().args(["bench", "--list"]), 0);
    let tested = [COLLECTIVES, TRANSFERS, ACTIVE, PASSIVE, APPLICATIONS];
    let tested: Vec<_> = tested
        .into_iter()
        .flatten()
        .map(|figure| figure.0)
        .collect();
    let mut drawings = 0;
    for name in list.lines().filter_map(|line| line.split(' ').next()) {
        if !name.contains(':') || name.starts_with("yu2005:") || tested.contains(&name) {
            continue;
        }
        let (text, _) = expect_code(ferrorail().args(["bench", name]), 0);
        let (head, command) = text.split_once('\n').unwrap();
        assert!(head.starts_with(&format!("# {name}, ")), "{text}");
        assert!(command.contains("ferrorail "), "{text}");
        drawings += 1;
    }
    assert_eq!(drawings, 5 + 2 + 2 + 15);
}

#[test]
fn cut_offs_inside_a_node_are_found() {
    let stand_in = StandIn::new("papers-cutoffs");
    let few = "--budget 1 --blocks 3 --iterations 2 --bytes 4,64K";
    let mut bench = stand_in.bench_on(2, LAUNCHER, &format!("cutoffs {few}"));
    bench
        .env("FERRORAIL_LIBRARY", built_library())
        .env("OMPI_MCA_pml", "ob1");
    let (stdout, _) = expect_code(&mut bench, 0);
    assert!(stdout.contains("# shared buffer "), "{stdout}");
}
