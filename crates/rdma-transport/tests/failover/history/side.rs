//! One side of a history: what it does, and what it must find.

use super::super::support::{Private, slice};
use super::network::RAILS;
use crate::conformance::{Rails, at, process};
use ferrorail_base::random::SplitMix64;
use ferrorail_base::{PeerId, RailId};
use ferrorail_fabric::{
    FabricError, LocalRegion, Notification, Op, RemoteRegion, Ticket, Tracking,
};
use ferrorail_rdma_transport::failover::Failover;
use std::fmt;
use std::time::Duration;

/// A round's message of a rail: three words and a flag, then an eager word and its trailing flag.
const MESSAGE: usize = 64;
const FLAG: usize = 24;
const EAGER: usize = 32;
/// Behind those of two rounds: a word that is put, one that is added to and one that is read.
const PUT: usize = 2 * RAILS * MESSAGE;
const COUNTER: usize = PUT + 8;
const CONSTANT: usize = PUT + 16;
const BYTES: usize = PUT + 24;

/// An operation whose ticket is waited for.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Put(u64),
    Get,
    Add,
}

pub struct Side {
    rails: Failover,
    peer: PeerId,
    /// What the peer connects to.
    address: Vec<u8>,
    random: SplitMix64,
    atomics: bool,
    absences: bool,
    mine: (Private, LocalRegion),
    inbox: (Private, LocalRegion),
    theirs: Option<RemoteRegion>,
    /// Rounds, and messages of the next one that are posted.
    pub sent: u64,
    posted: usize,
    pub received: u64,
    doing: Option<(Doing, Ticket)>,
    puts: u64,
    added: u64,
    seen: Vec<u64>,
    pub unknown: u64,
    pub unreachable: bool,
    /// Until when the program does something else, and when the watchdog looks again.
    absent: Duration,
    tended: Duration,
    said: u8,
    checked: Duration,
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = (self.sent, self.posted, self.received);
        write!(f, "{rounds:?}, waits for {:?}", self.doing)
    }
}

fn message(round: u64, rail: usize) -> usize {
    (round as usize % 2 * RAILS + rail) * MESSAGE
}

fn content(round: u64, rail: usize, word: usize) -> u64 {
    round << 8 | (rail as u64) << 4 | word as u64
}

impl Side {
    pub fn new(rails: Failover, other: u64, seed: u64, (atomics, absences): (bool, bool)) -> Self {
        let (peer, address) = rails.open_peer(process(other)).unwrap();
        let memory = || {
            let memory = Private::new(BYTES);
            let region = memory.register(&rails);
            (memory, region)
        };
        let (mine, inbox) = (memory(), memory());
        inbox.0.store(CONSTANT, 4711);
        Self {
            rails,
            peer,
            address,
            random: SplitMix64(seed),
            atomics,
            absences,
            mine,
            inbox,
            theirs: None,
            sent: 0,
            posted: 0,
            received: 0,
            doing: None,
            puts: 0,
            added: 0,
            seen: Vec::new(),
            unknown: 0,
            unreachable: false,
            absent: Duration::ZERO,
            tended: Duration::ZERO,
            said: 0,
            checked: Duration::ZERO,
        }
    }

    pub fn connect(sides: &mut [Self; 2]) {
        let addresses = sides.each_ref().map(|side| side.address.clone());
        let inboxes = sides
            .each_ref()
            .map(|side| side.inbox.1.description.clone());
        for (index, side) in sides.iter_mut().enumerate() {
            side.rails
                .connect(side.peer, &addresses[1 - index])
                .unwrap();
            let theirs = side.rails.import(side.peer, &inboxes[1 - index]);
            side.theirs = Some(theirs.unwrap());
        }
    }

    pub fn failures(&self) -> u64 {
        let rails = self.rails.statistics().rails;
        rails.iter().map(|counters| counters.failures).sum()
    }

    /// Whether round `last` has come and nothing is waited for, or the peer is out of reach.
    pub fn is_over(&self, last: u64) -> bool {
        self.unreachable || self.received >= last && self.sent >= last && self.doing.is_none()
    }

    /// A millisecond of the program and of the watchdog, which wakes when the device says something else of its
    /// ports, `said`.
    pub fn step(&mut self, now: Duration, last: u64, said: u8) {
        if self.unreachable {
            return;
        }
        if std::mem::replace(&mut self.said, said) != said || now >= self.tended {
            let soon = self.rails.tend();
            self.tended = now + Duration::from_millis(if soon { 10 } else { 100 });
        }
        if now < self.absent {
            return;
        }
        if self.absences && self.random.below(400) == 0 {
            self.absent = now + Duration::from_millis(self.random.below(150));
        }
        let acted = self.act(now, last);
        match acted {
            Ok(()) | Err(FabricError::WouldBlock) => {}
            Err(FabricError::Unreachable { .. }) => self.unreachable = true,
            Err(error) => panic!("{error}"),
        }
    }

    fn act(&mut self, now: Duration, last: u64) -> Result<(), FabricError> {
        self.rails.progress()?;
        ferrorail_fabric::Endpoint::untracked(&self.rails, self.peer)?;
        if now >= self.checked {
            self.rails.check(self.peer)?;
            self.checked = now + Duration::from_millis(30);
        }
        self.receive();
        self.do_other(last)?;
        if self.sent < last && self.sent <= self.received {
            self.send()?;
        }
        Ok(())
    }

    fn post(&self, rail: usize, op: &Op<'_>, tracking: Tracking) -> Result<Ticket, FabricError> {
        // SAFETY: memory outlives the rails. Sources of messages are not written before the peer has answered,
        // words are left alone until their ticket completes.
        unsafe { self.rails.post(self.peer, RailId(rail as u8), op, tracking) }
    }

    fn send(&mut self) -> Result<(), FabricError> {
        let round = self.sent + 1;
        let theirs = self.theirs.as_ref().unwrap();
        if self.posted == 0 {
            for rail in 0..RAILS {
                let base = message(round, rail);
                for word in 0..3 {
                    let content = content(round, rail, word);
                    self.mine.0.store(base + 8 * word, content);
                }
                self.mine.0.store(base + EAGER, !round);
                self.mine.0.store(base + EAGER + 8, round);
            }
        }
        while self.posted < 2 * RAILS {
            let (rail, eager) = (self.posted % RAILS, self.posted >= RAILS);
            let base = message(round, rail);
            let op = match eager {
                true => {
                    let base = base + EAGER;
                    Op::eager(slice(&self.mine.1, base, 16), at(theirs, base), round)
                }
                false => {
                    let word = at(theirs, base + FLAG);
                    let tell = Notification { word, value: round };
                    Op::notify(slice(&self.mine.1, base, 24), at(theirs, base), tell)
                }
            };
            self.post(rail, &op, Tracking::Silent)?;
            self.posted += 1;
        }
        (self.sent, self.posted) = (round, 0);
        Ok(())
    }

    fn receive(&mut self) {
        let round = self.received + 1;
        let load = |rail, offset| self.inbox.0.load(message(round, rail) + offset);
        let has_come = |rail| load(rail, FLAG) >= round && load(rail, EAGER + 8) >= round;
        if !(0..RAILS).all(has_come) {
            return;
        }
        for rail in 0..RAILS {
            assert_eq!((load(rail, FLAG), load(rail, EAGER + 8)), (round, round));
            assert_eq!(load(rail, EAGER), !round);
            for word in 0..3 {
                assert_eq!(load(rail, 8 * word), content(round, rail, word));
            }
        }
        self.received = round;
    }

    /// Finishes what was begun, or begins something.
    fn do_other(&mut self, last: u64) -> Result<(), FabricError> {
        if let Some((doing, ticket)) = self.doing {
            match self.rails.is_complete(ticket) {
                Ok(false) => return Ok(()),
                Ok(true) => self.done(doing),
                Err(FabricError::Completion { .. }) if matches!(doing, Doing::Add) => {
                    self.unknown += 1;
                }
                Err(error) => return Err(error),
            }
            self.doing = None;
        }
        if last != u64::MAX {
            return Ok(());
        }
        let rail = self.random.below(RAILS as u64) as usize;
        let what = self.random.below(if self.atomics { 30 } else { 20 });
        let theirs = self.theirs.as_ref().unwrap();
        let word = |offset| (slice(&self.mine.1, offset, 8), at(theirs, offset));
        let (doing, op) = match what {
            0 => {
                self.mine.0.store(PUT, self.puts + 1);
                let (from, to) = word(PUT);
                (Doing::Put(self.puts + 1), Op::put(from, to))
            }
            1 => {
                self.mine.0.store(CONSTANT, 0);
                let (into, from) = word(CONSTANT);
                (Doing::Get, Op::get(from, into))
            }
            20..23 => {
                let (into, at) = word(COUNTER);
                (Doing::Add, Op::fetch_add(at, 1, into, None))
            }
            _ => return Ok(()),
        };
        let ticket = self.post(rail, &op, Tracking::Tracked)?;
        if let Doing::Put(number) = doing {
            self.puts = number;
        }
        self.doing = Some((doing, ticket));
        Ok(())
    }

    fn done(&mut self, doing: Doing) {
        match doing {
            Doing::Put(number) => assert_eq!(number, self.puts),
            Doing::Get => assert_eq!(self.mine.0.load(CONSTANT), 4711),
            Doing::Add => {
                self.added += 1;
                self.seen.push(self.mine.0.load(COUNTER));
            }
        }
    }

    /// What this side did at `other` is there, once each.
    pub fn verify(&self, other: &Self) {
        if self.unreachable || other.unreachable {
            return;
        }
        let there = |offset| other.inbox.0.load(offset);
        assert_eq!(there(PUT), self.puts);
        let count = there(COUNTER);
        let possible = self.added..=self.added + self.unknown;
        assert!(possible.contains(&count), "{count}");
        let mut seen = self.seen.clone();
        seen.dedup();
        assert_eq!(seen.len() as u64, self.added);
        assert!(seen.is_sorted() && seen.iter().all(|&before| before < count));
        for round in [self.sent, self.sent - 1] {
            for rail in 0..RAILS {
                for word in 0..3 {
                    let found = there(message(round, rail) + 8 * word);
                    assert_eq!(found, content(round, rail, word));
                }
            }
        }
    }
}
