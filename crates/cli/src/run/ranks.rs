//! The processes of the ranks.

use super::output::Output;
use ferrorail_base::Rank;
use ferrorail_bootstrap::Rendezvous;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getppid};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long the last output may take to arrive after the last rank has ended.
const OUTPUT_TIME_LIMIT: Duration = Duration::from_secs(1);

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Which one.
    pub rank: Rank,
    /// Its process.
    pub pid: u32,
    /// What it returned.
    pub status: ExitStatus,
}

impl End {
    /// The exit code a shell would show.
    pub fn code(&self) -> u8 {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => code as u8,
            (None, signal) => 128 + signal.unwrap_or(0) as u8,
        }
    }

    /// "exited with code 3", "was killed by SIGKILL".
    pub fn describe(&self) -> String {
        match self.status.signal().map(Signal::try_from) {
            Some(Ok(signal)) => format!("was killed by {signal}"),
            Some(Err(_)) => "was killed by a signal".into(),
            None => format!("exited with code {}", self.code()),
        }
    }
}

/// Every rank in a process group of its own. Dropping this kills those that are left.
pub struct Ranks {
    running: Vec<(Rank, Child)>,
    output: Option<Output>,
}

impl Ranks {
    /// No ranks yet; `tag` says whether their output passes through here.
    pub fn new(tag: bool) -> Self {
        Self {
            running: Vec::new(),
            output: tag.then(Output::default),
        }
    }

    /// Starts `count` ranks of `command`; on failure those already started are still running.
    pub fn start(
        &mut self,
        count: u32,
        command: &[OsString],
        variables: &[(&str, String)],
        rendezvous: &Rendezvous,
    ) -> io::Result<()> {
        for rank in (0..count).map(Rank) {
            let mut process = Command::new(&command[0]);
            process
                .args(&command[1..])
                .envs(variables.iter().cloned())
                .envs(rendezvous.env(rank).variables())
                .process_group(0)
                .stdin(standard_input(rank));
            if self.output.is_some() {
                process.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
            die_with_launcher(&mut process);
            let mut child = process.spawn()?;
            if let Some(output) = &mut self.output {
                output.follow(rank, child.stdout.take(), child.stderr.take())?;
            }
            self.running.push((rank, child));
        }
        Ok(())
    }

    /// Whether all have ended.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Number of those that have not ended.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Ranks that have ended since the last call; what is left of their process groups is killed.
    pub fn reap(&mut self) -> io::Result<Vec<End>> {
        let mut ended = Vec::new();
        let mut index = 0;
        while index < self.running.len() {
            if !has_exited(&self.running[index].1)? {
                index += 1;
                continue;
            }
            let (rank, mut child) = self.running.remove(index);
            // Until the leader is reaped its number cannot name another group.
            signal_group(&child, Signal::SIGKILL);
            ended.push(End {
                rank,
                pid: child.id(),
                status: child.wait()?,
            });
        }
        Ok(ended)
    }

    /// Sends `signal` to the process group of every rank that has not ended.
    pub fn signal(&self, signal: Signal) {
        for (_, child) in &self.running {
            signal_group(child, signal);
        }
    }

    /// Kills and reaps what is left.
    pub fn kill_all(&mut self) {
        self.signal(Signal::SIGKILL);
        for (rank, mut child) in self.running.drain(..) {
            if let Err(error) = child.wait() {
                tracing::warn!("rank {rank} cannot be reaped: {error}");
            }
        }
    }

    /// Waits for the rest of the output, but not for ever: a daemon may hold the pipe.
    pub fn finish_output(&mut self) {
        if let Some(output) = self.output.take() {
            output.finish(OUTPUT_TIME_LIMIT);
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Rank 0 may be fed through a pipe or file. A terminal would stop it: its process group is not the
/// terminal's foreground one.
fn standard_input(rank: Rank) -> Stdio {
    if rank == Rank(0) && !io::stdin().is_terminal() {
        return Stdio::inherit();
    }
    Stdio::null()
}

/// The kernel kills the rank when this process ends, however it ends.
fn die_with_launcher(process: &mut Command) {
    let launcher = Pid::this();
    let prepare = move || {
        SigSet::empty().thread_set_mask()?;
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != launcher {
            // It ended before the request was made.
            return Err(io::Error::from(Errno::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe system calls are made, and nothing is
    // allocated.
    unsafe { process.pre_exec(prepare) };
}

/// Whether the process has ended; it is not reaped.
fn has_exited(child: &Child) -> io::Result<bool> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let status = waitid(Id::Pid(pid(child)), flags)?;
    Ok(status != WaitStatus::StillAlive)
}

fn signal_group(child: &Child, signal: Signal) {
    match killpg(pid(child), signal) {
        // Nothing but the ended leader is left in the group.
        Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => {}
        Err(error) => tracing::warn!("{signal} to process group {}: {error}", child.id()),
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}
