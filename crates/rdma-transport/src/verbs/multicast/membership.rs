//! A process's membership in a group: its queue pair, and what is posted on it.

use super::super::async_events::PortState;
use super::super::completion_queue::{BATCH, CompletionQueue, NO_COMPLETIONS};
use super::super::handles::ProtectionDomain;
use super::super::queue_pair::{Local, QueuePair, path};
use super::super::rail::Rail;
use super::address::{self, MemberAddress, ROUTE_BYTES};
use super::pool::Pool;
use super::queue_pair::{AddressHandle, Attachment, Size};
use super::work_request::{Send, post_receives, post_send, succeeded};
use super::{Network, failed};
use ferrorail_fabric::multicast::{DatagramLimits, Payload, To};
use ferrorail_fabric::{Group, GroupId, MulticastError, RailInfo};
use rdma_sys::ibv_sge;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Where a multicast goes besides its group's address: no queue pair in particular.
const ALL_QUEUE_PAIRS: u32 = 0x00ff_ffff;

/// After so many sends this member's own multicasts are looked for in its receive queue, so that a
/// sender which does not poll meanwhile still has room for what others send.
const SORTED_AFTER: u64 = 8;

/// See the [module documentation](super).
pub struct Membership {
    // In the order in which they are released.
    _attachment: Attachment,
    queue_pair: Arc<QueuePair>,
    everybody: AddressHandle,
    /// By member number; `None` is this process.
    members: Vec<Option<Member>>,
    /// Ways to former members, which pending sends may still use.
    retired: Vec<AddressHandle>,
    outgoing: Pool,
    incoming: Pool,
    /// Slots that wait for `poll`, and bytes in them.
    arrived: VecDeque<(usize, usize)>,
    sends: Arc<CompletionQueue>,
    receives: Arc<CompletionQueue>,
    network: Network,
    domain: Arc<ProtectionDomain>,
    rail: RailInfo,
    /// This end of it, and its local identifier on InfiniBand, 0 on Ethernet.
    local: Local,
    lid: u16,
    port: PortState,
    group: GroupId,
    limits: DatagramLimits,
    posted: u64,
    completed: u64,
    /// What the device failed with; for good.
    failure: Option<(&'static str, String)>,
}

/// Another member; the way to it is looked for when it is first sent to.
struct Member {
    address: MemberAddress,
    handle: Option<AddressHandle>,
}

impl Membership {
    /// Attaches a queue pair of its own to the group, and posts receives.
    pub fn create(
        rail: &Rail,
        group: GroupId,
        (network, port): (Network, PortState),
        limits: DatagramLimits,
    ) -> Result<Self, MulticastError> {
        let fail = |verb| move |source| failed(rail, verb, source);
        let context = rail.domain.context();
        let queue = |queue: io::Result<_>| queue.map(Arc::new).map_err(fail("ibv_create_cq"));
        let sends = queue(CompletionQueue::create(context, limits.sends))?;
        let receives = queue(CompletionQueue::create_with_channel(context, limits.depth))?;
        let size = Size {
            sends: limits.sends,
            receives: limits.depth,
            inline_bytes: rail.limits.inline_bytes,
        };
        let queue_pair = QueuePair::for_datagrams(&rail.domain, [&sends, &receives], size);
        let queue_pair = Arc::new(queue_pair.map_err(fail("ibv_create_qp"))?);
        let initialized = queue_pair.bind_datagrams(rail.local.port, network.address.q_key);
        initialized.map_err(fail("ibv_modify_qp(INIT)"))?;
        let pool = |slots: u32, bytes| {
            let pool = Pool::register(&rail.domain, slots as usize, bytes);
            pool.map_err(|(verb, source)| failed(rail, verb, source))
        };
        let outgoing = pool(limits.sends, limits.bytes)?;
        let incoming = pool(limits.depth, ROUTE_BYTES + limits.bytes)?;
        let slots: Vec<usize> = (0..incoming.slots()).collect();
        for slots in slots.chunks(BATCH) {
            post_receives(&queue_pair, &incoming, slots).map_err(fail("ibv_post_recv"))?;
        }
        let activated = queue_pair.activate_datagrams();
        activated.map_err(fail("ibv_modify_qp(RTS)"))?;
        let attachment = Attachment::attach(&queue_pair, network.address.mgid, network.lid);
        let everybody = AddressHandle::create(&rail.domain, network.path);
        Ok(Self {
            _attachment: attachment.map_err(fail("ibv_attach_mcast"))?,
            everybody: everybody.map_err(fail("ibv_create_ah"))?,
            queue_pair,
            members: Vec::new(),
            retired: Vec::new(),
            outgoing,
            incoming,
            arrived: VecDeque::with_capacity(limits.depth as usize),
            sends,
            receives,
            network,
            domain: Arc::clone(&rail.domain),
            rail: rail.info.clone(),
            local: rail.local,
            lid: rail.lid,
            port,
            group,
            limits,
            posted: 0,
            completed: 0,
            failure: None,
        })
    }

    fn device(&self, verb: &'static str, source: io::Error) -> MulticastError {
        MulticastError::Device {
            rail: self.rail.name.clone(),
            verb,
            source,
        }
    }

    /// Fails if the device has failed before.
    fn check(&self) -> Result<(), MulticastError> {
        match &self.failure {
            Some((verb, words)) => Err(self.device(verb, io::Error::other(words.clone()))),
            None => Ok(()),
        }
    }

    /// The device failed: nothing that was posted completes any more.
    #[cold]
    fn fail(&mut self, verb: &'static str, words: String) -> MulticastError {
        self.completed = self.posted;
        let source = io::Error::other(words.clone());
        self.failure.get_or_insert((verb, words));
        self.device(verb, source)
    }

    /// What a work request needs to know of the addressee.
    fn destination(&mut self, to: To) -> Result<rdma_sys::ud_t, MulticastError> {
        let remote_qkey = self.network.address.q_key;
        let To::Member(number) = to else {
            return Ok(rdma_sys::ud_t {
                ah: self.everybody.as_ptr(),
                remote_qpn: ALL_QUEUE_PAIRS,
                remote_qkey,
            });
        };
        let Some(Some(member)) = self.members.get_mut(number as usize) else {
            return Err(MulticastError::NoMember { member: number });
        };
        if member.handle.is_none() {
            let path = path(&self.local, member.address.gid, member.address.lid);
            match AddressHandle::create(&self.domain, path) {
                Ok(handle) => member.handle = Some(handle),
                Err(error) => return Err(self.device("ibv_create_ah", error)),
            }
        }
        let handle = member.handle.as_ref().expect("created above");
        Ok(rdma_sys::ud_t {
            ah: handle.as_ptr(),
            remote_qpn: member.address.queue_pair,
            remote_qkey,
        })
    }

    /// Reads the address of member `number`, which must be in this group.
    fn parse(&self, number: u32, wire: &[u8]) -> Result<MemberAddress, MulticastError> {
        let ours = |address: &MemberAddress| {
            (address.plane, address.group) == (self.rail.plane, self.group)
        };
        let address = MemberAddress::from_wire(wire).filter(ours);
        let address = address.ok_or(MulticastError::BadAddress { member: number })?;
        let mgid = self.network.address.mgid;
        if address.mgid == mgid {
            return Ok(address);
        }
        let (theirs, here) = (address::ip(address.mgid), address::ip(mgid));
        Err(MulticastError::Unsupported {
            rail: self.rail.name.clone(),
            reason: format!(
                "member {number} is in {theirs}, this process in {here}; choose GIDs of one kind on \
                 all hosts (FERRORAIL_GID_INDEX)"
            ),
        })
    }

    /// Puts what is copied into the next slot; all of the datagram, as work requests name it.
    fn fill(
        &self,
        header: &[u8],
        payload: &Payload<'_>,
    ) -> Result<([ibv_sge; 2], usize), MulticastError> {
        let slot = (self.posted % self.outgoing.slots() as u64) as usize;
        let to = self.outgoing.slot(slot);
        let copied: [&[u8]; 2] = match payload {
            Payload::Copied(bytes) => [header, bytes],
            Payload::Registered(_) => [header, &[]],
        };
        let bytes = copied[0].len() + copied[1].len();
        let first = self.outgoing.part(slot, bytes);
        // SAFETY: `part` has checked that both fit the slot, which no pending send uses.
        unsafe {
            to.copy_from_nonoverlapping(copied[0].as_ptr(), copied[0].len());
            let to = to.add(copied[0].len());
            to.copy_from_nonoverlapping(copied[1].as_ptr(), copied[1].len());
        }
        let Payload::Registered(slice) = payload else {
            return Ok(([first, first], usize::from(bytes > 0)));
        };
        let second = ibv_sge {
            addr: slice.region.range.slice(slice.offset, slice.bytes).address as u64,
            length: slice.bytes as u32,
            lkey: slice.region.lkeys[usize::from(self.rail.plane)],
        };
        if second.lkey == 0 && slice.bytes > 0 {
            let words = io::Error::other("the memory is not registered with this rail");
            return Err(self.device("ibv_post_send", words));
        }
        Ok(match (bytes > 0, slice.bytes > 0) {
            (true, true) => ([first, second], 2),
            (false, true) => ([second, second], 1),
            (some, false) => ([first, first], usize::from(some)),
        })
    }

    /// Takes what has come from the device: this member's own multicasts, which it may hand back, make
    /// room again at once; the rest waits for `poll` in its slots.
    fn sort_out(&mut self) -> Result<(), MulticastError> {
        let mut batch = NO_COMPLETIONS;
        loop {
            let taken = succeeded(&self.receives, &mut batch, "a receive")
                .map_err(|(verb, words)| self.fail(verb, words))?;
            let (mut own, mut count) = ([0; BATCH], 0);
            for completion in taken {
                let slot = completion.wr_id as usize;
                let bytes = (completion.byte_len as usize).max(ROUTE_BYTES);
                // SAFETY: the device wrote the slot before its completion, and does not write it
                // again before it is posted.
                let whole = unsafe { self.incoming.read(slot, bytes) };
                let here = completion.src_qp == self.queue_pair.number();
                if here && address::is_from(&self.local.here.address, &whole[..ROUTE_BYTES]) {
                    own[count] = slot;
                    count += 1;
                } else {
                    self.arrived.push_back((slot, bytes));
                }
            }
            let last = taken.len() < BATCH;
            self.give_back(&own[..count])?;
            if last {
                return Ok(());
            }
        }
    }

    /// Lets the device receive into `slots` again.
    fn give_back(&mut self, slots: &[usize]) -> Result<(), MulticastError> {
        if slots.is_empty() {
            return Ok(());
        }
        let posted = post_receives(&self.queue_pair, &self.incoming, slots);
        posted.map_err(|error| self.fail("ibv_post_recv", error.to_string()))
    }
}

impl Group for Membership {
    fn limits(&self) -> DatagramLimits {
        self.limits
    }

    fn address(&self) -> Vec<u8> {
        let address = MemberAddress {
            plane: self.rail.plane,
            group: self.group,
            mgid: self.network.address.mgid,
            gid: self.local.here.address.gid,
            lid: self.lid,
            queue_pair: self.queue_pair.number(),
        };
        address.to_wire()
    }

    fn set_members(&mut self, me: u32, addresses: &[Vec<u8>]) -> Result<(), MulticastError> {
        let mut members = Vec::with_capacity(addresses.len());
        for (member, wire) in (0..).zip(addresses) {
            members.push(match member == me {
                true => None,
                false => Some(Member {
                    address: self.parse(member, wire)?,
                    handle: None,
                }),
            });
        }
        let mut known: Vec<Member> = self.members.drain(..).flatten().collect();
        for member in members.iter_mut().flatten() {
            let same = known.iter_mut().find(|one| one.address == member.address);
            member.handle = same.and_then(|one| one.handle.take());
        }
        let left = known.into_iter().filter_map(|one| one.handle);
        self.retired.extend(left);
        self.members = members;
        Ok(())
    }

    unsafe fn send(
        &mut self,
        to: To,
        header: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), MulticastError> {
        self.limits.check(header, &payload)?;
        self.check()?;
        let ud = self.destination(to)?;
        if self.posted - self.completed == u64::from(self.limits.sends) {
            return Err(MulticastError::WouldBlock);
        }
        let (parts, count) = self.fill(header, &payload)?;
        let send = Send {
            id: self.posted,
            parts: &parts[..count],
            inline: header.len() + payload.bytes() <= self.queue_pair.inline_bytes() as usize,
            to: ud,
        };
        // SAFETY: what the parts name stays until completion: slots because they are counted,
        // registered memory by the caller's promise.
        let posted = unsafe { post_send(&self.queue_pair, send) };
        posted.map_err(|error| self.device("ibv_post_send", error))?;
        self.posted += 1;
        if self.posted.is_multiple_of(SORTED_AFTER) {
            self.sort_out()?;
        }
        Ok(())
    }

    fn pending_sends(&mut self) -> Result<usize, MulticastError> {
        self.check()?;
        let mut batch = NO_COMPLETIONS;
        while self.completed < self.posted {
            let taken = succeeded(&self.sends, &mut batch, "a send")
                .map_err(|(verb, words)| self.fail(verb, words))?;
            self.completed += taken.len() as u64;
            if taken.len() < BATCH {
                break;
            }
        }
        if self.completed == self.posted {
            self.retired.clear();
        }
        self.sort_out()?;
        Ok((self.posted - self.completed) as usize)
    }

    fn poll(&mut self, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<usize, MulticastError> {
        self.check()?;
        let mut handed = 0;
        while handed < limit {
            if self.arrived.is_empty() {
                self.sort_out()?;
            }
            let mut slots = [0; BATCH];
            let count = self.arrived.len().min(limit - handed).min(BATCH);
            for (slot, (at, bytes)) in slots.iter_mut().zip(self.arrived.drain(..count)) {
                *slot = at;
                // SAFETY: as in `sort_out`; the slot is posted again below.
                let whole = unsafe { self.incoming.read(at, bytes) };
                each(&whole[ROUTE_BYTES..]);
            }
            if count == 0 {
                break;
            }
            self.give_back(&slots[..count])?;
            handed += count;
        }
        Ok(handed)
    }

    fn arm(&mut self) -> Result<Option<RawFd>, MulticastError> {
        self.check()?;
        self.receives.take_events();
        (self.receives.arm()).map_err(|error| self.device("ibv_req_notify_cq", error))?;
        Ok(self.receives.descriptor().map(|one| one.as_raw_fd()))
    }

    fn is_port_down(&self) -> bool {
        self.port.is_down()
    }
}
