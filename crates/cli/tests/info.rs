//! `ferrorail info`: everything there is, in both forms.

mod common;

use common::{expect_code, ferrorail};
use ferrorail_base::config::TABLE;
use ferrorail_coll::algorithms;
use ferrorail_engine::OFFERED;
use serde_json::Value;

/// On loopback rails, which exist everywhere.
fn info() -> std::process::Command {
    let mut command = ferrorail();
    command
        .arg("info")
        .env("FERRORAIL_FABRIC", "loopback")
        .env("FERRORAIL_RAILS", "2");
    command
}

#[test]
fn every_setting_and_algorithm_is_listed() {
    let (stdout, _) = expect_code(&mut info(), 0);
    for setting in TABLE {
        assert!(
            stdout.contains(&format!(" {}=", setting.name)),
            "{}: {stdout}",
            setting.name
        );
        assert!(stdout.contains(setting.help), "{}", setting.name);
    }
    assert!(stdout.contains("\n* FERRORAIL_FABRIC=loopback"), "{stdout}");
    assert!(stdout.contains("\n  FERRORAIL_SHM=auto"), "{stdout}");
    for algorithm in OFFERED
        .iter()
        .flat_map(|&collective| algorithms(collective))
    {
        assert!(
            stdout.contains(algorithm.name) && stdout.contains(algorithm.description),
            "{stdout}"
        );
    }
}

#[test]
fn json_has_the_same() {
    let (stdout, _) = expect_code(info().arg("--json"), 0);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["settings"].as_array().unwrap().len(), TABLE.len());
    assert!(report["host"]["cores"].as_u64().unwrap() >= 1);
    assert!(!report["host"]["numa_nodes"].as_array().unwrap().is_empty());
    assert_eq!(report["rails"]["fabric"], "loopback");
    assert_eq!(report["rails"]["rails"].as_array().unwrap().len(), 2);
    assert!(!report["algorithms"].as_array().unwrap().is_empty());
    // Which MPI libraries there are depends on the host; what is listed is described or excused.
    for library in report["mpi"].as_array().unwrap() {
        let described = library["abi"].is_string() && library["version"].is_string();
        assert!(described || library["error"].is_string(), "{library}");
    }
}

#[test]
fn what_is_wrong_is_said_but_does_not_stop_the_report() {
    let mut command = info();
    command
        .env("FERRORAIL_NODESIZE", "2")
        .env("FERRORAIL_ALGORITHM", "bcast=ring")
        .env("FERRORAIL_TUNING", "/no/table.json")
        .env("FERRORAIL_MPI_LIBRARY", "/no/libmpi.so");
    let (stdout, stderr) = expect_code(&mut command, 0);
    assert!(
        stderr.contains("did you mean FERRORAIL_NODE_SIZE?"),
        "{stderr}"
    );
    assert!(
        stderr.contains("bcast has no algorithm \"ring\""),
        "{stderr}"
    );
    let table = "FERRORAIL_TUNING=/no/table.json: No such file or directory (os error 2)";
    assert!(
        stderr
            .lines()
            .any(|line| line == format!("ferrorail: {table}")),
        "{stderr}"
    );
    let line = stdout
        .lines()
        .find(|line| line.contains("/no/libmpi.so"))
        .unwrap();
    assert!(line.contains("cannot open"), "{line}");
}
