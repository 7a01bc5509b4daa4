//! What the integration tests share.

use serde_json::Value;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The command under test, without settings from outside.
pub fn ferrorail() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrorail"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("FERRORAIL_") || name == "LD_PRELOAD" {
            command.env_remove(name);
        }
    }
    command
}

/// What Open MPI's launcher needs on the machines of users and CI alike, in the form of `Command::envs`.
#[allow(dead_code, reason = "not every test program starts MPI jobs")]
pub const OPEN_MPI: [(&str, &str); 3] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    // Its other message layers look for their networks for 0.2 s.
    ("OMPI_MCA_pml", "ob1"),
];

/// Runs to the end and checks the exit code.
#[track_caller]
pub fn expect_code(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().unwrap();
    let (stdout, stderr) = texts(&output);
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout: {stdout}\nstderr: {stderr}"
    );
    (stdout, stderr)
}

/// A report in JSON.
#[allow(dead_code, reason = "not every test program reads reports")]
pub fn read_json(file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Both streams as text.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is text");
    (text(&output.stdout), text(&output.stderr))
}

/// Waits until `done`, for 10 s at most.
#[allow(dead_code, reason = "not every test program waits")]
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{what} did not happen"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
