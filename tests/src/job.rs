//! One launched job: its time limit, what it printed, and what it left behind.

use crate::list::Environment;
use crate::stopwatch::Stopwatch;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Variable by which the processes of a job are known, whatever process group they are in.
const MARK: &str = "TEST_JOB";

/// How long a launcher has to stop its ranks after SIGTERM, and ranks to end after their launcher.
const GRACE: Duration = Duration::from_secs(3);

/// What `FERRORAIL_WAIT_SIGNAL` is in jobs: nothing happens in processes that do not handle it.
pub const WAIT_SIGNAL: Signal = Signal::SIGURG;

/// How long ranks and their launcher have to bring the answer.
const ANSWER: Duration = Duration::from_millis(500);

/// How often the processes of a job are looked up.
const LOOK: Duration = Duration::from_millis(50);

/// A command line with its environment.
#[derive(Clone, Debug)]
pub struct Job {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Variables to set.
    pub environment: Environment,
    /// Limit for the whole job.
    pub timeout: Duration,
}

/// What came of a job.
#[derive(Debug)]
pub struct Outcome {
    /// Of the launcher; `None` if the time limit was reached.
    pub status: Option<ExitStatus>,
    /// Standard output of all ranks.
    pub stdout: String,
    /// Standard error of all ranks and of the launcher.
    pub stderr: String,
    /// From start to end, as a [`Stopwatch`] counts it.
    pub elapsed: Duration,
    /// Processes that outlived the launcher (and were killed).
    pub survivors: Vec<String>,
    /// Shared memory objects of ferrorail that the job left.
    pub left: Vec<String>,
}

/// A job that is running.
pub struct Running {
    child: Child,
    mark: String,
    folder: PathBuf,
    watch: Stopwatch,
    timeout: Duration,
    /// Processes of the job that were seen so far, by which its shared memory is known.
    seen: RefCell<BTreeSet<i32>>,
    looked: Cell<Instant>,
}

impl Job {
    /// The command line for a shell.
    pub fn reproduce(&self) -> String {
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={}", quote(value)));
        let words = self.words.iter().map(|word| quote(word));
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs it to its end, or to its time limit.
    pub fn run(&self, folder: &Path) -> Result<Outcome> {
        self.start(folder)?.finish()
    }

    /// Starts it; `folder` takes its output.
    pub fn start(&self, folder: &Path) -> Result<Running> {
        static NEXT: std::sync::Mutex<u32> = std::sync::Mutex::new(0);
        let number = {
            let mut next = NEXT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *next += 1;
            *next
        };
        let mark = format!("{}-{number}", std::process::id());
        let program = self.words.first().context("a job has a program")?;
        let child = Command::new(program)
            .args(&self.words[1..])
            .envs(&self.environment)
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(File::create(folder.join("stdout")).context("stdout")?)
            .stderr(File::create(folder.join("stderr")).context("stderr")?)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        Ok(Running {
            child,
            mark,
            folder: folder.to_owned(),
            watch: Stopwatch::start(),
            timeout: self.timeout,
            seen: RefCell::default(),
            looked: Cell::new(Instant::now()),
        })
    }
}

impl Running {
    /// What the ranks have printed so far.
    pub fn stdout(&self) -> String {
        self.look();
        read(&self.folder.join("stdout"))
    }

    /// What the ranks and the launcher have complained of so far.
    pub fn stderr(&self) -> String {
        read(&self.folder.join("stderr"))
    }

    /// Time since its start.
    pub fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Whether it has ended, or should have.
    pub fn is_over(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some() || self.elapsed() >= self.timeout)
    }

    /// Waits for the end, or for the time limit, and looks at what is left.
    pub fn finish(mut self) -> Result<Outcome> {
        let status = self.wait(self.timeout.saturating_sub(self.elapsed()))?;
        let elapsed = self.elapsed();
        if status.is_none() {
            self.ask()?;
            self.stop()?;
        }
        let survivors = self.survivors();
        let seen = self.seen.take();
        let left = shared_memory();
        Ok(Outcome {
            status,
            stdout: read(&self.folder.join("stdout")),
            stderr: read(&self.folder.join("stderr")),
            elapsed,
            survivors,
            left: left
                .into_iter()
                .filter(|name| creator(name).is_some_and(|pid| seen.contains(&pid)))
                .collect(),
        })
    }

    /// Waits for the end, but no longer than `limit`.
    fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let end = self.elapsed() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if self.elapsed() >= end {
                return Ok(None);
            }
            self.look();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Notes which processes the job has, now and then: creators of shared memory live long enough.
    fn look(&self) {
        let now = Instant::now();
        if self.looked.get() <= now {
            self.looked.set(now + LOOK);
            descendants(self.child.id().cast_signed(), &mut self.seen.borrow_mut());
        }
    }

    /// Has the ranks of this host that run ferrorail say what they wait for. Other processes do not mind.
    fn ask(&mut self) -> Result<()> {
        for (pid, _) in processes(&self.mark) {
            let _ = kill(pid, WAIT_SIGNAL);
        }
        self.wait(ANSWER).map(drop)
    }

    /// Ends a job that took too long: launchers pass SIGTERM on to their ranks, so that goes first.
    /// What is left after that is killed as survivors.
    fn stop(&mut self) -> Result<()> {
        let launcher = Pid::from_raw(self.child.id().cast_signed());
        // An error means that it has just ended.
        let _ = kill(launcher, Signal::SIGTERM);
        if self.wait(GRACE)?.is_none() {
            self.child.kill()?;
            self.child.wait()?;
        }
        Ok(())
    }

    /// Kills the job's processes that are still there some time after the launcher's end, and names
    /// them.
    fn survivors(&self) -> Vec<String> {
        let time_limit = Instant::now() + GRACE;
        let mut found = processes(&self.mark);
        while !found.is_empty() && Instant::now() < time_limit {
            std::thread::sleep(Duration::from_millis(20));
            found = processes(&self.mark);
        }
        for (pid, _) in &found {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        found.into_iter().map(|(_, name)| name).collect()
    }
}

impl Outcome {
    /// How the job ended, in a word or two.
    pub fn ending(&self) -> String {
        match self.status {
            None => format!("did not end within {:.0} s", self.elapsed.as_secs_f64()),
            Some(status) => status.to_string(),
        }
    }
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn read(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Processes with the given mark in the environment they were started with.
fn processes(mark: &str) -> Vec<(Pid, String)> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let marked = environment
            .split(|&byte| byte == 0)
            .any(|entry| entry == wanted);
        let name = read(Path::new(&format!("/proc/{pid}/comm")));
        marked.then(|| (Pid::from_raw(pid), format!("{} ({pid})", name.trim())))
    })
    .collect()
}

/// Adds a process and all that descend from it.
fn descendants(pid: i32, found: &mut BTreeSet<i32>) {
    found.insert(pid);
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return;
    };
    for thread in threads.flatten() {
        for child in read(&thread.path().join("children")).split_whitespace() {
            if let Ok(child) = child.parse() {
                descendants(child, found);
            }
        }
    }
}

/// The process that made an object of ferrorail, whose name says so: `ferrorail-PID-NUMBER`.
fn creator(object: &str) -> Option<i32> {
    object
        .strip_prefix("ferrorail-")?
        .split('-')
        .next()?
        .parse()
        .ok()
}

/// Objects in `/dev/shm` that are not among `before`, whose creators live no more: left by a job that
/// was not seen to have made them.
pub fn unclaimed(before: &BTreeSet<String>) -> Vec<String> {
    let dead = |name: &String| {
        creator(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    let all = shared_memory().into_iter();
    all.filter(|name| !before.contains(name) && dead(name))
        .collect()
}

/// ferrorail's objects in `/dev/shm`.
pub fn shared_memory() -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir("/dev/shm") else {
        return BTreeSet::new();
    };
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("ferrorail")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str, seconds: u64) -> Outcome {
        let folder = std::env::temp_dir().join(format!(
            "ferrorail-job-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let words = ["bash", "-c", script].map(str::to_owned).to_vec();
        let job = Job {
            words,
            environment: Environment::new(),
            timeout: Duration::from_secs(seconds),
        };
        let outcome = job.run(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        outcome
    }

    #[test]
    fn output_and_status_are_kept() {
        let outcome = job("echo one; echo two >&2; exit 3", 10);
        assert_eq!(outcome.status.unwrap().code(), Some(3));
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("one\n", "two\n")
        );
        assert!(outcome.survivors.is_empty() && outcome.left.is_empty());
    }

    #[test]
    fn a_job_over_its_time_is_stopped() {
        let outcome = job("trap '' TERM; while true; do sleep 0.1; done", 1);
        assert!(outcome.status.is_none());
        assert_eq!(outcome.ending(), "did not end within 1 s");
        assert!(outcome.survivors.is_empty(), "{:?}", outcome.survivors);
    }

    #[test]
    fn processes_say_what_they_wait_for() {
        let say = "trap 'echo \"ferrorail[1] waits for rank 0 in bcast\" >&2' URG";
        let outcome = job(&format!("{say}; while true; do sleep 0.1; done"), 1);
        let waits = crate::judge::waits(&outcome);
        assert_eq!(waits, ["ferrorail[1] waits for rank 0 in bcast"]);
    }

    #[test]
    fn processes_that_outlive_the_launcher_are_found() {
        let outcome = job("setsid sleep 60 & sleep 0.3; exit 0", 10);
        assert_eq!(outcome.survivors.len(), 1, "{:?}", outcome.survivors);
        assert!(
            outcome.survivors[0].starts_with("sleep "),
            "{:?}",
            outcome.survivors
        );
    }

    #[test]
    fn shared_memory_left_behind_is_found_and_told_apart_by_job() {
        let before = shared_memory();
        let other = job("sleep 0.3 & wait; echo other", 10);
        let outcome = job(
            "(echo > /dev/shm/ferrorail-$BASHPID-0; echo $BASHPID; sleep 0.3)",
            10,
        );
        let pid = outcome.stdout.trim();
        let name = format!("ferrorail-{pid}-0");
        assert!(unclaimed(&before).contains(&name));
        std::fs::remove_file(format!("/dev/shm/{name}")).unwrap();
        assert_eq!((outcome.left, other.left), (vec![name], vec![]));
    }

    #[test]
    fn command_lines_are_quoted() {
        let job = Job {
            words: vec!["a b".into(), "c".into()],
            environment: Environment::from([("X".into(), "it's".into())]),
            timeout: Duration::ZERO,
        };
        assert_eq!(job.reproduce(), r"X='it'\''s' 'a b' c");
    }
}
