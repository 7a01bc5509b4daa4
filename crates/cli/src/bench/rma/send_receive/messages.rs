//! The messages of the comparison baseline: how epochs' operations travel.

use super::packet::{Act, PACKET_BYTES, Packet, Queued, Sort, WORD_BYTES};
use crate::bench::mpi_functions::mpi_functions;
use anyhow::{Context, Result, ensure};
use ferrorail_mpi_abi::{Comm, Host, Request, RequestList};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

/// Requests under way of one epoch.
const REQUESTS: usize = 4096;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Packets of an epoch in which the target takes part.
    Active = 1,
    /// A packet about a lock, or under one.
    Passive,
    /// Those that follow it.
    PassiveMore,
    /// Long data.
    Data,
    /// What a get brings back.
    Reply,
    /// A lock is granted.
    Grant,
    /// Operations under a lock are complete.
    Acknowledgement,
    /// A target lets an origin in.
    Post,
}

mpi_functions! {
    Barriers {
        begin = "Ibarrier" (comm: Comm, request: *mut c_void);
    }
}

/// Messages of one window, on a communicator of its own.
pub struct Messages<'a> {
    link: Link<'a>,
    pub rank: u32,
    pub size: u32,
    barriers: Barriers<'a>,
    requests: RequestList,
    /// Packets being sent, until all are.
    packets: Vec<Vec<u8>>,
    /// What others wait for. They end without this rank's own requests, whose targets may wait for this rank.
    answers: RequestList,
    /// What words were, until all answers are sent.
    results: Vec<Vec<u8>>,
    /// Where packets arrive that this rank waits for.
    incoming: Vec<u8>,
    /// Where packets about locks arrive.
    heard: Vec<u8>,
    listening: Request,
    barrier: Request,
}

impl<'a> Messages<'a> {
    /// Collective.
    pub fn new(host: &'a Host) -> Result<Self> {
        let world = host.predefined().comm_world;
        let comm = host.private_comm(world)?;
        let find = |name: &str| host.function(&format!("PMPI_{name}"));
        let none = host.predefined().request_null;
        Ok(Self {
            link: Link { host, comm },
            rank: host.comm_rank(comm)?,
            size: host.comm_size(comm)?,
            // SAFETY: these are the host's functions.
            barriers: unsafe { Barriers::load(host, find)? },
            requests: RequestList::with_capacity(host.kind(), REQUESTS),
            packets: Vec::new(),
            answers: RequestList::with_capacity(host.kind(), REQUESTS),
            results: Vec::new(),
            incoming: vec![0; PACKET_BYTES],
            heard: vec![0; PACKET_BYTES],
            listening: none,
            barrier: none,
        })
    }

    /// Sends an epoch's operations to `target`.
    ///
    /// # Safety
    /// Buffers are left alone until [`Messages::finish`].
    pub unsafe fn send_all(&mut self, queue: &[Queued], target: u32, act: Act) -> Result<()> {
        let mut tag = match act {
            Act::Active => Tag::Active,
            _ => Tag::Passive,
        };
        let mut left = queue;
        loop {
            // SAFETY: the caller's contract.
            let (packet, taken) = unsafe { Packet::write(self.rank, act, left) };
            let (sent, rest) = left.split_at(taken);
            // SAFETY: packets are kept until all is finished; moving the vector moves no bytes.
            unsafe { self.send((packet.as_ptr(), packet.len()), target, tag)? };
            self.packets.push(packet);
            for operation in sent.iter().filter(|operation| !operation.is_inline()) {
                let (link, buffer) = (self.link, (operation.here, operation.bytes));
                // SAFETY: the caller's contract.
                unsafe {
                    match operation.is_answered() {
                        true => link.begin_receive(&mut self.requests, buffer, target, Tag::Reply),
                        false => self.send((buffer.0, buffer.1), target, Tag::Data),
                    }?;
                }
            }
            left = rest;
            if left.is_empty() {
                return Ok(());
            }
            if tag == Tag::Passive {
                tag = Tag::PassiveMore;
            }
        }
    }

    /// The next packet of `from`.
    pub fn receive_packet(&mut self, from: u32, tag: Tag) -> Result<Packet> {
        let buffer = (self.incoming.as_mut_ptr(), self.incoming.len());
        // SAFETY: the buffer has so many bytes.
        unsafe { self.link.receive(buffer, from, tag)? };
        Ok(Packet::read(&self.incoming))
    }

    /// Does what a packet asks for to `memory`, receiving data that did not fit into it.
    ///
    /// # Safety
    /// `memory` has `length` bytes, and stays until [`Messages::finish`].
    pub unsafe fn apply(&mut self, packet: &Packet, memory: *mut u8, length: usize) -> Result<()> {
        for mut operation in packet.operations() {
            let Queued {
                sort, bytes, at, ..
            } = operation;
            let (from, link) = (packet.from, self.link);
            ensure!(
                at <= length && bytes <= length - at,
                "an operation beyond the window"
            );
            let there = memory.wrapping_add(at);
            // SAFETY: inside the memory, as checked.
            unsafe {
                if sort == Sort::Get {
                    self.send_answer((there, bytes), from, Tag::Reply)?;
                } else if sort == Sort::FetchAdd {
                    let mut before = vec![0u8; WORD_BYTES];
                    operation.here = before.as_mut_ptr();
                    operation.apply_here(memory);
                    self.send_answer((before.as_ptr(), WORD_BYTES), from, Tag::Reply)?;
                    self.results.push(before);
                } else if operation.is_inline() {
                    operation.apply_here(memory);
                } else if sort == Sort::Put {
                    link.receive((there, bytes), from, Tag::Data)?;
                } else {
                    let mut data = vec![0u8; bytes];
                    link.receive((data.as_mut_ptr(), bytes), from, Tag::Data)?;
                    operation.here = data.as_mut_ptr();
                    operation.apply_here(memory);
                }
            }
        }
        Ok(())
    }

    /// Waits for all messages under way.
    pub fn finish(&mut self) -> Result<()> {
        self.link.host.wait_all(&mut self.requests)?;
        self.requests.clear();
        self.packets.clear();
        self.finish_answers()
    }

    /// Waits for what others wait for.
    pub fn finish_answers(&mut self) -> Result<()> {
        self.link.host.wait_all(&mut self.answers)?;
        self.answers.clear();
        self.results.clear();
        Ok(())
    }

    /// An empty message.
    pub fn tell(&mut self, to: u32, tag: Tag) -> Result<()> {
        // SAFETY: no byte is sent.
        unsafe { self.send((ptr::dangling(), 0), to, tag) }
    }

    /// The same, awaited.
    pub fn hear(&mut self, from: u32, tag: Tag) -> Result<()> {
        // SAFETY: no byte is received.
        unsafe { self.link.receive((ptr::null_mut(), 0), from, tag) }
    }

    /// Begins to listen for packets about locks.
    pub fn listen(&mut self) -> Result<()> {
        let (link, buffer) = (self.link, (self.heard.as_mut_ptr(), PACKET_BYTES));
        let any = link.host.constants().any_source;
        // SAFETY: the buffer is this value's, and on the heap.
        self.listening = unsafe { link.post(buffer, any, Tag::Passive)? };
        Ok(())
    }

    /// The packet that was listened for, once it is there.
    pub fn heard(&mut self) -> Result<Option<Packet>> {
        let done = self.link.test(&mut self.listening)?;
        Ok(done.then(|| Packet::read(&self.heard)))
    }

    /// An empty message to `origin`, which waits for it.
    pub fn answer(&mut self, origin: u32, tag: Tag) -> Result<()> {
        // SAFETY: no byte is sent.
        unsafe { self.send_answer((ptr::dangling(), 0), origin, tag) }
    }

    /// Begins to wait for an empty message of `from`.
    pub fn expect(&mut self, from: u32, tag: Tag) -> Result<Request> {
        // SAFETY: no byte is received.
        unsafe { self.link.post((ptr::null_mut(), 0), from as c_int, tag) }
    }

    /// Whether it is there.
    pub fn is_there(&self, expected: &mut Request) -> Result<bool> {
        self.link.test(expected)
    }

    /// Collective.
    pub fn start_barrier(&mut self) -> Result<()> {
        let request = (&raw mut self.barrier).cast();
        // SAFETY: the request is as large as any handle.
        unsafe { self.barriers.begin(self.link.comm, request) }
    }

    /// Whether all are there.
    pub fn is_barrier_over(&mut self) -> Result<bool> {
        self.link.test(&mut self.barrier)
    }

    /// Stops to listen, by a message to oneself, and gives the communicator back. Collective, after
    /// a barrier.
    pub fn close(&mut self) -> Result<()> {
        self.tell(self.rank, Tag::Passive)?;
        while self.heard()?.is_none() {
            std::thread::yield_now();
        }
        self.finish()?;
        Ok(self.link.host.free_comm(self.link.comm)?)
    }

    /// # Safety
    /// The bytes are readable, and left alone until [`Messages::finish`].
    unsafe fn send(&mut self, bytes: (*const u8, usize), to: u32, tag: Tag) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.link.begin_send(&mut self.requests, bytes, to, tag) }
    }

    /// # Safety
    /// As [`Messages::send`], until [`Messages::finish_answers`].
    unsafe fn send_answer(&mut self, bytes: (*const u8, usize), to: u32, tag: Tag) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.link.begin_send(&mut self.answers, bytes, to, tag) }
    }
}

/// The communicator, and what is done on it. Buffers are where they begin and how long they are.
#[derive(Clone, Copy)]
struct Link<'a> {
    host: &'a Host,
    comm: Comm,
}

impl Link<'_> {
    /// # Safety
    /// The bytes are readable, and left alone until the request, one of `requests`, is complete.
    unsafe fn begin_send(
        self,
        requests: &mut RequestList,
        (from, bytes): (*const u8, usize),
        to: u32,
        tag: Tag,
    ) -> Result<()> {
        c_int::try_from(bytes).context("a message")?;
        // SAFETY: the caller's contract.
        unsafe {
            let bytes = slice::from_raw_parts(from, bytes);
            Ok(self
                .host
                .start_send(bytes, to, tag as c_int, self.comm, requests)?)
        }
    }

    /// # Safety
    /// As [`Link::begin_send`]; the bytes are writable.
    unsafe fn begin_receive(
        self,
        requests: &mut RequestList,
        (to, bytes): (*mut u8, usize),
        from: u32,
        tag: Tag,
    ) -> Result<()> {
        c_int::try_from(bytes).context("a message")?;
        // SAFETY: the caller's contract.
        unsafe {
            let bytes = slice::from_raw_parts_mut(to, bytes);
            Ok(self
                .host
                .start_receive(bytes, from, tag as c_int, self.comm, requests)?)
        }
    }

    /// The same as a request alone, from any rank too.
    ///
    /// # Safety
    /// The bytes are writable until the request is complete.
    unsafe fn post(self, (to, bytes): (*mut u8, usize), from: c_int, tag: Tag) -> Result<Request> {
        let mut request = Request(0);
        let (slot, byte) = ((&raw mut request).cast(), self.host.predefined().byte);
        let (to, bytes, tag) = (to.cast(), bytes as c_int, tag as c_int);
        let receive = self.host.functions().irecv;
        // SAFETY: the caller's contract; the request is as large as any handle.
        let code = unsafe { receive(to, bytes, byte, from, tag, self.comm, slot) };
        self.host.check("MPI_Irecv", code)?;
        Ok(request)
    }

    /// # Safety
    /// The bytes are writable.
    unsafe fn receive(self, (to, bytes): (*mut u8, usize), from: u32, tag: Tag) -> Result<()> {
        let count = c_int::try_from(bytes).context("a message")?;
        let (to, from, tag) = (to.cast(), from as c_int, tag as c_int);
        let byte = self.host.predefined().byte;
        let ignore = self.host.constants().status_ignore as *mut c_void;
        let receive = self.host.functions().recv;
        // SAFETY: the caller's contract; the status is ignored.
        let code = unsafe { receive(to, count, byte, from, tag, self.comm, ignore) };
        Ok(self.host.check("MPI_Recv", code)?)
    }

    /// Whether it is complete.
    fn test(self, request: &mut Request) -> Result<bool> {
        let mut done = 0;
        let ignore = self.host.constants().status_ignore as *mut c_void;
        // SAFETY: a request of this library's, or its null request; the flag is live.
        let code = unsafe { (self.host.functions().test)(request, &mut done, ignore) };
        self.host.check("MPI_Test", code)?;
        Ok(done != 0)
    }
}
