//! Leaving a team.

use super::{State, Team};
use crate::{EngineError, proof};
use ferrorail_base::RailId;
use ferrorail_fabric::{Fabric, FabricError, LocalSlice, RemoteSlice, Ticket, Tracking};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// A rail whose peer has left may never answer; leaving does not wait for it longer than this.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// What it takes two sides to account for a lane, once its failure is noticed.
const ACCOUNTING: Duration = Duration::from_millis(500);

impl Team {
    /// Ends the team's use; its memory goes when it is dropped. Collective in the sense that every
    /// rank does it, but nobody waits for another: what peers still read of this rank's memory is
    /// shared, and what this rank sent is complete.
    pub fn free(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut state.freed, true) {
            return;
        }
        state
            .plans
            .flush_counts(&self.map, self.map.context.stats());
        if state.broken.is_none()
            && let Err(error) = self.settle(&mut state).and_then(|()| self.flush(&state))
        {
            tracing::debug!("while leaving a team: {error}");
        }
        state.broken.get_or_insert_with(|| "it was freed".into());
    }

    /// Frees the team, and gives back its out-of-band exchange. Whether peers may still look at its
    /// memory is returned: one whose rail failed reads flags back to learn what arrived. It is to be
    /// dropped [`Team::readable_for`] later then.
    pub fn retire(&self) -> bool {
        self.free();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.oob = None;
        state.links.iter().any(Option::is_some)
    }

    /// How long peers may need to account for what they sent, when a rail failed.
    pub fn readable_for(&self) -> Duration {
        3 * Duration::from_millis(self.map.context.settings().rail_timeout_ms) + ACCOUNTING
    }

    /// Ends a leader's part in a proof, so that no word of it comes later.
    fn settle(&self, state: &mut State) -> Result<(), EngineError> {
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        while proof::advance(&self.map, state)?.is_some() && Instant::now() < deadline {
            if let Some(rails) = &self.map.rails {
                rails.fabric.progress()?;
            }
            self.map.context.host().poke();
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Waits until everything this rank posted has left its memory: an empty tracked put on each
    /// lane completes after all before it.
    pub(crate) fn flush(&self, state: &State) -> Result<(), EngineError> {
        let Some(rails) = &self.map.rails else {
            return Ok(());
        };
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        let mut tickets: Vec<Ticket> = Vec::new();
        for link in state.links.iter().flatten() {
            for lane in 0..rails.local.len() {
                let from = LocalSlice {
                    region: rails.region(),
                    offset: 0,
                    bytes: 0,
                };
                let to = RemoteSlice {
                    region: &link.segment,
                    offset: 0,
                };
                let rail = rails.local(RailId(lane as u8));
                tickets.push(loop {
                    // SAFETY: an empty put touches no memory.
                    match unsafe {
                        rails
                            .fabric
                            .put(link.peer, rail, from, to, Tracking::Tracked)
                    } {
                        Err(FabricError::WouldBlock) if Instant::now() < deadline => {
                            rails.fabric.progress()?;
                        }
                        posted => break posted?,
                    }
                });
            }
        }
        for ticket in tickets {
            while !rails.fabric.is_complete(ticket)? && Instant::now() < deadline {
                rails.fabric.progress()?;
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.free();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(rails) = &self.map.rails {
            for link in state.links.iter_mut().filter_map(Option::take) {
                rails.fabric.release(link.peer, link.segment);
            }
        }
    }
}
