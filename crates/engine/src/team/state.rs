//! What operations of a team change.

use super::connected::Connected;
use super::flush::Flush;
use super::link::Link;
use super::map::Map;
use super::resume::Resumption;
use crate::plan::Plans;
use crate::quiescence::progress::Quiescence;
use crate::run::checked::unacknowledged::UnacknowledgedList;
use crate::run::staged::transfers::StagedTransfers;
use crate::sequence::Sequence;
use crate::ways::Ways;
use ferrorail_base::Rank;
use ferrorail_bootstrap::Oob;
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::{RailTurn, RateSampler};
use ferrorail_fabric::{RemoteRegion, Ticket};
use std::time::Instant;

/// What operations change.
#[derive(Default)]
pub(crate) struct State {
    /// Out-of-band exchange, for connecting and leaving; `None` while the team is parked.
    pub(super) oob: Option<Box<dyn Oob>>,
    /// Numbers the operations; the same on all ranks.
    pub sequence: Sequence,
    /// What is being found finished everywhere.
    pub quiescence: Quiescence,
    /// Chosen algorithms with their schedules.
    pub plans: Plans,
    /// What is known of the ways of long messages.
    pub ways: Ways,
    /// Connections, by rank; `None` for ranks of this node and not yet connected ones.
    pub links: Vec<Option<Link>>,
    /// Whose turn it is among the rails, for short messages to whomever.
    pub rail_turn: RailTurn,
    /// Receive buffers announced in the running operation, by rank.
    pub rtr: Vec<Option<Rtr>>,
    /// The slot of the RTR that this rank sent last to each rank of its node.
    pub sent_rtrs: Vec<Slot>,
    /// Tracked puts of the running operation.
    pub tickets: Vec<Ticket>,
    /// Checked messages without an acknowledgement.
    pub unacknowledged: UnacknowledgedList,
    /// Messages that go in pieces, as user memory could not be registered.
    pub staged: StagedTransfers,
    /// Times the chunks of divided messages, where shares follow completions.
    pub sampler: RateSampler,
    /// The status cell of a rank of another node that is being read.
    pub probe: Option<(Rank, Ticket)>,
    /// Connections that all ranks know of.
    pub connected: Connected,
    /// Whether the team can be used.
    pub life: Life,
}

/// Whether a team can be used.
#[derive(Default)]
pub(crate) enum Life {
    /// For operations.
    #[default]
    InUse,
    /// For none: some rank could not connect, as all know.
    Unconnected,
    /// An error left its memory undefined.
    Failed(Failed),
    /// By [`Team::free`](super::Team::free) or [`Team::retire`](super::Team::retire).
    Ended(Leaving),
    /// Another communicator may use it.
    Parked,
}

impl Life {
    /// Whether the communicator that it was made for has been freed.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Parked)
    }
}

/// What a team keeps after an error.
pub(crate) struct Failed {
    /// The first error. Every later call repeats it, unless the host runs it.
    pub reason: String,
    /// How ranks find out together who runs later calls; none after a panic.
    pub(super) after_error: Option<AfterError>,
}

/// A receive buffer that was announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtr {
    pub region: RemoteRegion,
    /// The slot of the cell in which it came, until that serves for something else.
    pub cell: Option<Slot>,
}

/// How far the ranks are with finding out who runs later calls.
pub(super) struct AfterError {
    pub resumption: Resumption,
    pub since: Instant,
    /// What this rank sent before, once that matters.
    pub flush: Option<Flush>,
}

/// How far this rank has left.
#[derive(Debug)]
pub(crate) enum Leaving {
    /// What it sent is still under way.
    Flushing(Flush),
    /// It has said so; others have not.
    Waiting,
    /// Nobody uses the team any more, or will say so.
    Over,
}

impl State {
    /// What operations find first.
    pub(super) fn new(oob: Option<Box<dyn Oob>>, map: &Map) -> Self {
        let size = map.topology.size() as usize;
        let sequence = map.geometry().map_or_else(Sequence::default, |geometry| {
            let rotating = geometry.rotating_bytes as usize;
            Sequence::new(map.topology.size(), rotating)
        });
        Self {
            sequence,
            ways: Ways::new(map.measures_vectors()),
            links: vec![None; size],
            rail_turn: RailTurn::after(map.node_rank.index(), map.rail_count().into()),
            rtr: vec![None; size],
            sent_rtrs: vec![0; size],
            life: match oob {
                Some(_) => Life::InUse,
                None => Life::Parked,
            },
            oob,
            ..Self::default()
        }
    }

    /// What was kept after the error that the team had, if it had one.
    pub(super) fn after_error(&mut self) -> Option<&mut Option<AfterError>> {
        match &mut self.life {
            Life::Failed(failed) => Some(&mut failed.after_error),
            _ => None,
        }
    }

    /// Out-of-band exchange.
    pub fn oob(&mut self) -> &mut dyn Oob {
        &mut **self.oob.as_mut().expect("the team is in use")
    }
}
