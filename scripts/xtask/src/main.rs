//! Repository checks, run as `cargo xtask CHECK`.
//!
//! | check | compares |
//! |---|---|
//! | `deps` | `cargo metadata` with `scripts/xtask/dependencies.toml` |
//! | `tidy` | every tracked file with the habits in `scripts/xtask/tidy.toml` |
//! | `exports` | the dynamic symbols of the built library with `crates/capi/exports.txt` |
//! | `needed` | the libraries that the built files load with those that may be absent |
//!
//! The last two look at the release build, or at that of the profile named. Each prints one line per violation and exits with 1 if there was one. The checks themselves are
//! functions from data to lines, so that their unit tests can show that each does fail.
#![forbid(unsafe_code)]

mod binaries;
mod deps;
mod tidy;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask deps | tidy | exports [PROFILE] | needed [PROFILE]";

fn main() -> ExitCode {
    match run() {
        Ok(violations) if violations.is_empty() => ExitCode::SUCCESS,
        Ok(violations) => {
            for line in &violations {
                println!("{line}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<Vec<String>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    match words[..] {
        ["deps"] => deps::run(&root),
        ["tidy"] => tidy::run(&root),
        ["exports"] => binaries::exports(&root, "release"),
        ["exports", profile] => binaries::exports(&root, profile),
        ["needed"] => binaries::needed(&root, "release"),
        ["needed", profile] => binaries::needed(&root, profile),
        _ => bail!("{USAGE}"),
    }
}

/// The top of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Runs a program in `root` and returns what it printed; an error if it fails.
fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let result = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !result.status.success() {
        let complaint = String::from_utf8_lossy(&result.stderr);
        bail!("{program} {}: {}", arguments.join(" "), complaint.trim());
    }
    String::from_utf8(result.stdout).with_context(|| format!("{program} printed no UTF-8"))
}
