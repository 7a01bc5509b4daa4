//! Two ranks that put into and get from each other's memory over rails: what `pgping` measured of
//! `elan_put()` (Qian and Afsahi, 2008, section 4.1).

use super::{Carrier, Transfer};
use crate::bench::buffers::contents;
use crate::bench::job_sizes::Team;
use crate::bench::shared::{exchange, wait};
use anyhow::{Context, Result, bail};
use ferrorail_base::config::{self, ShmKind};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_base::{PeerId, ProcessId, RailId};
use ferrorail_engine::raw::{
    LocalRegion, LocalSlice, Notification, Op, RemoteRegion, RemoteSlice, Segment, SharedBacking,
    Ticket, Tracking, process_id,
};
use ferrorail_engine::{Endpoint, FabricError, Rails, open_rails};
use ferrorail_mpi_abi::Host;

const PAGE: usize = 4096;
/// Messages walk through so many bytes, so that they are not always in the same cache lines.
const WALK_BYTES: usize = 1 << 20;
/// Stripes start at multiples of this.
const STRIPE: usize = 64;
/// Distance of flags.
const FLAG: usize = 64;

/// This rank and the other: rank 0 and 1 of the team.
pub struct Ends {
    rank: usize,
    rails: Rails,
    peer: PeerId,
    /// Flags, what is sent, what is received.
    segment: Segment,
    local: Option<LocalRegion>,
    remote: RemoteRegion,
    /// Bytes of what is sent, and of what is received.
    half: usize,
    burst: usize,
    /// Messages of at least so many bytes are divided.
    threshold: usize,
    /// Messages sent and received so far, by rail.
    sent: [u64; 8],
    received: [u64; 8],
}

impl Ends {
    /// Opens rails and connects the two. Collective.
    ///
    /// # Errors
    /// What the rails say.
    pub fn open(host: &Host, team: Team, bytes: usize, burst: usize) -> Result<Self> {
        let (settings, _) = config::parse(crate::variables());
        let rails = open_rails(&settings)?;
        let rank = team.place.rank;
        let other = 1 - rank;
        let ids = exchange(host, team, &process_id().to_wire())?;
        let id = ProcessId::from_wire(&ids[other]).context("a process")?;
        let (peer, address) = rails.open_peer(id)?;
        let addresses = exchange(host, team, &address)?;
        rails.connect(peer, &addresses[other])?;
        let half = (2 * bytes.next_multiple_of(STRIPE)).max(WALK_BYTES);
        let half = half.next_multiple_of(PAGE);
        let segment = Segment::create(ShmKind::Auto, PAGE + 2 * half)?;
        let backing = SharedBacking::whole(segment.fd(), segment.bytes());
        // SAFETY: the segment stays mapped until `drop` has deregistered it.
        let local =
            unsafe { rails.register(segment.range().as_ptr(), segment.bytes(), Some(backing))? };
        let memories = exchange(host, team, &local.description)?;
        let remote = rails.import(peer, &memories[other])?;
        host.barrier(team.comm)?;
        Ok(Self {
            rank,
            rails,
            peer,
            segment,
            local: Some(local),
            remote,
            half,
            burst,
            threshold: settings.stripe_threshold as usize,
            sent: [0; 8],
            received: [0; 8],
        })
    }

    fn local(&self, offset: usize, bytes: usize) -> LocalSlice<'_> {
        let region = self.local.as_ref().expect("registered until dropped");
        LocalSlice {
            region,
            offset,
            bytes,
        }
    }

    fn remote(&self, offset: usize) -> RemoteSlice<'_> {
        let region = &self.remote;
        RemoteSlice { region, offset }
    }

    /// Starts `op` over a rail as soon as that has room.
    ///
    /// # Safety
    /// Nobody writes what is sent, or touches what is read, before the ticket is complete; the peer's memory is as
    /// long as this rank's and registered until both are done.
    unsafe fn post(&self, rail: usize, op: &Op<'_>) -> Result<Ticket> {
        loop {
            // SAFETY: the caller's contract.
            let posted = unsafe {
                let rail = RailId(rail as u8);
                self.rails.post(self.peer, rail, op, Tracking::Tracked)
            };
            match posted {
                Ok(ticket) => return Ok(ticket),
                Err(FabricError::WouldBlock) => drop(self.rails.progress()?),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Which rail carries which bytes of message `index`: all of them equal parts of a long one, one the
    /// whole of a short one.
    fn chunks(&self, rails: usize, bytes: usize, index: usize) -> Vec<(usize, usize, usize)> {
        if rails == 1 || bytes < self.threshold.max(2 * STRIPE) {
            return vec![(index % rails, 0, bytes)];
        }
        let share = bytes.div_ceil(rails).next_multiple_of(STRIPE);
        let chunks = (0..rails).map(|rail| {
            let first = (rail * share).min(bytes);
            (rail, first, share.min(bytes - first))
        });
        chunks.filter(|&(_, _, bytes)| bytes > 0).collect()
    }

    /// Starts message `index`; a ticket for each chunk.
    fn start(&mut self, rails: usize, bytes: usize, index: usize) -> Result<Vec<Ticket>> {
        let stride = bytes.next_multiple_of(STRIPE);
        let at = index % (self.half / stride) * stride;
        let chunks = self.chunks(rails, bytes, index).into_iter();
        let mut tickets = Vec::new();
        for (rail, first, part) in chunks {
            self.sent[rail] += 1;
            let value = self.sent[rail];
            let word = self.remote(rail * FLAG);
            let to = self.remote(PAGE + self.half + at + first);
            let from = self.local(PAGE + at + first, part);
            let op = Op::notify(from, to, Notification { word, value });
            // SAFETY: what is sent is not written while it is under way; both ends register alike.
            tickets.push(unsafe { self.post(rail, &op)? });
        }
        Ok(tickets)
    }

    fn finish(&self, tickets: &[Ticket]) -> Result<()> {
        wait(|| {
            self.rails.progress()?;
            let mut all = true;
            for &ticket in tickets {
                all &= self.rails.is_complete(ticket)?;
            }
            Ok(all)
        })
    }

    /// Until message `index` of the peer is here.
    fn receive(&mut self, rails: usize, bytes: usize, index: usize) -> Result<()> {
        for (rail, _, _) in self.chunks(rails, bytes, index) {
            self.received[rail] += 1;
            let least = self.received[rail];
            wait(|| {
                self.rails.progress()?;
                Ok(self.segment.word(rail * FLAG).load(Ordering::Acquire) >= least)
            })?;
        }
        Ok(())
    }

    /// A burst, and until what the peer sends at the same time is here; an empty message is the answer
    /// where that is nothing.
    fn burst(
        &mut self,
        rails: usize,
        both_ways: bool,
        bytes: usize,
        first: usize,
        count: usize,
    ) -> Result<()> {
        let messages = first..first + count;
        if self.rank == 0 || both_ways {
            let mut tickets = Vec::new();
            for index in messages.clone() {
                tickets.extend(self.start(rails, bytes, index)?);
            }
            self.finish(&tickets)?;
        }
        if self.rank == 1 || both_ways {
            for index in messages {
                self.receive(rails, bytes, index)?;
            }
        }
        match (both_ways, self.rank) {
            (true, _) => Ok(()),
            (false, 0) => self.receive(1, 1, 0),
            (false, _) => {
                let tickets = self.start(1, 1, 0)?;
                self.finish(&tickets)
            }
        }
    }

    /// Rank 0 sends, and the other answers alike.
    fn ping(&mut self, rails: usize, bytes: usize, index: usize) -> Result<()> {
        for sender in [0, 1] {
            if self.rank == sender {
                let tickets = self.start(rails, bytes, index)?;
                self.finish(&tickets)?;
            } else {
                self.receive(rails, bytes, index)?;
            }
        }
        Ok(())
    }

    /// What rank 0 reads goes where received data lies.
    fn get(&self, bytes: usize) -> Result<()> {
        if self.rank == 1 {
            return Ok(());
        }
        let into = self.local(PAGE + self.half, bytes);
        // SAFETY: nobody touches what is read before the ticket is complete.
        let ticket = unsafe { self.post(0, &Op::get(self.remote(PAGE), into))? };
        self.finish(&[ticket])
    }

    fn rail_count(&self, wanted: u8) -> Result<usize> {
        let there = self.rails.attributes().rails.len();
        if there < usize::from(wanted) {
            bail!("there are {there} rails: {wanted} are asked for");
        }
        Ok(wanted.into())
    }
}

impl Carrier for Ends {
    fn carry(&mut self, transfer: Transfer, bytes: usize, iterations: usize) -> Result<()> {
        match transfer {
            Transfer::Put { rails, both_ways } => {
                let rails = self.rail_count(rails)?;
                for first in (0..iterations).step_by(self.burst) {
                    let count = self.burst.min(iterations - first);
                    self.burst(rails, both_ways, bytes, first, count)?;
                }
            }
            Transfer::Ping { rails } => {
                let rails = self.rail_count(rails)?;
                // Two messages, of which each iteration is one.
                for index in 0..iterations.div_ceil(2) {
                    self.ping(rails, bytes, index)?;
                }
            }
            Transfer::Get => {
                for _ in 0..iterations {
                    self.get(bytes)?;
                }
            }
            Transfer::SharedBuffer | Transfer::Copies(_) => bail!("rails copy nothing"),
        }
        Ok(())
    }

    fn check(&mut self, transfer: Transfer, bytes: usize, round: u64) -> Result<bool> {
        let (rank, range) = (self.rank, self.segment.range());
        let mut message = vec![0; bytes];
        contents(&mut message, rank, round, 0);
        let from = MemoryRange::new(message.as_ptr(), bytes);
        // SAFETY: both have so many bytes, and nothing is under way.
        unsafe { from.copy_to(range.slice(PAGE, bytes)) };
        // Both have written what they send: what is read is there, too.
        self.ping(1, 1, 1)?;
        self.carry(transfer, bytes, 1)?;
        self.ping(1, 1, 1)?;
        let receives = match transfer {
            Transfer::Put {
                both_ways: false, ..
            } => rank == 1,
            Transfer::Get => rank == 0,
            _ => true,
        };
        if !receives {
            return Ok(true);
        }
        let mut expected = vec![0; bytes];
        contents(&mut expected, 1 - rank, round, 0);
        let to = MemoryRange::new(message.as_mut_ptr(), bytes);
        // SAFETY: both have so many bytes, and nothing is under way.
        unsafe { range.slice(PAGE + self.half, bytes).copy_to(to) };
        Ok(message == expected)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.rails.release(self.peer, self.remote);
        if let Some(local) = self.local.take() {
            self.rails.deregister(local);
        }
    }
}
