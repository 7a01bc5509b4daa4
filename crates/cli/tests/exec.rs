//! `ferrorail exec`: the preload, exit codes, warnings; and the command line as a whole.

mod common;

use common::{expect_code, ferrorail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A file that stands for libferrorail.so. The dynamic linker complains that it is no library, goes
/// on, and so shows that it was asked to load it.
struct Library(PathBuf);

impl Library {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{name}-{}.so", std::process::id()));
        fs::write(&path, "not a library").unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn exec(&self) -> Command {
        let mut command = ferrorail();
        command.env("FERRORAIL_LIBRARY", &self.0).arg("exec");
        command
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn the_library_is_preloaded_before_others() {
    let library = Library::new("ferrorail-preload");
    let (stdout, stderr) = expect_code(
        library
            .exec()
            .args(["sh", "-c", "echo $LD_PRELOAD"])
            .env("LD_PRELOAD", "libother.so"),
        0,
    );
    assert_eq!(stdout, format!("{}:libother.so\n", library.0.display()));
    assert!(stderr.contains(library.0.to_str().unwrap()), "{stderr}");
}

#[test]
fn arguments_and_exit_codes_are_the_programs() {
    let library = Library::new("ferrorail-arguments");
    let script = "echo $0 $1 $2; exit 5";
    let (stdout, _) = expect_code(
        library
            .exec()
            .args(["sh", "-c", script, "a", "--help", "-n"]),
        5,
    );
    assert_eq!(stdout, "a --help -n\n");
    // Nor is the first one this command's.
    let (stdout, _) = expect_code(library.exec().args(["echo", "-h"]), 0);
    assert_eq!(stdout, "-h\n");
}

#[test]
fn programs_that_are_missing_or_not_executable_are_told_apart() {
    let library = Library::new("ferrorail-missing");
    let (_, stderr) = expect_code(library.exec().arg("no-such-program-anywhere"), 127);
    assert!(
        stderr.contains("no-such-program-anywhere: no such program"),
        "{stderr}"
    );
    let (_, stderr) = expect_code(library.exec().arg("/etc/passwd"), 126);
    assert!(stderr.contains("/etc/passwd"), "{stderr}");
}

#[test]
fn a_missing_library_is_said_with_the_remedy() {
    let (_, stderr) = expect_code(
        ferrorail()
            .env("FERRORAIL_LIBRARY", "/no/libferrorail.so")
            .args(["exec", "true"]),
        125,
    );
    assert_eq!(
        stderr,
        "ferrorail: FERRORAIL_LIBRARY=/no/libferrorail.so: there is no such file\n"
    );
}

#[test]
fn a_static_program_runs_with_a_warning() {
    let directory = std::env::temp_dir().join(format!("ferrorail-static-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (source, program) = (directory.join("answer.c"), directory.join("answer"));
    fs::write(&source, "int main(void) { return 42; }\n").unwrap();
    let status = Command::new("cc")
        .arg("-static")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(status.expect("a C compiler").success());
    let library = Library::new("ferrorail-static");
    let (_, stderr) = expect_code(library.exec().arg(&program), 42);
    assert!(
        stderr.contains("is statically linked: it cannot be interposed"),
        "{stderr}"
    );
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn reports_end_quietly_where_nobody_reads_on() {
    for arguments in [&["explain"][..], &["info"], &["bench", "--list"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (_, stderr) = expect_code(ferrorail().args(arguments).stdout(writer), 0);
        assert_eq!(stderr, "", "{arguments:?}");
    }
}

#[test]
fn without_arguments_there_is_help_and_there_is_a_version() {
    let (_, stderr) = expect_code(&mut ferrorail(), 2);
    for word in ["Usage: ferrorail", "exec", "run", "info", "bench"] {
        assert!(stderr.contains(word), "{stderr}");
    }
    assert!(!stderr.contains("probe-mpi"), "{stderr}");
    let (stdout, _) = expect_code(ferrorail().arg("--version"), 0);
    assert_eq!(stdout, format!("ferrorail {}\n", env!("CARGO_PKG_VERSION")));
}
