//! The thesis's measure of comparison (section 3.2): one-sided communication over send and receive.
//! Operations are only queued; the end of the epoch sends them, and the target takes part.
//!
//! An epoch's operations on one target travel as packets: a head, then for each operation what it is,
//! with its data if that is short. Longer data is a message of its own, as is what a get brings
//! back. A passive target answers while it waits for others.

mod messages;
mod packet;

use super::window::{Implementation, Need, Window};
use anyhow::{Result, bail};
use ferrorail_mpi_abi::Host;
use messages::{Messages, Tag};
use packet::{Packet, Queued, Sort};

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
    fn offers(&self, need: Need) -> bool {
        need != Need::Flush
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
    fn send(&mut self, target: u32, tag: Tag) -> Result<()> {
        let queue = std::mem::take(&mut self.queues[target as usize]);
        // SAFETY: the caller of each operation leaves its buffer to the window until the epoch ends.
        unsafe { self.messages.send_all(&queue, target, tag)? };
        self.queues[target as usize] = queue;
        self.queues[target as usize].clear();
        Ok(())
    }

    /// Does to this rank's memory what `from` sent in an epoch.
    fn receive(&mut self, from: u32, tag: Tag) -> Result<()> {
        loop {
            let packet = self.messages.receive_packet(from, tag)?;
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

    unsafe fn fetch_add(&mut self, _: u32, _: usize) -> Result<u64> {
        bail!("delayed operations have no results at once")
    }

    fn fence(&mut self, _: bool) -> Result<()> {
        let (rank, size) = (self.messages.rank, self.messages.size);
        // Everybody starts with the next one, lest all besiege one target.
        let peers = || (1..size).map(move |step| (rank + step) % size);
        for peer in peers() {
            self.send(peer, Tag::Active)?;
        }
        self.apply_own()?;
        for peer in peers() {
            self.receive(peer, Tag::Active)?;
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
            self.send(target, Tag::Active)?;
        }
        self.messages.finish()
    }

    fn wait(&mut self) -> Result<()> {
        for origin in std::mem::take(&mut self.origins) {
            self.receive(origin, Tag::Active)?;
        }
        self.messages.finish()
    }

    fn lock(&mut self, _: u32, _: bool) -> Result<()> {
        // The target does all of an epoch at once, so it excludes others by itself.
        Ok(())
    }

    fn unlock(&mut self, target: u32) -> Result<()> {
        if target == self.messages.rank {
            return self.apply_own();
        }
        self.messages.expect_acknowledgement(target)?;
        self.send(target, Tag::Passive)?;
        while !self.messages.is_acknowledged()? {
            self.serve()?;
            std::thread::yield_now();
        }
        self.messages.finish()
    }

    fn lock_all(&mut self) -> Result<()> {
        bail!("delayed operations need one target")
    }

    fn unlock_all(&mut self) -> Result<()> {
        self.lock_all()
    }

    fn flush(&mut self, _: u32) -> Result<()> {
        bail!("delayed operations are complete at the end of the epoch")
    }

    fn arrive(&mut self) -> Result<()> {
        self.messages.start_barrier()
    }

    fn all_arrived(&mut self) -> Result<bool> {
        self.messages.is_barrier_over()
    }

    /// Answers one origin that has unlocked this rank, if any waits.
    fn serve(&mut self) -> Result<()> {
        let Some(mut packet) = self.messages.heard()? else {
            return Ok(());
        };
        let from = packet.from;
        loop {
            let more = packet.more;
            self.apply(&packet)?;
            if !more {
                break;
            }
            packet = self.messages.receive_packet(from, Tag::PassiveMore)?;
        }
        self.messages.acknowledge(from)?;
        self.messages.finish()?;
        self.messages.listen()
    }

    fn lock_messages(&self) -> Option<(u64, u64)> {
        None
    }

    fn free(mut self: Box<Self>) -> Result<()> {
        self.arrive()?;
        while !self.all_arrived()? {
            self.serve()?;
            std::thread::yield_now();
        }
        self.messages.close()
    }
}
