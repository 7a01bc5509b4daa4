//! Whether lanes in use still answer, asked by those who have waited long.
//!
//! Who only waits sends nothing that could go unanswered: an empty put does, and the device breaks the
//! lane if that is not acknowledged. A device that says nothing at all, of anything, is given up when it
//! has been silent for longer than it may take.

use super::Failover;
use super::board::Line;
use super::pair::{Pair, Wired};
use ferrorail_base::RailId;
use ferrorail_fabric::{FabricError, Lanes, LocalSlice, Ticket, Tracking};
use std::time::{Duration, Instant};

/// A silent device may take the time-outs of a request and of its answer, and for each byte in flight what
/// a rail of 1 MB/s takes.
const TIMEOUTS: u32 = 2;

/// Looks before silence is believed: a process that was stopped finds its completions at the first.
const LOOKS_MIN: u32 = 3;

/// What is known of a lane in use.
#[derive(Debug, Default)]
pub(super) struct Alive {
    /// The empty put under way.
    ticket: Option<Ticket>,
    silence: Option<Silence>,
}

/// Nothing has completed since.
#[derive(Debug)]
struct Silence {
    since: Instant,
    completed: u64,
    looks: u32,
}

impl Alive {
    /// Takes note that `completed` operations have completed; how long it has been no more, once that
    /// was seen often enough.
    fn silent_for(&mut self, completed: u64) -> Option<Duration> {
        match &mut self.silence {
            Some(silence) if silence.completed == completed => {
                silence.looks += 1;
                (silence.looks >= LOOKS_MIN).then(|| silence.since.elapsed())
            }
            silence => {
                *silence = Some(Silence {
                    since: Instant::now(),
                    completed,
                    looks: 0,
                });
                None
            }
        }
    }
}

impl<F: Lanes> Failover<F> {
    /// Posts an empty put on each lane in use that is quiet: a lane that does not answer breaks.
    pub(super) fn keep_alive(&self, pair: &Pair) {
        let (Some(wired), Some(mut recovery)) = (pair.wired.get(), pair.try_recovery()) else {
            return;
        };
        for rail in 0..self.inner.rails().len() {
            if !pair.is_up(rail) {
                continue;
            }
            let alive = &mut recovery.alive[rail];
            let lost = match self.answers(pair, wired, rail, alive) {
                Ok(true) => {
                    *alive = Alive::default();
                    None
                }
                Err(error) if self.is_broken(self.lane(pair, rail), &error) => {
                    self.lose_if_broken(pair, &mut recovery, rail);
                    None
                }
                Ok(false) | Err(_) => self.silence(pair, rail, alive),
            };
            if let Some(status) = lost {
                self.lose_locked(pair, &mut recovery, rail, &status);
            }
        }
    }

    /// Whether the empty put has been answered; posts it where there is none.
    fn answers(
        &self,
        pair: &Pair,
        wired: &Wired,
        rail: usize,
        alive: &mut Alive,
    ) -> Result<bool, FabricError> {
        if let Some(ticket) = alive.ticket {
            return self.inner.is_complete(ticket);
        }
        let plane = self.plane(rail);
        let from = LocalSlice {
            bytes: 0,
            ..pair.slice(Line::Out, plane)
        };
        let to = wired.word(Line::Trial, plane);
        let id = RailId(rail as u8);
        // SAFETY: an empty put touches no memory.
        let posted = unsafe { self.inner.put(pair.id, id, from, to, Tracking::Tracked) };
        alive.ticket = Some(posted?);
        Ok(false)
    }

    /// What is wrong with a lane that has been silent for too long.
    fn silence(&self, pair: &Pair, rail: usize, alive: &mut Alive) -> Option<String> {
        let completed = self.inner.completed(self.lane(pair, rail));
        let silent = alive.silent_for(completed)?;
        let bytes = pair.journal(rail).bytes();
        let allowed = TIMEOUTS * self.timeout + Duration::from_micros(bytes as u64);
        (silent > allowed).then(|| format!("its device has said nothing for {silent:.1?}"))
    }
}
