//! Signals as events of the main loop instead of interruptions.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;
use std::time::Duration;

/// Signals that end the job.
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];
/// Signals that are only passed on.
const PASSING: [Signal; 3] = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH];

/// What a signal asks of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// End the job with this signal.
    End(Signal),
    /// Give the ranks this signal.
    PassOn(Signal),
    /// Stop, ranks first.
    Suspend,
    /// Go on after a stop.
    Resume,
    /// A rank has ended, or nothing happened in time.
    Look,
}

/// All signals that the launcher handles; they stay blocked in this process.
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals in this thread and in those it starts later.
    pub fn take() -> nix::Result<Self> {
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: no handler is installed. An inherited "ignore" would let the kernel reap ranks.
        unsafe { sigaction(Signal::SIGCHLD, &default) }?;
        let mut set = SigSet::empty();
        for signal in ENDING.into_iter().chain(PASSING) {
            set.add(signal);
        }
        for signal in [Signal::SIGCHLD, Signal::SIGTSTP, Signal::SIGCONT] {
            set.add(signal);
        }
        set.thread_block()?;
        SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map(Self)
    }

    /// The next event, after `timeout` at the latest.
    pub fn wait(&mut self, timeout: Duration) -> nix::Result<Event> {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Err(Errno::EINTR) => return Ok(Event::Look),
            other => other?,
        };
        let Some(info) = self.0.read_signal()? else {
            return Ok(Event::Look);
        };
        let signal = Signal::try_from(info.ssi_signo as i32)?;
        Ok(match signal {
            Signal::SIGTSTP => Event::Suspend,
            Signal::SIGCONT => Event::Resume,
            _ if ENDING.contains(&signal) => Event::End(signal),
            _ if PASSING.contains(&signal) => Event::PassOn(signal),
            _ => Event::Look,
        })
    }
}
