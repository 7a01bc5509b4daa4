//! Region keys: the table that lets a peer check a key as an RDMA device would.
//!
//! Each process publishes its registrations in a small shared table that peers map when they
//! connect. A key names a row and carries a nonce, so that a key kept after its region was given
//! back, one of another process, or one of another plane, is refused instead of written through.
//! The table covers private memory too, which nothing else would check.
//!
//! A row is written by its owner under a lock and read by peers without one, as a sequence lock
//! whose sequence is the key itself: nonces do not repeat for 65 535 registrations.
//!
//! Behind the rows lie the gates: for each peer and plane, which generation of its lane to this process is
//! let through, as a queue pair that was destroyed and made anew takes no packet of its former generation.
//!
//! What is not excluded, unlike on a device: a region given back *between* a peer's check and its
//! copy. [`Transport::release`](ferrorail_fabric::Transport::release) rules that out by contract.

use ferrorail_base::PeerId;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Mutex, Ordering, fence, yield_now};
use ferrorail_fabric::RAILS_MAX;
use ferrorail_shm::{Segment, SegmentHandle};
use std::time::{Duration, Instant};

/// Most regions one process has registered at a time.
pub(super) const REGIONS_MAX: usize = 1 << INDEX_BITS;

/// Bytes of the shared table; gates that are never used take no memory.
pub(super) const TABLE_BYTES: usize = GATES + GATED_PEERS * RAILS_MAX * GATE_BYTES;

/// Peers whose lanes have gates; those beyond are let through.
const GATED_PEERS: usize = 4096;
const GATES: usize = HEADER_BYTES + REGIONS_MAX * ROW_BYTES;
/// Generation of the lane that is let through, and operations inside.
const GATE_BYTES: usize = 16;

fn gate(peer: PeerId, plane: u8) -> Option<usize> {
    let index = peer.index() * RAILS_MAX + usize::from(plane);
    (peer.index() < GATED_PEERS).then_some(GATES + index * GATE_BYTES)
}

const INDEX_BITS: u32 = 13;
const NONCE_BITS: u32 = 16;
const PLANE_SHIFT: u32 = INDEX_BITS + NONCE_BITS;
const BASE_MASK: u32 = (1 << PLANE_SHIFT) - 1;
const _: () = assert!(RAILS_MAX <= 1 << (32 - PLANE_SHIFT));

const MAGIC: u64 = u64::from_le_bytes(*b"FRkeys01");
/// Magic and probe word, on a line of their own.
const HEADER_BYTES: usize = 64;
const PROBE: usize = 8;

/// Key, address, bytes, and one unused word so that no row straddles a cache line.
const ROW_BYTES: usize = 32;

const fn row(base: u32) -> usize {
    HEADER_BYTES + (base as usize & (REGIONS_MAX - 1)) * ROW_BYTES
}

/// The keys of one registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u32);

impl Key {
    /// The key for rails of `plane`.
    pub(super) const fn on(self, plane: u8) -> u32 {
        self.0 | (plane as u32) << PLANE_SHIFT
    }

    /// The registration behind a region's handle.
    pub(super) const fn from_handle(handle: u64) -> Self {
        Self(handle as u32 & BASE_MASK)
    }

    /// The handle a region carries.
    pub(super) const fn handle(self) -> u64 {
        self.0 as u64
    }
}

/// The table of this process.
#[derive(Debug)]
pub(super) struct KeyTable {
    segment: Segment,
    rows: Mutex<Rows>,
}

/// A panic under their lock leaves at worst an unused one behind.
#[derive(Debug)]
struct Rows {
    free: Vec<u16>,
    used: usize,
    nonce: u32,
}

impl KeyTable {
    /// Takes a fresh zero-filled `segment` of [`TABLE_BYTES`]; nonces start behind `seed`.
    pub(super) fn new(segment: Segment, seed: u64) -> Self {
        segment.word(PROBE).store(seed | 1, Ordering::Relaxed);
        segment.word(0).store(MAGIC, Ordering::Release);
        let rows = Rows {
            free: Vec::new(),
            used: 0,
            nonce: (seed >> 32) as u32,
        };
        Self {
            segment,
            rows: Mutex::new(rows),
        }
    }

    /// What peers need to map the table through this process's descriptor.
    pub(super) fn handle(&self) -> SegmentHandle {
        SegmentHandle {
            posix_name: None,
            ..self.segment.handle()
        }
    }

    /// Address and value of a word that no other process holds: what a peer reads to find out
    /// whether cross-memory attach works.
    pub(super) fn probe(&self) -> (u64, u64) {
        let word = self.segment.word(PROBE);
        let address = self.segment.range().address + PROBE;
        (address as u64, word.load(Ordering::Relaxed))
    }

    /// Publishes `range`; `None` if the table is full.
    pub(super) fn publish(&self, range: MemoryRange) -> Option<Key> {
        let mut rows = self.rows.lock();
        let index = rows.take()?;
        rows.nonce = rows.nonce % ((1 << NONCE_BITS) - 1) + 1;
        let base = rows.nonce << INDEX_BITS | index;
        let at = row(base);
        // Peers that still look at the row's former registration must not pair its key with the
        // new bounds; `revoke` cleared the key before.
        fence(Ordering::Release);
        let address = self.segment.word(at + 8);
        address.store(range.address as u64, Ordering::Relaxed);
        let bytes = self.segment.word(at + 16);
        bytes.store(range.bytes as u64, Ordering::Relaxed);
        self.segment.word(at).store(base.into(), Ordering::Release);
        Some(Key(base))
    }

    /// Generation of the lane from `peer` on `plane` that is let through.
    pub(super) fn generation(&self, peer: PeerId, plane: u8) -> u64 {
        gate(peer, plane).map_or(0, |at| self.segment.word(at).load(Ordering::SeqCst))
    }

    /// Lets the next generation of that lane through, and nothing of the present one any more: waits for
    /// what is inside, unless its process died there.
    pub(super) fn close_gate(&self, peer: PeerId, plane: u8) {
        const TIME_LIMIT: Duration = Duration::from_millis(200);
        let Some(at) = gate(peer, plane) else { return };
        self.segment.word(at).fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while self.segment.word(at + 8).load(Ordering::SeqCst) != 0 && start.elapsed() < TIME_LIMIT
        {
            yield_now();
        }
    }

    /// Takes the registration back.
    ///
    /// # Panics
    /// If it is not in force: a region is given back once, to the fabric that made it.
    pub(super) fn revoke(&self, key: Key) {
        let mut rows = self.rows.lock();
        let word = self.segment.word(row(key.0));
        assert_eq!(
            word.load(Ordering::Relaxed),
            u64::from(key.0),
            "a region was deregistered twice or by another fabric"
        );
        word.store(0, Ordering::Release);
        rows.free.push((key.0 as usize & (REGIONS_MAX - 1)) as u16);
    }
}

impl Rows {
    fn take(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index.into());
        }
        (self.used < REGIONS_MAX).then(|| {
            self.used += 1;
            self.used as u32 - 1
        })
    }
}

/// The table of a peer.
#[derive(Debug)]
pub(super) struct PeerKeys {
    segment: Segment,
}

impl PeerKeys {
    /// Takes a mapped table; `None` if `segment` is none.
    pub(super) fn new(segment: Segment) -> Option<Self> {
        let fits = segment.bytes() >= TABLE_BYTES;
        (fits && segment.word(0).load(Ordering::Acquire) == MAGIC).then_some(Self { segment })
    }

    /// Runs `operation` if the gate that the owner has for `here` lets `generation` through.
    pub(super) fn through_gate<T>(
        &self,
        here: PeerId,
        plane: u8,
        generation: u64,
        operation: impl FnOnce() -> T,
    ) -> Option<T> {
        let Some(at) = gate(here, plane) else {
            return Some(operation());
        };
        // Whoever closes the gate either sees us inside, or we see it closed.
        let inside = self.segment.word(at + 8);
        inside.fetch_add(1, Ordering::SeqCst);
        let open = self.segment.word(at).load(Ordering::SeqCst) == generation;
        let result = open.then(operation);
        inside.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// The memory that `rkey` opens on `plane`; `None` if the key is not in force there.
    #[inline]
    pub(super) fn lookup(&self, rkey: u32, plane: u8) -> Option<MemoryRange> {
        if rkey >> PLANE_SHIFT != u32::from(plane) {
            return None;
        }
        let base = rkey & BASE_MASK;
        let at = row(base);
        let key = self.segment.word(at);
        if base == 0 || key.load(Ordering::Acquire) != u64::from(base) {
            return None;
        }
        let range = MemoryRange {
            address: self.segment.word(at + 8).load(Ordering::Relaxed) as usize,
            bytes: self.segment.word(at + 16).load(Ordering::Relaxed) as usize,
        };
        fence(Ordering::Acquire);
        (key.load(Ordering::Relaxed) == u64::from(base)).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::config::ShmKind;

    fn pair(seed: u64) -> (KeyTable, PeerKeys) {
        let segment = Segment::create(ShmKind::Memfd, TABLE_BYTES).unwrap();
        let table = KeyTable::new(segment, seed);
        let peer = Segment::attach(&table.handle()).unwrap();
        (table, PeerKeys::new(peer).unwrap())
    }

    fn range(number: usize) -> MemoryRange {
        MemoryRange {
            address: number << 12,
            bytes: number,
        }
    }

    #[test]
    fn keys_open_their_region_on_their_plane_only() {
        let (table, peer) = pair(7);
        let (a, b) = (
            table.publish(range(1)).unwrap(),
            table.publish(range(2)).unwrap(),
        );
        assert_eq!(peer.lookup(a.on(0), 0), Some(range(1)));
        assert_eq!(peer.lookup(b.on(3), 3), Some(range(2)));
        assert_eq!(peer.lookup(b.on(3), 2), None);
        assert_eq!(
            peer.lookup(0, 0),
            None,
            "the key of a rail the owner has not"
        );
        assert_eq!(Key::from_handle(b.handle()), b);
    }

    #[test]
    fn a_stale_key_is_refused_even_after_its_row_is_used_again() {
        let (table, peer) = pair(u64::MAX);
        let stale = table.publish(range(1)).unwrap();
        table.revoke(stale);
        assert_eq!(peer.lookup(stale.on(0), 0), None);
        for _ in 0..1000 {
            let fresh = table.publish(range(2)).unwrap();
            assert_eq!(row(fresh.0), row(stale.0));
            assert_eq!(peer.lookup(stale.on(0), 0), None);
            assert_eq!(peer.lookup(fresh.on(0), 0), Some(range(2)));
            table.revoke(fresh);
        }
    }

    #[test]
    fn the_table_fills_up_and_drains() {
        let (table, _) = pair(1);
        let keys: Vec<Key> = (0..REGIONS_MAX)
            .map(|i| table.publish(range(i)).unwrap())
            .collect();
        assert_eq!(table.publish(range(1)), None);
        table.revoke(keys[17]);
        assert!(table.publish(range(1)).is_some());
    }

    #[test]
    fn readers_never_see_half_a_registration() {
        let (table, peer) = pair(99);
        // The reader guesses keys of the one row in use, as a peer with a stale key would.
        let current = Mutex::new(table.publish(range(1)).unwrap());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut hits = 0;
                while hits < 500 {
                    let key = *current.lock();
                    std::thread::yield_now();
                    if let Some(seen) = peer.lookup(key.on(0), 0) {
                        assert_eq!(
                            seen.address,
                            seen.bytes << 12,
                            "bounds of two registrations"
                        );
                        hits += 1;
                    }
                }
            });
            for number in 2.. {
                if reader.is_finished() {
                    break;
                }
                let old = *current.lock();
                table.revoke(old);
                *current.lock() = table.publish(range(number)).unwrap();
                std::thread::yield_now();
            }
        });
    }
}
