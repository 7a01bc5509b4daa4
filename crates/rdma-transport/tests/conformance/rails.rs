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

/// A [`Transport`], unless a method is overridden.
#[allow(dead_code)] // Not every test program uses all.
pub trait Rails: Send + Sync {
    fn transport(&self) -> &dyn Transport;

    fn attributes(&self) -> &Attributes {
        self.transport().attributes()
    }

    fn statistics(&self) -> Statistics {
        self.transport().statistics()
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
        self.transport().open_peer(process)
    }

    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<Reach, FabricError> {
        self.transport().connect(Some(peer), address)
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
        unsafe { self.transport().post(peer, rail, op, tracking) }
    }

    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        ticket.outcome(self.transport())
    }

    fn check(&self, _peer: PeerId) -> Result<(), FabricError> {
        Ok(())
    }

    fn progress(&self) -> Result<usize, FabricError> {
        self.transport().progress()
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

    fn statistics(&self) -> Statistics {
        self.statistics()
    }

    fn open_peer(&self, process: ProcessId) -> Result<(PeerId, Vec<u8>), FabricError> {
        self.open_peer(process)
    }

    fn connect(&self, peer: PeerId, address: &[u8]) -> Result<Reach, FabricError> {
        self.connect(peer, address)
    }

    unsafe fn post(
        &self,
        peer: PeerId,
        rail: RailId,
        op: &Op<'_>,
        tracking: Tracking,
    ) -> Result<Ticket, FabricError> {
        // SAFETY: the caller's promise.
        unsafe { Endpoint::post(self, peer, rail, op, tracking) }
    }

    fn is_complete(&self, ticket: Ticket) -> Result<bool, FabricError> {
        Endpoint::is_complete(self, ticket)
    }

    fn check(&self, peer: PeerId) -> Result<(), FabricError> {
        Endpoint::check(self, peer)
    }

    fn progress(&self) -> Result<usize, FabricError> {
        Endpoint::progress(self)
    }
}
