//! Leaving a lane before its device gives it up: what [`Detector`] is told, and how its actions are done.

use super::Failover;
use super::control_block::Field;
use super::detector::{Action, Detector, Event, Look};
use super::pair::{Pair, Recovery, Role, Tickets};
use ferrorail_base::RailId;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{Op, RemoteSlice, Ticket, Tracking};

impl Failover {
    /// Looks whether the lane of `rail`, which is in use, delivers; `due` now and then, else only where a
    /// probe or a question is under way. Leaves it if it does not and another does.
    pub(super) fn suspect(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, due: bool) {
        let Tickets { probe, ask, .. } = recovery.tickets[rail];
        let due = due || probe.is_some() || ask.is_some();
        if !due || self.immediate || pair.is_closed(rail) {
            return;
        }
        self.look_at_ask(pair, recovery, rail);
        self.look_at_probe(pair, recovery, rail);
        if !pair.is_up(rail) {
            return;
        }
        let completed = self.completed(self.lane(pair, rail));
        let mut journal = pair.journals[rail].lock();
        journal.forget(completed);
        // Who only waits has nothing in flight but the put that asks whether the lane answers.
        let in_flight = !journal.is_empty() || recovery.probes[rail].ticket.is_some();
        let bytes = journal.bytes();
        drop(journal);
        let look = Look {
            rail,
            up: pair.up.load(Ordering::Acquire),
            down: match pair.role {
                // Packets to oneself need no port.
                Role::Both => 0,
                _ => self.down.load(Ordering::Relaxed),
            },
            completed,
            in_flight,
            bytes: match recovery.tickets[rail].probe {
                Some(_) => self.bytes_in_flight(rail),
                None => bytes,
            },
        };
        self.tell_detector(pair, recovery, Event::Looked(look));
    }

    /// Bytes in flight on `rail`, to all peers.
    fn bytes_in_flight(&self, rail: usize) -> usize {
        let pairs = self.peers.iter();
        pairs
            .map(|(_, pair)| pair.journals[rail].lock().bytes())
            .sum()
    }

    fn look_at_ask(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        let Some(ask) = recovery.tickets[rail].ask else {
            return;
        };
        let event = match ask.outcome(&*self.inner) {
            Ok(false) => return,
            Ok(true) => {
                let word = pair.word(Field::Answer, self.plane(rail));
                Event::Answered(rail, word.load(Ordering::Acquire))
            }
            Err(_) => Event::Unanswered(rail),
        };
        self.drop_ask(recovery, rail);
        self.tell_detector(pair, recovery, event);
        if matches!(event, Event::Unanswered(_)) {
            self.mark_down_if_broken(pair, recovery, ask.rail.index());
        }
    }

    fn look_at_probe(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        let Some(probe) = recovery.tickets[rail].probe else {
            return;
        };
        match probe.outcome(&*self.inner) {
            Ok(false) => {}
            Ok(true) => {
                recovery.tickets[rail].probe = None;
                self.tell_detector(pair, recovery, Event::Acknowledged(rail));
            }
            Err(_) => self.mark_down_if_broken(pair, recovery, rail),
        }
    }

    fn drop_ask(&self, recovery: &mut Recovery, rail: usize) {
        if recovery.tickets[rail].ask.take().is_some() {
            self.attention.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Forgets what was asked about the lane of `rail`, whose generation is over, and over it.
    pub(super) fn forget_suspicion(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        self.tell_detector(pair, recovery, Event::Ended(rail));
        recovery.tickets[rail].probe = None;
        recovery.tickets[rail].requested = None;
        for other in 0..self.rails().len() {
            let ask = recovery.tickets[other].ask;
            if other == rail || ask.is_some_and(|ask| ask.rail.index() == rail) {
                self.drop_ask(recovery, other);
            }
        }
    }

    /// The lane of `rail` is in use again; `at_once` if the first attempt brought it back.
    pub(super) fn trust(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, at_once: bool) {
        self.tell_detector(pair, recovery, Event::Returned(rail, at_once));
        if !matches!(pair.role, Role::Both) {
            // Whatever was said of the port: bytes got through.
            self.down.fetch_and(!(1 << rail), Ordering::Relaxed);
        }
    }

    pub(super) fn tell_detector(&self, pair: &Pair, recovery: &mut Recovery, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next {
            let action = recovery
                .detector
                .handle(event, self.clock.now() - self.opened);
            next = action.and_then(|action| self.act(pair, recovery, action));
        }
        // What an action led to may have been told within, and counted there.
        let is_probing = recovery.detector.is_probing();
        match (recovery.is_counted, is_probing) {
            (false, true) => self.probing.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.probing.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        recovery.is_counted = is_probing;
    }

    /// Does `action`; what the detector has to know of it.
    fn act(&self, pair: &Pair, recovery: &mut Recovery, action: Action) -> Option<Event> {
        match action {
            Action::Probe { rail, number } => {
                let source = pair.word(Field::Probe, self.plane(rail));
                source.store(number, Ordering::Release);
                let fields = (Field::Probe, Field::Trial);
                let posted = self.control_put(pair, rail, (rail, fields), size_of::<u64>());
                let refused = posted.is_err();
                // An earlier number completes before it.
                recovery.tickets[rail].probe = posted.ok().or(recovery.tickets[rail].probe);
                refused.then_some(Event::NoRoom(rail))
            }
            Action::Ask { rail, via } => match self.ask(pair, rail, via) {
                Some(ticket) => {
                    recovery.tickets[rail].ask = Some(ticket);
                    self.attention.fetch_add(1, Ordering::Relaxed);
                    None
                }
                None => Some(Event::Unanswered(rail)),
            },
            Action::Leave { rail, reason } => {
                let name = &self.rails()[rail].name;
                let left = self.leave(pair, recovery, rail, &reason.to_string());
                let act = if left {
                    "to be left"
                } else {
                    "kept at present"
                };
                tracing::debug!("rail {name} to {}: {act}, {reason}", pair.name());
                (!left).then_some(Event::Kept(rail))
            }
        }
    }

    /// Reads what number the peer has got on the lane of `rail`, over that of `via`.
    fn ask(&self, pair: &Pair, rail: usize, via: usize) -> Option<Ticket> {
        let plane = self.plane(rail);
        let from: RemoteSlice<'_> = pair.wired.get()?.word(Field::Trial, plane);
        let into = pair.slice(Field::Answer, plane);
        let (via, op) = (RailId(via as u8), Op::get(from, into));
        // SAFETY: both words belong to control blocks, which live as long as the fabrics; the answer is
        // this lane's and read only when the ticket is complete.
        unsafe { self.inner.post(pair.id, via, &op, Tracking::Tracked) }.ok()
    }

    /// Takes note of the rails whose ports are down as devices `said` last; where one is down now, whether its
    /// lanes can be left is asked at once; those of one that came back are tried at once.
    pub(super) fn heed_devices(&self, said: u8) {
        let before = self.said.swap(said, Ordering::Relaxed);
        for rail in (0..self.rails().len()).filter(|rail| before & !said & 1 << rail != 0) {
            self.port_returns[rail].fetch_add(1, Ordering::Relaxed);
        }
        self.down.fetch_and(said | !before, Ordering::Relaxed);
        let news = said & !before;
        if self.down.fetch_or(news, Ordering::Relaxed) & news == news {
            return;
        }
        for (_, pair) in self.peers.iter() {
            if pair.wired.get().is_some() {
                let mut recovery = pair.recovery.lock();
                for rail in (0..self.rails().len()).filter(|&rail| pair.is_up(rail)) {
                    self.suspect(pair, &mut recovery, rail, true);
                }
            }
        }
    }

    /// A detector for the lanes to one peer.
    pub(super) fn detector(&self) -> Detector {
        Detector::new(self.rails().len(), self.suspect)
    }
}
