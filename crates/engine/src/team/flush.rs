//! Finding out that all that a rank sent has arrived.

use super::link::Link;
use super::map::Map;
use crate::EngineError;
use ferrorail_base::RailId;
use ferrorail_fabric::{Endpoint, Op, Ticket, Tracking};
use std::time::{Duration, Instant};

/// A rail whose peer has gone may never answer; leaving does not wait for it longer than this.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// An empty tracked put on each lane, which completes after all before it.
#[derive(Debug)]
pub(crate) struct Flush {
    /// Where it is still to be posted: links of ranks, and team rails.
    lanes: Vec<(usize, RailId)>,
    posted: Vec<Ticket>,
    deadline: Instant,
}

impl Flush {
    /// Of what this rank has sent over `links`.
    pub fn start(map: &Map, links: &[Option<Link>]) -> Self {
        let rails = map.rails.as_ref();
        let lanes = rails.map_or(0, |rails| rails.local.len());
        let connected = |rank: &usize| links[*rank].is_some();
        let ranks = (0..links.len()).filter(connected);
        Self {
            lanes: ranks
                .flat_map(|rank| (0..lanes).map(move |lane| (rank, RailId(lane as u8))))
                .collect(),
            posted: Vec::new(),
            deadline: Instant::now() + FLUSH_TIMEOUT,
        }
    }

    /// Whether everything this rank posted has left its memory, as far as that goes without waiting.
    pub fn advance(&mut self, map: &Map, links: &[Option<Link>]) -> Result<bool, EngineError> {
        let Some(rails) = &map.rails else {
            return Ok(true);
        };
        rails.fabric.progress()?;
        while let Some(&(rank, rail)) = self.lanes.last() {
            let link = links[rank].as_ref().expect("connected when it began");
            let op = Op::put(rails.slice(0, 0), link.at(0));
            // SAFETY: an empty put touches no memory.
            match unsafe { rails.post(link, rail, &op, Tracking::Tracked) }? {
                Some(ticket) => self.posted.push(ticket),
                None => return Ok(false),
            }
            self.lanes.pop();
        }
        while let Some(&ticket) = self.posted.last() {
            if !rails.fabric.is_complete(ticket)? {
                return Ok(false);
            }
            self.posted.pop();
        }
        // On a lane out of use, the put has gone by another, past what that one owes.
        let mut links = links.iter().flatten();
        Ok(!links.any(|link| rails.fabric.owes(link.peer)))
    }

    /// Whether it has taken too long.
    pub fn is_overdue(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
