//! How tests ask `ferrorail explain`, and look at what it says.

use crate::common::{expect_code, ferrorail};
use serde_json::Value;
use std::process::Command;

pub fn explain(args: &str) -> Command {
    let mut command = ferrorail();
    command.arg("explain").args(args.split_whitespace());
    command
}

pub fn json(args: &str) -> Value {
    let (stdout, stderr) = expect_code(explain(args).arg("--json"), 0);
    assert_eq!(stderr, "");
    serde_json::from_str(&stdout).unwrap()
}

pub fn row<'a>(facts: &'a Value, algorithm: &str, protocol: &str) -> &'a Value {
    let mut rows = facts["algorithms"].as_array().unwrap().iter();
    rows.find(|row| row["algorithm"] == algorithm && row["protocol"] == protocol)
        .unwrap_or_else(|| panic!("{algorithm} by {protocol}: {facts}"))
}
