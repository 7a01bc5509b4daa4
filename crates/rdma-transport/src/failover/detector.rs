//! When a rail is left though its device has not given it up: a state machine without clocks or I/O.
//!
//! A device says that an operation failed after seconds, `FERRORAIL_RAIL_TIMEOUT`. Two things are known
//! earlier. Its asynchronous events tell of a port that went down. And a peer's memory, *read over another
//! lane*, tells whether what was put on this one has arrived.
//!
//! ```text
//! quiet for T/4 with operations in flight      put a number on the lane (probe)
//! T/4, 2T/4, 3T/4 later, not acknowledged      read it back over another lane (ask)
//! three prompt answers that it is not there    leave the lane
//! it is there                                  the messages arrived too: put the next number
//! 24 prompt answers, and no acknowledgement    leave the lane: acknowledgements get lost
//! the device said that the port is down        leave the lane, where another one's port is not
//! ```
//!
//! T is the larger of `FERRORAIL_RAIL_SUSPECT` and four late round trips (Jacobson: smoothed + 2 deviations),
//! and more for bytes in flight. Only prompt answers count: a peer or a process that stands still as a whole,
//! as emulated processors do, answers for no lane. So a lane is suspected only while another one carries questions
//! there and answers back. That says nothing of what the peer can send on it, so a suspicion is no decision yet:
//! see `leave`.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

/// Prompt answers that a probe has not arrived before its lane is left.
const ANSWERS: u32 = 3;

/// Prompt answers before a lane is left whose messages arrive while its acknowledgements do not: these may queue
/// behind data of the peer, which nothing is known of here.
const ANSWERS_UNACKNOWLEDGED: u32 = 8 * ANSWERS;

/// Largest factor that T grows by when lanes are left that were not broken.
const CAUTION_MAX: u32 = 16;

/// How often lanes are looked at: a longer gap is time in which nobody looked, not one of the network.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// T where only the device is believed.
const ONLY_EVENTS: Duration = Duration::from_millis(120);

/// Something that happened, with lanes named by their rails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A lane in use was looked at.
    Looked(Look),
    /// The lane's probe completed.
    Acknowledged(usize),
    /// The number that had arrived on the lane was read.
    Answered(usize, u64),
    /// It could not be read.
    Unanswered(usize),
    /// There was no room for the probe in the lane's queue.
    NoRoom(usize),
    /// It must not be left yet.
    Kept(usize),
    /// The lane's generation is over.
    Ended(usize),
    /// The lane is in use again. Whether the first attempt succeeded.
    Returned(usize, bool),
}

/// What is seen of a lane in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub rail: usize,
    /// Rails whose lanes are in use, as bits.
    pub up: u8,
    /// Rails of which devices have said that they are down, as bits.
    pub down: u8,
    /// Number of its last operation known to be complete.
    pub completed: u64,
    /// Whether more are in flight.
    pub in_flight: bool,
    /// Bytes in flight on its rail, to any peer.
    pub bytes: usize,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Put `number` on the lane, behind what is in flight.
    Probe { rail: usize, number: u64 },
    /// Read what number has arrived on the lane of `rail`, over that of `via`.
    Ask { rail: usize, via: usize },
    /// Take the lane out of use.
    Leave { rail: usize, reason: Reason },
}

/// Why a lane is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its device says that the port is down.
    Device,
    /// Nothing arrives, for so long.
    NotDelivered(Duration),
    /// Nothing is acknowledged, for so long.
    NotAcknowledged(Duration),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => f.write_str("its device says that the port is down"),
            Self::NotDelivered(time) => {
                write!(
                    f,
                    "it has delivered nothing for {time:.1?}, and another rail answers"
                )
            }
            Self::NotAcknowledged(time) => {
                write!(
                    f,
                    "nothing was acknowledged for {time:.1?}, and another rail answers"
                )
            }
        }
    }
}

/// Jacobson's estimate of the round trip.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrip {
    smoothed: Duration,
    deviation: Duration,
}

impl RoundTrip {
    fn sample(&mut self, sample: Duration) {
        self.deviation = (3 * self.deviation + self.smoothed.abs_diff(sample)) / 4;
        self.smoothed = (7 * self.smoothed + sample) / 8;
    }

    fn late(&self) -> Duration {
        self.smoothed + 2 * self.deviation
    }
}

/// A number put on a lane that is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Probe {
    since: Duration,
    /// When the first number was put that is not acknowledged.
    first: Duration,
    /// `false` if there was no room for it.
    posted: bool,
    arrived: bool,
    /// Prompt answers that it had not arrived.
    missing: u32,
    /// Prompt answers since the first number.
    answers: u32,
}

/// A question under way.
#[derive(Clone, Copy, Debug)]
struct Ask {
    since: Duration,
    via: usize,
}

#[derive(Clone, Debug)]
struct Lane {
    /// Since when operations are in flight and none completes, and the last that had completed.
    quiet: Option<(Duration, u64)>,
    /// The last number put.
    number: u64,
    probe: Option<Probe>,
    ask: Option<Ask>,
    /// When the last question was put, or the lane was last to be left because of its port.
    asked: Duration,
    looked: Duration,
    /// Since when the device says that the port is down.
    down: Option<Duration>,
    /// Whether it was left for what its peer had not got.
    suspected: bool,
    caution: u32,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            quiet: None,
            number: 0,
            probe: None,
            ask: None,
            asked: Duration::ZERO,
            looked: Duration::ZERO,
            down: None,
            suspected: false,
            caution: 1,
        }
    }
}

/// What is known of the lanes to one peer.
#[derive(Debug)]
pub(super) struct Detector {
    /// The least T; `None` only believes devices.
    least: Option<Duration>,
    round_trip: RoundTrip,
    lanes: Box<[Lane]>,
}

impl Detector {
    /// Of `rails` lanes, none of which is in use yet.
    pub fn new(rails: usize, least: Option<Duration>) -> Self {
        Self {
            least,
            round_trip: RoundTrip::default(),
            lanes: vec![Lane::default(); rails].into(),
        }
    }

    /// Whether an unacknowledged probe should be looked after.
    pub fn is_probing(&self) -> bool {
        self.lanes.iter().any(|lane| lane.probe.is_some())
    }

    /// T of the lane of `rail`.
    pub fn allowed(&self, rail: usize) -> Duration {
        let least = self.least.unwrap_or(ONLY_EVENTS);
        let lane = &self.lanes[rail];
        let measured = (4 * self.round_trip.late()).min(CAUTION_MAX * least);
        lane.caution * least.max(measured)
    }

    /// What `event` at `now` leads to. Times are counted from any moment.
    pub fn handle(&mut self, event: Event, now: Duration) -> Option<Action> {
        match event {
            Event::Looked(look) => return self.look(&look, now),
            Event::Acknowledged(rail) => self.acknowledged(rail, now),
            Event::Answered(rail, number) => return self.answered(rail, number, now),
            Event::Unanswered(rail) => self.lanes[rail].ask = None,
            Event::NoRoom(rail) => {
                if let Some(probe) = &mut self.lanes[rail].probe {
                    probe.posted = false;
                }
            }
            Event::Kept(rail) => {
                let lane = &mut self.lanes[rail];
                (lane.quiet, lane.probe) = (None, None);
            }
            Event::Ended(rail) => self.ended(rail),
            Event::Returned(rail, at_once) => {
                let lane = &mut self.lanes[rail];
                let mistaken = std::mem::take(&mut lane.suspected) && at_once;
                lane.caution = match mistaken {
                    true => (2 * lane.caution).min(CAUTION_MAX),
                    false => (lane.caution / 2).max(1),
                };
                lane.down = None;
            }
        }
        None
    }

    fn look(&mut self, look: &Look, now: Duration) -> Option<Action> {
        let rail = look.rail;
        let carries = self.lanes.iter().any(|lane| {
            let via = |ask: Ask| ask.via == rail;
            lane.ask.is_some_and(via)
        });
        let unit = self.allowed(rail) / 4;
        let via = self.alternative(look);
        let suspects = self.least.is_some();
        let lane = &mut self.lanes[rail];
        lane.looked = now;
        let is_down = look.down & 1 << rail != 0;
        lane.down = is_down.then(|| lane.down.unwrap_or(now));
        let quiet = match lane.quiet {
            _ if !look.in_flight && !carries && lane.probe.is_none() => None,
            Some((since, completed)) if completed == look.completed => Some((since, completed)),
            _ => Some((now, look.completed)),
        };
        lane.quiet = quiet;
        let via = via?;
        let rested = now - lane.asked >= unit;
        if let Some(down) = lane.down {
            let due = rested || lane.asked < down;
            return due.then(|| {
                lane.asked = now;
                let reason = Reason::Device;
                Action::Leave { rail, reason }
            });
        }
        if lane.ask.is_some() {
            return None;
        }
        let (since, _) = quiet.filter(|_| suspects)?;
        let Some(probe) = lane.probe else {
            return (now - since >= unit).then(|| lane.probe(rail, now, None));
        };
        let unacknowledged = now - probe.since;
        let pause = unit + Duration::from_micros(look.bytes as u64);
        if !probe.posted && rested || !probe.arrived && rested && unacknowledged >= pause {
            return Some(lane.ask(rail, via, now));
        }
        // Behind what was posted meanwhile.
        let again = (probe.arrived || !probe.posted) && unacknowledged >= unit;
        again.then(|| lane.probe(rail, now, Some(probe)))
    }

    /// The best lane to ask over: in use, its port not down, unsuspected if one is.
    fn alternative(&self, look: &Look) -> Option<usize> {
        let others = look.up & !look.down & !(1 << look.rail);
        let others = (0..self.lanes.len()).filter(|&rail| others & 1 << rail != 0);
        others.min_by_key(|&rail| self.lanes[rail].probe.map_or(0, |probe| probe.missing + 1))
    }

    fn acknowledged(&mut self, rail: usize, now: Duration) {
        // One that stood still for long must not make the others wait for seconds.
        let longest = self.allowed(rail) / 2;
        let lane = &mut self.lanes[rail];
        lane.quiet = None;
        if let Some(probe) = lane.probe.take().filter(|probe| probe.posted) {
            let sample = lane.seen(now - probe.since, now);
            self.round_trip.sample(sample.min(longest));
        }
    }

    fn answered(&mut self, rail: usize, number: u64, now: Duration) -> Option<Action> {
        let allowed = self.allowed(rail);
        let lane = &mut self.lanes[rail];
        let ask = lane.ask.take()?;
        let took = now - ask.since;
        self.round_trip
            .sample(lane.seen(took, now).min(allowed / 2));
        let probe = lane.probe.as_mut()?;
        let prompt = u32::from(took <= allowed / 4);
        probe.answers += prompt;
        probe.arrived = number == lane.number && probe.posted;
        match probe.arrived || !probe.posted {
            true => probe.missing = 0,
            false => probe.missing += prompt,
        }
        let reason = if probe.missing >= ANSWERS {
            Reason::NotDelivered(now - probe.since)
        } else if probe.answers >= ANSWERS_UNACKNOWLEDGED {
            Reason::NotAcknowledged(now - probe.first)
        } else {
            return None;
        };
        lane.suspected = true;
        Some(Action::Leave { rail, reason })
    }

    fn ended(&mut self, rail: usize) {
        for lane in &mut *self.lanes {
            lane.ask.take_if(|ask| ask.via == rail);
        }
        let lane = &mut self.lanes[rail];
        (lane.quiet, lane.probe, lane.ask) = (None, None, None);
    }
}

impl Lane {
    /// What of `time`, which ends now, the network may have taken: not that in which nobody looked.
    fn seen(&self, time: Duration, now: Duration) -> Duration {
        time.saturating_sub((now - self.looked).saturating_sub(LOOK))
    }

    fn probe(&mut self, rail: usize, now: Duration, before: Option<Probe>) -> Action {
        self.number += 1;
        self.probe = Some(Probe {
            since: now,
            first: before.map_or(now, |before| before.first),
            posted: true,
            arrived: false,
            missing: 0,
            answers: before.map_or(0, |before| before.answers),
        });
        let number = self.number;
        Action::Probe { rail, number }
    }

    fn ask(&mut self, rail: usize, via: usize, now: Duration) -> Action {
        self.asked = now;
        self.ask = Some(Ask { since: now, via });
        Action::Ask { rail, via }
    }
}
