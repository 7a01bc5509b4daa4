//! What is fixed when a team has been made.

use super::layouts::Layouts;
use super::link::Link;
use crate::barrier_order::BarrierOrder;
use crate::multicast::{Leader, Multicasts};
use crate::rails::Rails;
use crate::segment::register;
use crate::shared_settings::SharedSettings;
use crate::{Context, EngineError, waiting};
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_base::{NodeId, NodeRank, ProcessId, RailId, Rank, Topology};
use ferrorail_coll::select::Table;
use ferrorail_fabric::stripe::{Planner, RailTurn, Stripes};
use ferrorail_fabric::{
    Endpoint, FabricError, LocalRegion, LocalSlice, Notification, Op, Ticket, Tracking,
};
use ferrorail_shm::{Cma, NodeGeometry, NodeLayout, NodeSegment, WaitPolicy};
use std::sync::{Arc, OnceLock};

/// Channels of scratch: how many rooted operations a rank may be ahead of the slowest.
pub(crate) const CHANNELS: u32 = 8;

/// Channels of barriers, which prove the others free and take turns.
pub(crate) const SYNC_CHANNELS: u32 = 2;

/// Channels with little room for operations of few bytes, which are many in a row more often. How far
/// ranks may be ahead decides how rarely they have to wait for quiescence, and how long for those late.
pub(crate) const SMALL_CHANNELS: u32 = 128;

/// Areas of a rank between nodes: the first for staged pieces, and the second, where rails are measured, for what
/// peers write meanwhile.
pub(crate) const AREAS: u32 = 2;

/// The fixed part of a team.
pub(crate) struct Map {
    pub context: Arc<Context>,
    pub rank: Rank,
    pub node: NodeId,
    pub node_rank: NodeRank,
    pub topology: Topology,
    /// The domains of its nodes, if one has several.
    pub domains: Option<Topology>,
    /// Processes by rank.
    pub processes: Vec<ProcessId>,
    pub settings: SharedSettings,
    /// The table of `FERRORAIL_TUNING`.
    pub tuning: Option<Arc<Table>>,
    pub wait: WaitPolicy,
    /// How those wait who drive calls in fibers.
    pub drivers_wait: WaitPolicy,
    /// Whether each rank of every host has a core of its own, as all ranks know.
    pub has_cores: bool,
    /// Whether puts may land in user memory: every rank can reach every other's.
    pub zero_copy: bool,
    /// Whether every rank may connect to every other.
    pub all_pairs: bool,
    /// `None` where the team lives on one node. Dropped before the segment it registered.
    pub rails: Option<TeamRails>,
    /// This node's segment; `None` in a team of one rank.
    pub node_memory: Option<NodeMemory>,
    /// Who leaves its barriers first.
    pub barrier_order: BarrierOrder,
    /// Set when an algorithm first wants multicasts.
    pub multicasts: OnceLock<Multicasts>,
}

/// This node's segment, and the layouts of all nodes' segments.
pub(crate) struct NodeMemory {
    pub segment: NodeSegment,
    pub layouts: Layouts,
}

/// The rails of a team.
pub(crate) struct TeamRails {
    pub fabric: Arc<Rails>,
    /// Team rail to this process's rail: rails that some rank lacks are left out.
    pub local: Vec<RailId>,
    /// Rails near this rank, as bits of team rails.
    pub numa_local: u8,
    /// The team rail of each port, where ports have their own.
    pub lanes: Vec<RailId>,
    /// Lays messages over team rails.
    pub planner: Planner,
    /// This process's first registration of the node segment, of its front at least; given back on drop, as peers may
    /// write there late.
    pub(super) front: OnceLock<LocalRegion>,
    /// Its registration of the whole, since one was needed.
    pub(super) whole: OnceLock<LocalRegion>,
}

/// A word that ranks of the host read to find out whether they reach this process's memory. It lives until all of them
/// have answered.
pub(crate) struct Probe(AtomicU64);

impl Probe {
    /// One of this rank, if it lets others read its memory.
    pub fn new(map: &Map) -> Self {
        if map.settings.cma {
            ferrorail_shm::cma_allow();
        }
        let rank = u64::from(map.rank.0);
        Self(AtomicU64::new(0x6665_7272_6f72_6169 ^ rank))
    }

    /// Where it is, and what it holds.
    pub fn description(&self) -> (u64, u64) {
        (&raw const self.0 as u64, self.0.load(Ordering::Relaxed))
    }

    /// Nobody reads it any more.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Map {
    /// The same ranks on one node, in `segment`.
    pub fn of_one_node(&self, segment: NodeSegment) -> Self {
        let layouts = Layouts::of_one(*segment.layout());
        Self {
            context: self.context.clone(),
            topology: self.topology.clone(),
            domains: self.domains.clone(),
            processes: self.processes.clone(),
            settings: self.settings.clone(),
            tuning: self.tuning.clone(),
            rails: None,
            node_memory: Some(NodeMemory { segment, layouts }),
            barrier_order: self.barrier_order.anew(),
            multicasts: OnceLock::new(),
            ..*self
        }
    }

    /// The geometry of this node's segment, which a team of one rank does not have.
    pub fn geometry(&self) -> Option<&NodeGeometry> {
        Some(self.node_memory.as_ref()?.segment.geometry())
    }

    /// Whether a rank that waits in a call gives its core away at once, as where ranks of a host share cores.
    #[inline]
    pub fn yields_at_once(&self) -> bool {
        self.wait.spin == 0 && !self.wait.suspends
    }

    /// Rails of the team; a team on one node counts as having one.
    pub fn rail_count(&self) -> u8 {
        self.rails
            .as_ref()
            .map_or(1, |rails| rails.local.len() as u8)
    }

    /// This rank's end of the team's multicasts, if there are any.
    #[inline]
    pub fn multicast_leader(&self) -> Option<&Arc<Leader>> {
        self.multicasts.get()?.leader()
    }

    /// The selection table in force.
    pub fn table(&self) -> &Table {
        self.tuning.as_deref().unwrap_or_else(|| Table::shipped())
    }

    #[inline]
    fn memory(&self) -> &NodeMemory {
        let memory = self.node_memory.as_ref();
        memory.expect("a team of several ranks has a segment")
    }

    /// This node's segment.
    ///
    /// # Panics
    /// In a team of one rank, whose operations never get here.
    #[inline]
    pub fn segment(&self) -> &NodeSegment {
        &self.memory().segment
    }

    /// Layout of the segment of `rank`'s node, and which rank there it is.
    #[inline]
    pub fn layout_of(&self, rank: Rank) -> (&NodeLayout, NodeRank) {
        let node = self.topology.node_of(rank);
        let layout = self.memory().layouts.of(&self.topology, node);
        (layout, self.topology.node_rank_of(rank))
    }

    /// Registers all of the node's segment, for messages that carry data; what peers know of it before stays valid.
    pub fn register_whole(&self, rails: &TeamRails) -> Result<(), EngineError> {
        let segment = self.segment().segment();
        let known = rails.region().range.bytes;
        if known == segment.bytes() {
            return Ok(());
        }
        // SAFETY: the segment lives in this map beside the registration, which is dropped first.
        let whole = unsafe { register(&rails.fabric, segment, segment.bytes()) }?;
        let second = rails.whole.set(whole);
        assert!(second.is_ok(), "the whole segment is registered once");
        self.count_registered(segment.bytes() - known);
        Ok(())
    }

    /// Counts memory of the node's segment that is registered from now on.
    pub(super) fn count_registered(&self, bytes: usize) {
        if self.topology.is_leader(self.rank) {
            let registered = &self.context.stats().segment_bytes_registered;
            registered.add(bytes as u64);
        }
    }

    /// Whether this process can read the word of `peer`'s own that `probe` says the address of, and what
    /// it holds: by cross-memory attach.
    pub fn reads(&self, peer: Rank, (address, expect): (u64, u64)) -> bool {
        let (peer, own) = (
            self.processes[peer.index()],
            self.processes[self.rank.index()],
        );
        let here = peer.host == own.host;
        let reads = self.settings.cma && here && Cma::of(peer).reads(address, expect);
        if reads {
            self.context.reached.lock().insert(peer);
        }
        reads
    }

    /// Whether all ranks are on one host, whatever nodes they are grouped into.
    pub fn is_on_one_host(&self) -> bool {
        let host = self.processes[0].host;
        self.processes.iter().all(|process| process.host == host)
    }

    /// A step that this rank refuses, as all do.
    pub fn refused(&self, act: &'static str, reason: &str) -> EngineError {
        EngineError::Refused {
            act,
            rank: self.rank,
            reason: reason.into(),
        }
    }

    /// Whether ranks measure the ways of long messages: those of one node that reach each other's memory, unless the program says
    /// what attach takes.
    pub fn measures_ways(&self) -> bool {
        self.topology.node_count() == 1
            && self.topology.size() > 1
            && self.zero_copy
            && self.settings.attach_percent.is_none()
    }

    /// The same of vector forms of which no rank knows all lengths. Two know the only one, and in a fiber a call's time is that
    /// of what the program does meanwhile.
    pub fn measures_vectors(&self) -> bool {
        self.measures_ways() && self.topology.size() > 2 && !self.wait.suspends
    }

    /// All ranks but this one.
    pub fn others(&self) -> impl Iterator<Item = Rank> + '_ {
        let all = (0..self.topology.size()).map(Rank);
        all.filter(|&rank| rank != self.rank)
    }

    /// The first rank of this host that is dead.
    pub fn dead_peer(&self, collective: &'static str) -> Option<EngineError> {
        waiting::dead_peer(&self.processes, self.rank, collective)
    }
}

impl TeamRails {
    /// This process's registration of the node segment, as far as it goes by now.
    #[inline]
    pub fn region(&self) -> &LocalRegion {
        let region = self.whole.get().or_else(|| self.front.get());
        region.expect("registered when the team was made")
    }

    /// Whether they lead to this host only: then the CPU copies what they move, and they wake nobody.
    pub fn stay_here(&self) -> bool {
        self.fabric.attributes().same_host_only
    }

    /// How a message of `bytes` bytes is laid over the rails of `link` that are in use.
    #[inline]
    pub fn plan(&self, turn: &mut RailTurn, link: &mut Link, bytes: u64) -> Stripes {
        let out_of_use = || self.fabric.out_of_use(link.peer);
        link.rail_weights.avoid(&self.local, out_of_use);
        self.planner.plan(turn, &mut link.rail_weights, bytes)
    }

    /// Puts `value` at `offset` in the segment that `link` leads to, and nothing else; `None` if there is
    /// no room for it yet.
    pub fn put_word(
        &self,
        link: &Link,
        rail: RailId,
        (offset, value): (usize, u64),
        tracking: Tracking,
    ) -> Result<Option<Ticket>, EngineError> {
        let notification = Notification {
            word: link.at(offset),
            value,
        };
        let op = Op::notify(self.slice(0, 0), link.at(0), notification);
        // SAFETY: an empty put reads nothing; the word belongs to the peer's registered segment.
        Ok(unsafe { self.post(link, rail, &op, tracking) }?)
    }

    /// `bytes` bytes from `offset` of this node's segment.
    #[inline]
    pub fn slice(&self, offset: usize, bytes: usize) -> LocalSlice<'_> {
        LocalSlice {
            region: self.region(),
            offset,
            bytes,
        }
    }

    /// Posts `op` to the peer that `link` leads to, on a rail of the team; `None` if there is no room for it yet.
    ///
    /// # Errors
    /// As [`Endpoint::post`].
    ///
    /// # Safety
    /// As [`Endpoint::post`].
    #[inline]
    pub unsafe fn post(
        &self,
        link: &Link,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Option<Ticket>, FabricError> {
        let rail = self.local(rail);
        // SAFETY: the caller's contract.
        match unsafe { self.fabric.post(link.peer, rail, op, tracking) } {
            Ok(ticket) => Ok(Some(ticket)),
            Err(FabricError::WouldBlock) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Team rails that are not of `planes`, as bits.
    pub fn missing_rails(&self, planes: u8) -> u8 {
        let infos = self.fabric.rails();
        let lacks = |rail: &usize| planes & 1 << infos[self.local[*rail].index()].plane == 0;
        let bits = (0..self.local.len()).filter(lacks);
        bits.fold(0, |all, rail| all | 1 << rail)
    }

    /// This process's rail for a team rail.
    #[inline]
    pub fn local(&self, rail: RailId) -> RailId {
        self.local[rail.index()]
    }
}

impl Drop for TeamRails {
    fn drop(&mut self) {
        for region in self.whole.take().into_iter().chain(self.front.take()) {
            // What a rail that failed still owes of it may be anything, after an error.
            self.fabric.abandon(region);
        }
    }
}
