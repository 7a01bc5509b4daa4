//! Multicasts as the network carries them: datagrams of the root to a group, without acknowledgements,
//! checksums or repetition. What a reliable broadcast is compared with.
//!
//! Nothing tells the root how far receivers are, so that no more datagrams are under way after a barrier
//! than their receive queues hold. What has not come when nothing comes any more is lost, and counted.

use super::buffers::{Buffers, Pool};
use super::job_sizes::Team;
use super::shared::exchange;
use super::timing::{Block, everybodys};
use anyhow::{Context, Result, bail};
use ferrorail_base::RailId;
use ferrorail_base::config;
use ferrorail_engine::{Group, GroupId, Multicast, MulticastError, Payload, Rails, To, open_rails};
use ferrorail_mpi_abi::Host;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// Datagrams that receive queues are asked to hold, as those of the library's multicasts are.
const DEPTH: u32 = 512;
/// Of a datagram: session, block, index in the block.
const HEADER_BYTES: usize = 16;
/// A receiver that hears nothing for so long takes what is missing for lost.
const SILENCE: Duration = Duration::from_millis(500);
/// Attempts to reach all members, each [`SILENCE`] at most: switches need time to learn of members.
const TRIALS: u32 = 10;

/// A group of the ranks that are measured, on the first rail.
pub struct RawMulticast<'a> {
    host: &'a Host,
    team: Team,
    // Before the rails that it lies on.
    group: Box<dyn Group>,
    _rails: Rails,
    session: u64,
    /// Bytes of a message that a datagram holds.
    chunk: usize,
    /// The smallest receive queue.
    depth: usize,
    /// Number of the last block.
    block: u32,
}

impl<'a> RawMulticast<'a> {
    /// Joins a new group and tries it. Collective.
    ///
    /// # Errors
    /// Where the first rail has no multicast, or it does not reach all ranks.
    pub fn open(host: &'a Host, team: Team) -> Result<Self> {
        let (settings, _) = config::parse(crate::variables());
        let random = || RandomState::new().build_hasher().finish();
        let mine = [random(), random(), random()]
            .map(u64::to_ne_bytes)
            .concat();
        let all = exchange(host, team, &mine)?;
        let (id, session) = all[0].split_at(16);
        let id = GroupId(id.try_into().expect("16 bytes"));
        let rails = open_rails(&settings)?;
        let group = rails.groups().join(RailId(0), id, DEPTH);
        let mut group = group.context("raw multicast")?;
        let addresses = exchange(host, team, &group.address())?;
        group.set_members(team.place.rank as u32, &addresses)?;
        let limits = group.limits();
        let all = everybodys(
            host,
            team.comm,
            [limits.bytes as f64, f64::from(limits.depth)],
        )?;
        let least = |at: usize| all.iter().map(|both| both[at]).fold(f64::MAX, f64::min) as usize;
        let mut raw = Self {
            host,
            team,
            group,
            _rails: rails,
            session: u64::from_ne_bytes(session.try_into().expect("8 bytes")),
            chunk: least(0) - HEADER_BYTES,
            depth: least(1),
            block: 0,
        };
        raw.try_path()?;
        Ok(raw)
    }

    fn try_path(&mut self) -> Result<()> {
        let mut pool = Pool::new((0, 1));
        self.broadcast_whole(1, &mut pool.buffers((0, 1)), 0)
    }

    /// One broadcast of `bytes` that loses nothing, as the first of several.
    ///
    /// # Errors
    /// If there is none.
    pub fn broadcast_whole(
        &mut self,
        bytes: usize,
        buffers: &mut Buffers<'_>,
        pair: usize,
    ) -> Result<()> {
        self.most(bytes)?;
        for _ in 0..TRIALS {
            if self.broadcast(1, bytes, buffers, pair)?.lost == 0 {
                return Ok(());
            }
        }
        bail!(
            "raw multicasts of rank {} do not reach all ranks",
            self.team.place.root
        )
    }

    /// Most broadcasts of `bytes` in a block.
    ///
    /// # Errors
    /// If not even one fits into the receive queues.
    pub fn most(&self, bytes: usize) -> Result<u32> {
        match self.depth / self.datagrams(bytes) {
            0 => bail!(
                "a raw multicast of {bytes} bytes is more than the {} datagrams of {} bytes that a \
                 receive queue holds",
                self.depth,
                self.chunk
            ),
            most => Ok(most as u32),
        }
    }

    fn datagrams(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.chunk).max(1)
    }

    /// So many broadcasts of `bytes` after a barrier, out of and into the receive buffers from `first_pair` on: the
    /// time of the slowest rank up to the last datagram that it received. Collective.
    pub fn broadcast(
        &mut self,
        iterations: u32,
        bytes: usize,
        buffers: &mut Buffers<'_>,
        first_pair: usize,
    ) -> Result<Block> {
        self.block += 1;
        self.host.barrier(self.team.comm)?;
        let start = Instant::now();
        let place = self.team.place;
        let (end, lost) = match place.rank == place.root {
            true => {
                self.send(iterations, bytes, buffers, first_pair)?;
                (Instant::now(), 0)
            }
            false => self.receive(iterations, bytes, buffers, first_pair)?,
        };
        let mine = (end - start).as_secs_f64() * 1e6 / f64::from(iterations);
        let all = everybodys(self.host, self.team.comm, [mine, lost as f64])?;
        let slowest_us = all.iter().map(|both| both[0]).fold(0.0, f64::max);
        Ok(Block {
            lost: all.iter().map(|both| both[1]).sum::<f64>() as u64,
            ..Block::of(slowest_us)
        })
    }

    fn send(
        &mut self,
        iterations: u32,
        bytes: usize,
        buffers: &mut Buffers<'_>,
        first_pair: usize,
    ) -> Result<()> {
        let datagrams = self.datagrams(bytes);
        for index in 0..iterations as usize * datagrams {
            let (_, message) = buffers.slices(first_pair + index / datagrams);
            let at = index % datagrams * self.chunk;
            let part = &message[at..bytes.min(at + self.chunk)];
            let mut header = [0; HEADER_BYTES];
            header[..8].copy_from_slice(&self.session.to_ne_bytes());
            header[8..12].copy_from_slice(&self.block.to_ne_bytes());
            header[12..].copy_from_slice(&(index as u32).to_ne_bytes());
            loop {
                // SAFETY: the payload is copied.
                match unsafe { self.group.send(To::All, &header, Payload::Copied(part)) } {
                    Ok(()) => break,
                    Err(MulticastError::WouldBlock) => {
                        self.group.pending_sends()?;
                        std::thread::yield_now();
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        while self.group.pending_sends()? > 0 {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// When the last datagram came, and how many did not.
    fn receive(
        &mut self,
        iterations: u32,
        bytes: usize,
        buffers: &mut Buffers<'_>,
        first_pair: usize,
    ) -> Result<(Instant, usize)> {
        let datagrams = self.datagrams(bytes);
        let mut awaited = Awaited {
            session: self.session,
            block: self.block,
            bytes,
            chunk: self.chunk,
            datagrams,
            came: vec![false; iterations as usize * datagrams],
        };
        let mut missing = awaited.came.len();
        let mut last = Instant::now();
        while missing > 0 && last.elapsed() < SILENCE {
            let before = missing;
            self.group.poll(usize::MAX, &mut |datagram| {
                if let Some((index, at, part)) = awaited.take(datagram) {
                    let (_, message) = buffers.slices(first_pair + index);
                    message[at..][..part.len()].copy_from_slice(part);
                    missing -= 1;
                }
            })?;
            match missing < before {
                true => last = Instant::now(),
                false => std::thread::yield_now(),
            }
        }
        Ok((last, missing))
    }
}

/// The datagrams of a block at a receiver.
struct Awaited {
    session: u64,
    block: u32,
    /// Of a message.
    bytes: usize,
    /// Bytes of a message in a datagram.
    chunk: usize,
    /// Datagrams of a message.
    datagrams: usize,
    came: Vec<bool>,
}

impl Awaited {
    /// The message of the block that `datagram` belongs to, and where in it which bytes go, unless it is
    /// none of the block or has come before.
    fn take<'d>(&mut self, datagram: &'d [u8]) -> Option<(usize, usize, &'d [u8])> {
        let index = index_of(datagram, self.session, self.block)?;
        let part = &datagram[HEADER_BYTES..];
        let at = index % self.datagrams * self.chunk;
        if part.len() != self.chunk.min(self.bytes - at) {
            return None;
        }
        let came = self.came.get_mut(index)?;
        let is_new = !std::mem::replace(came, true);
        is_new.then_some((index / self.datagrams, at, part))
    }
}

/// Where a datagram belongs in its block, if it is of this session and block: addresses of groups on the
/// network may coincide, and datagrams may be late.
fn index_of(datagram: &[u8], session: u64, block: u32) -> Option<usize> {
    let rest = datagram.strip_prefix(&session.to_ne_bytes())?;
    let rest = rest.strip_prefix(&block.to_ne_bytes())?;
    let (index, _) = rest.split_first_chunk()?;
    Some(u32::from_ne_bytes(*index) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(session: u64, block: u32, index: u32, part: &[u8]) -> Vec<u8> {
        let parts = [
            &session.to_ne_bytes()[..],
            &block.to_ne_bytes(),
            &index.to_ne_bytes(),
            part,
        ];
        parts.concat()
    }

    /// Two messages of 10 bytes in datagrams of 4.
    fn awaited() -> Awaited {
        Awaited {
            session: 7,
            block: 3,
            bytes: 10,
            chunk: 4,
            datagrams: 3,
            came: vec![false; 6],
        }
    }

    #[test]
    fn datagrams_of_another_session_or_block_are_ignored() {
        let own = datagram(7, 3, 0, b"data");
        assert_eq!(awaited().take(&own), Some((0, 0, &b"data"[..])));
        let others = [
            datagram(8, 3, 0, b"data"),
            datagram(7, 4, 0, b"data"),
            datagram(7, 3, 6, b"data"),
            datagram(7, 3, 0, b"dat"),
            own[..HEADER_BYTES - 1].to_vec(),
        ];
        for other in others {
            assert_eq!(awaited().take(&other), None, "{other:?}");
        }
    }

    #[test]
    fn what_comes_again_does_not_hide_what_is_lost() {
        let mut awaited = awaited();
        let mut take = |index, part: &'static [u8]| {
            let datagram = datagram(7, 3, index, part);
            let taken = awaited.take(&datagram);
            taken.map(|(message, at, part)| (message, at, part.len()))
        };
        assert_eq!(take(5, b"ij"), Some((1, 8, 2)));
        assert_eq!(take(1, b"efgh"), Some((0, 4, 4)));
        assert_eq!(take(1, b"efgh"), None);
        assert_eq!(take(3, b"abcd"), Some((1, 0, 4)));
        let came = awaited.came.iter().filter(|&&came| came).count();
        assert_eq!(came, 3);
    }
}
