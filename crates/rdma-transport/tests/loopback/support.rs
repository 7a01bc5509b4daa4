//! Two joined fabrics of this process, and registered memory.

use crate::conformance::Rails;
use ferrorail_base::config::{Settings, ShmKind};
use ferrorail_base::sync::{AtomicU64, Ordering, yield_now};
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_fabric::{
    FabricError, LocalRegion, LocalSlice, RemoteRegion, RemoteSlice, SharedBacking, Ticket,
};
use ferrorail_rdma_transport::loopback::LoopbackTransport;
use ferrorail_shm::Segment;
use std::time::{Duration, Instant};

/// Longest wait for anything.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The rails of [`settings`].
pub const RAILS: [RailId; 2] = [RailId(0), RailId(1)];

/// Two rails, no model, whatever the environment says.
pub fn settings() -> Settings {
    Settings::default()
}

pub fn identity(started: u64) -> ProcessId {
    ProcessId {
        host: 1,
        pid: std::process::id(),
        started,
    }
}

/// Fabric `a` with `b` as its peer `ab`.
pub struct Pair {
    pub a: LoopbackTransport,
    pub b: LoopbackTransport,
    pub ab: PeerId,
}

impl Pair {
    pub fn open(settings: &Settings) -> Self {
        let a = LoopbackTransport::open_as(identity(1), settings).unwrap();
        let b = LoopbackTransport::open_as(identity(2), settings).unwrap();
        let (ab, _) = a.open_peer(identity(2)).unwrap();
        let (_, at_b) = b.open_peer(identity(1)).unwrap();
        a.connect(ab, &at_b).unwrap();
        Self { a, b, ab }
    }

    /// Posts at a, making progress while its queue is full.
    pub fn post(&self, mut post: impl FnMut() -> Result<Ticket, FabricError>) -> Ticket {
        let start = Instant::now();
        loop {
            match post() {
                Err(FabricError::WouldBlock) => {
                    assert!(start.elapsed() < TIME_LIMIT, "the queue stays full");
                    self.a.progress().unwrap();
                    yield_now();
                }
                other => return other.unwrap(),
            }
        }
    }

    /// Waits for a completion at a.
    pub fn wait(&self, ticket: Ticket) {
        until(|| {
            self.a.progress().unwrap();
            self.a.is_complete(ticket).unwrap()
        });
    }
}

pub fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < TIME_LIMIT, "nothing for {TIME_LIMIT:?}");
        yield_now();
    }
}

/// Private zeroed memory that fabrics of this process or other processes write. It is never freed: what was posted
/// may still arrive when a test is over, until its fabrics are dropped, which may be later.
pub struct Private {
    words: &'static [AtomicU64],
}

impl Private {
    pub fn new(bytes: usize) -> Self {
        let words = (0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0));
        Self {
            words: words.collect::<Vec<_>>().leak(),
        }
    }

    pub fn register(&self, fabric: &impl Rails) -> LocalRegion {
        let bytes = self.words.len() * 8;
        // SAFETY: tests keep the memory until they have deregistered it or no peer uses it.
        unsafe { fabric.register(self.address(), bytes, None) }.unwrap()
    }

    pub fn address(&self) -> *mut u8 {
        self.words.as_ptr() as *mut u8
    }

    pub fn load(&self, offset: usize) -> u64 {
        self.words[offset / 8].load(Ordering::Acquire)
    }

    pub fn store(&self, offset: usize, value: u64) {
        self.words[offset / 8].store(value, Ordering::Release);
    }
}

/// A shared object of at least `bytes` bytes.
pub fn object(bytes: usize) -> Segment {
    Segment::create(ShmKind::Memfd, bytes).unwrap()
}

pub fn backing(segment: &Segment) -> SharedBacking {
    SharedBacking::whole(segment.fd(), segment.bytes())
}

/// Registers `segment` as the shared object it is.
pub fn register(fabric: &impl Rails, segment: &Segment) -> LocalRegion {
    let (range, backing) = (segment.range(), backing(segment));
    // SAFETY: tests keep the segment until they have deregistered it or no peer uses it.
    unsafe { fabric.register(range.as_ptr(), range.bytes, Some(backing)) }.unwrap()
}

pub fn slice(region: &LocalRegion, offset: usize, bytes: usize) -> LocalSlice<'_> {
    LocalSlice {
        region,
        offset,
        bytes,
    }
}

pub fn at(region: &RemoteRegion, offset: usize) -> RemoteSlice<'_> {
    RemoteSlice { region, offset }
}
