//! The thesis's measure of comparison (section 3.2): one-sided communication over send and receive.
//! Operations are only queued; the end of the epoch or a flush sends them, and the target takes part.
//!
//! Operations on one target travel as packets: a head, then for each operation what it is,
//! with its data if that is short. Longer data is a message of its own, as is what a get brings
//! back. A passive target answers while it waits for others.
//!
//! A lock takes three messages (section 4.2.1): the request, which leaves in the lock call, the grant, which
//! is awaited before operations leave, and the release, which carries what is still queued:
//!
//! ```text
//! origin   lock ---> flush ----------------> unlock -------->
//! target        request  grant   data  acknowledgement  release
//! ```

mod locks;
mod messages;
mod packet;

use super::window::{Implementation, Need, Window};
use anyhow::{Result, bail};
use ferrorail_mpi_abi::{Host, Request};
use locks::{Lock, Mode};
use messages::{Messages, Tag};
use packet::{Act, Packet, Queued, Sort, WORD_BYTES};

/// One-sided communication over the host's messages.
pub struct SendReceive<'a> {
    host: &'a Host,
}

impl<'a> SendReceive<'a> {
    /// Over `host`.
    pub fn new(host: &'a Host) -> Self {
        Self { host }
    }
}

impl Implementation for SendReceive<'_> {
    fn offers(&self, _: Need) -> bool {
        true
    }

    fn window(&self, bytes: usize) -> Result<Box<dyn Window + '_>> {
        let messages = Messages::new(self.host)?;
        let size = messages.size as usize;
        let mut window = Delayed {
            messages,
            memory: vec![0; bytes.div_ceil(8)],
            queues: (0..size).map(|_| Vec::new()).collect(),
            origins: Vec::new(),
            targets: Vec::new(),
            lock: Lock::default(),
            held: (0..size).map(|_| Held::No).collect(),
            unconfirmed: vec![false; size],
            acquired: 0,
            lock_messages: 0,
        };
        window.messages.listen()?;
        Ok(Box::new(window))
    }
}

struct Delayed<'a> {
    messages: Messages<'a>,
    memory: Vec<u64>,
    /// By target, until the epoch ends.
    queues: Vec<Vec<Queued>>,
    /// Who was let in.
    origins: Vec<u32>,
    /// Whom this rank accesses.
    targets: Vec<u32>,
    /// Of this rank's memory.
    lock: Lock,
    /// By target.
    held: Vec<Held>,
    /// Targets that have not said that they heard of a release.
    unconfirmed: Vec<bool>,
    acquired: u64,
    /// Requests and releases that this rank sent, and grants that it received.
    lock_messages: u64,
}

/// Whether this rank holds a target's lock.
enum Held {
    /// Nor has asked for it.
    No,
    /// This ends with the grant.
    Asked(Request),
    /// Its own, for which it waits in the queue.
    Queued,
    /// It does.
    Yes,
}

impl Delayed<'_> {
    fn queue(&mut self, sort: Sort, here: *mut u8, bytes: usize, target: u32, at: usize) {
        self.queues[target as usize].push(Queued {
            sort,
            here,
            bytes,
            at,
        });
    }

    /// Sends what is queued for `target`, and prepares for what comes back.
    fn send(&mut self, target: u32, act: Act) -> Result<()> {
        let queue = std::mem::take(&mut self.queues[target as usize]);
        // SAFETY: the caller of each operation leaves its buffer to the window until the epoch ends.
        unsafe { self.messages.send_all(&queue, target, act)? };
        self.queues[target as usize] = queue;
        self.queues[target as usize].clear();
        Ok(())
    }

    /// Does to this rank's memory what `from` sent in an epoch.
    fn receive(&mut self, from: u32) -> Result<()> {
        loop {
            let packet = self.messages.receive_packet(from, Tag::Active)?;
            let more = packet.more;
            self.apply(&packet)?;
            if !more {
                return Ok(());
            }
        }
    }

    fn apply(&mut self, packet: &Packet) -> Result<()> {
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        let length = size_of_val(self.memory.as_slice());
        // SAFETY: the memory lives until the window is freed, which waits for all messages.
        unsafe { self.messages.apply(packet, memory, length) }
    }

    /// Operations of this rank on its own memory.
    fn apply_own(&mut self) -> Result<()> {
        let rank = self.messages.rank;
        let queue = std::mem::take(&mut self.queues[rank as usize]);
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        for operation in queue {
            // SAFETY: the callers' contracts.
            unsafe { operation.apply_here(memory) };
        }
        Ok(())
    }

    /// Until `target` has granted its lock.
    fn acquire(&mut self, target: u32) -> Result<()> {
        loop {
            match &mut self.held[target as usize] {
                Held::No => bail!("the lock of rank {target} was not asked for"),
                Held::Yes => return Ok(()),
                Held::Asked(grant) => {
                    if self.messages.is_there(grant)? {
                        self.lock_messages += 1;
                        self.held[target as usize] = Held::Yes;
                        return Ok(());
                    }
                }
                Held::Queued => {}
            }
            self.serve()?;
            std::thread::yield_now();
        }
    }

    /// Sends what is queued for `target` with `act`, until it is done there.
    fn send_and_wait(&mut self, target: u32, act: Act) -> Result<()> {
        let mut done = self.messages.expect(target, Tag::Acknowledgement)?;
        self.send(target, act)?;
        while !self.messages.is_there(&mut done)? {
            self.serve()?;
            std::thread::yield_now();
        }
        self.unconfirmed[target as usize] = false;
        self.messages.finish()
    }

    /// Gives this rank's lock to those that it is free for.
    fn pass_on(&mut self) -> Result<()> {
        for origin in self.lock.release() {
            if origin == self.messages.rank {
                self.held[origin as usize] = Held::Yes;
            } else {
                self.messages.answer(origin, Tag::Grant)?;
            }
        }
        Ok(())
    }
}

impl Window for Delayed<'_> {
    unsafe fn put(&mut self, from: *const u8, bytes: usize, target: u32, at: usize) -> Result<()> {
        self.queue(Sort::Put, from.cast_mut(), bytes, target, at);
        Ok(())
    }

    unsafe fn get(&mut self, to: *mut u8, bytes: usize, target: u32, at: usize) -> Result<()> {
        self.queue(Sort::Get, to, bytes, target, at);
        Ok(())
    }

    unsafe fn add(&mut self, from: *const u8, bytes: usize, target: u32, at: usize) -> Result<()> {
        self.queue(Sort::Add, from.cast_mut(), bytes, target, at);
        Ok(())
    }

    unsafe fn fetch_add(&mut self, target: u32, at: usize) -> Result<u64> {
        let mut before = u64::MAX;
        let to = (&raw mut before).cast();
        self.queue(Sort::FetchAdd, to, WORD_BYTES, target, at);
        self.flush(target)?;
        // SAFETY: written through the pointer above, before the flush was over.
        Ok(unsafe { (&raw const before).read_volatile() })
    }

    fn fence(&mut self, _: bool) -> Result<()> {
        let (rank, size) = (self.messages.rank, self.messages.size);
        // Everybody starts with the next one, lest all besiege one target.
        let peers = || (1..size).map(move |step| (rank + step) % size);
        for peer in peers() {
            self.send(peer, Act::Active)?;
        }
        self.apply_own()?;
        for peer in peers() {
            self.receive(peer)?;
        }
        self.messages.finish()
    }

    fn post(&mut self, origins: &[u32]) -> Result<()> {
        self.origins.clear();
        self.origins.extend_from_slice(origins);
        let origins = origins.iter();
        origins
            .copied()
            .try_for_each(|origin| self.messages.tell(origin, Tag::Post))
    }

    fn start(&mut self, targets: &[u32]) -> Result<()> {
        self.targets.clear();
        self.targets.extend_from_slice(targets);
        Ok(())
    }

    fn complete(&mut self) -> Result<()> {
        for target in std::mem::take(&mut self.targets) {
            self.messages.hear(target, Tag::Post)?;
            self.send(target, Act::Active)?;
        }
        self.messages.finish()
    }

    fn wait(&mut self) -> Result<()> {
        for origin in std::mem::take(&mut self.origins) {
            self.receive(origin)?;
        }
        self.messages.finish()
    }

    fn lock(&mut self, target: u32, exclusive: bool) -> Result<()> {
        let mode = match exclusive {
            true => Mode::Exclusive,
            false => Mode::Shared,
        };
        self.acquired += 1;
        let rank = self.messages.rank;
        self.held[target as usize] = if target != rank {
            self.lock_messages += 1;
            let grant = self.messages.expect(target, Tag::Grant)?;
            // SAFETY: there is no buffer.
            unsafe { self.messages.send_all(&[], target, Act::Ask(mode))? };
            Held::Asked(grant)
        } else if self.lock.ask(rank, mode) {
            Held::Yes
        } else {
            Held::Queued
        };
        Ok(())
    }

    fn unlock(&mut self, target: u32) -> Result<()> {
        self.acquire(target)?;
        self.held[target as usize] = Held::No;
        if target == self.messages.rank {
            self.apply_own()?;
            self.pass_on()?;
            return self.messages.finish_answers();
        }
        self.lock_messages += 1;
        if !self.queues[target as usize].is_empty() {
            return self.send_and_wait(target, Act::Release);
        }
        self.unconfirmed[target as usize] = true;
        self.send(target, Act::Release)?;
        self.messages.finish()
    }

    fn lock_all(&mut self) -> Result<()> {
        (0..self.messages.size).try_for_each(|target| self.lock(target, false))
    }

    fn unlock_all(&mut self) -> Result<()> {
        (0..self.messages.size).try_for_each(|target| self.unlock(target))
    }

    fn flush(&mut self, target: u32) -> Result<()> {
        self.acquire(target)?;
        if target == self.messages.rank {
            return self.apply_own();
        }
        match self.queues[target as usize].is_empty() {
            true => Ok(()),
            false => self.send_and_wait(target, Act::Flush),
        }
    }

    fn arrive(&mut self) -> Result<()> {
        self.messages.start_barrier()
    }

    fn all_arrived(&mut self) -> Result<bool> {
        self.messages.is_barrier_over()
    }

    /// Answers one origin that wants this rank's lock or has it, if any waits.
    fn serve(&mut self) -> Result<()> {
        let Some(mut packet) = self.messages.heard()? else {
            return Ok(());
        };
        let (from, act) = (packet.from, packet.act);
        let is_awaited = act == Act::Flush || !packet.is_empty();
        loop {
            let more = packet.more;
            self.apply(&packet)?;
            if !more {
                break;
            }
            packet = self.messages.receive_packet(from, Tag::PassiveMore)?;
        }
        if is_awaited {
            self.messages.answer(from, Tag::Acknowledgement)?;
        }
        match act {
            Act::Ask(mode) => {
                if self.lock.ask(from, mode) {
                    self.messages.answer(from, Tag::Grant)?;
                }
            }
            Act::Release => self.pass_on()?,
            Act::Flush | Act::Active => {}
        }
        self.messages.finish_answers()?;
        self.messages.listen()
    }

    fn lock_messages(&self) -> Option<(u64, u64)> {
        Some((self.acquired, self.lock_messages))
    }

    fn free(mut self: Box<Self>) -> Result<()> {
        // No release may be under way when the communicator goes.
        for target in 0..self.messages.size {
            if self.unconfirmed[target as usize] {
                self.send_and_wait(target, Act::Flush)?;
            }
        }
        self.arrive()?;
        while !self.all_arrived()? {
            self.serve()?;
            std::thread::yield_now();
        }
        self.messages.close()
    }
}
