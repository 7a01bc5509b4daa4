//! Groups on loopback rails.
//!
//! Each member has a [ring](Ring) in a shared object of its own, which it alone writes and all others
//! read. A multicast is therefore one copy however many members there are, as it is with a switch,
//! and receiving is reading memory; a socket per member would take a system call for each of them,
//! and the system bounds its queue at a length of its own. The object has no name, so nothing is
//! left behind by a crash.
//!
//! The receive queue is kept by the reader: polling takes note of what has arrived, in order of
//! arrival, up to the queue's depth; what is beyond that is dropped. The datagrams themselves stay
//! in the rings, which hold twice as many as a queue: a reader that does not poll for longer loses
//! older ones instead of newer ones.
//!
//! A modelled rail is one card for all that leaves it: datagrams take their turn at its bandwidth
//! and arrive one latency later. Faults of the rail that keep operations from getting through lose
//! datagrams, without anybody being told.

use super::model::Model;
use super::{Core, LoopbackTransport};
use ferrorail_base::RailId;
use ferrorail_base::sync::AtomicU64;
use ferrorail_fabric::multicast::{DatagramLimits, Payload, To};
use ferrorail_fabric::{Group, GroupId, Multicast, MulticastError};
use ferrorail_shm::{Found, Ring, RingShape, Segment, SegmentHandle, Tag, host_time_ns};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Largest datagram: the largest packet of an RDMA device.
const BYTES_MAX: usize = 4096;
/// Deepest receive queue; the rings of one that deep take 34 MB once they were written.
const DEPTH_MAX: u32 = 4096;
/// Datagrams that may wait for a modelled rail.
const SENDS_MAX: usize = 128;
/// Tag of a datagram for all members.
const ALL: u32 = u32::MAX;
/// Start of an address; the last byte is the version of the format.
const MAGIC: [u8; 4] = *b"FRm1";

impl Multicast for LoopbackTransport {
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>> {
        let rails = 0..self.core.attributes.rails.len();
        rails.map(|rail| self.core.limits(rail)).collect()
    }

    fn join(
        &self,
        rail: RailId,
        group: GroupId,
        depth: u32,
    ) -> Result<Box<dyn Group>, MulticastError> {
        let limits = self.core.limits(rail.index())?;
        let depth = depth.clamp(1, limits.depth);
        let shape = RingShape::new(2 * depth, BYTES_MAX as u32);
        let shape = shape.expect("a ring within the limits");
        let kind = self.core.shm;
        let segment = Segment::create(kind, 8 * shape.words()).map_err(|error| {
            let source = io::Error::other(error);
            self.core
                .multicast_failed(rail.index(), "creating a ring", source)
        })?;
        Ok(Box::new(Membership {
            core: Arc::clone(&self.core),
            rail: rail.index(),
            group,
            limits: DatagramLimits { depth, ..limits },
            own: Mapped { segment, shape },
            written: 0,
            joined_ns: host_time_ns(),
            me: None,
            sources: Vec::new(),
            queue: VecDeque::with_capacity(depth as usize),
            leaving: VecDeque::new(),
            outgoing: Vec::with_capacity(BYTES_MAX),
            incoming: vec![0; BYTES_MAX],
        }))
    }
}

impl Core {
    fn limits(&self, rail: usize) -> Result<DatagramLimits, MulticastError> {
        let unsupported = |reason: &str| MulticastError::Unsupported {
            rail: self.rail_name(rail),
            reason: reason.to_owned(),
        };
        if rail >= self.attributes.rails.len() {
            return Err(unsupported("there is no such rail"));
        }
        if self.is_gone(rail) {
            return Err(unsupported("its device is gone"));
        }
        Ok(DatagramLimits {
            bytes: BYTES_MAX,
            depth: DEPTH_MAX,
            sends: SENDS_MAX as u32,
        })
    }

    #[cold]
    fn multicast_failed(
        &self,
        rail: usize,
        verb: &'static str,
        source: io::Error,
    ) -> MulticastError {
        MulticastError::Device {
            rail: self.rail_name(rail),
            verb,
            source,
        }
    }
}

/// A ring of some member, mapped here.
#[derive(Debug)]
struct Mapped {
    segment: Segment,
    shape: RingShape,
}

impl Mapped {
    fn ring(&self) -> Ring<'_> {
        let cells = self.segment.cells::<AtomicU64>(0, self.shape.words());
        Ring::new(cells, self.shape)
    }
}

/// Another member, as this one reads it.
#[derive(Debug)]
struct Source {
    ring: Mapped,
    address: Vec<u8>,
    /// Number of the first datagram that was not seen to arrive.
    next: u64,
}

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    due_ns: u64,
    member: u32,
    number: u64,
}

#[derive(Debug)]
struct Membership {
    core: Arc<Core>,
    rail: usize,
    group: GroupId,
    limits: DatagramLimits,
    own: Mapped,
    /// Datagrams in the own ring so far.
    written: u64,
    /// What was sent before was not sent to this member.
    joined_ns: u64,
    me: Option<u32>,
    /// By member number; `None` is this process.
    sources: Vec<Option<Source>>,
    queue: VecDeque<Arrival>,
    /// When each datagram that waits for the modelled rail has left it.
    leaving: VecDeque<u64>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Membership {
    /// Opens the ring that `address` tells of.
    fn open(&self, member: u32, address: &[u8]) -> Result<Source, MulticastError> {
        let found = self.parse(address);
        let (shape, handle) = found.ok_or(MulticastError::BadAddress { member })?;
        let mut segment = Segment::attach(&handle).map_err(|error| {
            let source = io::Error::other(error);
            self.core
                .multicast_failed(self.rail, "mapping a member's ring", source)
        })?;
        segment.close();
        if segment.bytes() < 8 * shape.words() {
            return Err(MulticastError::BadAddress { member });
        }
        Ok(Source {
            ring: Mapped { segment, shape },
            address: address.to_vec(),
            next: 0,
        })
    }

    /// Shape and place of a ring of this group.
    fn parse(&self, address: &[u8]) -> Option<(RingShape, SegmentHandle)> {
        let rest = address.strip_prefix(&MAGIC)?;
        let rest = rest.strip_prefix(&[self.plane()])?;
        let rest = rest.strip_prefix(&self.group.0)?;
        let (slots, handle) = rest.split_first_chunk()?;
        let slots = u32::from_le_bytes(*slots);
        let bounded = (1..=2 * DEPTH_MAX).contains(&slots);
        let shape = bounded.then(|| RingShape::new(slots, BYTES_MAX as u32))??;
        Some((shape, SegmentHandle::from_wire(handle)?))
    }

    fn plane(&self) -> u8 {
        self.core.attributes.rails[self.rail].plane
    }

    /// Takes note of what has arrived since the last time.
    fn gather(&mut self) {
        let (before, me) = (self.queue.len(), self.me.unwrap_or(ALL));
        let mut now = None;
        for (member, source) in (0..).zip(&mut self.sources) {
            let Some(source) = source else { continue };
            let ring = source.ring.ring();
            // A round to find the oldest that is left and a round of those, of which the writer may
            // write as many meanwhile; one that is faster still does not hold this loop.
            for _ in 0..3 * source.ring.shape.slots() {
                match ring.look(source.next) {
                    Found::Nothing => break,
                    Found::Lapped(oldest) => source.next = oldest,
                    Found::Datagram(tag) => {
                        let [sent_ns, due_ns] = tag.stamps;
                        // One that no modelled rail carries has arrived when it was sent.
                        if due_ns > sent_ns && due_ns > *now.get_or_insert_with(host_time_ns) {
                            break;
                        }
                        if (tag.word == ALL || tag.word == me) && sent_ns >= self.joined_ns {
                            self.queue.push_back(Arrival {
                                due_ns,
                                member,
                                number: source.next,
                            });
                        }
                        source.next += 1;
                    }
                }
            }
        }
        if self.queue.len() > before + 1 {
            let new = &mut self.queue.make_contiguous()[before..];
            new.sort_unstable_by_key(|arrival| arrival.due_ns);
        }
        self.queue.truncate(self.limits.depth as usize);
    }

    fn forget_what_left(&mut self) {
        if !self.leaving.is_empty() {
            let now = host_time_ns();
            while self.leaving.front().is_some_and(|&left| left <= now) {
                self.leaving.pop_front();
            }
        }
    }
}

impl Group for Membership {
    fn limits(&self) -> DatagramLimits {
        self.limits
    }

    fn address(&self) -> Vec<u8> {
        let mut address = MAGIC.to_vec();
        address.push(self.plane());
        address.extend(self.group.0);
        address.extend(self.own.shape.slots().to_le_bytes());
        address.extend(self.own.segment.handle().to_wire());
        address
    }

    fn set_members(&mut self, me: u32, addresses: &[Vec<u8>]) -> Result<(), MulticastError> {
        let mut opened = Vec::with_capacity(addresses.len());
        for (member, address) in (0..).zip(addresses) {
            let known = |source: &Option<Source>| {
                source
                    .as_ref()
                    .is_some_and(|known| known.address == *address)
            };
            opened.push(match self.sources.iter().position(known) {
                _ if member == me => None,
                Some(known) => Some(Err(known)),
                None => Some(Ok(self.open(member, address)?)),
            });
        }
        // Nothing fails from here on. What had arrived may be of members that are no more.
        self.queue.clear();
        let mut old = std::mem::take(&mut self.sources);
        let resolve = |source: Option<Result<Source, usize>>| match source? {
            Ok(new) => Some(new),
            Err(known) => old[known].take(),
        };
        self.sources = opened.into_iter().map(resolve).collect();
        self.me = Some(me);
        Ok(())
    }

    unsafe fn send(
        &mut self,
        to: To,
        header: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), MulticastError> {
        self.limits.check(header, &payload)?;
        let word = match to {
            To::All => ALL,
            To::Member(member) => match self.sources.get(member as usize) {
                Some(Some(_)) => member,
                _ => return Err(MulticastError::NoMember { member }),
            },
        };
        self.forget_what_left();
        if self.leaving.len() == SENDS_MAX {
            return Err(MulticastError::WouldBlock);
        }
        self.outgoing.clear();
        self.outgoing.extend_from_slice(header);
        match payload {
            Payload::Copied(bytes) => self.outgoing.extend_from_slice(bytes),
            Payload::Registered(slice) => {
                let range = slice.region.range.slice(slice.offset, slice.bytes);
                let end = self.outgoing.len();
                // SAFETY: the lengths were checked against the capacity; the caller's promise that
                // the memory is there and nobody writes it.
                unsafe {
                    let free = self.outgoing.as_mut_ptr().add(end);
                    free.copy_from_nonoverlapping(range.as_ptr(), slice.bytes);
                    self.outgoing.set_len(end + slice.bytes);
                }
            }
        }
        let sent_ns = host_time_ns();
        let (left_ns, due_ns) = match &self.core.model {
            None => (sent_ns, sent_ns),
            Some(model) => match model.send_datagram(self.rail, self.outgoing.len()) {
                Some((leaves, arrives)) => (sent_ns + leaves, sent_ns + arrives),
                None => return Ok(()),
            },
        };
        if left_ns > sent_ns {
            self.leaving.push_back(left_ns);
        }
        let stamps = [sent_ns, due_ns];
        let tag = Tag { word, stamps };
        self.own.ring().put(self.written, tag, &self.outgoing);
        self.written += 1;
        Ok(())
    }

    fn pending_sends(&mut self) -> Result<usize, MulticastError> {
        self.forget_what_left();
        Ok(self.leaving.len())
    }

    fn is_port_down(&self) -> bool {
        self.core.ports_down() & 1 << self.rail != 0
    }

    fn poll(&mut self, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<usize, MulticastError> {
        self.gather();
        let mut handed = 0;
        while handed < limit
            && let Some(arrival) = self.queue.pop_front()
        {
            let source = self.sources[arrival.member as usize].as_ref();
            let taken = source.and_then(|source| {
                let ring = source.ring.ring();
                ring.take(arrival.number, &mut self.incoming)
            });
            if let Some(bytes) = taken {
                each(&self.incoming[..bytes]);
                handed += 1;
            }
        }
        Ok(handed)
    }
}

impl Model {
    /// Occupies rail `index` with a datagram of `bytes` bytes; in how many nanoseconds it leaves and arrives, `None`
    /// if a fault loses it.
    fn send_datagram(&self, index: usize, bytes: usize) -> Option<(u64, u64)> {
        let rail = &self.rails[index];
        let now = std::time::Instant::now();
        let mut queue = rail.queue.lock();
        let posted = queue.posted;
        if queue.faults.is_gone(posted) || queue.faults.at(posted, now).is_some() {
            return None;
        }
        queue.free_at = queue.free_at.max(now) + rail.transmission(bytes);
        let leaves = queue.free_at.duration_since(now);
        let ns = |duration: std::time::Duration| duration.as_nanos() as u64;
        Some((ns(leaves), ns(leaves + self.latency)))
    }
}
