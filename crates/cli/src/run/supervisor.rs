//! Watching over the ranks: who failed first, who must be ended, when to stop waiting.

use super::ranks::{End, Ranks};
use super::signals::{Event, Signals};
use anyhow::{Context, Result};
use ferrorail_bootstrap::Rendezvous;
use nix::sys::signal::{Signal, raise};
use std::time::{Duration, Instant};

/// What `timeout` exits with.
const EXIT_TIMEOUT: u8 = 124;
/// Longest sleep; a lost wake-up costs no more than this.
const NAP_MAX: Duration = Duration::from_secs(1);

/// Time limits of a job.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of the whole job.
    pub timeout: Option<Duration>,
    /// Between asking ranks to end and killing them.
    pub grace: Duration,
}

/// The launcher's main loop.
pub struct Supervisor<'a> {
    ranks: Ranks,
    signals: Signals,
    rendezvous: &'a Rendezvous,
    limits: Limits,
    deadline: Option<Instant>,
    /// The command's exit code, once something has failed.
    verdict: Option<u8>,
    /// When ranks that were asked to end are killed.
    kill_at: Option<Instant>,
}

impl<'a> Supervisor<'a> {
    /// The time limits start to run now.
    pub fn new(ranks: Ranks, signals: Signals, rendezvous: &'a Rendezvous, limits: Limits) -> Self {
        Self {
            ranks,
            signals,
            rendezvous,
            limits,
            // One beyond the clock never comes.
            deadline: limits
                .timeout
                .and_then(|timeout| Instant::now().checked_add(timeout)),
            verdict: None,
            kill_at: None,
        }
    }

    /// Returns when every rank has ended: with 0 or the first failure's exit code.
    pub fn watch(mut self) -> Result<u8> {
        loop {
            for end in self.ranks.reap().context("cannot wait for ranks")? {
                self.note(end);
            }
            if self.ranks.is_empty() {
                self.ranks.finish_output();
                return Ok(self.verdict.unwrap_or(0));
            }
            self.check_clock();
            match self
                .signals
                .wait(self.nap())
                .context("cannot receive signals")?
            {
                Event::End(signal) => self.end(signal),
                Event::PassOn(signal) => self.ranks.signal(signal),
                Event::Suspend => {
                    self.ranks.signal(Signal::SIGSTOP);
                    raise(Signal::SIGSTOP).context("cannot stop")?;
                }
                Event::Resume => self.ranks.signal(Signal::SIGCONT),
                Event::Look => {}
            }
        }
    }

    fn note(&mut self, end: End) {
        let description = end.describe();
        self.rendezvous.rank_exited(end.rank, &description);
        if end.code() == 0 || self.verdict.is_some() {
            return;
        }
        self.verdict = Some(end.code());
        let others = match self.ranks.len() {
            0 => String::new(),
            count => format!("; ending the other {count}"),
        };
        ferrorail_base::complain(format_args!(
            "ferrorail run: rank {} (pid {}) {description}{others}",
            end.rank, end.pid
        ));
        self.terminate(Signal::SIGTERM);
    }

    /// The user wants the job to end; asking twice kills it.
    fn end(&mut self, signal: Signal) {
        if self.kill_at.is_some() {
            self.ranks.signal(Signal::SIGKILL);
            return;
        }
        self.verdict.get_or_insert(128 + signal as u8);
        self.terminate(signal);
    }

    fn terminate(&mut self, signal: Signal) {
        self.ranks.signal(signal);
        // A stopped process would not notice.
        self.ranks.signal(Signal::SIGCONT);
        self.kill_at
            .get_or_insert(Instant::now() + self.limits.grace);
    }

    fn check_clock(&mut self) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|kill_at| kill_at <= now) {
            self.ranks.signal(Signal::SIGKILL);
            self.kill_at = Some(now + self.limits.grace);
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            if self.verdict.is_none() {
                let count = self.ranks.len();
                ferrorail_base::complain(format_args!(
                    "ferrorail run: time-out; ending {count} ranks"
                ));
                self.verdict = Some(EXIT_TIMEOUT);
                self.terminate(Signal::SIGTERM);
            }
        }
    }

    fn nap(&self) -> Duration {
        let now = Instant::now();
        [self.kill_at, self.deadline]
            .into_iter()
            .flatten()
            .map(|instant| instant.saturating_duration_since(now) + Duration::from_millis(1))
            .fold(NAP_MAX, Duration::min)
    }
}
