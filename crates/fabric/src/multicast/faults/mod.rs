//! [`Faulty`]: groups whose datagrams meet with misfortune on purpose, whatever carries them.
//!
//! Loss, damage, doubling and overtaking strike each receiver by itself, as on a real network, and
//! unicasts like multicasts. A multicast that is *down* is lost to all where it is sent, and unicasts
//! go on: `FERRORAIL_MULTICAST_FAULTS` says for which numbers, [`Faulty::set_down`] at any time.
//!
//! What happens depends on the seed, the rail, the member's number and how many groups the process
//! joined before, and on nothing else but what arrives.

use super::{DatagramLimits, Group, GroupId, Multicast, MulticastError, Payload, To};
use ferrorail_base::RailId;
use ferrorail_base::config::{CERTAIN, MulticastFaults};
use ferrorail_base::random::SplitMix64;
use ferrorail_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Most datagrams that overtake one.
const OVERTAKEN_BY: u64 = 8;

/// Any [`Multicast`], with faults. See the [module documentation](self).
#[derive(Debug)]
pub struct Faulty<M> {
    inner: M,
    faults: MulticastFaults,
    joined: AtomicU64,
    shared: Arc<Shared>,
}

/// What has befallen datagrams of all groups of a [`Faulty`] so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Not given to this receiver.
    pub dropped: u64,
    /// Given to it with a wrong bit.
    pub corrupted: u64,
    /// Given to it twice.
    pub duplicated: u64,
    /// Given to it late.
    pub reordered: u64,
    /// Not sent by this process.
    pub suppressed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    down: AtomicBool,
    counters: Mutex<FaultCounters>,
}

impl Shared {
    fn count(&self, add: impl FnOnce(&mut FaultCounters)) {
        add(&mut self.counters.lock());
    }
}

/// `inner` with `faults`, or as it is if there are none.
pub fn with_faults(inner: Arc<dyn Multicast>, faults: &MulticastFaults) -> Arc<dyn Multicast> {
    match faults.is_none() {
        true => inner,
        false => Arc::new(Faulty::new(inner, faults)),
    }
}

impl<M: Multicast> Faulty<M> {
    /// Adds `faults` to `inner`.
    pub fn new(inner: M, faults: &MulticastFaults) -> Self {
        Self {
            inner,
            faults: faults.clone(),
            joined: AtomicU64::new(0),
            shared: Arc::default(),
        }
    }

    /// Whether multicasts of this process get nowhere from now on, whatever the settings say.
    pub fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::Relaxed);
    }

    /// What has happened so far.
    pub fn counters(&self) -> FaultCounters {
        *self.shared.counters.lock()
    }
}

impl<M: Multicast> Multicast for Faulty<M> {
    fn multicast_rails(&self) -> Vec<Result<DatagramLimits, MulticastError>> {
        self.inner.multicast_rails()
    }

    fn join(
        &self,
        rail: RailId,
        group: GroupId,
        depth: u32,
    ) -> Result<Box<dyn Group>, MulticastError> {
        let inner = self.inner.join(rail, group, depth)?;
        let number = self.joined.fetch_add(1, Ordering::Relaxed);
        let stream = self.faults.seed ^ SplitMix64(number << 8 | u64::from(rail.0)).draw();
        Ok(Box::new(FaultyGroup {
            inner,
            sending: Sending::default(),
            receiving: Receiving {
                stream,
                random: SplitMix64(stream),
                faults: self.faults.clone(),
                shared: Arc::clone(&self.shared),
                held: Vec::new(),
                ready: VecDeque::new(),
            },
        }))
    }
}

fn strikes(random: &mut SplitMix64, probability: u32) -> bool {
    probability > 0 && random.below(u64::from(CERTAIN)) < u64::from(probability)
}

struct FaultyGroup {
    inner: Box<dyn Group>,
    sending: Sending,
    receiving: Receiving,
}

/// Which sends were passed on.
#[derive(Debug, Default)]
struct Sending {
    multicasts: u64,
    /// Whether each send that is not known to be done was passed on. One that was not takes its place
    /// in the order all the same: callers count.
    order: VecDeque<bool>,
}

impl Sending {
    /// Forgets what is done when `pending` of the sends passed on are not; how many are left.
    fn settle(&mut self, pending: usize) -> usize {
        let passed_on = self.order.iter().filter(|&&passed_on| passed_on).count();
        let mut done = passed_on.saturating_sub(pending);
        while let Some(&passed_on) = self.order.front() {
            match (passed_on, done) {
                (true, 0) => break,
                (true, _) => done -= 1,
                (false, _) => {}
            }
            self.order.pop_front();
        }
        self.order.len()
    }
}

/// What becomes of what arrives.
struct Receiving {
    /// Where the random numbers of any member begin.
    stream: u64,
    random: SplitMix64,
    faults: MulticastFaults,
    shared: Arc<Shared>,
    /// Datagrams kept back, each until so many others were received.
    held: Vec<(u64, Vec<u8>)>,
    ready: VecDeque<Vec<u8>>,
}

impl Receiving {
    /// Gives `datagram`, or what is left of it, to `each` at most once; whether it did.
    fn receive(&mut self, datagram: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
        self.overtake();
        let faults = &self.faults;
        if strikes(&mut self.random, faults.drop) {
            self.shared.count(|counters| counters.dropped += 1);
            return false;
        }
        let mut damaged = None;
        if strikes(&mut self.random, faults.corrupt) && !datagram.is_empty() {
            self.shared.count(|counters| counters.corrupted += 1);
            let bit = self.random.below(8 * datagram.len() as u64) as usize;
            let mut copy = datagram.to_vec();
            copy[bit / 8] ^= 1 << (bit % 8);
            damaged = Some(copy);
        }
        let datagram = damaged.as_deref().unwrap_or(datagram);
        let twice = strikes(&mut self.random, faults.duplicate);
        let late = strikes(&mut self.random, faults.reorder);
        if twice {
            self.shared.count(|counters| counters.duplicated += 1);
            let after = self.random.below(OVERTAKEN_BY);
            self.held.push((after, datagram.to_vec()));
        }
        if late {
            self.shared.count(|counters| counters.reordered += 1);
            let after = 1 + self.random.below(OVERTAKEN_BY);
            self.held.push((after, datagram.to_vec()));
        } else {
            each(datagram);
        }
        !late
    }

    /// One more has arrived: makes ready what was kept back until then.
    fn overtake(&mut self) {
        let ready = &mut self.ready;
        self.held.retain_mut(|(after, datagram)| {
            if *after == 0 {
                ready.push_back(std::mem::take(datagram));
                return false;
            }
            *after -= 1;
            true
        });
    }

    /// Nothing arrives: what was kept back need not wait for more.
    fn release(&mut self) {
        let held = self.held.drain(..).map(|(_, datagram)| datagram);
        self.ready.extend(held);
    }
}

impl Group for FaultyGroup {
    fn limits(&self) -> DatagramLimits {
        self.inner.limits()
    }

    fn address(&self) -> Vec<u8> {
        self.inner.address()
    }

    fn set_members(&mut self, me: u32, addresses: &[Vec<u8>]) -> Result<(), MulticastError> {
        self.inner.set_members(me, addresses)?;
        // Members that run alike differ in what they lose.
        let receiving = &mut self.receiving;
        receiving.random = SplitMix64(receiving.stream ^ SplitMix64(u64::from(me)).draw());
        Ok(())
    }

    unsafe fn send(
        &mut self,
        to: To,
        header: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), MulticastError> {
        let limits = self.inner.limits();
        limits.check(header, &payload)?;
        let Receiving { faults, shared, .. } = &self.receiving;
        let sending = &mut self.sending;
        let down = shared.down.load(Ordering::Relaxed) || faults.is_down(sending.multicasts);
        let suppressed = to == To::All && down;
        if sending.order.len() >= limits.sends as usize {
            return Err(MulticastError::WouldBlock);
        }
        if suppressed {
            shared.count(|counters| counters.suppressed += 1);
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.inner.send(to, header, payload) }?;
        }
        sending.multicasts += u64::from(to == To::All);
        sending.order.push_back(!suppressed);
        Ok(())
    }

    fn arm(&mut self) -> Result<Option<RawFd>, MulticastError> {
        self.inner.arm()
    }

    fn is_port_down(&self) -> bool {
        self.inner.is_port_down()
    }

    fn pending_sends(&mut self) -> Result<usize, MulticastError> {
        let pending = self.inner.pending_sends()?;
        Ok(self.sending.settle(pending))
    }

    fn poll(&mut self, limit: usize, each: &mut dyn FnMut(&[u8])) -> Result<usize, MulticastError> {
        let receiving = &mut self.receiving;
        let mut handed = 0;
        while handed < limit {
            if let Some(datagram) = receiving.ready.pop_front() {
                each(&datagram);
                handed += 1;
                continue;
            }
            let mut passed_on = 0;
            let mut sieve = |datagram: &[u8]| {
                passed_on += usize::from(receiving.receive(datagram, each));
            };
            // A few at a time: what is ready follows them, not all that has come.
            let few = (limit - handed).min(OVERTAKEN_BY as usize);
            let arrived = self.inner.poll(few, &mut sieve)?;
            handed += passed_on;
            if arrived == 0 {
                receiving.release();
                if receiving.ready.is_empty() {
                    break;
                }
            }
        }
        Ok(handed)
    }
}

#[cfg(test)]
mod tests;
