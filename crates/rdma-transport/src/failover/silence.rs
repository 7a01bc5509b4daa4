//! What is known of a lane that is asked whether it answers: the put under way, and since when nothing has
//! completed.

use ferrorail_fabric::Ticket;
use std::time::{Duration, Instant};

/// Looks before silence is believed: a process that was stopped finds its completions at the first.
const LOOKS_MIN: u32 = 3;

/// What is known of a lane that is asked.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// The put under way.
    pub ticket: Option<Ticket>,
    silence: Option<Silence>,
}

/// Nothing has completed since.
#[derive(Debug)]
struct Silence {
    since: Instant,
    completed: u64,
    looks: u32,
}

impl Probe {
    /// Takes note that `completed` operations have completed at `now`; how long it has been no more, once that
    /// was seen often enough.
    pub fn silent_for(&mut self, completed: u64, now: Instant) -> Option<Duration> {
        match &mut self.silence {
            Some(silence) if silence.completed == completed => {
                silence.looks += 1;
                (silence.looks >= LOOKS_MIN).then(|| now - silence.since)
            }
            silence => {
                *silence = Some(Silence {
                    since: now,
                    completed,
                    looks: 0,
                });
                None
            }
        }
    }
}
