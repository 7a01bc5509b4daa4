//! Two joined fabrics of this process, and registered memory.

use crate::conformance::{self, Rails, process};
use ferrorail_base::RailId;
use ferrorail_base::config::{Settings, ShmKind};
use ferrorail_base::sync::{AtomicU64, Ordering, yield_now};
use ferrorail_fabric::{LocalRegion, LocalSlice, RemoteRegion, SharedBacking};
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

pub type Pair = conformance::Pair<LoopbackTransport>;

/// Two fabrics of this process, not joined.
pub fn fabrics(settings: &Settings) -> (LoopbackTransport, LoopbackTransport) {
    let open = |index| LoopbackTransport::open_as(process(index), settings).unwrap();
    (open(1), open(2))
}

pub fn pair(settings: &Settings) -> Pair {
    Pair::new(fabrics(settings))
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

/// Private memory of so many bytes at a and at b: here with its region, there as a sees that.
pub fn buffers(
    pair: &Pair,
    here: usize,
    there: usize,
) -> (Private, LocalRegion, Private, RemoteRegion) {
    let (here, there) = (Private::new(here), Private::new(there));
    let (from, into) = (here.register(&pair.a), there.register(&pair.b));
    (here, from, there, RemoteRegion::of(&into))
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
