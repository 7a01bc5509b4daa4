//! The course of a failure: from a lane that broke to the last of its operations accounted for.

use super::control_block::Field;
use super::control_message::{ControlMessage, Kind};
use super::pair::{LaneState, Pair, Phase, Recovery, Search, Stage, Unacknowledged};
use super::silence::Probe;
use super::{Failover, TICK, Ticks};
use ferrorail_base::RailId;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{FabricError, LaneId, Transition};
use std::time::{Duration, Instant};

/// Times that the last word of a lane in use is repeated to a peer that does not answer it.
const REPEATS_MAX: u32 = 200;

/// Calls of `progress` between looks at the clock where they follow each other closely; where fewer take
/// [`LOOK`], as who waits sleeps between them after a while, that many.
const CALLS_PER_LOOK: u32 = 16;

/// The least time between looks at the control words of few peers; each of many adds [`LOOK_PER_PEER`], up to
/// [`TICK`], so that looks take a small part of the time.
const LOOK: Duration = Duration::from_millis(1);
const LOOK_PER_PEER: Duration = Duration::from_micros(50);

/// A step that took longer was a device's that found no way to the peer, which takes about a second.
pub(super) const LONG_STEP: Duration = Duration::from_millis(20);

impl Failover {
    /// Drives the rails, and takes lanes out of use that break. What was refused is told by whoever
    /// does that.
    pub(super) fn drive(&self) -> Result<usize, FabricError> {
        match self.inner.progress() {
            Err(FabricError::LaneDown { lane, .. }) => self.mark_down(lane),
            Err(FabricError::Completion { .. }) => self.mark_all_broken_down(),
            other => return other,
        }
        Ok(1)
    }

    /// Whether `error` came because `lane` is broken, or was.
    #[cold]
    pub(super) fn is_broken(&self, lane: LaneId, error: &FabricError) -> bool {
        match error {
            FabricError::WouldBlock => false,
            FabricError::LaneDown { .. } => true,
            _ => self.breakage(lane).is_some(),
        }
    }

    #[cold]
    fn mark_all_broken_down(&self) {
        for (_, pair) in self.peers.iter() {
            for rail in (0..self.rails().len()).filter(|&rail| pair.is_up(rail)) {
                if self.breakage(self.lane(pair, rail)).is_some() {
                    self.mark_down_if_broken(pair, &mut pair.recovery.lock(), rail);
                }
            }
        }
    }

    /// Takes `lane` out of use if it is broken.
    #[cold]
    pub(super) fn mark_down(&self, lane: LaneId) {
        // Who brings lanes back may hold the state for seconds, and finds out by itself that one broke again.
        if let Ok(pair) = self.pair(lane.peer)
            && pair.is_up(lane.rail.index())
        {
            self.mark_down_if_broken(pair, &mut pair.recovery.lock(), lane.rail.index());
        }
    }

    /// [`Failover::mark_down`] for the holder of the pair's `recovery`. Whoever was told of a failure may
    /// come so late that the lane was reset since.
    pub(super) fn mark_down_if_broken(&self, pair: &Pair, recovery: &mut Recovery, rail: usize) {
        if let Some(broken) = self.breakage(self.lane(pair, rail)) {
            self.mark_down_locked(pair, recovery, rail, &broken.status);
        }
    }

    pub(super) fn lane(&self, pair: &Pair, rail: usize) -> LaneId {
        LaneId {
            peer: pair.id,
            rail: RailId(rail as u8),
        }
    }

    /// Ends `lane`, which cannot fail.
    pub(super) fn end_lane(&self, lane: LaneId) {
        let _ = self.inner.change_lane(lane, Transition::End);
    }

    /// Takes the lane of `rail` out of use because of `status`, ends it, and begins to account for it.
    pub(super) fn mark_down_locked(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        status: &str,
    ) {
        if !pair.is_up(rail) {
            return;
        }
        let up = pair.up.fetch_and(!(1 << rail), Ordering::AcqRel) & !(1 << rail);
        let lane = self.lane(pair, rail);
        self.end_lane(lane);
        self.open(pair, rail);
        let broken = self.breakage(lane);
        let refusal = broken.and_then(|broken| Some((broken.refused?, broken.status)));
        let before = refusal
            .as_ref()
            .map_or(0, |(refused, _)| refused.saturating_sub(1));
        let completed = self.completed(lane).max(before);
        // Whoever posts at this moment holds the journal, and finds the lane ended afterwards.
        let mut pending = pair.journals[rail].lock().take(completed);
        if let Some((refused, status)) = refusal
            && pending
                .front()
                .is_some_and(|entry| entry.sequence == refused)
        {
            // Another rail would refuse it too.
            pending.pop_front();
            pair.note_failed(recovery, rail, refused, &status);
            pair.keep(self.refusal(pair, rail, &status));
        }
        let state = &mut recovery.lanes[rail];
        state.completed = completed;
        state.phase = Phase::Failed(Unacknowledged {
            pending,
            stage: Stage::Searching(Search::new(completed)),
            resent: Vec::new(),
        });
        recovery.probes[rail] = Probe::default();
        self.forget_suspicion(pair, recovery, rail);
        self.attention.fetch_add(1, Ordering::Relaxed);
        if up == 0 {
            pair.unreachable.get_or_init(|| status.to_owned());
            self.tell_if_owed(pair, recovery);
            // None of its lanes is accounted for any more.
            let lost = |state: &&LaneState| matches!(state.phase, Phase::Failed(_));
            let lost = recovery.lanes.iter().filter(lost).count() as u32;
            self.attention.fetch_sub(lost, Ordering::Relaxed);
        }
        self.say(pair, recovery, rail, Kind::Down);
        // Writing that may take longer than all the rest.
        self.warn(pair, rail, status, up != 0);
    }

    pub(super) fn warn(&self, pair: &Pair, rail: usize, status: &str, others: bool) {
        let events = &self.events[rail];
        events.failures.fetch_add(1, Ordering::Relaxed);
        let name = &self.rails()[rail].name;
        let what = if others {
            "other rails take over"
        } else {
            "no rail is left"
        };
        if events.warned.swap(true, Ordering::Relaxed) && others {
            tracing::debug!("rail {name} to {}: {status}; {what}", pair.name());
        } else {
            tracing::warn!("rail {name} to {}: {status}; {what}", pair.name());
        }
    }

    /// Without a rail left, what is owed cannot be delivered: somebody must be told.
    fn tell_if_owed(&self, pair: &Pair, recovery: &Recovery) {
        let owes = |phase: &Phase| matches!(phase, Phase::Failed(owed) if !owed.pending.is_empty());
        if recovery.lanes.iter().any(|state| owes(&state.phase)) {
            pair.keep(self.unreachable(pair));
        }
    }

    /// Tells the peer how the present generation of the lane of `rail` is.
    pub(super) fn say(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, kind: Kind) {
        let mut word = ControlMessage::new(recovery.lanes[rail].number, kind);
        if kind == Kind::Down {
            word.token = self.port_returns[rail].load(Ordering::Relaxed);
        }
        self.send(pair, recovery, rail, word);
    }

    /// Tells the peer `word` about the lane of `rail`, over any rail in use.
    pub(super) fn send(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        rail: usize,
        word: ControlMessage,
    ) {
        let state = &mut recovery.lanes[rail];
        if state.out != word {
            state.out = word;
            state.repeats = 0;
        }
        state.repeats += 1;
        let plane = self.plane(rail);
        // A lane that is suspected does not carry the word that says so.
        let via = match word.is_leave() {
            true => pair.another(rail),
            false => pair.usable(rail),
        };
        let Some(via) = via else {
            return;
        };
        let out = pair.word(Field::Out, plane);
        out.store(word.pack(), Ordering::Release);
        let fields = (Field::Out, Field::In);
        let sent = self.control_put(pair, via, (rail, fields), size_of::<u64>());
        if sent.is_err() {
            self.mark_down_if_broken(pair, recovery, via);
        }
    }

    /// Moves on what is under way, and now and then looks at what peers say.
    #[cold]
    pub(super) fn look_around(&self) {
        let now = self.clock.now();
        let (mut reads, mut due) = (self.attention.load(Ordering::Relaxed) > 0, false);
        if let Some(mut ticked) = self.ticked.try_lock() {
            self.choose_calls_per_look(&mut ticked, now);
            let look = (self.peers.count() as u32 * LOOK_PER_PEER).clamp(LOOK, TICK);
            if now.duration_since(ticked.words) >= look {
                (ticked.words, reads) = (now, true);
            }
            if now.duration_since(ticked.lanes) >= TICK {
                (ticked.lanes, due) = (now, true);
            }
        }
        if !(reads || due) {
            return;
        }
        let reconnects = due && !self.watched.load(Ordering::Relaxed);
        for (_, pair) in self.peers.iter() {
            if pair.wired.get().is_some()
                && let Some(mut recovery) = pair.recovery.try_lock()
            {
                self.step(pair, &mut recovery, (due, reconnects), self.clock.now());
            }
        }
    }

    /// Has as many calls pass before the next look at the clock as those since the last one say that [`LOOK`] has room
    /// for.
    fn choose_calls_per_look(&self, ticked: &mut Ticks, now: Instant) {
        let calls = self.calls.load(Ordering::Relaxed);
        let since = calls.wrapping_sub(ticked.calls);
        let elapsed = now.duration_since(ticked.clock).as_nanos();
        if since > 0 {
            let fit = (LOOK * since).as_nanos() / elapsed.max(1);
            let fit = fit.clamp(1, CALLS_PER_LOOK.into()) as u32;
            self.calls_per_look.store(fit, Ordering::Relaxed);
            (ticked.calls, ticked.clock) = (calls, now);
        }
    }

    pub(super) fn step(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        (due, reconnects): (bool, bool),
        now: Instant,
    ) {
        let planes = pair.planes.load(Ordering::Acquire);
        for rail in 0..self.rails().len() {
            let plane = self.plane(rail);
            if planes & 1 << plane == 0 || pair.unreachable.get().is_some() {
                continue;
            }
            let received = pair.received(plane);
            match &recovery.lanes[rail].phase {
                Phase::Failed(_) => self.recover(pair, recovery, rail, received),
                Phase::Up => {
                    self.watch(pair, recovery, (rail, due), received);
                    if pair.is_up(rail) {
                        self.suspect(pair, recovery, rail, due);
                    }
                }
                // These wait for the peer and for completions; the others may wait for a device.
                Phase::Accepted | Phase::Trying if due => {
                    self.reconnect(pair, recovery, rail, received, now);
                }
                _ if reconnects => self.reconnect(pair, recovery, rail, received, now),
                _ => {}
            }
            let state = &recovery.lanes[rail];
            let (word, unsent) = (state.out, state.repeats == 0);
            let is_to_hear = !matches!(state.phase, Phase::Up) || word.is_leave();
            if due && is_to_hear && (!unsent || self.is_met(pair)) {
                self.send(pair, recovery, rail, word);
            }
            if reconnects && self.clock.now() - now > LONG_STEP {
                return;
            }
        }
    }

    /// Looks whether the peer has ended a lane in use, wants to, or has not heard that it is in use, which it
    /// is told when `due`.
    fn watch(
        &self,
        pair: &Pair,
        recovery: &mut Recovery,
        (rail, due): (usize, bool),
        received: ControlMessage,
    ) {
        let state = &recovery.lanes[rail];
        if received.has_ended(state.number) {
            self.mark_down_locked(pair, recovery, rail, "the peer ended it");
        } else if received.generation == state.number {
            let unreceived = matches!(received.kind, Kind::Offer | Kind::Accept);
            if due && unreceived && state.repeats < REPEATS_MAX {
                self.say(pair, recovery, rail, Kind::Up);
            } else {
                self.agree(pair, recovery, rail, received.is_leave());
            }
        }
    }

    /// Accounts for what was in flight on a failed lane.
    fn recover(&self, pair: &Pair, recovery: &mut Recovery, rail: usize, received: ControlMessage) {
        let state = &mut recovery.lanes[rail];
        let ended = received.has_ended(state.number);
        let Phase::Failed(owed) = std::mem::replace(&mut state.phase, Phase::Offered) else {
            return;
        };
        let (owed, reconciled) = self.reconcile(pair, recovery, rail, ended, owed);
        if reconciled {
            self.attention.fetch_sub(1, Ordering::Relaxed);
            recovery.lanes[rail].phase = Phase::Down {
                again: self.probe.map(|probe| self.clock.now() + probe),
            };
            return;
        }
        recovery.lanes[rail].phase = Phase::Failed(owed);
        if pair.unreachable.get().is_some() {
            // The last rail failed meanwhile.
            self.tell_if_owed(pair, recovery);
            self.attention.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
