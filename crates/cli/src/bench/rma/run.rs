//! What a figure does its work with: one block of iterations, on one implementation, at one rank.

use super::window::Window;
use crate::bench::buffers::Buffers;
use crate::bench::timing::largest;
use anyhow::Result;
use ferrorail_mpi_abi::Host;
use std::ffi::c_int;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Offsets of messages are multiples of this.
pub const STRIDE: usize = 64;

/// Distance of messages of `bytes`.
pub fn stride(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(STRIDE)
}

/// Put or get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the target.
    Put,
    /// From it.
    Get,
}

impl Direction {
    /// That a variant's name begins with.
    pub fn of(variant: &str) -> Self {
        match variant.starts_with("get") {
            true => Self::Get,
            false => Self::Put,
        }
    }
}

/// A block.
pub struct Run<'a, 'w> {
    pub host: &'a Host,
    pub rank: u32,
    pub size: u32,
    /// Operations of an epoch where there are several.
    pub burst: usize,
    pub iterations: usize,
    /// Bytes of a message.
    pub bytes: usize,
    /// The window, or several.
    pub windows: &'a mut [Box<dyn Window + 'w>],
    /// Send buffers of one message, receive buffers of a burst.
    pub buffers: &'a mut Buffers<'a>,
    /// Bytes of every window that are one origin's.
    pub region: usize,
    /// How many such parts windows have.
    pub regions: usize,
}

/// Adds up for so many rounds; what the thesis calls a computation loop is 1000 of them.
pub fn compute(rounds: u64) {
    let mut counter = 0u64;
    for _ in 0..rounds {
        counter = black_box(counter + 1);
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl<'w> Run<'_, 'w> {
    /// The rank farthest from rank 0: on another node, if there are several.
    pub fn far(&self) -> u32 {
        self.size - 1
    }

    /// The other one, at rank 0 and the rank farthest from it.
    pub fn partner(&self) -> Option<u32> {
        match self.rank {
            0 => Some(self.far()),
            rank if rank == self.far() => Some(0),
            _ => None,
        }
    }

    /// The window.
    pub fn window(&mut self) -> &mut (dyn Window + 'w) {
        &mut *self.windows[0]
    }

    /// Of all ranks; who waits serves others, where an implementation needs that.
    pub fn barrier(&mut self) -> Result<()> {
        self.window().arrive()?;
        while !self.window().all_arrived()? {
            self.windows
                .iter_mut()
                .try_for_each(|window| window.serve())?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The largest of all ranks' numbers. Of all ranks.
    pub fn largest(&self, mine: f64) -> Result<f64> {
        largest(self.host, self.host.predefined().comm_world, mine)
    }

    /// µs per iteration of `body`.
    pub fn timed(&mut self, mut body: impl FnMut(&mut Self, usize) -> Result<()>) -> Result<f64> {
        let start = Instant::now();
        for iteration in 0..self.iterations {
            body(self, iteration)?;
        }
        Ok(microseconds(start.elapsed()) / self.iterations as f64)
    }

    /// µs per lock of `target`, `inside` and unlock.
    pub fn locks(
        &mut self,
        (target, exclusive): (u32, bool),
        mut inside: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<f64> {
        self.timed(|run, iteration| {
            run.window().lock(target, exclusive)?;
            inside(run, iteration)?;
            run.window().unlock(target)
        })
    }

    /// µs per iteration of `body`, while all targets are locked.
    pub fn timed_in_lock(
        &mut self,
        body: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<f64> {
        self.window().lock_all()?;
        let time = self.timed(body)?;
        self.window().unlock_all()?;
        Ok(time)
    }

    /// µs per iteration of `part`, which `body` is given to time what matters of it.
    pub fn timed_partly(
        &mut self,
        mut body: impl FnMut(&mut Self, usize) -> Result<Duration>,
    ) -> Result<f64> {
        let mut sum = Duration::ZERO;
        for iteration in 0..self.iterations {
            sum += body(self, iteration)?;
        }
        Ok(microseconds(sum) / self.iterations as f64)
    }

    /// An epoch of post, start, complete and wait per iteration, in which each of `origins` does
    /// `inside`; `None` at other ranks.
    pub fn epochs(
        &mut self,
        origins: &[u32],
        target: u32,
        mut inside: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<Option<f64>> {
        if self.rank == target {
            let time = self.timed(|run, _| {
                run.window().post(origins)?;
                run.window().wait()
            })?;
            return Ok(Some(time));
        }
        if !origins.contains(&self.rank) {
            return Ok(None);
        }
        let time = self.timed(|run, iteration| {
            run.window().start(&[target])?;
            inside(run, iteration)?;
            run.window().complete()
        })?;
        Ok(Some(time))
    }

    /// Where message `index` of this rank goes at a target.
    fn place(&self, index: usize) -> usize {
        let stride = stride(self.bytes);
        let slots = self.region / stride;
        self.rank as usize % self.regions * self.region + index % slots * stride
    }

    /// Starts moving message `index`, through buffers and places that change with it.
    pub fn transfer(&mut self, direction: Direction, index: usize, target: u32) -> Result<()> {
        let (bytes, at) = (self.bytes, self.place(index));
        let (send, recv) = self.buffers.pair(index / self.burst);
        let to = recv.wrapping_add(index % self.burst * stride(bytes));
        // SAFETY: receive buffers hold a burst, windows a region of whole strides for this rank.
        unsafe {
            match direction {
                Direction::Put => self.window().put(send, bytes, target, at),
                Direction::Get => self.window().get(to, bytes, target, at),
            }
        }
    }

    /// Starts adding message `index`.
    pub fn add(&mut self, index: usize, target: u32) -> Result<()> {
        let (bytes, at) = (self.bytes, self.place(index));
        let (send, _) = self.buffers.pair(index / self.burst);
        // SAFETY: as above.
        unsafe { self.window().add(send, bytes, target, at) }
    }

    /// Adds one to the word that message `index` begins with.
    pub fn fetch_add(&mut self, index: usize, target: u32) -> Result<u64> {
        let at = self.place(index);
        // SAFETY: strides are longer than a word.
        unsafe { self.window().fetch_add(target, at) }
    }

    /// An empty message of the host's.
    pub fn signal(&self, to: u32) -> Result<()> {
        let predefined = self.host.predefined();
        let (byte, world) = (predefined.byte, predefined.comm_world);
        let nothing = std::ptr::null();
        // SAFETY: no byte is sent.
        let code = unsafe { (self.host.functions().send)(nothing, 0, byte, to as c_int, 0, world) };
        Ok(self.host.check("MPI_Send", code)?)
    }

    /// The same, awaited.
    pub fn await_signal(&self, from: u32) -> Result<()> {
        let predefined = self.host.predefined();
        let (byte, world) = (predefined.byte, predefined.comm_world);
        let ignore = self.host.constants().status_ignore as *mut _;
        let nothing = std::ptr::null_mut();
        // SAFETY: no byte is received, and the status is ignored.
        let code = unsafe {
            (self.host.functions().recv)(nothing, 0, byte, from as c_int, 0, world, ignore)
        };
        Ok(self.host.check("MPI_Recv", code)?)
    }
}
