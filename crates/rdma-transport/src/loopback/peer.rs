//! Peers: how each is reached, what of its memory is mapped here, and its lanes.

// Nobody waits for a peer while imports are locked.
#![allow(clippy::disallowed_types)]

use super::keys::PeerKeys;
use super::wire::Object;
use crate::breakages::BreakageCell;
use ferrorail_base::sync::{AtomicU64, Mutex, Ordering, fence};
use ferrorail_base::{PeerId, ProcessId};
use ferrorail_fabric::{FabricError, RAILS_MAX, RemoteRegion};
use ferrorail_shm::{Cma, Segment};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

/// One entry of the peer table; never removed.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) process: ProcessId,
    pub(super) lanes: [Lane; RAILS_MAX],
    link: OnceLock<Link>,
    imports: RwLock<Vec<Import>>,
}

/// What connecting found out.
#[derive(Debug)]
pub(super) struct Link {
    /// As the kernel knows it, which tests with several fabrics in one process make differ from
    /// the peer's [`ProcessId`].
    pub(super) pid: u32,
    pub(super) same_process: bool,
    /// The process, if cross-memory attach was seen to work with it.
    pub(super) attach: Option<Cma>,
    pub(super) keys: PeerKeys,
    /// Which of the peer's gates are this process's.
    pub(super) gate: PeerId,
    /// Lives of the lanes that it was connected to, by plane.
    pub(super) generations: [u64; RAILS_MAX],
}

/// One (peer, rail). On a line of its own: several threads may post to different peers.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Lane {
    /// Operations posted.
    pub(super) posted: AtomicU64,
    /// How many of those that took effect at once are known to be visible to everyone.
    visible: AtomicU64,
    /// Payload bytes posted.
    pub(super) bytes: AtomicU64,
    /// Operations completed, where completion is modelled.
    pub(super) completed: AtomicU64,
    /// Generation of the lane, as the peer's gate must have it.
    pub(super) generation: AtomicU64,
    /// What broke the lane, where completion is modelled; everything behind it is flushed.
    pub(super) breakage: BreakageCell,
}

/// A part of the peer's address space that is mapped here.
#[derive(Debug)]
struct Import {
    address: u64,
    bytes: u64,
    rkeys: [u32; RAILS_MAX],
    mapping: usize,
    /// Keeps the mapping alive.
    _segment: Arc<Segment>,
}

impl Peer {
    pub(super) fn new(process: ProcessId) -> Self {
        Self {
            process,
            lanes: Default::default(),
            link: OnceLock::new(),
            imports: RwLock::default(),
        }
    }

    #[inline]
    pub(super) fn link(&self) -> Option<&Link> {
        self.link.get()
    }

    /// Makes `link` the peer's, unless another thread was faster.
    pub(super) fn connect(&self, link: Link) {
        let _ = self.link.set(link);
    }

    /// Where `[address, address + bytes)` of the region with the key `rkey` on `plane` is mapped here, if it
    /// is. The address alone would not do: the peer may have taken down a segment that is still mapped here,
    /// and have private memory there by now.
    pub(super) fn mapped(&self, rkey: u32, plane: u8, address: u64, bytes: usize) -> Option<usize> {
        let imports = self.imports.read().unwrap_or_else(PoisonError::into_inner);
        let of_key = |import: &&Import| import.rkeys[usize::from(plane)] == rkey;
        imports.iter().filter(of_key).find_map(|import| {
            let offset = address.checked_sub(import.address)?;
            let end = offset.checked_add(bytes as u64)?;
            (end <= import.bytes).then(|| import.mapping + offset as usize)
        })
    }

    /// Records that `region` is reached through `segment`, at `offset`.
    pub(super) fn import(&self, region: &mut RemoteRegion, segment: Arc<Segment>, offset: u64) {
        region.mapping = segment.range().address + offset as usize;
        let mut imports = self.imports.write().unwrap_or_else(PoisonError::into_inner);
        imports.push(Import {
            address: region.address,
            bytes: region.bytes,
            rkeys: region.rkeys,
            mapping: region.mapping,
            _segment: segment,
        });
    }

    /// Undoes one [`Peer::import`] of `region`; regions that needed no mapping are none.
    pub(super) fn release(&self, region: &RemoteRegion) {
        let mut imports = self.imports.write().unwrap_or_else(PoisonError::into_inner);
        let of_region = |import: &Import| {
            (import.address, import.bytes, import.mapping)
                == (region.address, region.bytes, region.mapping)
        };
        if let Some(index) = imports.iter().position(of_region) {
            imports.swap_remove(index);
        }
    }
}

/// Objects of other processes mapped here, each once however many regions lie in it.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    objects: Mutex<HashMap<Identity, Weak<Segment>>>,
}

/// Unique while the object exists, which our own mapping sees to.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
}

impl Mappings {
    /// The mapping of `object`, made if there is none.
    pub(super) fn map(&self, object: &Object) -> Result<Arc<Segment>, FabricError> {
        let mut objects = self.objects.lock();
        objects.retain(|_, segment| segment.strong_count() > 0);
        let identity = Identity {
            device: object.device,
            inode: object.inode,
            bytes: object.backing.object_bytes,
        };
        if let Some(segment) = objects.get(&identity).and_then(Weak::upgrade) {
            return Ok(segment);
        }
        let mut segment =
            Segment::attach(&object.handle()).map_err(|error| FabricError::SetUp {
                verb: "mapping shared memory",
                object: format!(
                    "descriptor {} of process {}",
                    object.backing.fd, object.backing.pid
                ),
                source: io::Error::other(error),
            })?;
        segment.close();
        let segment = Arc::new(segment);
        objects.insert(identity, Arc::downgrade(&segment));
        Ok(segment)
    }

    /// Objects mapped at present.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let objects = self.objects.lock();
        objects.values().filter(|s| s.strong_count() > 0).count()
    }
}

impl Lane {
    /// Begins the lane's next generation.
    pub(super) fn reconnect(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
        self.breakage.clear();
    }

    /// Counts an operation that took effect at once; its sequence number.
    #[inline]
    pub(super) fn count(&self, bytes: usize) -> u64 {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.posted.fetch_add(1, Ordering::Release) + 1
    }

    /// Number of the last operation that took effect at once: what it put is visible to everyone, not still in
    /// some core's store buffer. One fence for all that were posted, as fences take longer than short puts.
    #[inline]
    pub(super) fn visible(&self) -> u64 {
        let posted = self.posted.load(Ordering::Acquire);
        if self.visible.load(Ordering::Acquire) < posted {
            fence(Ordering::SeqCst);
            self.visible.store(posted, Ordering::Release);
        }
        posted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::config::ShmKind;
    use ferrorail_fabric::SharedBacking;

    fn object_of(segment: &Segment) -> Object {
        let handle = segment.handle();
        Object {
            backing: SharedBacking {
                pid: handle.pid,
                fd: handle.fd,
                offset: 0,
                object_bytes: handle.bytes,
            },
            device: handle.device,
            inode: handle.inode,
        }
    }

    fn region(address: u64) -> RemoteRegion {
        RemoteRegion {
            address,
            bytes: 4096,
            rkeys: [7; RAILS_MAX],
            mapping: 0,
        }
    }

    #[test]
    fn regions_of_one_object_share_a_mapping_that_goes_with_the_last() {
        let segment = Segment::create(ShmKind::Memfd, 1 << 16).unwrap();
        let (object, mappings) = (object_of(&segment), Mappings::default());
        let process = ProcessId {
            host: 1,
            pid: 2,
            started: 3,
        };
        let peer = Peer::new(process);
        let (mut low, mut high) = (region(1 << 40), region((1 << 40) + 8192));
        peer.import(&mut low, mappings.map(&object).unwrap(), 4096);
        peer.import(&mut high, mappings.map(&object).unwrap(), 12288);
        assert_eq!(high.mapping - low.mapping, 8192, "one mapping");
        assert_eq!(mappings.count(), 1);

        segment.word(12288 + 64).store(77, Ordering::Relaxed);
        let at = peer.mapped(7, 0, (1 << 40) + 8192 + 64, 8).unwrap();
        // SAFETY: an aligned word of the mapping, which `peer` holds.
        let word = unsafe { AtomicU64::from_ptr(at as *mut u64) };
        assert_eq!(word.load(Ordering::Relaxed), 77);
        let mapped = |rkey, address, bytes| peer.mapped(rkey, 0, address, bytes);
        assert_eq!(mapped(7, (1 << 40) + 4090, 8), None, "beyond the region");
        assert_eq!(mapped(7, (1 << 40) - 1, 1), None);
        assert_eq!(mapped(8, 1 << 40, 1), None, "what is there by now");

        peer.release(&low);
        assert_eq!(mappings.count(), 1);
        peer.release(&region(5));
        peer.release(&high);
        assert_eq!(mappings.count(), 0);
    }

    #[test]
    fn an_object_that_is_gone_is_not_mistaken_for_its_successor() {
        let segment = Segment::create(ShmKind::Memfd, 4096).unwrap();
        let mut object = object_of(&segment);
        object.inode += 1;
        let error = Mappings::default().map(&object).unwrap_err();
        assert!(
            matches!(
                error,
                FabricError::SetUp {
                    verb: "mapping shared memory",
                    ..
                }
            ),
            "{error}"
        );
    }
}
