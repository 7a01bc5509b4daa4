//! The return of a lane: proposed by one side, accepted by the other, tried, and taken into use.

use super::control_message::{ControlMessage, Kind, next};
use super::pair::{Pair, Phase, Recovery, Role};
use super::recover::LONG_STEP;
use super::silence::Probe;
use super::{Failover, TICK};
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::Transition;
use std::time::Instant;

/// Times that the time between attempts doubles.
const DOUBLINGS: u32 = 3;

impl Failover {
    /// The watchdog's part: a step of every lane that is out of use, or as far as one takes long, so that the
    /// rails are driven before it goes on from there. Whether there is more to do.
    #[cold]
    pub(super) fn bring_back(&self) -> bool {
        let count = self.peers.count();
        let first = self.first.load(Ordering::Relaxed);
        let mut returning = false;
        for index in (0..count).map(|index| (first + index) % count) {
            let Some(pair) = self.peers.get(index).filter(|pair| pair.is_to_mend()) else {
                continue;
            };
            let Some(mut recovery) = pair.recovery.try_lock() else {
                continue;
            };
            let start = self.clock.now();
            self.step(pair, &mut recovery, (false, true), start);
            let mut lanes = recovery.lanes.iter();
            returning |= lanes.any(|state| state.phase.is_on_its_way_back());
            if self.clock.now() - start > LONG_STEP {
                self.first.store(index + 1, Ordering::Relaxed);
                return true;
            }
        }
        returning
    }

    /// A lane that could not be made or connected begins its generation as one that has ended. The peer is
    /// told when it is there to hear: it may not be connected yet, and posts would break other lanes.
    pub(super) fn begin_down(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        status: &str,
    ) {
        self.warn(pair, rail, status, true);
        let state = &mut recovery.lanes[rail];
        state.phase = Phase::Down {
            again: self.probe.map(|probe| self.clock.now() + probe),
        };
        state.out = ControlMessage::new(state.number, Kind::Down);
    }

    /// Whether the peer is known to be connected: something got through, here or there.
    pub(super) fn is_met(&self, pair: &Pair) -> bool {
        (0..self.rails().len()).any(|rail| {
            let sent = pair.received(self.plane(rail)) != ControlMessage::unpack(0);
            sent || self.completed(self.lane(pair, rail)) > 0
        })
    }

    /// One step towards a lane's next generation.
    pub(super) fn reconnect(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        received: ControlMessage,
        now: Instant,
    ) {
        let number = recovery.lanes[rail].number;
        let of_next = received.generation == next(number);
        match recovery.lanes[rail].phase {
            Phase::Down { again } => {
                let ended = received.generation == number && received.kind == Kind::Down;
                let returned = ended && self.has_port_returned(recovery, rail, received);
                let due = again.is_some_and(|again| returned || now >= again);
                match pair.role {
                    Role::Initiator if ended && due => self.offer(pair, recovery, rail),
                    Role::Responder if of_next && received.kind == Kind::Offer => {
                        self.accept(pair, recovery, rail, received.token);
                    }
                    Role::Responder => self.tell_port_returns(pair, recovery, rail),
                    Role::Both if due => self.reconnect_to_self(pair, recovery, rail),
                    _ => {}
                }
            }
            Phase::Offered => {
                if of_next && received.kind == Kind::Down {
                    recovery.lanes[rail].number = next(number);
                    self.give_up(pair, recovery, rail, "the peer could not");
                } else if of_next && received.kind == Kind::Accept {
                    let lane = self.lane(pair, rail);
                    recovery.lanes[rail].number = next(number);
                    match self
                        .inner
                        .change_lane(lane, Transition::Connect(received.token))
                    {
                        Ok(_) => recovery.lanes[rail].phase = Phase::Trying,
                        Err(error) => self.give_up(pair, recovery, rail, &error.to_string()),
                    }
                }
            }
            Phase::Trying => self.try_lane(pair, recovery, rail),
            Phase::Accepted => {
                if of_next || received.generation == number && received.kind == Kind::Down {
                    self.give_up(pair, recovery, rail, "the peer gave up");
                } else if received.generation == number && received.kind == Kind::Up {
                    self.admit(pair, recovery, rail);
                }
            }
            Phase::Up | Phase::Failed(_) => {}
        }
    }

    /// Whether the port of a lane that is out of use came back, here or at the peer, which has `received` said so,
    /// since the last look.
    fn has_port_returned(
        &self,
        recovery: &mut Recovery,
        rail: usize,
        received: ControlMessage,
    ) -> bool {
        let state = &mut recovery.lanes[rail];
        let returns = self.port_returns[rail].load(Ordering::Relaxed) + received.token;
        let before = std::mem::replace(&mut state.port_returns, returns);
        returns > before
    }

    /// Tells the peer, which is to offer, how often the port of a lane that is out of use has come back, unless it
    /// has heard that, or is not known to hear yet.
    fn tell_port_returns(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        let state = &recovery.lanes[rail];
        let told = state.repeats > 0 && state.out.kind == Kind::Down;
        if told && state.out.token != self.port_returns[rail].load(Ordering::Relaxed) {
            self.say(pair, recovery, rail, Kind::Down);
        }
    }

    fn offer(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        let number = recovery.lanes[rail].number;
        match self
            .inner
            .change_lane(self.lane(pair, rail), Transition::Reset)
        {
            Ok(token) => {
                recovery.lanes[rail].phase = Phase::Offered;
                let word = ControlMessage {
                    token,
                    ..ControlMessage::new(next(number), Kind::Offer)
                };
                self.send(pair, recovery, rail, word);
            }
            Err(error) => self.give_up(pair, recovery, rail, &error.to_string()),
        }
    }

    /// The next generation of a lane to this process itself: its end connects to itself.
    fn reconnect_to_self(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        let lane = self.lane(pair, rail);
        let reset = self.inner.change_lane(lane, Transition::Reset);
        let connect = |token| self.inner.change_lane(lane, Transition::Connect(token));
        let reconnected = reset.and_then(connect);
        let state = &mut recovery.lanes[rail];
        state.number = next(state.number);
        match reconnected {
            Ok(_) => state.phase = Phase::Trying,
            Err(error) => self.give_up(pair, recovery, rail, &error.to_string()),
        }
    }

    fn accept(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, offered: u64) {
        let lane = self.lane(pair, rail);
        let reset = self.inner.change_lane(lane, Transition::Reset);
        let connect = || self.inner.change_lane(lane, Transition::Connect(offered));
        let token = reset.and_then(|token| connect().map(|_| token));
        let number = next(recovery.lanes[rail].number);
        recovery.lanes[rail].number = number;
        match token {
            Ok(token) => {
                recovery.lanes[rail].phase = Phase::Accepted;
                let word = ControlMessage {
                    token,
                    ..ControlMessage::new(number, Kind::Accept)
                };
                self.send(pair, recovery, rail, word);
            }
            Err(error) => self.give_up(pair, recovery, rail, &error.to_string()),
        }
    }

    /// Puts a word to the peer on the lane itself; once that is complete the lane is in use.
    fn try_lane(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        match self.probe(pair, recovery, rail, size_of::<u64>()) {
            Ok(true) => self.admit(pair, recovery, rail),
            Ok(false) => {}
            Err(status) => self.give_up(pair, recovery, rail, &status),
        }
    }

    /// Takes the lane into use again.
    fn admit(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        let state = &mut recovery.lanes[rail];
        state.phase = Phase::Up;
        let at_once = std::mem::take(&mut state.attempts) == 0;
        self.trust(pair, recovery, rail, at_once);
        pair.up.fetch_or(1 << rail, Ordering::AcqRel);
        let events = &self.events[rail];
        events.readmissions.fetch_add(1, Ordering::Relaxed);
        events.warned.store(false, Ordering::Relaxed);
        let name = &self.rails()[rail].name;
        tracing::info!("rail {name} to {} is in use again", pair.name());
        self.say(pair, recovery, rail, Kind::Up);
    }

    /// Ends an attempt; there will be another.
    fn give_up(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, reason: &str) {
        let name = &self.rails()[rail].name;
        tracing::debug!("rail {name} to {} stays out of use: {reason}", pair.name());
        self.end_lane(self.lane(pair, rail));
        recovery.probes[rail] = Probe::default();
        let state = &mut recovery.lanes[rail];
        let time_limit = 1 << state.attempts.min(DOUBLINGS);
        state.attempts += 1;
        state.phase = Phase::Down {
            again: (self.probe).map(|probe| self.clock.now() + probe.max(TICK) * time_limit),
        };
        self.say(pair, recovery, rail, Kind::Down);
    }
}
