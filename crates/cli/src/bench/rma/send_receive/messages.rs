//! The messages of the comparison baseline: how epochs' operations travel.

use super::packet::{Act, PACKET_BYTES, Packet, Queued, Sort, WORD_BYTES};
use anyhow::{Context, Result, anyhow, ensure};
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

/// `MPI_Ibarrier`.
type Ibarrier = unsafe extern "C" fn(Comm, *mut c_void) -> c_int;

/// Messages of one window, on a communicator of its own.
pub struct Messages<'a> {
    host: &'a Host,
    comm: Comm,
    pub rank: u32,
    pub size: u32,
    ibarrier: Ibarrier,
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
        let ibarrier = host.function("PMPI_Ibarrier");
        let ibarrier = ibarrier.ok_or_else(|| anyhow!("the MPI library has no PMPI_Ibarrier"))?;
        let none = host.predefined().request_null;
        Ok(Self {
            host,
            comm,
            rank: host.comm_rank(comm)?,
            size: host.comm_size(comm)?,
            // SAFETY: the standard defines this prototype for this name.
            ibarrier: unsafe { std::mem::transmute::<ptr::NonNull<c_void>, Ibarrier>(ibarrier) },
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
            unsafe { self.start_send(packet.as_ptr(), packet.len(), target, tag)? };
            self.packets.push(packet);
            for operation in sent.iter().filter(|operation| !operation.is_inline()) {
                // SAFETY: the caller's contract.
                unsafe {
                    match operation.is_answered() {
                        true => {
                            self.start_receive(operation.here, operation.bytes, target, Tag::Reply)
                        }
                        false => {
                            self.start_send(operation.here, operation.bytes, target, Tag::Data)
                        }
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
        let (to, bytes) = (self.incoming.as_mut_ptr(), self.incoming.len());
        // SAFETY: the buffer has so many bytes.
        unsafe { self.receive(to, bytes, from, tag)? };
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
            ensure!(
                at <= length && bytes <= length - at,
                "an operation beyond the window"
            );
            let there = memory.wrapping_add(at);
            // SAFETY: inside the memory, as checked.
            unsafe {
                if sort == Sort::Get {
                    self.start_answer(there, bytes, packet.from, Tag::Reply)?;
                } else if sort == Sort::FetchAdd {
                    let mut before = vec![0u8; WORD_BYTES];
                    operation.here = before.as_mut_ptr();
                    operation.apply_here(memory);
                    self.start_answer(before.as_ptr(), WORD_BYTES, packet.from, Tag::Reply)?;
                    self.results.push(before);
                } else if operation.is_inline() {
                    operation.apply_here(memory);
                } else if sort == Sort::Put {
                    self.receive(there, bytes, packet.from, Tag::Data)?;
                } else {
                    let mut data = vec![0u8; bytes];
                    self.receive(data.as_mut_ptr(), bytes, packet.from, Tag::Data)?;
                    operation.here = data.as_mut_ptr();
                    operation.apply_here(memory);
                }
            }
        }
        Ok(())
    }

    /// Waits for all messages under way.
    pub fn finish(&mut self) -> Result<()> {
        self.host.wait_all(&mut self.requests)?;
        self.requests.clear();
        self.packets.clear();
        self.finish_answers()
    }

    /// Waits for what others wait for.
    pub fn finish_answers(&mut self) -> Result<()> {
        self.host.wait_all(&mut self.answers)?;
        self.answers.clear();
        self.results.clear();
        Ok(())
    }

    /// An empty message.
    pub fn tell(&mut self, to: u32, tag: Tag) -> Result<()> {
        // SAFETY: no byte is sent.
        unsafe { self.start_send(ptr::dangling(), 0, to, tag) }
    }

    /// The same, awaited.
    pub fn hear(&mut self, from: u32, tag: Tag) -> Result<()> {
        // SAFETY: no byte is received.
        unsafe { self.receive(ptr::null_mut(), 0, from, tag) }
    }

    /// Begins to listen for packets about locks.
    pub fn listen(&mut self) -> Result<()> {
        let (to, any) = (self.heard.as_mut_ptr(), self.host.constants().any_source);
        // SAFETY: the buffer is this value's, and on the heap.
        self.listening = unsafe { self.post(to, PACKET_BYTES, any, Tag::Passive)? };
        Ok(())
    }

    /// The packet that was listened for, once it is there.
    pub fn heard(&mut self) -> Result<Option<Packet>> {
        let done = Self::test(self.host, &mut self.listening)?;
        Ok(done.then(|| Packet::read(&self.heard)))
    }

    /// An empty message to `origin`, which waits for it.
    pub fn answer(&mut self, origin: u32, tag: Tag) -> Result<()> {
        // SAFETY: no byte is sent.
        unsafe { self.start_answer(ptr::dangling(), 0, origin, tag) }
    }

    /// Begins to wait for an empty message of `from`.
    pub fn expect(&mut self, from: u32, tag: Tag) -> Result<Request> {
        // SAFETY: no byte is received.
        unsafe { self.post(ptr::null_mut(), 0, from as c_int, tag) }
    }

    /// Whether it is there.
    pub fn is_there(&self, expected: &mut Request) -> Result<bool> {
        Self::test(self.host, expected)
    }

    /// Collective.
    pub fn start_barrier(&mut self) -> Result<()> {
        // SAFETY: the request is as large as any handle.
        let code = unsafe { (self.ibarrier)(self.comm, (&raw mut self.barrier).cast()) };
        Ok(self.host.check("MPI_Ibarrier", code)?)
    }

    /// Whether all are there.
    pub fn is_barrier_over(&mut self) -> Result<bool> {
        Self::test(self.host, &mut self.barrier)
    }

    /// Stops to listen, by a message to oneself, and gives the communicator back. Collective, after
    /// a barrier.
    pub fn close(&mut self) -> Result<()> {
        self.tell(self.rank, Tag::Passive)?;
        while self.heard()?.is_none() {
            std::thread::yield_now();
        }
        self.finish()?;
        Ok(self.host.free_comm(self.comm)?)
    }

    fn test(host: &Host, request: &mut Request) -> Result<bool> {
        let mut done = 0;
        let ignore = host.constants().status_ignore as *mut c_void;
        // SAFETY: a request of this library's, or its null request; the flag is live.
        let code = unsafe { (host.functions().test)(request, &mut done, ignore) };
        host.check("MPI_Test", code)?;
        Ok(done != 0)
    }

    /// # Safety
    /// The bytes are readable, and left alone until [`Messages::finish`].
    unsafe fn start_send(
        &mut self,
        from: *const u8,
        bytes: usize,
        to: u32,
        tag: Tag,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe {
            send(
                self.host,
                self.comm,
                &mut self.requests,
                (from, bytes),
                (to, tag),
            )
        }
    }

    /// # Safety
    /// As [`Messages::start_send`], until [`Messages::finish_answers`].
    unsafe fn start_answer(
        &mut self,
        from: *const u8,
        bytes: usize,
        to: u32,
        tag: Tag,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe {
            send(
                self.host,
                self.comm,
                &mut self.answers,
                (from, bytes),
                (to, tag),
            )
        }
    }

    /// # Safety
    /// As [`Messages::start_send`]; the bytes are writable.
    unsafe fn start_receive(
        &mut self,
        to: *mut u8,
        bytes: usize,
        from: u32,
        tag: Tag,
    ) -> Result<()> {
        c_int::try_from(bytes).context("a message")?;
        let (host, tag) = (self.host, tag as c_int);
        // SAFETY: the caller's contract.
        unsafe {
            let bytes = slice::from_raw_parts_mut(to, bytes);
            host.start_receive(bytes, from, tag, self.comm, &mut self.requests)?;
        }
        Ok(())
    }

    /// # Safety
    /// `to` has `bytes` writable bytes until the request is complete.
    unsafe fn post(&self, to: *mut u8, bytes: usize, from: c_int, tag: Tag) -> Result<Request> {
        let mut request = Request(0);
        let byte = self.host.predefined().byte;
        // SAFETY: the caller's contract; the request is as large as any handle.
        let code = unsafe {
            let receive = self.host.functions().irecv;
            let slot = (&raw mut request).cast();
            receive(
                to.cast(),
                bytes as c_int,
                byte,
                from,
                tag as c_int,
                self.comm,
                slot,
            )
        };
        self.host.check("MPI_Irecv", code)?;
        Ok(request)
    }

    /// # Safety
    /// `to` has `bytes` writable bytes.
    unsafe fn receive(&self, to: *mut u8, bytes: usize, from: u32, tag: Tag) -> Result<()> {
        let byte = self.host.predefined().byte;
        let count = c_int::try_from(bytes).context("a message")?;
        let ignore = self.host.constants().status_ignore as *mut c_void;
        // SAFETY: the caller's contract; the status is ignored.
        let code = unsafe {
            let receive = self.host.functions().recv;
            receive(
                to.cast(),
                count,
                byte,
                from as c_int,
                tag as c_int,
                self.comm,
                ignore,
            )
        };
        Ok(self.host.check("MPI_Recv", code)?)
    }
}

/// Starts sending so many bytes; the request is one of `requests`.
///
/// # Safety
/// The bytes are readable, and left alone until the request is complete.
unsafe fn send(
    host: &Host,
    comm: Comm,
    requests: &mut RequestList,
    (from, bytes): (*const u8, usize),
    (to, tag): (u32, Tag),
) -> Result<()> {
    c_int::try_from(bytes).context("a message")?;
    // SAFETY: the caller's contract.
    unsafe {
        let bytes = slice::from_raw_parts(from, bytes);
        host.start_send(bytes, to, tag as c_int, comm, requests)?;
    }
    Ok(())
}
