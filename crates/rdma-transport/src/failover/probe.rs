//! Whether a lane answers: one in use, asked by those who have waited long, and one that is tried.
//!
//! Who only waits sends nothing that could go unanswered: a put does, and the device breaks the lane if
//! that is not acknowledged. A device that says nothing at all, of anything, is given up when it has been
//! silent for longer than it may take.

use super::Failover;
use super::control_block::Field;
use super::pair::{Pair, Recovery};
use super::silence::Probe;
use ferrorail_base::RailId;
use ferrorail_fabric::{FabricError, LocalSlice, Op, Ticket, Tracking};
use std::time::Duration;

/// A silent device may take the time-outs of a request and of its answer, and for each byte in flight what
/// a rail of 1 MB/s takes.
const TIMEOUTS: u32 = 2;

impl Failover {
    /// Asks each lane in use that is quiet with an empty put: one that does not answer is lost.
    pub(super) fn keep_alive(&self, pair: &Pair) {
        let Some(mut recovery) = pair.recovery.try_lock() else {
            return;
        };
        for rail in 0..self.rails().len() {
            if pair.is_up(rail)
                && let Err(status) = self.probe(pair, &mut recovery, rail, 0)
            {
                self.mark_down_locked(pair, &mut recovery, rail, &status);
            }
        }
    }

    /// Whether the lane of `rail` has answered a put of `bytes` bytes, which is posted where none is
    /// under way.
    ///
    /// # Errors
    /// What broke it, or that it has been silent for too long.
    pub(super) fn probe(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        bytes: usize,
    ) -> Result<bool, String> {
        let probe = &mut recovery.probes[rail];
        let answered = match probe.ticket {
            Some(ticket) => ticket.outcome(&*self.inner),
            None => {
                let fields = (Field::Out, Field::Trial);
                let posted = self.control_put(pair, rail, (rail, fields), bytes);
                posted.map(|ticket| {
                    probe.ticket = Some(ticket);
                    false
                })
            }
        };
        let broken = match answered {
            Ok(true) => {
                *probe = Probe::default();
                return Ok(true);
            }
            Ok(false) | Err(FabricError::WouldBlock) => None,
            Err(_) => self.breakage(self.lane(pair, rail)),
        };
        let status = broken.map(|broken| broken.status);
        match status.or_else(|| self.silence(pair, rail, probe)) {
            Some(status) => Err(status),
            None => Ok(false),
        }
    }

    /// Puts the first `bytes` bytes of the field `from` of the lane of `rail` in `field` of the peer,
    /// over the lane of `via`.
    pub(super) fn control_put(
        &self,
        pair: &Pair,
        via: usize,
        (rail, (from, field)): (usize, (Field, Field)),
        bytes: usize,
    ) -> Result<Ticket, FabricError> {
        let Some(wired) = pair.wired.get() else {
            return Err(FabricError::WouldBlock);
        };
        let plane = self.plane(rail);
        let from = LocalSlice {
            bytes,
            ..pair.slice(from, plane)
        };
        let to = wired.word(field, plane);
        let via = RailId(via as u8);
        let op = match field {
            // What is said later takes the place of what was said before.
            Field::In => Op::ordered(from, to),
            _ => Op::put(from, to),
        };
        // SAFETY: both words belong to control blocks, which live as long as the fabrics.
        unsafe { self.inner.post(pair.id, via, &op, Tracking::Tracked) }
    }

    /// What is wrong with a lane that has been silent for too long.
    fn silence(&self, pair: &Pair, rail: usize, probe: &mut Probe) -> Option<String> {
        let completed = self.completed(self.lane(pair, rail));
        let silent = probe.silent_for(completed, self.clock.now())?;
        let bytes = pair.journals[rail].lock().bytes();
        let allowed = TIMEOUTS * self.timeout + Duration::from_micros(bytes as u64);
        (silent > allowed).then(|| format!("its device has said nothing for {silent:.1?}"))
    }
}
