//! Members, programs and a network in virtual time; all that happens follows from a seed.
#![allow(dead_code)]

pub mod histories;
pub mod network;
pub mod node;

use ferrorail_base::random::SplitMix64;
use ferrorail_multicast::{Config, Failure, Time};
use network::Network;
use node::Node;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// What a seed decides.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        let mut random = SplitMix64(self.0);
        let drawn = random.draw();
        self.0 = random.0;
        drawn
    }
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }
    pub fn chance(&mut self, probability: f64) -> bool {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 <= probability && probability > 0.0
    }
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A broadcast of the program that all members run.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub source: u32,
    pub bytes: usize,
}

impl Call {
    /// The byte at `at` of the message with this number.
    pub fn byte(number: u64, at: usize) -> u8 {
        (number.wrapping_mul(0x9e37_79b9) as usize).wrapping_add(at.wrapping_mul(167) ^ (at >> 8))
            as u8
    }
}

/// What a history consists of.
#[derive(Clone, Debug)]
pub struct History {
    pub seed: u64,
    pub config: Config,
    pub calls: Vec<Call>,
    /// Calls a member has open at a time.
    pub overlap: usize,
    pub network: network::Settings,
    /// Nanoseconds of the processor for a datagram received, and for one sent.
    pub costs: (u64, u64),
    /// (member, before which call, how long): computes without polling.
    pub pauses: Vec<(u32, usize, u64)>,
    /// (member, when): is heard no more.
    pub crash: Option<(u32, u64)>,
    /// Virtual nanoseconds after which the history counts as hung.
    pub limit: u64,
}

impl History {
    pub fn new(seed: u64, members: u32) -> Self {
        let mut config = Config::new(0xfe44_0000 + seed, members, 0);
        config.fragment_bytes = 64;
        config.channel_bytes = 256;
        Self {
            seed,
            config,
            calls: Vec::new(),
            overlap: 1,
            network: network::Settings::default(),
            costs: (100, 100),
            pauses: Vec::new(),
            crash: None,
            limit: 600_000_000_000,
        }
    }
}

/// Something that happens to a member.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Wake,
    Arrive { rail: u8, datagram: Rc<[u8]> },
}

pub struct World {
    pub history: History,
    pub now: u64,
    pub nodes: Vec<Node>,
    pub network: Network,
    events: BinaryHeap<Reverse<(u64, u64, u32, Event)>>,
    serial: u64,
}

/// How a history ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Failed(u32, Failure),
    Hung,
}

impl World {
    pub fn new(history: History) -> Self {
        let nodes = (0..history.config.members)
            .map(|me| Node::new(&history, me))
            .collect();
        let network = Network::new(&history);
        let mut world = Self {
            history,
            now: 0,
            nodes,
            network,
            events: BinaryHeap::new(),
            serial: 0,
        };
        for me in 0..world.history.config.members {
            world.push(0, me, Event::Wake);
        }
        world
    }

    pub fn push(&mut self, at: u64, member: u32, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, member, event)));
    }

    /// Runs to the end of all programs.
    pub fn run(&mut self) -> End {
        while let Some(Reverse((at, _, member, event))) = self.events.pop() {
            self.now = at;
            if at > self.history.limit {
                return End::Hung;
            }
            if self
                .history
                .crash
                .is_some_and(|(who, when)| who == member && at >= when)
            {
                continue;
            }
            self.step(member, event);
            if let Some(failure) = self.nodes[member as usize].session.failure() {
                return End::Failed(member, failure);
            }
            if self.nodes.iter().all(|node| node.finished.is_some()) {
                return End::Done;
            }
        }
        End::Hung
    }

    fn step(&mut self, member: u32, event: Event) {
        let node = &mut self.nodes[member as usize];
        match event {
            Event::Arrive { rail, datagram } => {
                node.arrive(rail, datagram);
                let at = self.now.max(node.busy_until);
                if node.wake_at.is_none_or(|due| due > at) && node.finished.is_none() {
                    node.wake_at = Some(at);
                    self.push(at, member, Event::Wake);
                }
            }
            Event::Wake => {
                if node.wake_at != Some(self.now) {
                    return;
                }
                node.wake_at = None;
                let mut outbox = Vec::new();
                node.poll(Time(self.now), &mut outbox);
                let next = node.next_wake(self.now);
                for (at, to, rail, datagram) in outbox {
                    for (arrival, receiver, datagram) in
                        self.network.carry(at, member, to, rail, datagram)
                    {
                        self.push(arrival, receiver, Event::Arrive { rail, datagram });
                    }
                }
                if let Some(at) = next {
                    self.nodes[member as usize].wake_at = Some(at);
                    self.push(at, member, Event::Wake);
                }
            }
        }
    }

    pub fn overflows(&self) -> u64 {
        self.nodes.iter().map(|node| node.overflows).sum()
    }

    pub fn datagrams(&self) -> u64 {
        self.nodes
            .iter()
            .map(|node| node.session.counters().datagrams_sent)
            .sum()
    }

    pub fn total(&self, of: impl Fn(&ferrorail_multicast::Counters) -> u64) -> u64 {
        self.nodes
            .iter()
            .map(|node| of(node.session.counters()))
            .sum()
    }
}
