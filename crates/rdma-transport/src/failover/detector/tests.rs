//! The detector in virtual time, against lanes that stall, drop packets, come late and come back.

use super::{Action, Detector, Event, LOOK, Look, Reason};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

const LEAST: Duration = Duration::from_millis(120);
const STEP: Duration = Duration::from_micros(500);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Times in which a thing does not happen, from and until, in ms.
type Gaps = Vec<(u64, u64)>;

fn is_in(gaps: &Gaps, at: Duration) -> bool {
    let at = at.as_millis() as u64;
    gaps.iter()
        .any(|&(from, until)| (from..until).contains(&at))
}

/// What a lane of the simulated peer does.
#[derive(Clone, Debug, Default)]
struct Way {
    /// Packets to the peer that wait: they go on at the end of the gap.
    stalls: Gaps,
    /// Packets that are lost until the gap ends, when the device sends them again.
    cuts: Gaps,
    /// Acknowledgements and answers that are lost until the gap ends.
    mute: Gaps,
    delay_us: u64,
}

/// What travels on a lane, in order.
#[derive(Clone, Copy, Debug)]
enum Message {
    Operation,
    Probe(u64),
    Read(usize),
}

/// One process, the lanes to its peer, and the peer's memory.
struct World {
    detector: Detector,
    now: Duration,
    ways: Vec<Way>,
    /// Times at which the process does not run, and the peer does not.
    absent: Gaps,
    frozen: Gaps,
    down: u8,
    up: u8,
    /// On their way to the peer: when they are there.
    out: Vec<VecDeque<(Duration, Message)>>,
    /// On their way back: when they are here, and the answer of a read.
    back: Vec<VecDeque<(Duration, Message, u64)>>,
    arrived: Vec<u64>,
    posted: Vec<u64>,
    completed: Vec<u64>,
    atomics: bool,
    left: Vec<(Duration, usize, Reason)>,
}

impl World {
    fn new(ways: Vec<Way>) -> Self {
        let rails = ways.len();
        Self {
            detector: Detector::new(rails, Some(LEAST)),
            now: Duration::ZERO,
            absent: Gaps::new(),
            frozen: Gaps::new(),
            down: 0,
            up: (1 << rails) - 1,
            out: vec![VecDeque::new(); rails],
            back: vec![VecDeque::new(); rails],
            arrived: vec![0; rails],
            posted: vec![0; rails],
            completed: vec![0; rails],
            atomics: false,
            left: Vec::new(),
            ways,
        }
    }

    fn send(&mut self, rail: usize, message: Message) {
        let delay = Duration::from_micros(self.ways[rail].delay_us);
        self.out[rail].push_back((self.now + delay, message));
        self.posted[rail] += 1;
    }

    /// Moves what is on its way.
    fn network(&mut self) {
        for rail in 0..self.ways.len() {
            let way = &self.ways[rail];
            let delay = Duration::from_micros(way.delay_us);
            let closed = is_in(&way.stalls, self.now) || is_in(&way.cuts, self.now);
            if !closed && !is_in(&self.frozen, self.now) {
                while let Some((at, message)) = self.out[rail].pop_front() {
                    if at > self.now {
                        self.out[rail].push_front((at, message));
                        break;
                    }
                    let answer = match message {
                        Message::Probe(number) => {
                            self.arrived[rail] = number;
                            0
                        }
                        Message::Read(of) => self.arrived[of],
                        Message::Operation => 0,
                    };
                    self.back[rail].push_back((self.now + delay, message, answer));
                }
            }
        }
    }

    /// What has come back, as the process finds it.
    fn completions(&mut self) {
        for rail in 0..self.ways.len() {
            while let Some((at, message, answer)) = self.back[rail].pop_front() {
                if at > self.now || is_in(&self.ways[rail].mute, self.now) {
                    self.back[rail].push_front((at, message, answer));
                    break;
                }
                self.completed[rail] += 1;
                match message {
                    Message::Read(of) => self.tell(Event::Answered(of, answer)),
                    // A newer number is what counts, and completes the older ones.
                    Message::Probe(number) if number == self.detector.lanes[rail].number => {
                        self.tell(Event::Acknowledged(rail));
                    }
                    Message::Probe(_) | Message::Operation => {}
                }
            }
        }
    }

    fn tell(&mut self, event: Event) {
        match self.detector.handle(event, self.now) {
            None => {}
            Some(Action::Probe { rail, number }) => self.send(rail, Message::Probe(number)),
            Some(Action::Ask { rail, via }) => {
                assert!(via != rail && self.up & 1 << via != 0, "asked over {via}");
                self.send(via, Message::Read(rail));
            }
            Some(Action::Leave { rail, .. }) if self.atomics => self.tell(Event::Kept(rail)),
            Some(Action::Leave { rail, reason }) => {
                self.up &= !(1 << rail);
                assert!(self.up != 0, "the last lane was left");
                self.left.push((self.now, rail, reason));
                self.out[rail].clear();
                self.back[rail].clear();
                self.completed[rail] = self.posted[rail];
                self.tell(Event::Ended(rail));
            }
        }
    }

    fn look(&mut self) {
        for rail in 0..self.ways.len() {
            if self.up & 1 << rail != 0 {
                let look = Look {
                    rail,
                    up: self.up,
                    down: self.down,
                    completed: self.completed[rail],
                    in_flight: self.posted[rail] > self.completed[rail],
                    bytes: 0,
                };
                self.tell(Event::Looked(look));
            }
        }
    }

    /// Runs until `end`; every lane in use gets an operation every `interval` ms.
    fn run(&mut self, end: Duration, interval: u64) {
        let mut looked = self.now;
        while self.now < end {
            self.now += STEP;
            self.network();
            if is_in(&self.absent, self.now) {
                continue;
            }
            self.completions();
            if interval > 0 && (self.now.as_micros() as u64).is_multiple_of(interval * 1000) {
                for rail in 0..self.ways.len() {
                    if self.up & 1 << rail != 0 {
                        self.send(rail, Message::Operation);
                    }
                }
            }
            let asking = self.detector.lanes.iter().any(|lane| lane.ask.is_some());
            if asking || self.now - looked >= LOOK {
                looked = self.now;
                self.look();
            }
        }
    }

    fn first_left(&self) -> Option<(Duration, usize)> {
        self.left.first().map(|&(at, rail, _)| (at, rail))
    }
}

fn ways(rails: usize) -> Vec<Way> {
    let way = Way {
        delay_us: 100,
        ..Way::default()
    };
    vec![way; rails]
}

const FOREVER: (u64, u64) = (1000, 1 << 40);

#[test]
fn a_lane_that_loses_everything_is_left_after_the_least_time() {
    let mut world = World::new(ways(2));
    world.ways[1].cuts = vec![FOREVER];
    world.run(ms(3000), 2);
    let (at, rail) = world.first_left().expect("nothing got through");
    assert_eq!(rail, 1);
    assert!(at < ms(1000 + 170), "{at:?}");
    assert_eq!(world.left.len(), 1);
}

#[test]
fn a_lane_whose_acknowledgements_are_lost_is_left_later() {
    let mut world = World::new(ways(2));
    world.ways[0].mute = vec![FOREVER];
    world.run(ms(1500), 2);
    assert_eq!(world.first_left(), None);
    world.run(ms(4000), 2);
    let (_, rail, reason) = world.left[0];
    assert_eq!(rail, 0);
    assert!(matches!(reason, Reason::NotAcknowledged(_)), "{reason:?}");
}

#[test]
fn a_port_that_is_down_is_left_at_once() {
    let mut world = World::new(ways(2));
    world.run(ms(100), 0);
    world.down = 1;
    world.run(ms(200), 0);
    let (at, rail) = world.first_left().unwrap();
    assert!(rail == 0 && at <= ms(100) + LOOK + ms(2), "{at:?}");
    // The last one stays, whatever its device says.
    world.down = 3;
    world.run(ms(2000), 2);
    assert_eq!(world.left.len(), 1);
}

/// The peer has to agree, and may have an operation in flight there that cannot be done again.
#[test]
fn a_port_that_is_down_is_to_be_left_until_it_may_be() {
    let mut world = World::new(ways(2));
    world.atomics = true;
    world.run(ms(100), 5);
    world.down = 1;
    world.run(ms(200), 5);
    assert_eq!(world.left, []);
    world.atomics = false;
    world.run(ms(200) + LEAST, 5);
    assert_eq!(world.first_left().unwrap().1, 0);
}

#[test]
fn a_lane_with_an_operation_that_cannot_be_done_again_is_kept() {
    let mut world = World::new(ways(2));
    world.atomics = true;
    world.ways[1].cuts = vec![(1000, 3000)];
    world.run(ms(3500), 2);
    assert_eq!(world.left, []);
    world.atomics = false;
    world.ways[1].cuts = vec![(4000, 9000)];
    world.run(ms(5000), 2);
    assert_eq!(world.left.len(), 1);
}

/// Left for a stall that is longer than the least time, a lane is left later next time.
#[test]
fn a_lane_that_was_not_broken_gets_more_time() {
    let mut world = World::new(ways(2));
    let before = LEAST;
    world.ways[1].stalls = vec![(1000, 1200)];
    world.run(ms(1300), 2);
    assert_eq!(world.left.len(), 1);
    world.tell(Event::Returned(1, true));
    world.up = 3;
    let after = world.detector.allowed(1);
    assert!(after >= 2 * before, "{before:?}, then {after:?}");
    world.ways[1].stalls = vec![(2000, 2200)];
    world.run(ms(2500), 2);
    assert_eq!(world.left.len(), 1);
    world.tell(Event::Returned(1, false));
    assert_eq!(world.detector.lanes[1].caution, 1);
}

#[test]
fn without_a_least_time_only_devices_are_believed() {
    let mut world = World::new(ways(2));
    world.detector = Detector::new(2, None);
    world.ways[1].cuts = vec![FOREVER];
    world.run(ms(5000), 2);
    assert_eq!(
        (world.left.len(), world.posted[1] > world.completed[1]),
        (0, true)
    );
    world.down = 2;
    world.run(ms(5050), 2);
    assert_eq!(world.left.len(), 1);
}

fn gaps(count: usize, longest: u64) -> impl Strategy<Value = Gaps> {
    let gap = (0..8000_u64, 1..=longest).prop_map(|(from, length)| (from, from + length));
    prop::collection::vec(gap, 0..=count)
}

fn any_way(longest_stall: u64) -> impl Strategy<Value = Way> {
    let shape = (gaps(6, longest_stall), 10..5000_u64);
    shape.prop_map(|(stalls, delay_us)| Way {
        stalls,
        delay_us,
        ..Way::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Lanes that stall for less than it takes, a process that is stopped and a peer that stands still as
    /// a whole: none of it is a failure.
    #[test]
    fn no_lane_is_left_that_delivers(
        ways in prop::collection::vec(any_way(25), 2..4),
        absent in gaps(4, 3000),
        frozen in gaps(4, 3000),
        interval in 1..40_u64,
    ) {
        let mut world = World::new(ways);
        (world.absent, world.frozen) = (absent, frozen);
        world.run(ms(9000), interval);
        prop_assert_eq!(&world.left, &[]);
    }

    /// One lane loses everything, or stalls at random and then loses everything: it is left, soon after there
    /// was time in which both sides ran, and no other is.
    #[test]
    fn a_dead_lane_is_left_soon(
        mut ways in prop::collection::vec(any_way(25), 2..4),
        dead in 0..2_usize,
        dies in 3000..6000_u64,
        interval in 1..20_u64,
    ) {
        for way in &mut ways {
            way.delay_us %= 1000;
        }
        ways[dead].cuts = vec![(dies, 1 << 40)];
        let mut world = World::new(ways);
        world.run(ms(12_000), interval);
        let rails: Vec<usize> = world.left.iter().map(|&(_, rail, _)| rail).collect();
        prop_assert_eq!(rails, [dead]);
        let (at, _) = world.first_left().unwrap();
        prop_assert!(at <= ms(dies) + 3 * LEAST + ms(50), "died at {}, left at {:?}", dies, at);
    }

    /// Whatever happens: never the last lane, never asked over the lane in question (both asserted by the
    /// world), and of two lanes that both fail one is left at most.
    #[test]
    fn whatever_happens_one_lane_stays(
        mut ways in prop::collection::vec(any_way(2000), 2..4),
        cuts in prop::collection::vec(gaps(3, 4000), 3),
        mute in prop::collection::vec(gaps(3, 4000), 3),
        absent in gaps(3, 500),
        interval in 0..40_u64,
        down in 0..8_u8,
        atomics: bool,
    ) {
        for (way, (cuts, mute)) in ways.iter_mut().zip(cuts.into_iter().zip(mute)) {
            (way.cuts, way.mute) = (cuts, mute);
        }
        let rails = ways.len();
        let mut world = World::new(ways);
        (world.absent, world.atomics) = (absent, atomics);
        world.run(ms(4000), interval);
        world.down = down & ((1 << rails) - 1);
        world.run(ms(9000), interval);
        prop_assert!(world.left.len() < rails);
        prop_assert!(!atomics || world.left.is_empty());
    }
}
