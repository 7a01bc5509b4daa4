//! Rails with failover or without, as tests use them.

use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    Attributes, Endpoint, EventSource, FabricError, LocalRegion, Memory, Op, RailCounters,
    RailInfo, Reach, RemoteRegion, SharedBacking, Statistics, Ticket, Tracking, Transport,
};
use ferrorail_rdma_transport::failover::Failover;
use ferrorail_rdma_transport::loopback::LoopbackTransport;
use ferrorail_rdma_transport::verbs::VerbsTransport;
use std::os::fd::BorrowedFd;

/// A [`Transport`], or what failover makes of one.
#[allow(dead_code)] // Not every test program uses all.
pub trait Rails: Send + Sync {
    fn transport(&self) -> &dyn Transport;

    fn failover(&self) -> Option<&Failover> {
        None
    }

    fn attributes(&self) -> &Attributes {
        self.transport().attributes()
    }

    fn statistics(&self) -> Statistics {
        match self.failover() {
            Some(failover) => failover.statistics(),
            None => self.transport().statistics(),
        }
    }

    fn rails(&self) -> &[RailInfo] {
        &self.attributes().rails
    }

    fn counters(&self, rail: RailId) -> RailCounters {
        self.statistics().rails[rail.index()]
    }

    /// # Safety
    /// As [`Transport::register`].
    unsafe fn register(
        &self,
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        // SAFETY: the caller's promise.
        unsafe { self.transport().register(address, bytes, backing) }
    }

    fn deregister(&self, region: LocalRegion) {
        self.transport().release(Memory::Local(region));
    }

    fn import(&self, peer: PeerId, description: &[u8]) -> Result<RemoteRegion, FabricError> {
        self.transport().import(peer, description)
    }

    fn release(&self, peer: PeerId, region: RemoteRegion) {
        self.transport().release(Memory::Remote(peer, region));
    }

    fn open_peer(&self, process: ProcessId) -> Result<(PeerId, Vec<u8>), FabricError> {
        match self.failover() {
            Some(failover) => failover.open_peer(process),
            None => self.transport().open_peer(process),
        }
    }

    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<Reach, FabricError> {
        match self.failover() {
            Some(failover) => failover.connect(peer, address),
            None => self.transport().connect(Some(peer), address),
        }
    }

    /// # Safety
    /// As [`Transport::post`].
    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.failover() {
                Some(failover) => Endpoint::post(failover, peer, rail, op, tracking),
                None => self.transport().post(peer, rail, op, tracking),
            }
        }
    }

    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        match self.failover() {
            Some(failover) => Endpoint::is_complete(failover, ticket),
            None => ticket.outcome(self.transport()),
        }
    }

    fn check(&self, peer: PeerId) -> Result<(), FabricError> {
        (self.failover()).map_or(Ok(()), |failover| Endpoint::check(failover, peer))
    }

    fn progress(&self) -> Result<usize, FabricError> {
        match self.failover() {
            Some(failover) => Endpoint::progress(failover),
            None => self.transport().progress(),
        }
    }

    fn wake_events(&self) -> Result<Vec<BorrowedFd<'_>>, FabricError> {
        Ok(self.transport().events(EventSource::Wake)?.descriptors)
    }
}

impl Rails for LoopbackTransport {
    fn transport(&self) -> &dyn Transport {
        self
    }
}

impl Rails for VerbsTransport {
    fn transport(&self) -> &dyn Transport {
        self
    }
}

impl Rails for Failover {
    fn transport(&self) -> &dyn Transport {
        self.inner()
    }

    fn failover(&self) -> Option<&Failover> {
        Some(self)
    }
}
