//! A member: its program, its memory, its receive queue, and the driver of its session.

use super::{Call, History, Random};
use ferrorail_multicast::wire::{self, WireError};
use ferrorail_multicast::{MessageId, OpenError, Session, Status, Time, To};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

pub type Outbox = Vec<(u64, To, u8, Vec<u8>)>;

pub struct Node {
    me: u32,
    pub session: Session,
    calls: Vec<Call>,
    overlap: usize,
    next_call: usize,
    open: Vec<MessageId>,
    /// The callers' memory.
    buffers: HashMap<MessageId, Vec<u8>>,
    /// The channels, and which message of this source lies in one.
    channels: Vec<Vec<u8>>,
    pauses: HashMap<usize, u64>,
    computes_until: u64,
    queue: VecDeque<(u8, Rc<[u8]>)>,
    /// Fragments in the queue that were sent for the first time.
    queued_data: usize,
    depth: usize,
    pub deepest: usize,
    /// Of these, fragments sent for the first time.
    pub deepest_data: usize,
    pub overflows: u64,
    pub busy_until: u64,
    pub wake_at: Option<u64>,
    /// When the program ended and the session was closed.
    pub finished: Option<u64>,
    /// When each call was opened and done.
    pub times: Vec<(u64, u64)>,
    pub held_most: usize,
    closing: bool,
    costs: (u64, u64),
    random: Random,
    refuse: f64,
    refused: bool,
}

impl Node {
    pub fn new(history: &History, me: u32) -> Self {
        let mut config = history.config.clone();
        config.me = me;
        config.seed = history.seed.wrapping_mul(31) + u64::from(me);
        let channels = vec![vec![0; config.channel_bytes]; config.channels as usize];
        let pauses = history.pauses.iter().filter(|pause| pause.0 == me);
        Self {
            me,
            session: Session::new(config).unwrap(),
            calls: history.calls.clone(),
            overlap: history.overlap,
            next_call: 0,
            open: Vec::new(),
            buffers: HashMap::new(),
            channels,
            pauses: pauses.map(|pause| (pause.1, pause.2)).collect(),
            computes_until: 0,
            queue: VecDeque::new(),
            queued_data: 0,
            depth: history.network.depth,
            deepest: 0,
            deepest_data: 0,
            overflows: 0,
            busy_until: 0,
            wake_at: Some(0),
            finished: None,
            times: vec![(0, 0); history.calls.len()],
            held_most: 0,
            closing: false,
            costs: history.costs,
            random: Random(history.seed ^ u64::from(me) << 32),
            refuse: history.network.refuse,
            refused: false,
        }
    }

    /// Makes this member's program differ from the others'.
    pub fn disagree(&mut self, call: usize, other: Call) {
        self.calls[call] = other;
    }

    pub fn arrive(&mut self, rail: u8, datagram: Rc<[u8]>) {
        if self.finished.is_some() {
            return;
        }
        if self.queue.len() >= self.depth {
            self.overflows += 1;
            return;
        }
        self.queued_data += usize::from(is_first(&datagram));
        self.queue.push_back((rail, datagram));
        self.deepest = self.deepest.max(self.queue.len());
        self.deepest_data = self.deepest_data.max(self.queued_data);
    }

    /// One pass: receives, runs the program as far as it goes, lets timers act, sends.
    pub fn poll(&mut self, now: Time, outbox: &mut Outbox) {
        if self.finished.is_some() {
            return;
        }
        let mut time = now.0;
        self.refused = false;
        while let Some((rail, datagram)) = self.queue.pop_front() {
            self.queued_data -= usize::from(is_first(&datagram));
            time += self.costs.0;
            self.receive(rail, &datagram, Time(time), outbox);
        }
        while !self.refused {
            self.session.tick(Time(time));
            self.send(&mut time, outbox);
            if !self.program(Time(time)) {
                break;
            }
        }
        self.held_most = self.held_most.max(self.session.held());
        self.busy_until = time.max(self.computes_until);
        if self.session.is_closed() {
            self.finished = Some(time);
        }
    }

    pub fn next_wake(&self, now: u64) -> Option<u64> {
        if self.finished.is_some() {
            return None;
        }
        let deadline = self.session.next_deadline().map(|at| at.0);
        // A program that waits polls; here it is woken by what comes, and by the clock now and then.
        let at = if self.computes_until > now {
            self.computes_until
        } else if self.refused {
            now + 1_000
        } else {
            now + 5_000_000
        };
        Some(
            deadline
                .unwrap_or(at)
                .min(at)
                .max(self.busy_until)
                .max(now + 1),
        )
    }

    fn receive(&mut self, rail: u8, datagram: &[u8], now: Time, outbox: &mut Outbox) {
        let checksum = self.session.config().checksum;
        let (header, payload) = match wire::open(datagram, checksum) {
            Ok(opened) => opened,
            Err(WireError::Damaged) => return self.session.damaged(rail, now),
            Err(WireError::Foreign) => return,
        };
        let received = self.session.receive(&header, rail, now);
        if let Some(store) = received.store {
            assert_eq!(store.bytes, payload.len());
            let channel = self.session.config().channel(store.message);
            let memory = if store.early {
                &mut self.channels[channel]
            } else {
                self.buffers
                    .get_mut(&store.message)
                    .expect("the caller still waits")
            };
            memory[store.offset..store.offset + store.bytes].copy_from_slice(payload);
        }
        if let Some(forward) = received.forward {
            for (member, rail) in forward.to {
                let mut copy = wire::encode(&forward.header, payload, checksum).to_vec();
                copy.extend_from_slice(payload);
                outbox.push((now.0, To::Member(member), rail, copy));
            }
        }
    }

    fn send(&mut self, time: &mut u64, outbox: &mut Outbox) {
        while let Some(send) = self.session.next_send() {
            if self.random.chance(self.refuse) {
                // Only the next pass tries again; until then the datagram may have become needless.
                self.session.unsent(send);
                self.refused = true;
                return;
            }
            let payload = send.payload.map_or(&[][..], |payload| {
                let channel = self.session.config().channel(payload.message);
                let memory = match self.buffers.get(&payload.message) {
                    Some(memory) => memory,
                    None => &self.channels[channel],
                };
                &memory[payload.offset..payload.offset + payload.bytes]
            });
            let mut datagram =
                wire::encode(&send.header, payload, self.session.config().checksum).to_vec();
            datagram.extend_from_slice(payload);
            *time += self.costs.1;
            outbox.push((*time, send.to, send.rail, datagram));
        }
    }

    /// Opens and ends calls; whether anything was done.
    fn program(&mut self, now: Time) -> bool {
        let mut done = false;
        while let Some(&id) = self.open.first() {
            if !self.session.status(id).is_done() {
                break;
            }
            self.open.remove(0);
            self.end(id, now);
            done = true;
        }
        if self.computes_until > now.0 {
            return done;
        }
        if let Some(pause) = self.pauses.remove(&self.next_call) {
            self.computes_until = now.0 + pause;
            return false;
        }
        if self.open.len() < self.overlap && self.next_call < self.calls.len() {
            done |= self.begin(now);
        }
        if self.next_call == self.calls.len() && self.open.is_empty() && !self.closing {
            self.closing = true;
            self.session.close(now);
            done = true;
        }
        done
    }

    fn begin(&mut self, now: Time) -> bool {
        let call = self.calls[self.next_call];
        let opened = match self.session.open(call.source, call.bytes, now) {
            Ok(opened) => opened,
            Err(OpenError::Busy) => return false,
            Err(OpenError::Failed(_)) => return false,
        };
        assert_eq!(opened.id.0, self.next_call as u64 + 1);
        let channel = self.session.config().channel(opened.id);
        let mut memory = vec![0xEE; call.bytes];
        if call.source == self.me {
            for (at, byte) in memory.iter_mut().enumerate() {
                *byte = Call::byte(opened.id.0, at);
            }
            if self.session.config().is_eager(call.bytes) {
                self.channels[channel][..call.bytes].copy_from_slice(&memory);
            }
        } else if opened.early {
            memory.copy_from_slice(&self.channels[channel][..call.bytes]);
        }
        // What a source has copied it sends from the channel; that memory may change at once.
        if call.source != self.me || !self.session.config().is_eager(call.bytes) {
            self.buffers.insert(opened.id, memory);
        }
        self.times[self.next_call].0 = now.0;
        self.next_call += 1;
        self.open.push(opened.id);
        true
    }

    fn end(&mut self, id: MessageId, now: Time) {
        let call = self.calls[id.0 as usize - 1];
        self.times[id.0 as usize - 1].1 = now.0;
        let Some(memory) = self.buffers.remove(&id) else {
            return;
        };
        if call.source != self.me {
            assert_ne!(self.session.status(id), Status::Receiving);
            let wrong = (0..call.bytes).find(|&at| memory[at] != Call::byte(id.0, at));
            assert_eq!(wrong, None, "wrong byte of {id:?} at member {}", self.me);
        }
    }
}

/// Whether a datagram is a fragment sent for the first time.
fn is_first(datagram: &[u8]) -> bool {
    datagram[8] == 1 && datagram[9] & 4 == 0
}
