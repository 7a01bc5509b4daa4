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
    /// Set by the first error; every later call repeats it, unless the host runs it.
    pub broken: Option<String>,
    /// What becomes of later calls.
    pub(super) after_error: Option<AfterError>,
    /// Connections that all ranks know of.
    pub connected: Connected,
    /// Set when some rank could not, as all know.
    pub unconnected: bool,
    /// Set by [`Team::free`](super::Team::free) and [`Team::retire`](super::Team::retire).
    pub freed: bool,
    /// What follows.
    pub(super) leaving: Leaving,
}

/// A receive buffer that was announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtr {
    pub region: RemoteRegion,
    /// The slot of the cell in which it came, until that serves for something else.
    pub cell: Option<Slot>,
}

/// What a team keeps after an error.
pub(super) struct AfterError {
    pub resumption: Resumption,
    pub since: Instant,
    /// What this rank sent before, once that matters.
    pub flush: Option<Flush>,
}

/// How far this rank has left.
#[derive(Debug, Default)]
pub(super) enum Leaving {
    /// Not at all.
    #[default]
    No,
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
            links: vec![None; size],
            rail_turn: RailTurn::after(map.node_rank.index(), map.rail_count().into()),
            rtr: vec![None; size],
            sent_rtrs: vec![0; size],
            broken: oob.is_none().then(|| "nobody uses it".into()),
            freed: oob.is_none(),
            oob,
            ..Self::default()
        }
    }

    /// Out-of-band exchange.
    pub fn oob(&mut self) -> &mut dyn Oob {
        &mut **self.oob.as_mut().expect("the team is in use")
    }
}
