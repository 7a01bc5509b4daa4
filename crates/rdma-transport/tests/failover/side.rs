//! Two sides that send each other blocks in turn.

use super::open;
use super::support::{self, object, register, slice, until};
use crate::conformance::{Rails, at, process};
use ferrorail_base::config::Settings;
use ferrorail_base::sync::{Ordering, yield_now};
use ferrorail_base::{PeerId, RailId};
use ferrorail_fabric::{
    FabricError, LocalRegion, Notification, Op, RemoteRegion, Ticket, Tracking,
};
use ferrorail_rdma_transport::failover::Failover;
use ferrorail_shm::Segment;
use std::time::{Duration, Instant};

/// Words of a block on each rail; the flags follow them.
const WORDS: usize = 128;
const RAILS: usize = 2;
const FLAGS: usize = RAILS * WORDS * 8;
/// An eager word on each rail: the word, then its trailing flag.
const EAGER: usize = FLAGS + RAILS * 8;

/// One of two sides that send each other blocks in turn, always into the same memory.
pub struct Side {
    pub fabric: Failover,
    pub peer: PeerId,
    /// Source, and what the peer writes.
    pub mine: (Segment, LocalRegion),
    pub inbox: (Segment, LocalRegion),
    pub theirs: Option<RemoteRegion>,
}

impl Side {
    fn new(me: u64, other: u64, settings: &Settings) -> Self {
        let fabric = open(process(me), settings);
        let (peer, _) = fabric.open_peer(process(other)).unwrap();
        let memory = || {
            let segment = object(EAGER + 16 * RAILS);
            let region = register(&fabric, &segment);
            (segment, region)
        };
        let (mine, inbox) = (memory(), memory());
        Self {
            fabric,
            peer,
            mine,
            inbox,
            theirs: None,
        }
    }

    /// Posts `op`, whose memory is left alone until it is complete, making progress while the queue is full.
    pub fn post(&self, rail: u8, op: &Op<'_>, tracking: Tracking) -> Result<Ticket, FabricError> {
        loop {
            // SAFETY: both sides keep their memory until the fabrics are gone.
            match unsafe { self.fabric.post(self.peer, RailId(rail), op, tracking) } {
                Err(FabricError::WouldBlock) => self.fabric.progress()?,
                other => return other,
            };
        }
    }

    /// Puts the first word of the source at `offset` of `to`, over the first rail.
    pub fn put(&self, to: &RemoteRegion, offset: usize) -> Ticket {
        let op = Op::put(slice(&self.mine.1, 0, 8), at(to, offset));
        self.post(0, &op, Tracking::Tracked).unwrap()
    }

    /// Adds to the first word of the peer's, over the first rail; the old value lands at `result` of the source.
    pub fn add(&self, add: u64, result: usize) -> Ticket {
        let into = slice(&self.mine.1, result, 8);
        let op = Op::fetch_add(at(self.theirs(), 0), add, into, None);
        self.post(0, &op, Tracking::Tracked).unwrap()
    }

    /// Memory of the peer.
    pub fn theirs(&self) -> &RemoteRegion {
        self.theirs.as_ref().unwrap()
    }

    /// What the peer has written at `offset`.
    pub fn found(&self, offset: usize) -> u64 {
        self.inbox.0.word(offset).load(Ordering::Acquire)
    }

    /// Sends round `round`: half of it on each rail.
    pub fn send(&self, round: u64) -> Result<(), FabricError> {
        let theirs = self.theirs();
        for word in 0..RAILS * WORDS {
            let value = round * 1_000_003 + word as u64;
            self.mine.0.word(8 * word).store(value, Ordering::Release);
        }
        for rail in 0..RAILS {
            for (word, value) in [(0, !round), (8, round)] {
                let word = self.mine.0.word(EAGER + 16 * rail + word);
                word.store(value, Ordering::Release);
            }
        }
        for rail in 0..RAILS {
            let (offset, bytes) = (rail * WORDS * 8, WORDS * 8);
            let notification = Notification {
                word: at(theirs, FLAGS + 8 * rail),
                value: round,
            };
            let (from, to) = (slice(&self.mine.1, offset, bytes), at(theirs, offset));
            let op = Op::notify(from, to, notification);
            self.post(rail as u8, &op, Tracking::Silent)?;
            let offset = EAGER + 16 * rail;
            let (from, to) = (slice(&self.mine.1, offset, 16), at(theirs, offset));
            self.post(rail as u8, &Op::eager(from, to, round), Tracking::Silent)?;
        }
        Ok(())
    }

    /// Waits for round `round` and checks every word of it, twice: nothing may come after it.
    pub fn receive(&self, round: u64) -> Result<(), FabricError> {
        let start = Instant::now();
        let flag = |rail: usize| self.found(FLAGS + 8 * rail);
        let mut checked = Instant::now();
        let eager = |rail, word| self.found(EAGER + 16 * rail + word);
        let trailing_flag = |rail: usize| eager(rail, 8);
        let come = |rail| flag(rail) >= round && trailing_flag(rail) >= round;
        while !(0..RAILS).all(come) {
            self.fabric.progress()?;
            if checked.elapsed() > Duration::from_millis(30) {
                self.fabric.check(self.peer)?;
                checked = Instant::now();
            }
            assert!(
                start.elapsed() < support::TIME_LIMIT,
                "round {round} never came"
            );
            yield_now();
        }
        for _ in 0..2 {
            for word in 0..RAILS * WORDS {
                assert_eq!(
                    self.found(8 * word),
                    round * 1_000_003 + word as u64,
                    "word {word} of {round}"
                );
            }
            for rail in 0..RAILS {
                assert_eq!(
                    (flag(rail), trailing_flag(rail)),
                    (round, round),
                    "a flag fell"
                );
                assert_eq!(eager(rail, 0), !round);
            }
            yield_now();
        }
        Ok(())
    }

    /// Sum of failures, readmissions and repetitions over the rails.
    pub fn events(&self) -> [u64; 3] {
        let counters = (0..RAILS).map(|rail| self.fabric.counters(RailId(rail as u8)));
        counters.fold([0; 3], |[f, a, r], c| {
            [f + c.failures, a + c.readmissions, r + c.resent]
        })
    }
}

pub fn sides(a: &Settings, b: &Settings) -> (Side, Side) {
    let (mut left, mut right) = (Side::new(1, 2, a), Side::new(2, 1, b));
    let (_, to_left) = left.fabric.open_peer(process(2)).unwrap();
    let (_, to_right) = right.fabric.open_peer(process(1)).unwrap();
    left.fabric.connect(left.peer, &to_right).unwrap();
    right.fabric.connect(right.peer, &to_left).unwrap();
    let of_left = &left.inbox.1.description;
    let of_right = &right.inbox.1.description;
    left.theirs = Some(left.fabric.import(left.peer, of_right).unwrap());
    right.theirs = Some(right.fabric.import(right.peer, of_left).unwrap());
    (left, right)
}

/// Drives both sides until `done`; the errors that the left one is told.
pub fn drive(sides: (&Side, &Side), mut done: impl FnMut() -> bool) -> Vec<FabricError> {
    let mut told = Vec::new();
    until(|| {
        sides.0.fabric.progress().unwrap();
        let sent = ferrorail_fabric::Endpoint::untracked(&sides.0.fabric, sides.0.peer);
        told.extend(sent.err());
        sides.1.fabric.progress().unwrap();
        done()
    });
    told
}
