//! What is known of one peer, and the state of each lane to it.

use super::control_block::{self, Field};
use super::control_message::ControlMessage;
use super::detector::Detector;
use super::journal::{Entry, Journal};
use super::silence::Probe;
use ferrorail_base::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use ferrorail_base::{PeerId, ProcessId};
use ferrorail_fabric::{
    FabricError, LocalSlice, RAILS_MAX, Reach, RemoteRegion, RemoteSlice, Ticket,
};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Operations that failed for good which are remembered for each lane: several full queues of them.
const FAILED_MAX: usize = 1024;

/// What connecting found out.
#[derive(Clone, Debug)]
pub(super) struct Wired {
    /// The peer's control block, and where our fields begin in it.
    pub control_block: RemoteRegion,
    pub offset_in_block: usize,
    pub reach: Reach,
}

impl Wired {
    pub fn word(&self, field: Field, plane: u8) -> RemoteSlice<'_> {
        RemoteSlice {
            region: &self.control_block,
            offset: control_block::offset(self.offset_in_block, field, plane),
        }
    }
}

/// Which side of a pair this process is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// It proposes new generations of lanes.
    Initiator,
    /// It accepts them.
    Responder,
    /// The peer is this process itself.
    Both,
}

impl Role {
    pub fn between(here: ProcessId, peer: ProcessId) -> Self {
        match here.to_wire().cmp(&peer.to_wire()) {
            std::cmp::Ordering::Less => Self::Initiator,
            std::cmp::Ordering::Equal => Self::Both,
            std::cmp::Ordering::Greater => Self::Responder,
        }
    }
}

/// One peer.
#[derive(Debug)]
pub(super) struct Pair {
    pub id: PeerId,
    pub process: ProcessId,
    pub role: Role,
    /// What the peer's host is called, once the two connect.
    pub host: OnceLock<String>,
    control_block: Arc<control_block::ControlBlock>,
    offset_in_block: usize,
    pub wired: OnceLock<Wired>,
    /// Planes that lead from each side to the other, as bits.
    pub planes: AtomicU8,
    /// Rails whose lane to the peer is in use, as bits.
    pub up: AtomicU8,
    /// Those of them that are to be left: they take no posts while another lane does.
    pub closed: AtomicU8,
    /// Number of the last operation of each lane that failed for good, 0 if none did: what came later
    /// need not ask about that.
    pub failed_to: [AtomicU64; RAILS_MAX],
    pub journals: [Mutex<Journal>; RAILS_MAX],
    pub recovery: Mutex<Recovery>,
    /// Why the last rail failed, if all have.
    pub unreachable: OnceLock<String>,
    /// What became of an operation that does not arrive, until somebody asks.
    pub lost: Mutex<Option<FabricError>>,
}

/// The part of a pair that only failures touch.
#[derive(Debug)]
pub(super) struct Recovery {
    pub lanes: [LaneState; RAILS_MAX],
    /// Of lanes in use, or being tried.
    pub probes: [Probe; RAILS_MAX],
    /// Which lanes in use do not deliver.
    pub detector: Detector,
    /// Whether it is among the pairs whose detectors probe.
    pub is_counted: bool,
    pub tickets: [Tickets; RAILS_MAX],
}

/// The tickets of one lane's probe and of the question whether it arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tickets {
    pub probe: Option<Ticket>,
    pub ask: Option<Ticket>,
    /// What had completed when the other side was last asked to leave the lane.
    pub requested: Option<u64>,
}

/// The state of one lane.
#[derive(Debug)]
pub(super) struct LaneState {
    /// The number of its generation.
    pub number: u16,
    pub phase: Phase,
    /// What this side says at present.
    pub out: ControlMessage,
    /// Operations that completed before the lane failed.
    pub completed: u64,
    /// Operations that failed for good and why, the latest [`FAILED_MAX`].
    failed: VecDeque<(u64, String)>,
    /// Times `out` was said.
    pub repeats: u32,
    /// Attempts to bring it back that failed since it was last in use.
    pub attempts: u32,
    /// How often the ports of both sides had come back when that was last looked at.
    pub port_returns: u64,
}

impl LaneState {
    /// Why operation `sequence` failed for good, if it did.
    pub fn failure(&self, sequence: u64) -> Option<&str> {
        let mut failed = self.failed.iter();
        let (_, status) = failed.find(|(number, _)| *number == sequence)?;
        Some(status)
    }
}

impl Default for LaneState {
    fn default() -> Self {
        Self {
            number: 0,
            phase: Phase::Up,
            out: ControlMessage::unpack(0),
            completed: 0,
            failed: VecDeque::new(),
            repeats: 0,
            attempts: 0,
            port_returns: 0,
        }
    }
}

/// Where a lane is between two generations.
#[derive(Debug)]
pub(super) enum Phase {
    /// In use.
    Up,
    /// Failed; what was in flight is being accounted for.
    Failed(Unacknowledged),
    /// Ended, and nothing is owed. To be tried again at the given time.
    Down { again: Option<Instant> },
    /// Initiator: a new generation was proposed.
    Offered,
    /// Responder: the new generation was accepted.
    Accepted,
    /// Initiator: the lane itself is being asked.
    Trying,
}

impl Phase {
    /// Whether the two sides are about to take it into use again.
    pub fn is_on_its_way_back(&self) -> bool {
        matches!(self, Self::Offered | Self::Accepted | Self::Trying)
    }
}

/// What a failed lane still owes.
#[derive(Debug)]
pub(super) struct Unacknowledged {
    /// Operations not known to have arrived, in order.
    pub pending: VecDeque<Entry>,
    pub stage: Stage,
    /// What other rails carry instead, by the numbers it had here.
    pub resent: Vec<(u64, Ticket)>,
}

impl Unacknowledged {
    /// After the search: forgets what has arrived, if the rest can be done again now. Until the peer has ended its
    /// side, that may still arrive.
    pub fn conclude(&mut self) {
        let Stage::Searching(search) = &self.stage else {
            return;
        };
        let arrived = search.arrived;
        let is_missing = |entry: &Entry| entry.sequence > arrived || entry.has_result();
        let mut missing = self.pending.iter().filter(|&entry| is_missing(entry));
        if search.ended || missing.all(Entry::is_harmless) {
            self.pending.retain(is_missing);
            self.stage = Stage::Resending;
        }
    }
}

/// How far the account is.
#[derive(Debug)]
pub(super) enum Stage {
    Searching(Search),
    /// Doing again what did not arrive.
    Resending,
}

/// The search for the last operation that has arrived: those of a lane take effect in order, so it proves all
/// before it.
#[derive(Debug)]
pub(super) struct Search {
    /// Number of the last operation known to have arrived.
    pub arrived: u64,
    /// Number of the first one known not to have.
    pub missing: u64,
    /// The proofs of arrival that are being read, all over one lane, into the landing words in their order: the
    /// number of an operation, the least value that proves its arrival, and the ticket.
    pub reads: Vec<(u64, u64, Ticket)>,
    /// Whether the peer has ended its side, so that what is missing will not come.
    pub ended: bool,
}

impl Search {
    /// For what lies behind number `completed`.
    pub fn new(completed: u64) -> Self {
        Self {
            arrived: completed,
            missing: u64::MAX,
            reads: Vec::new(),
            ended: false,
        }
    }

    /// The peer has ended its side: what is missing now will not come.
    pub fn begin_anew(&mut self) {
        *self = Self {
            ended: true,
            ..Self::new(self.arrived)
        };
    }

    /// Operation `sequence` has arrived, or has not yet.
    pub fn found(&mut self, sequence: u64, has_arrived: bool) {
        match has_arrived {
            true => self.arrived = self.arrived.max(sequence),
            false => self.missing = self.missing.min(sequence),
        }
    }

    /// Whether operation `sequence` may be the last that has arrived.
    pub fn is_open(&self, sequence: u64) -> bool {
        self.arrived < sequence && sequence < self.missing
    }
}

impl Pair {
    pub fn new(
        id: PeerId,
        process: ProcessId,
        role: Role,
        control_block: Arc<control_block::ControlBlock>,
        detector: Detector,
    ) -> Self {
        Self {
            id,
            process,
            role,
            host: OnceLock::new(),
            control_block,
            offset_in_block: control_block::peer_offset(id.index()),
            wired: OnceLock::new(),
            planes: AtomicU8::new(0),
            up: AtomicU8::new(0),
            closed: AtomicU8::new(0),
            failed_to: Default::default(),
            journals: Default::default(),
            recovery: Mutex::new(Recovery {
                lanes: Default::default(),
                probes: Default::default(),
                detector,
                is_counted: false,
                tickets: Default::default(),
            }),
            unreachable: OnceLock::new(),
            lost: Mutex::default(),
        }
    }

    /// What the peer is called in messages.
    pub fn name(&self) -> String {
        let process = self.process.pid;
        match self.host.get() {
            Some(host) => format!("process {process} on {host}"),
            None => format!("process {process}"),
        }
    }

    /// The control block that holds our words for the peer, and the offset of its fields.
    pub fn peer_entry(&self) -> (&control_block::ControlBlock, usize) {
        (&self.control_block, self.offset_in_block)
    }

    pub fn word(&self, field: Field, plane: u8) -> &AtomicU64 {
        self.control_block
            .word(control_block::offset(self.offset_in_block, field, plane))
    }

    pub fn slice(&self, field: Field, plane: u8) -> LocalSlice<'_> {
        self.control_block
            .slice(control_block::offset(self.offset_in_block, field, plane), 8)
    }

    /// What the peer says of the lane of `plane`.
    pub fn received(&self, plane: u8) -> ControlMessage {
        ControlMessage::unpack(self.word(Field::In, plane).load(Ordering::Acquire))
    }

    /// Keeps `error` for whoever asks next.
    pub fn keep(&self, error: FabricError) {
        self.lost.lock().get_or_insert(error);
    }

    /// Operation `sequence` of the lane of `rail` has failed for good.
    pub fn note_failed(&self, recovery: &mut Recovery, rail: usize, sequence: u64, status: &str) {
        let failed = &mut recovery.lanes[rail].failed;
        if failed.len() == FAILED_MAX {
            failed.pop_front();
        }
        failed.push_back((sequence, status.to_owned()));
        self.failed_to[rail].fetch_max(sequence, Ordering::AcqRel);
    }

    pub fn is_up(&self, rail: usize) -> bool {
        self.up.load(Ordering::Acquire) & 1 << rail != 0
    }

    /// Whether it is connected, some of its lanes are out of use, and others are left to agree on them.
    pub fn is_to_mend(&self) -> bool {
        let up = self.up.load(Ordering::Acquire).count_ones();
        let planes = self.planes.load(Ordering::Acquire).count_ones();
        self.wired.get().is_some() && up < planes && self.unreachable.get().is_none()
    }

    /// Whether the lane of `rail` is to be left.
    pub fn is_closed(&self, rail: usize) -> bool {
        self.closed.load(Ordering::Acquire) & 1 << rail != 0
    }

    /// Rails whose lanes are in use and not to be left, as bits.
    pub fn open(&self) -> u8 {
        self.up.load(Ordering::Acquire) & !self.closed.load(Ordering::Acquire)
    }

    /// Rails whose lanes take posts, as bits.
    #[inline]
    pub fn postable(&self) -> u8 {
        match self.open() {
            0 => self.up.load(Ordering::Acquire),
            open => open,
        }
    }

    /// Another rail than `rail` whose lane is open.
    pub fn another(&self, rail: usize) -> Option<usize> {
        let others = self.open() & !(1 << rail);
        (others != 0).then(|| others.trailing_zeros() as usize)
    }

    /// A rail whose lane takes posts: `rail` itself, or the next one that does.
    #[inline]
    pub fn usable(&self, rail: usize) -> Option<usize> {
        let up = self.postable();
        if up & 1 << rail != 0 {
            return Some(rail);
        }
        let ahead = |&step: &usize| up & 1 << ((rail + step) % RAILS_MAX) != 0;
        let step = (1..RAILS_MAX).find(ahead)?;
        Some((rail + step) % RAILS_MAX)
    }
}
