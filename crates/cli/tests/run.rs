//! `ferrorail run`: ranks, failures, signals, leftovers.

mod common;

use common::{expect_code, ferrorail, wait_until};
use ferrorail_bootstrap::Oob;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `ferrorail run ARGS -- sh -c SCRIPT`.
fn run(args: &str, script: &str) -> Command {
    let mut command = ferrorail();
    command
        .arg("run")
        .args(args.split_whitespace())
        .args(["--", "sh", "-c", script]);
    command
}

/// `ferrorail run ARGS` of `program` below, which is a test of this file that is not run otherwise.
fn run_rust(args: &str, program: &str) -> Command {
    let mut command = ferrorail();
    command
        .arg("run")
        .args(args.split_whitespace())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", program, "--ignored", "--nocapture", "--quiet"]);
    command
}

/// A directory for one test, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ferrorail-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Process numbers that ranks left in files `pid.*`, once there are `count`.
    fn pids(&self, count: usize) -> Vec<i32> {
        let read = || -> Vec<i32> {
            let entries = fs::read_dir(&self.0).unwrap().flatten();
            let pids =
                entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("pid."));
            pids.filter_map(|entry| fs::read_to_string(entry.path()).ok()?.trim().parse().ok())
                .collect()
        };
        wait_until("the ranks' start", || read().len() == count);
        read()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether the process runs; one that is only not reaped does not.
fn is_running(pid: i32) -> bool {
    let state = |stat: String| stat.rsplit(") ").next().map(|rest| !rest.starts_with('Z'));
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(state)
        .unwrap_or(false)
}

#[track_caller]
fn expect_gone(pids: &[i32]) {
    wait_until("the ranks' end", || {
        !pids.iter().any(|&pid| is_running(pid))
    });
}

fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// A script whose rank notes its number and that of a process of its own, and then sleeps.
fn sleeper(scratch: &Path) -> String {
    format!(
        "cd {}; echo $$ > new.$$; mv new.$$ pid.$$; \
         sleep 100 & echo $! > new.$!; mv new.$! pid.$!; wait",
        scratch.display()
    )
}

#[test]
fn ranks_get_their_place_and_the_options() {
    let script = "echo $FERRORAIL_RUN_RANK/$FERRORAIL_RUN_SIZE \
                  $FERRORAIL_NODE_SIZE $FERRORAIL_RAILS $FERRORAIL_FABRIC";
    let options = "-n 3 --node-size 2 --rails rxe0,rxe1 --fabric loopback";
    let (stdout, _) = expect_code(&mut run(options, script), 0);
    let mut lines: Vec<_> = stdout.lines().collect();
    lines.sort_unstable();
    let expected = [
        "0/3 2 rxe0,rxe1 loopback",
        "1/3 2 rxe0,rxe1 loopback",
        "2/3 2 rxe0,rxe1 loopback",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn wrong_options_are_refused() {
    for options in ["-n 0", "-n x", "--fabric tokenring", "--timeout -1"] {
        let (_, stderr) = expect_code(&mut run(options, "true"), 2);
        assert!(stderr.contains("invalid value"), "{stderr}");
    }
    let (_, stderr) = expect_code(ferrorail().args(["run", "-n", "2"]), 2);
    assert!(stderr.contains("PROGRAM"), "{stderr}");
}

#[test]
fn a_missing_program_is_127_and_leaves_nothing() {
    let (_, stderr) = expect_code(
        ferrorail().args(["run", "-n", "2", "./no-such-program"]),
        127,
    );
    assert!(stderr.contains("./no-such-program"), "{stderr}");
    let (_, stderr) = expect_code(ferrorail().args(["run", "-n", "2", "/etc/passwd"]), 126);
    assert!(stderr.contains("/etc/passwd"), "{stderr}");
}

#[test]
fn output_is_tagged_and_input_goes_to_rank_0() {
    let mut child = run("-n 2 --tag", "sed s/^/in:/; echo one; echo two >&2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"text\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = common::texts(&output);
    assert!(output.status.success(), "{stderr}");
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&stdout), ["[0] in:text", "[0] one", "[1] one"]);
    assert_eq!(sorted(&stderr), ["[0] two", "[1] two"]);
}

#[test]
fn the_first_failure_ends_the_others() {
    let scratch = Scratch::new("failing");
    let script = format!(
        "if [ $FERRORAIL_RUN_RANK = 1 ]; then \
             while [ $(ls {0} | grep -c ^pid) -lt 4 ]; do sleep 0.05; done; exit 7; \
         fi; {1}",
        scratch.0.display(),
        sleeper(&scratch.0)
    );
    let start = Instant::now();
    let (_, stderr) = expect_code(&mut run("-n 3", &script), 7);
    assert!(
        stderr.contains("rank 1 (pid ") && stderr.contains("exited with code 7"),
        "{stderr}"
    );
    assert!(stderr.contains("ending the other 2"), "{stderr}");
    assert!(start.elapsed() < Duration::from_secs(10));
    expect_gone(&scratch.pids(4));
}

#[test]
fn a_killed_rank_is_named_and_ranks_that_ignore_sigterm_are_killed() {
    let script = "trap '' TERM; if [ $FERRORAIL_RUN_RANK = 0 ]; then sleep 0.2; kill -9 $$; fi; \
                  sleep 100; sleep 100";
    let start = Instant::now();
    let (_, stderr) = expect_code(&mut run("-n 2", script), 128 + 9);
    assert!(
        stderr.contains("rank 0 (pid ") && stderr.contains("was killed by SIGKILL"),
        "{stderr}"
    );
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn what_a_rank_leaves_behind_is_killed() {
    let scratch = Scratch::new("leftover");
    let script = format!(
        "cd {}; sleep 100 & echo $! > new.$!; mv new.$! pid.$!",
        scratch.0.display()
    );
    expect_code(&mut run("-n 2", &script), 0);
    expect_gone(&scratch.pids(2));
}

#[test]
fn the_time_out_ends_the_ranks() {
    let (_, stderr) = expect_code(&mut run("-n 2 --timeout 0.3", "sleep 100"), 124);
    assert!(stderr.contains("time-out; ending 2 ranks"), "{stderr}");
}

#[test]
fn ending_signals_reach_the_ranks() {
    use nix::sys::signal::Signal::{SIGINT, SIGTERM};
    for (sent, code) in [(SIGINT, 130), (SIGTERM, 143)] {
        let scratch = Scratch::new(sent.as_str());
        // A shell starts its background processes with SIGINT ignored; the launcher's SIGKILL to
        // what is left of the group ends them.
        let mut child = run("-n 2", &sleeper(&scratch.0)).spawn().unwrap();
        let pids = scratch.pids(4);
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        expect_gone(&pids);
    }
}

#[test]
fn user_signals_are_passed_on() {
    let scratch = Scratch::new("usr1");
    let script = format!(
        "cd {}; trap 'echo got; exit 0' USR1; echo $$ > new.$$; mv new.$$ pid.$$; \
         while :; do sleep 0.05; done",
        scratch.0.display()
    );
    let child = run("-n 2", &script).stdout(Stdio::piped()).spawn().unwrap();
    scratch.pids(2);
    signal(&child, nix::sys::signal::Signal::SIGUSR1);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"got\ngot\n");
}

#[test]
fn ranks_die_with_the_launcher() {
    let scratch = Scratch::new("orphan");
    let script = format!(
        "cd {}; echo $$ > new.$$; mv new.$$ pid.$$; exec sleep 100",
        scratch.0.display()
    );
    let mut child = run("-n 2", &script).spawn().unwrap();
    let pids = scratch.pids(2);
    child.kill().unwrap();
    child.wait().unwrap();
    expect_gone(&pids);
}

#[test]
fn rust_programs_find_their_world() {
    let (stdout, _) = expect_code(&mut run_rust("-n 4 --timeout 60", "program_ring"), 0);
    for rank in 0..4 {
        assert!(
            stdout.contains(&format!("rank {rank} of 4 is done")),
            "{stdout}"
        );
    }
}

#[test]
fn a_rank_that_dies_in_an_exchange_fails_the_job() {
    let mut command = run_rust("-n 3 --timeout 60", "program_dying");
    let (_, stderr) = expect_code(&mut command, 128 + 9);
    assert!(
        stderr.contains("rank 2 (pid ") && stderr.contains("SIGKILL"),
        "{stderr}"
    );
}

#[test]
fn runs_may_be_nested() {
    let inner = env!("CARGO_BIN_EXE_ferrorail");
    let script =
        format!("{inner} run -n 2 -- sh -c 'echo $FERRORAIL_RUN_RANK/$FERRORAIL_RUN_SIZE $OUTER' ");
    let script = format!("export OUTER=$FERRORAIL_RUN_RANK; {script}");
    let (stdout, _) = expect_code(&mut run("-n 3", &script), 0);
    let mut lines: Vec<_> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["0/2 0", "0/2 1", "0/2 2", "1/2 0", "1/2 1", "1/2 2"]
    );
}

#[test]
#[ignore = "a program that other tests start under `ferrorail run`"]
fn program_ring() {
    let mut oob = ferrorail_bootstrap::from_env().unwrap();
    let (rank, size) = (oob.rank(), oob.size());
    assert_eq!(oob.host_key(), ferrorail_bootstrap::probe::host_key());
    let all = oob.allgather(&rank.0.to_le_bytes()).unwrap();
    let expected: Vec<_> = (0..size).map(|rank| rank.to_le_bytes().to_vec()).collect();
    assert_eq!(all, expected);
    // A second world beside the first.
    let mut second = ferrorail_bootstrap::from_env().unwrap();
    second.barrier().unwrap();
    drop(second);
    oob.barrier().unwrap();
    println!("rank {rank} of {size} is done");
}

#[test]
#[ignore = "a program that other tests start under `ferrorail run`"]
fn program_dying() {
    let mut oob: Box<dyn Oob> = ferrorail_bootstrap::from_env().unwrap();
    oob.barrier().unwrap();
    if oob.rank().0 == 2 {
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    let error = oob.allgather(&[]).unwrap_err();
    assert!(error.to_string().contains("rank 2"), "{error}");
    // The launcher must report the rank that died, not those that noticed.
    std::thread::sleep(Duration::from_secs(100));
}

#[test]
fn without_a_launcher_there_is_a_world_of_one() {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    for name in [
        "FERRORAIL_RUN_RANK",
        "FERRORAIL_RUN_SIZE",
        "FERRORAIL_RUN_SOCKET",
    ] {
        command.env_remove(name);
    }
    command.args([
        "--exact",
        "program_ring",
        "--ignored",
        "--nocapture",
        "--quiet",
    ]);
    let (stdout, _) = expect_code(&mut command, 0);
    assert!(stdout.contains("rank 0 of 1 is done"), "{stdout}");
    command.env("FERRORAIL_RUN_RANK", "0");
    let (_, stderr) = expect_code(&mut command, 101);
    assert!(stderr.contains("FERRORAIL_RUN_SIZE is not set"), "{stderr}");
}
