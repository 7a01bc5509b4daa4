//! Rails in virtual time between two sides of one thread: reliable connections over a network that loses packets.

use ferrorail_base::memory::MemoryRange;
use ferrorail_base::random::SplitMix64;
use ferrorail_base::{PeerId, RailId};
use ferrorail_fabric::{FabricError, LaneId};
use std::collections::VecDeque;
use std::time::Duration;

pub const RAILS: usize = 2;
/// After which a packet without an answer is sent again, and after which the device gives its lane up.
pub const RESEND: Duration = Duration::from_millis(70);
pub const GIVE_UP: Duration = Duration::from_millis(700);
/// Room in a lane's queue.
const DEPTH: usize = 24;

/// What an operation does, in addresses of this process.
#[derive(Clone, Debug)]
pub enum What {
    Put {
        from: usize,
        to: usize,
        bytes: usize,
        flag: Option<(usize, u64)>,
    },
    Get {
        from: usize,
        into: usize,
        bytes: usize,
    },
    /// Adds `value`, or stores it if `compare` is there.
    Atomic {
        at: usize,
        compare: Option<u64>,
        value: u64,
        into: usize,
    },
}

#[derive(Debug)]
struct Operation {
    sequence: u64,
    arrives: Duration,
    what: What,
    /// What it read, once it took effect.
    result: Option<Vec<u64>>,
    /// When its acknowledgement comes, if that is not lost.
    acknowledged: Option<Duration>,
}

/// One side's end of a lane: a queue pair.
#[derive(Debug, Default)]
pub struct Lane {
    pub posted: u64,
    pub completed: u64,
    pub failure: Option<&'static str>,
    /// Its number, 0 while there is none, and that of the one it is connected to.
    pub number: u64,
    pub other: u64,
    queue: VecDeque<Operation>,
    /// Since when a packet is unanswered, and when it is sent again.
    unanswered: Option<Duration>,
    again: Option<Duration>,
}

/// A time in which packets of a side are lost on a rail.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub side: usize,
    pub rail: usize,
    pub from: Duration,
    pub until: Duration,
    /// Only the first packet is lost.
    pub once: bool,
    /// The device of that side says that its port is down.
    pub said: bool,
}

/// Everything between the sides.
#[derive(Debug)]
pub struct Network {
    pub now: Duration,
    pub delay: [Duration; RAILS],
    pub gaps: Vec<Gap>,
    pub lanes: [[Lane; RAILS]; 2],
    pub failures: [Vec<FabricError>; 2],
    /// Puts of ended lanes that come late: when, to which side and queue pair, with what.
    late: Vec<(Duration, usize, usize, u64, What, Vec<u64>)>,
    random: SplitMix64,
    numbers: u64,
}

fn load(address: usize) -> u64 {
    // SAFETY: operations name words of memory that the test keeps until its fabrics are gone.
    unsafe { (address as *const u64).read_volatile() }
}

fn store(address: usize, value: u64) {
    // SAFETY: as in `load`; nobody else runs.
    unsafe { (address as *mut u64).write_volatile(value) }
}

fn words(address: usize, bytes: usize) -> Vec<u64> {
    (0..bytes / 8)
        .map(|word| load(address + 8 * word))
        .collect()
}

fn store_all(address: usize, words: &[u64]) {
    for (index, word) in words.iter().enumerate() {
        store(address + 8 * index, *word);
    }
}

impl What {
    /// What is sent: the bytes of a put.
    fn payload(&self) -> Vec<u64> {
        match *self {
            Self::Put { from, bytes, .. } => words(from, bytes),
            _ => Vec::new(),
        }
    }

    /// Takes effect with `payload`; what it read.
    fn execute(&self, payload: &[u64]) -> Vec<u64> {
        match *self {
            Self::Put { to, flag, .. } => {
                store_all(to, payload);
                if let Some((word, value)) = flag {
                    store(word, value);
                }
                Vec::new()
            }
            Self::Get { from, bytes, .. } => words(from, bytes),
            Self::Atomic {
                at, compare, value, ..
            } => {
                let before = load(at);
                match compare {
                    None => store(at, before + value),
                    Some(compare) if compare == before => store(at, value),
                    Some(_) => {}
                }
                vec![before]
            }
        }
    }

    fn land(&self, result: &[u64]) {
        match *self {
            Self::Put { .. } => {}
            Self::Get { into, .. } | Self::Atomic { into, .. } => store_all(into, result),
        }
    }
}

pub fn address(range: MemoryRange, offset: usize) -> usize {
    range.as_ptr() as usize + offset
}

impl Network {
    pub fn new(seed: u64, delay: [Duration; RAILS], gaps: Vec<Gap>) -> Self {
        let mut network = Self {
            now: Duration::ZERO,
            delay,
            gaps,
            lanes: Default::default(),
            failures: Default::default(),
            late: Vec::new(),
            random: SplitMix64(seed),
            numbers: 0,
        };
        for side in 0..2 {
            for rail in 0..RAILS {
                network.lanes[side][rail].number = network.number();
            }
        }
        network
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Rails of `side` of which its devices say that they are down.
    pub fn down(&self, side: usize) -> u8 {
        let said = |gap: &&Gap| gap.said && gap.side == side && gap.covers(self.now);
        let down = self.gaps.iter().filter(said);
        down.fold(0, |bits, gap| bits | 1 << gap.rail)
    }

    /// Whether a packet that `side` sends on `rail` is lost.
    fn loses(&mut self, side: usize, rail: usize) -> bool {
        let now = self.now;
        let hits = |gap: &&mut Gap| (gap.side, gap.rail) == (side, rail) && gap.covers(now);
        let Some(gap) = self.gaps.iter_mut().find(hits) else {
            return false;
        };
        if gap.once {
            gap.until = now;
        }
        true
    }

    pub fn post(&mut self, side: usize, rail: RailId, what: What) -> Result<u64, FabricError> {
        let rail = rail.index();
        let arrives = self.now + self.delay[rail];
        let lane = &mut self.lanes[side][rail];
        if let Some(status) = lane.failure {
            return Err(broken(rail, status));
        }
        if lane.queue.len() == DEPTH {
            return Err(FabricError::WouldBlock);
        }
        lane.posted += 1;
        lane.queue.push_back(Operation {
            sequence: lane.posted,
            arrives,
            what,
            result: None,
            acknowledged: None,
        });
        Ok(lane.posted)
    }

    pub fn end(&mut self, side: usize, rail: usize) {
        let lane = &mut self.lanes[side][rail];
        lane.failure = Some("ended");
        let (other, queue) = (lane.other, std::mem::take(&mut lane.queue));
        (lane.number, lane.unanswered, lane.again) = (0, None, None);
        // The other side takes them in their order only.
        let unarrived = queue.into_iter().filter(|op| op.result.is_none());
        let mut due = self.now;
        for operation in unarrived.take(self.random.below(4) as usize) {
            due += Duration::from_millis(self.random.below(200));
            let payload = operation.what.payload();
            self.late
                .push((due, 1 - side, rail, other, operation.what, payload));
        }
    }

    pub fn reset(&mut self, side: usize, rail: usize) -> u64 {
        let number = self.number();
        let lane = &mut self.lanes[side][rail];
        (lane.completed, lane.number) = (lane.posted, number);
        number
    }

    pub fn reconnect(&mut self, side: usize, rail: usize, other: u64) {
        let lane = &mut self.lanes[side][rail];
        (lane.other, lane.failure) = (other, None);
    }

    /// Goes on by `step`.
    pub fn advance(&mut self, step: Duration) {
        self.now += step;
        for side in 0..2 {
            for rail in 0..RAILS {
                self.send_again(side, rail);
                self.arrive(side, rail);
                self.complete(side, rail);
            }
        }
        let due: Vec<_> = self
            .late
            .extract_if(.., |late| late.0 <= self.now)
            .collect();
        for (_, side, rail, number, what, payload) in due {
            let target = &self.lanes[side][rail];
            if target.number == number && target.failure.is_none() {
                what.execute(&payload);
            }
        }
    }

    fn send_again(&mut self, side: usize, rail: usize) {
        let (now, delay) = (self.now, self.delay[rail]);
        let back_lost =
            self.lanes[side][rail].again.is_some_and(|at| at <= now) && self.loses(1 - side, rail);
        let lane = &mut self.lanes[side][rail];
        if lane.again.is_some_and(|at| at <= now) {
            lane.again = back_lost.then_some(now + RESEND);
            for operation in &mut lane.queue {
                operation.arrives = now + delay;
                if operation.result.is_some() && !back_lost {
                    operation.acknowledged = Some(now + 2 * delay);
                }
            }
        }
        if lane.failure.is_none() && lane.unanswered.is_some_and(|at| now - at >= GIVE_UP) {
            lane.failure = Some("transport retry counter exceeded");
            self.failures[side].push(broken(rail, "transport retry counter exceeded"));
        }
    }

    fn arrive(&mut self, side: usize, rail: usize) {
        let (now, delay) = (self.now, self.delay[rail]);
        for index in 0..self.lanes[side][rail].queue.len() {
            let lane = &self.lanes[side][rail];
            let operation = &lane.queue[index];
            if operation.result.is_some() {
                continue;
            }
            if operation.arrives > now || lane.again.is_some() || lane.failure.is_some() {
                return;
            }
            let target = &self.lanes[1 - side][rail];
            let accepts = target.number == lane.other && target.failure.is_none();
            let lost = self.loses(side, rail) || !accepts;
            let back_lost = !lost && self.loses(1 - side, rail);
            let lane = &mut self.lanes[side][rail];
            if lost || back_lost {
                lane.again = Some(now + RESEND);
                lane.unanswered.get_or_insert(now);
            }
            if lost {
                return;
            }
            let operation = &mut lane.queue[index];
            operation.result = Some(operation.what.execute(&operation.what.payload()));
            operation.acknowledged = (!back_lost).then_some(now + delay);
        }
    }

    fn complete(&mut self, side: usize, rail: usize) {
        let now = self.now;
        let lane = &mut self.lanes[side][rail];
        let is_due = |op: &Operation| op.acknowledged.is_some_and(|at| at <= now);
        // One acknowledges all before it.
        let last = lane.queue.iter().rposition(is_due);
        let Some(last) = last.filter(|_| lane.failure.is_none()) else {
            return;
        };
        for operation in lane.queue.drain(..=last) {
            operation.what.land(&operation.result.unwrap_or_default());
            lane.completed = operation.sequence;
        }
        lane.again = lane.again.filter(|_| !lane.queue.is_empty());
        lane.unanswered = lane.again.map(|_| now);
    }
}

impl Gap {
    fn covers(&self, at: Duration) -> bool {
        (self.from..self.until).contains(&at)
    }
}

fn broken(rail: usize, status: &str) -> FabricError {
    let lane = LaneId {
        peer: PeerId(0),
        rail: RailId(rail as u8),
    };
    FabricError::LaneDown {
        lane,
        rail: format!("virtual{rail}"),
        peer: "the other side".into(),
        status: status.into(),
    }
}
